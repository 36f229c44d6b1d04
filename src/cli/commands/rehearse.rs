//! `linkvault rehearse`: apply, to a copy of the account on this machine.

use std::path::Path;

use crate::cli::planning::{MaxStalenessArgs, PolicyArgs};
use crate::cli::rehearsing::{self, RehearsalAssumptions};
use crate::cli::running::{self, RunArgs, RunRequest};
use crate::cli::session::SessionLimits;
use crate::cli::{App, Exit, OpError};

/// Apply to a copy of the account on this machine: what would be refused, and how long it takes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault rehearse sheets --to main       an edited export
  linkvault rehearse plan.json --to main    a plan that `plan -o` saved
  linkvault rehearse sheets --to main --cap campaigns=50,channels=10
  linkvault rehearse main@2026-11-01 --to main --json")]
pub struct Args {
    /// The state: a CSV file, a folder or file of an export, ACCOUNT@REF, or a saved plan
    #[arg(value_name = "REF|PLAN.json")]
    pub reference: String,
    /// The account whose newest snapshot is rehearsed on
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    #[command(flatten)]
    pub assumed: RehearsalAssumptions,
    /// Stop at the first step that is refused
    #[arg(long)]
    pub fail_fast: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

/// Applies to a copy, and tells what came of it.
///
/// # Errors
/// As `apply`; when the account has no snapshot to rehearse on.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let account = app.account(&args.to)?;
    let (policy, bounds, reference) = (args.policy.policy(), &args.bounds, &args.reference);
    let (fail_fast, staleness) = (args.fail_fast, args.staleness);
    let run = RunArgs { fail_fast, yes: true, staleness, ..RunArgs::default() };
    if let Some(saved) = running::read_saved_plan(Path::new(reference))? {
        let desk = rehearsing::rehearsal_session(app, &account, bounds, &args.assumed)?;
        return running::apply_saved_plan_in(desk, reference, saved, &policy, &run);
    }
    rehearsing::require_snapshot_input(app, reference, &account)?;
    let desk = rehearsing::rehearsal_session(app, &account, bounds, &args.assumed)?;
    let wanted = args.policy.wanted(app, bounds, reference, &account)?;
    running::apply_input_in(desk, RunRequest::new("rehearse", reference), &wanted, &policy, &run)
}
