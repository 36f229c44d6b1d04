//! One file per command: its arguments, and `run`, which calls one operation
//! and shows what came of it.

pub mod apply;
pub mod backup;
pub mod capabilities;
pub mod check;
pub mod completions;
pub mod daemon;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod forget;
pub mod import;
pub mod init;
pub mod log;
pub mod man;
pub mod migrate;
pub mod plan;
pub mod rehearse;
pub mod resolve;
pub mod restore;
pub mod resume;
pub mod runs;
pub mod sandbox;
pub mod show;
pub mod snapshots;
pub mod status;
pub mod template;
pub mod ui;
pub mod undo;

use crate::cli::{Failure, Kind};
use crate::model::Resource;

/// What `--only` and `--skip` leave of all resources, in the order of the table.
///
/// # Errors
/// When they leave nothing.
pub fn scope(only: &[Resource], skip: &[Resource]) -> Result<Vec<Resource>, Failure> {
    let wanted = |it: &Resource| (only.is_empty() || only.contains(it)) && !skip.contains(it);
    let left: Vec<_> = Resource::ALL.into_iter().filter(wanted).collect();
    if left.is_empty() {
        return Err(Failure::new(Kind::Usage, "--only and --skip together leave nothing"));
    }
    Ok(left)
}
