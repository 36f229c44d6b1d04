//! Scheduled backups in a long-running process.
//!
//! * [`state`]: the state that the threads share
//! * [`main_loop`]: starts backups and evaluations on threads
//! * [`worker`]: the work for one account

pub mod main_loop;
pub mod state;
pub mod worker;

pub use crate::health::account_status::AccountStatus;
pub use crate::health::attempt::FinishedBackup;
pub use crate::health::pending_alerts::PendingAlerts;
pub use crate::health::scheduled_account::ScheduledAccount;
pub use crate::schedule::crontab::Schedule;
pub use main_loop::{DaemonEvent, DaemonLoop, Worker};
pub use state::DaemonState;
pub use worker::DaemonWorker;
