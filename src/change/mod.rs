//! Pure comparison of states, and how they are written as files. No IO but into
//! a given writer, no clock.
//!
//! * [`diff`]: what changed from one state to another
//! * [`csv`]: a state's records as CSV
//! * [`desired`], [`plan`]: what an account should become, and the steps to there
//! * [`policy`], [`cost`], [`render`]: what a plan may do, what it costs, how it reads

pub mod cost;
pub mod csv;
pub mod desired;
pub mod diff;
pub mod plan;
pub mod policy;
pub mod render;
