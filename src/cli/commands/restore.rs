//! `linkvault restore`: lead an account back to a snapshot.

use super::apply;
use crate::cli::planning::PolicyArgs;
use crate::cli::running::RunArgs;
use crate::cli::session::SessionLimits;
use crate::cli::{App, Exit, OpError};

/// Lead an account back to one of its snapshots
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault restore latest~1 --to main -n     print the plan only
  linkvault restore 2026-11-01 --to main --only campaigns,channels
  linkvault restore 12 --to main --delete     also delete what came later

What was deleted comes back with a new id. QR codes come back only where linkvault
made them, for the service does not tell what a code contains.")]
pub struct Args {
    /// The snapshot: 12, latest~1, a date, a tag, or ACCOUNT@REF
    #[arg(value_name = "SNAPSHOT")]
    pub snapshot: String,
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

/// Applies the snapshot.
///
/// # Errors
/// As [`apply::run`].
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let named = args.snapshot.contains('@');
    let reference =
        if named { args.snapshot.clone() } else { format!("{}@{}", args.to, args.snapshot) };
    apply::push(app, "restore", &reference, &args.to, &args.policy, &args.run, &args.bounds)
}
