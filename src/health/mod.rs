//! How the accounts fare, as data: their backups, what is wrong, and what to tell of it.
//!
//! * [`attempt`]: what one backup came to
//! * [`account_status`]: the state of an account
//! * [`rules`]: what is wrong with it, and since when
//! * [`alert_message`]: alerts as messages, signed
//! * [`pending_alerts`]: alerts that are still to be delivered
//! * [`scheduled_account`]: when it is backed up, and what is too old or too much
//! * [`persisted_state`]: what is remembered of an account between two processes

pub mod account_status;
pub mod alert_message;
pub mod attempt;
pub mod pending_alerts;
pub mod persisted_state;
pub mod rules;
pub mod scheduled_account;
