//! Schedules of backups. Pure functions and data.
//!
//! * [`crontab`]: crontab expressions
//! * [`due_queue`]: which account is backed up next

pub mod crontab;
pub mod due_queue;
