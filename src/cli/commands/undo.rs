//! `linkvault undo`: reverts a run.

use crate::cli::plan_args::ConflictChoice;
use crate::cli::run_args::RunArgs;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, Exit, render, values};
use crate::model::RunId;
use crate::ops::undo::{UndoRequest, undo};

/// Revert a run as far as the API allows
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault undo main 3 -n     print the plan only
  linkvault undo main 3

Records that the run created are deleted, fields that it changed get their old
values, and records that it deleted are created again, with a new id. Other
changes are kept. An unfinished run is ended first: its remaining steps are not
sent.")]
pub struct Args {
    /// The account
    pub account: String,
    /// The run; `linkvault runs ACCOUNT` lists them
    #[arg(value_parser = values::run)]
    pub run: RunId,
    /// Which value to use if a field changed again since the run
    #[arg(long, value_name = "WHOSE", default_value = "fail")]
    pub on_conflict: ConflictChoice,
    /// How to execute the plan.
    #[command(flatten)]
    pub how: RunArgs,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Makes a plan that reverts the run, shows it, asks for confirmation, and applies it.
///
/// # Errors
/// If the run does not exist, or as `apply`.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.account)?;
    let request = UndoRequest {
        account: &account,
        run: args.run,
        on_conflict: args.on_conflict.into(),
        options: args.how.options(app),
        limits: args.bounds.limits(),
    };
    render::run::show(app, &account, &undo(&app.env, &request)?)
}
