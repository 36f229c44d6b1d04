//! `linkvault apply`: changes an account to a desired state.

use std::path::PathBuf;

use crate::cli::csv_args::{CsvArgs, SuspiciousArgs};
use crate::cli::plan_args::PolicyArgs;
use crate::cli::render;
use crate::cli::run_args::RunArgs;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, Exit, OpErrorKind};
use crate::files::read_named;
use crate::ops::apply::{ApplyInput, ApplyRequest, RunOptions, apply};
use crate::ops::input::InputOptions;
use crate::vault::journal::RunCommand;

/// Change an account to match the input, or apply a saved plan
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault apply sheets --to main          an edited export; asks first
  linkvault apply plan.json --to main       a plan that `plan -o` saved
  linkvault apply sheets --to main --yes --fail-fast
  linkvault apply account.csv --resource account --to main")]
pub struct Args {
    /// The input: CSV files, workbooks, folders of them, an exported folder or file, ACCOUNT@REF, or a
    /// saved plan
    #[arg(value_name = "REF|PLAN.json", required_unless_present_any = ["set_password", "password_file"])]
    pub inputs: Vec<String>,
    /// The account to change
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// Prompt for a new account password; it is not stored
    #[arg(long)]
    pub set_password: bool,
    /// Read the account's new password from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "set_password")]
    pub password_file: Option<PathBuf>,
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

/// Makes a plan or reads a saved one, shows it, asks for confirmation, and applies it.
///
/// # Errors
/// If the input cannot be read, a guard refuses, the plan is stale, or the run stopped.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.to)?;
    // From now on Ctrl-C ends the question for the password instead of the process, so that the echo
    // is on again.
    app.catch_interrupts();
    let password = password(args, app)?;
    if let Some(password) = &password {
        app.env.redact_password(password);
    }
    let input = match args.inputs.as_slice() {
        [] => ApplyInput::Password,
        inputs => ApplyInput::PlanOrState(inputs.to_vec()),
    };
    let request = ApplyRequest {
        account: &account,
        command: RunCommand::Apply,
        input,
        options: InputOptions { csv: args.csv.options(app), ..args.policy.input() },
        policy: args.policy.policy(),
        password,
        run: RunOptions {
            accept_suspicious: args.suspicious.accept_suspicious,
            ..args.run.options(app)
        },
        limits: args.bounds.limits(),
    };
    render::run::show(app, &account, &apply(&app.env, request)?)
}

/// The maximum number of bytes that are read from a password file.
const LARGEST: u64 = 64 * 1024;

/// The new password, if one is to be set.
fn password(args: &Args, app: &App) -> Result<Option<String>, CliError> {
    if args.set_password {
        return app.out.secret("New password of the account").map(Some);
    }
    let Some(file) = &args.password_file else { return Ok(None) };
    let cannot = |why: String| {
        CliError::new(OpErrorKind::Failed, format_args!("cannot read {}: {why}", file.display()))
    };
    let bytes = read_named(file, LARGEST).map_err(|error| cannot(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8".to_owned()))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Some(line.to_owned())),
        None => Err(cannot("its first line is empty".to_owned())),
    }
}
