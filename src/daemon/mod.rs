//! Backups on a schedule, for a year, unattended.
//!
//! * [`state`]: what is known while the daemon runs
//! * [`main_loop`]: when each account is worked on, and by which thread
//! * [`worker`]: what is done for an account
//! * [`delivery`]: how alerts leave the program

pub mod delivery;
pub mod main_loop;
pub mod state;
pub mod worker;

pub use crate::health::account_status::AccountStatus;
pub use crate::health::scheduled_account::ScheduledAccount;
pub use crate::schedule::crontab::Schedule;
pub use main_loop::{DaemonEvent, DaemonLoop, FinishedBackup, Worker};
pub use state::{DaemonState, PendingAlerts};
pub use worker::DaemonWorker;
