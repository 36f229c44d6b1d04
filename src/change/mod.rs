//! Pure comparison of states, and how they are written as files. No IO but into
//! a given writer, no clock.
//!
//! * [`diff`]: what changed from one state to another
//! * [`csv`]: a state's records as CSV

pub mod csv;
pub mod desired;
pub mod diff;
pub mod plan;
pub mod policy;
