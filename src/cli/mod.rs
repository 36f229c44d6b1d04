//! The command line. `args` declares it, each command has a file in `commands`, and only [`Output`]
//! prints.
//!
//! To add a command: a file in `commands` with `Args` and
//! `run(args, &App) -> Result<Exit, CliError>`, a variant in [`args::Command`],
//! and an arm in `dispatch`.

mod answers;
pub mod app;
pub mod args;
pub mod commands;
pub mod csv_args;
mod dispatch;
pub mod error;
pub mod exit;
#[cfg(feature = "fleet")]
pub mod fleet_accounts;
#[cfg(feature = "fleet")]
pub mod fleet_pages;
pub mod global;
pub mod hints;
mod logging;
pub mod output;
pub mod page;
mod pager;
pub mod plan_args;
pub mod progress;
mod question;
#[cfg(feature = "fleet")]
pub mod refreshed;
pub mod render;
pub mod run_args;
pub mod session_args;
mod signals;
pub mod table;
mod terminal;
pub mod ui_accounts;
pub mod values;
mod wrap;

pub use crate::escaped::{Escaped, EscapedLines};
pub use crate::format;
pub use crate::ops::OpErrorKind;
pub use app::App;
pub use args::{Cli, Command, command_line};
pub use dispatch::main;
pub use error::{CliError, CliErrorKind};
pub use exit::{CommandResult, Exit};
pub use global::GlobalArgs;
pub use output::{Output, Paint};
pub use table::TextTable;
