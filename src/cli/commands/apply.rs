//! `linkvault apply`: lead an account to a state.

use std::path::Path;

use crate::cli::planning::PolicyArgs;
use crate::cli::running::{self, Job, RunArgs};
use crate::cli::session::Bounds;
use crate::cli::{App, Exit, Failure};

/// Lead an account to a state, or apply a saved plan
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault apply sheets --to main          an edited export; asks first
  linkvault apply plan.json --to main       a plan that `plan -o` saved, as it is
  linkvault apply sheets --to main --yes --fail-fast
  linkvault apply account.csv --resource account --to main")]
pub struct Args {
    /// The state: a CSV file, a folder or file of an export, ACCOUNT@REF, or a saved plan
    #[arg(value_name = "REF|PLAN.json")]
    pub reference: String,
    /// The account that is changed
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub bounds: Bounds,
}

/// Plans, shows, asks, and carries the plan out.
///
/// # Errors
/// When the state cannot be had, a guard refuses, the plan is stale, or the
/// run had to stop.
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let account = app.account(&args.to)?;
    app.catch_interrupts();
    let (policy, run, bounds) = (args.policy.policy(), &args.run, &args.bounds);
    if let Some(saved) = running::saved_plan(Path::new(&args.reference))? {
        return running::saved(app, &account, &args.reference, saved, &policy, run, bounds);
    }
    push(app, "apply", &args.reference, &args.to, &args.policy, run, bounds)
}

/// What `apply`, `import` and `restore` have in common: all of it.
///
/// # Errors
/// As [`run`].
pub fn push(
    app: &App,
    command: &str,
    reference: &str,
    to: &str,
    policy: &PolicyArgs,
    run: &RunArgs,
    bounds: &Bounds,
) -> Result<Exit, Failure> {
    let account = app.account(to)?;
    app.catch_interrupts();
    let wanted = policy.wanted(app, bounds, reference, &account)?;
    let job = Job::new(command, reference);
    running::push(app, &account, job, &wanted, &policy.policy(), run, bounds)
}
