//! `linkvault rehearse`: apply, to a copy of the account on this machine.

use std::path::Path;

use crate::cli::planning::{PolicyArgs, StalenessArgs};
use crate::cli::rehearsing::{self, Assumed};
use crate::cli::running::{self, Job, RunArgs};
use crate::cli::session::Bounds;
use crate::cli::{App, Exit, Failure};

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
    pub assumed: Assumed,
    /// Stop at the first step that is refused
    #[arg(long)]
    pub fail_fast: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub staleness: StalenessArgs,
    #[command(flatten)]
    pub bounds: Bounds,
}

/// Applies to a copy, and tells what came of it.
///
/// # Errors
/// As `apply`; when the account has no snapshot to rehearse on.
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let account = app.account(&args.to)?;
    let (policy, bounds, reference) = (args.policy.policy(), &args.bounds, &args.reference);
    let (fail_fast, staleness) = (args.fail_fast, args.staleness);
    let run = RunArgs { fail_fast, yes: true, staleness, ..RunArgs::default() };
    if let Some(saved) = running::saved_plan(Path::new(reference))? {
        let desk = rehearsing::desk(app, &account, bounds, &args.assumed)?;
        return running::saved_from(desk, reference, saved, &policy, &run);
    }
    rehearsing::refuse_live(app, reference, &account)?;
    let desk = rehearsing::desk(app, &account, bounds, &args.assumed)?;
    let wanted = args.policy.wanted(app, bounds, reference, &account)?;
    running::push_from(desk, Job::new("rehearse", reference), &wanted, &policy, &run)
}
