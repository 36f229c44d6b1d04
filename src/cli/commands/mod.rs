//! One file per command: its arguments, and `run`, which calls one operation
//! and shows what came of it.

pub mod backup;
pub mod capabilities;
pub mod check;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod forget;
pub mod init;
pub mod log;
pub mod man;
pub mod sandbox;
pub mod show;
pub mod snapshots;
pub mod template;

use crate::model::Resource;

/// What `--only` and `--skip` leave of all resources, in the order of the table.
fn scope(only: &[Resource], skip: &[Resource]) -> Vec<Resource> {
    let wanted = |it: &Resource| (only.is_empty() || only.contains(it)) && !skip.contains(it);
    Resource::ALL.into_iter().filter(wanted).collect()
}
