//! The daemon and its alerts, as a running process.

mod alerts;
pub mod process;
