//! Backups on a schedule, for a year, unattended: when each account is due, what
//! came of it, and who has to know.
//!
//! * [`condition`]: how an account fares, as plain data

pub mod condition;

pub use condition::Condition;
