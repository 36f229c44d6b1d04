//! `linkvault restore`: changes an account back to a snapshot.

use crate::cli::plan_args::PolicyArgs;
use crate::cli::render;
use crate::cli::run_args::RunArgs;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, Exit};
use crate::ops::apply::{ApplyInput, ApplyRequest, apply};
use crate::vault::journal::RunCommand;

/// Change an account back to one of its snapshots
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault restore latest~1 --to main -n     print the plan only
  linkvault restore 2026-11-01 --to main --only campaigns,channels
  linkvault restore 12 --to main --delete     also delete newer records

Deleted records are created again, with a new id. QR codes can be created again
only if linkvault created them, because the service does not return their
content.")]
pub struct Args {
    /// The snapshot: 12, latest~1, a date, a tag, or ACCOUNT@REF
    #[arg(value_name = "SNAPSHOT")]
    pub snapshot: String,
    /// The account
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// What the plan may do, and which part of the input to use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// How to execute the plan.
    #[command(flatten)]
    pub run: RunArgs,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Applies the snapshot.
///
/// # Errors
/// As [`apply`].
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.to)?;
    let named = args.snapshot.contains('@');
    let reference =
        if named { args.snapshot.clone() } else { format!("{}@{}", args.to, args.snapshot) };
    let request = ApplyRequest {
        account: &account,
        command: RunCommand::Restore,
        input: ApplyInput::State(reference),
        options: args.policy.input(),
        policy: args.policy.policy(),
        password: None,
        run: args.run.options(app),
        limits: args.bounds.limits(),
    };
    render::run::show(app, &account, &apply(&app.env, request)?)
}
