//! Temporal, the workflow engine that runs the backups of a fleet: its schedules, and what this
//! program knows of them. With the feature `fleet` only.

pub mod connection;
pub mod error;
pub mod payload;
pub mod schedule;
pub mod schedules;
