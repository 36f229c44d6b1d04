//! End-to-end tests of each use case: the real binary against the sandbox over a socket.

mod apply;
mod backup;
mod diff_files;
mod export;
mod full_disk;
mod import;
mod import_cells;
mod import_files;
mod import_workbooks;
mod killed_backup;
mod killed_migration;
mod killed_run;
mod leftover_files;
mod limits_and_interrupts;
pub mod migrate;
mod other_account;
mod post_backup;
mod qr_contents;
mod read_commands;
mod record_filters;
mod rehearse;
mod restore_vault;
mod resume_resolve;
mod run_results;
mod shared_accounts;
mod status;
mod undo;
