//! `linkvault import`: creates and changes records from files.

use std::path::PathBuf;

use crate::cli::csv_args::{CsvArgs, SuspiciousArgs};
use crate::cli::plan_args::PolicyArgs;
use crate::cli::render;
use crate::cli::run_args::RunArgs;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, Exit};
use crate::ops::apply::{ApplyInput, ApplyRequest, RunOptions, apply};
use crate::ops::input::InputOptions;
use crate::vault::journal::RunCommand;

/// Create and change records from CSV files and workbooks
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault template campaigns > campaigns.csv
  linkvault import campaigns.csv --to main -n    print the plan only
  linkvault import campaigns.csv --to main
  linkvault import channels.csv channel_items.csv --to main
  linkvault import spring --to main              the files of a folder
  linkvault import spring.xlsx --to main         the sheets of a workbook
  linkvault import list.csv --resource channels --to main")]
pub struct Args {
    /// Files and folders; a file's or sheet's name gives the resource unless --resource does
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The account
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// What the plan may do, and which part of the input to use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// How the columns of CSV files are read.
    #[command(flatten)]
    pub csv: CsvArgs,
    /// Whether to ask about suspicious values.
    #[command(flatten)]
    pub suspicious: SuspiciousArgs,
    /// How to execute the plan.
    #[command(flatten)]
    pub run: RunArgs,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Applies the files.
///
/// # Errors
/// As [`apply`].
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.to)?;
    let request = ApplyRequest {
        account: &account,
        command: RunCommand::Import,
        input: ApplyInput::Files(args.files.clone()),
        options: InputOptions { csv: args.csv.options(app), ..args.policy.input() },
        policy: args.policy.policy(),
        password: None,
        run: RunOptions {
            accept_suspicious: args.suspicious.accept_suspicious,
            ..args.run.options(app)
        },
        limits: args.bounds.limits(),
    };
    render::run::show(app, &account, &apply(&app.env, request)?)
}
