//! Pure comparison of states, and how they are written as files. No IO but into
//! a given writer, no clock.
//!
//! * [`diff`]: what changed from one state to another
//! * [`csv_files`]: CSV files, written and read
//! * [`export`]: the other files of an export, read
//! * [`overlay`]: a file laid over a state
//! * [`desired`], [`plan`]: what an account should become, and the steps to there
//! * [`policy`], [`guards`]: what a plan may do, and whether it touches too much
//! * [`cost`], [`render`]: what a plan costs, and how it reads
//! * [`staleness`]: how old a list may be when a write that stands on it leaves

pub mod cost;
pub mod csv_files;
pub mod desired;
pub mod diff;
pub mod export;
pub mod guards;
pub mod overlay;
pub mod plan;
pub mod policy;
pub mod render;
pub mod staleness;
