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
pub mod vault;
