//! `linkvault import`: create and change records from a CSV file.

use std::path::PathBuf;

use crate::cli::planning::PolicyArgs;
use crate::cli::running::{self, RunArgs, RunRequest};
use crate::cli::session::SessionLimits;
use crate::cli::{App, Exit, OpError};

/// Create and change records from a CSV file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault template campaigns > campaigns.csv
  linkvault import campaigns.csv --to main -n    print the plan only
  linkvault import campaigns.csv --to main
  linkvault import list.csv --resource channels --to main")]
pub struct Args {
    /// The file; its name tells the resource, unless --resource does
    #[arg(value_name = "FILE.csv")]
    pub file: PathBuf,
    /// The account
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

/// Applies the file.
///
/// # Errors
/// As [`apply::run`](super::apply::run).
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let account = app.account(&args.to)?;
    app.catch_interrupts();
    let wanted = args.policy.wanted_file(app, &args.file, &account)?;
    let job = RunRequest::new("import", &wanted.name);
    running::apply_input(
        app,
        &account,
        job,
        &wanted,
        &args.policy.policy(),
        &args.run,
        &args.bounds,
    )
}
