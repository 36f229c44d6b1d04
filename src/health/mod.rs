//! The health of accounts, as data: backup attempts, problems and alerts.
//!
//! * [`attempt`]: backup attempts, problems and alerts as types
//! * [`account_status`]: the status of an account
//! * [`rules`]: which problems an account has, and since when
//! * [`fleet_state`]: the state of an account whose backups Temporal starts
//! * [`alert_message`]: alerts as signed messages
//! * [`field_change_text`]: changes of the service's fields as sentences
//! * [`pending_alerts`]: alerts that are not delivered yet
//! * [`scheduled_account`]: an account with its schedule and limits
//! * [`persisted_state`]: what is recorded of an account between processes
//! * [`removals`]: which removed records are a problem
//! * [`state_merge`]: the changes of two machines to it

pub mod account_status;
pub mod alert_message;
pub mod attempt;
pub mod field_change_text;
pub mod fleet_state;
pub mod pending_alerts;
pub mod persisted_state;
pub mod removals;
pub mod rules;
pub mod scheduled_account;
pub mod state_merge;
