//! `linkvault rehearse`: applies a plan to a local copy of the account.

use crate::cli::csv_args::CsvArgs;
use crate::cli::plan_args::{MaxStalenessArgs, PlanOutputArgs, PolicyArgs};
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, Exit, render, values};
use crate::ops::input::InputOptions;
use crate::ops::rehearse::{RehearsalAssumptions, RehearseRequest, rehearse};

/// Apply to a local copy of the account to see refusals and duration
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault rehearse sheets --to main       an edited export
  linkvault rehearse plan.json --to main    a plan that `plan -o` saved
  linkvault rehearse sheets --to main --cap campaigns=50,channels=10
  linkvault rehearse main@2026-11-01 --to main --json
  linkvault rehearse sheets --to main --fresh    back main up first")]
pub struct Args {
    /// The input: CSV files, workbooks, folders of them, an exported folder or file, ACCOUNT@REF, or a
    /// saved plan
    #[arg(value_name = "REF|PLAN.json", required = true)]
    pub inputs: Vec<String>,
    /// The account whose newest snapshot is the copy
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// Number of records that the service allows, such as campaigns=50
    #[arg(
        long = "cap",
        value_name = "RESOURCE=NUMBER",
        value_delimiter = ',',
        value_parser = values::cap
    )]
    pub caps: Vec<(&'static str, u64)>,
    /// Behaviour where the API document is silent, as for `sandbox`
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', visible_alias = "behavior")]
    pub behaviour: Vec<String>,
    /// Back the account up first, so that the copy is new
    #[arg(long)]
    pub fresh: bool,
    /// Stop at the first step that the sandbox refuses
    #[arg(long)]
    pub fail_fast: bool,
    /// What the plan may do, and which part of the input to use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// How the plan is shown.
    #[command(flatten)]
    pub shown: PlanOutputArgs,
    /// How the columns of CSV files are read.
    #[command(flatten)]
    pub csv: CsvArgs,
    /// The maximum age of lists.
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Applies the plan to a copy, and shows the result.
///
/// # Errors
/// As `apply`, and if the account has no snapshot.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.to)?;
    args.shown.apply(&app.out);
    let (caps, behaviour) = (args.caps.clone(), args.behaviour.clone());
    let request = RehearseRequest {
        account: &account,
        input: &args.inputs,
        options: InputOptions { csv: args.csv.options(app), ..args.policy.input() },
        policy: args.policy.policy(),
        assumptions: RehearsalAssumptions { caps, behaviour },
        fail_fast: args.fail_fast,
        fresh: args.fresh,
        max_staleness: args.staleness.max_staleness,
        limits: args.bounds.limits(),
    };
    render::run::show_rehearsal(app, &account, &rehearse(&app.env, request)?)
}
