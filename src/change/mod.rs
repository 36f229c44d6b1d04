//! Comparison of states, plans, and files of an export. Pure, except for writing into a given
//! writer.
//!
//! * [`diff`]: compares two states
//! * [`csv_files`]: reads and writes CSV files
//! * [`export`]: reads the other files of an export
//! * [`overlay`]: applies files to a state, for comparison
//! * [`reformatted`]: whether a cell has a value in another form
//! * [`desired`], [`plan`]: the desired state of an account, and the steps to reach it
//! * [`policy`], [`guards`]: what a plan may do, and limits on its changes
//! * [`cost`], [`render`]: the cost of a plan, and its text
//! * [`staleness`]: the maximum age of the lists that a write depends on
//! * [`workbook`]: workbooks of spreadsheets

pub mod cost;
pub mod csv_files;
pub mod desired;
pub mod diff;
pub mod export;
pub mod guards;
pub mod labels;
pub mod lists;
pub mod overlay;
pub mod plan;
pub mod policy;
pub mod record_filter;
pub mod reformatted;
pub mod render;
pub mod staleness;
pub mod workbook;
