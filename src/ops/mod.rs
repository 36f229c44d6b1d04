//! The use cases, one file each: a function that takes its options and returns its result as data.
//!
//! Nothing here prints, reads the keyboard or ends the process: warnings, remarks, progress and
//! questions go to [`Events`], which `cli` or the daemon implements.

pub mod account_options;
pub mod account_session;
pub mod account_state;
pub mod alert_delivery;
pub mod apply;
pub mod backup;
pub mod backup_attempts;
pub mod built_in_sandbox;
mod confirm_plan;
pub mod desired_input;
pub mod diff;
pub mod doctor;
mod env;
mod error;
pub mod error_sources;
mod events;
pub mod export;
mod export_origin;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod forget;
pub mod init;
pub mod input;
pub mod input_files;
pub mod input_tables;
pub mod log_progress;
pub mod migrate;
pub mod migration_flags;
mod migration_report;
mod next_step;
pub mod observation;
pub mod output_files;
mod pace_file;
pub mod plan;
pub mod post_backup;
pub mod rehearse;
pub mod rejected_rows;
pub mod resolve;
pub mod restore_vault;
pub mod resume;
mod run_results;
pub mod sandbox_from_vault;
#[cfg(feature = "fleet")]
mod schedule_pause;
pub mod shared_accounts;
mod sheet_files;
pub mod state_ref;
pub mod status;
mod stored_state;
mod stored_vault;
#[cfg(feature = "fleet")]
pub mod temporal_error;
pub mod undo;
mod vault_copy;
pub mod vault_summary;
pub mod write_session;

pub use env::Env;
pub use error::{Details, OpError, OpErrorKind};
pub use events::{Events, NoEvents, PlanAnswer, PlanQuestion};
pub use next_step::NextStep;
pub use stored_vault::StoredWork;
