//! Scheduled backups in a long-running process.
//!
//! * [`state`]: the state that the threads share
//! * [`main_loop`]: starts backups and evaluations on threads
//! * [`worker`]: the work for one account
//! * [`delivery`]: delivers alerts and heartbeats

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
