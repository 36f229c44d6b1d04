//! The command line. `args` declares it, each command has a file in
//! `commands`, and [`Output`] is the only thing that prints.
//!
//! To add a command: a file in `commands` with `Args` and
//! `run(args, &App) -> Result<Exit, OpError>`, a variant in [`args::Command`],
//! and an arm in `dispatch`.

pub mod afterwards;
pub mod alerting;
pub mod app;
pub mod args;
mod attempts;
pub mod board;
pub mod commands;
mod configured;
pub mod desk;
mod dispatch;
pub mod error;
pub mod exporting;
mod failures;
pub mod global;
pub mod home_sandbox;
mod logging;
pub mod outcome;
pub mod output;
pub mod page;
pub mod planning;
pub mod progress;
mod question;
pub mod rehearsing;
mod rejected;
pub mod running;
pub mod served;
pub mod session;
mod signals;
pub mod states;
pub mod table;
mod twins;
pub mod unattended;
pub mod values;
pub mod wanted;

pub use crate::escaped::{Escaped, EscapedLines};
pub use crate::format;
pub use app::App;
pub use args::{Cli, Command, command_line};
pub use dispatch::main;
pub use error::{CommandResult, Exit, OpError, OpErrorKind};
pub use global::GlobalArgs;
pub use output::{Output, Paint};
pub use table::TextTable;
