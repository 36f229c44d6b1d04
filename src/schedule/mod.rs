//! When backups are due. Pure.
//!
//! * [`crontab`]: times as crontab means them
//! * [`due_queue`]: which account is next

pub mod crontab;
pub mod due_queue;
