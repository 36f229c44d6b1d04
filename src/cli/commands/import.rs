//! `linkvault import`: create and change records from a CSV file.

use std::path::PathBuf;

use super::apply;
use crate::cli::planning::PolicyArgs;
use crate::cli::running::RunArgs;
use crate::cli::session::Bounds;
use crate::cli::{App, Exit, Failure};

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
    pub bounds: Bounds,
}

/// Applies the file.
///
/// # Errors
/// As [`apply::run`].
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let path = args.file.display().to_string();
    // A file, whatever accounts are called.
    let reference = if path.contains('/') { path } else { format!("./{path}") };
    apply::push(app, "import", &reference, &args.to, &args.policy, &args.run, &args.bounds)
}
