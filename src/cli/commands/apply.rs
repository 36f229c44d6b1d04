//! `linkvault apply`: lead an account to a state.

use std::path::{Path, PathBuf};

use crate::apply::StepSecrets;
use crate::cli::planning::PolicyArgs;
use crate::cli::running::{self, RunArgs, RunRequest};
use crate::cli::session::SessionLimits;
use crate::cli::wanted::DesiredInput;
use crate::cli::{App, Exit, OpError, OpErrorKind};
use crate::files::read_named;

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
    #[arg(value_name = "REF|PLAN.json", required_unless_present_any = ["set_password", "password_file"])]
    pub reference: Option<String>,
    /// The account that is changed
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// Ask for the account's new password; it is kept nowhere
    #[arg(long)]
    pub set_password: bool,
    /// Read the account's new password from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "set_password")]
    pub password_file: Option<PathBuf>,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

/// Plans, shows, asks, and carries the plan out.
///
/// # Errors
/// When the state cannot be had, a guard refuses, the plan is stale, or the
/// run had to stop.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let account = app.account(&args.to)?;
    let (policy, run, bounds) = (args.policy.policy(), &args.run, &args.bounds);
    // Ctrl-C ends that question as it ends any program.
    let password = password(args, app)?;
    if let Some(password) = &password {
        app.redact_password(password);
    }
    app.catch_interrupts();
    let Some(reference) = &args.reference else {
        let job = RunRequest {
            secrets: StepSecrets { password },
            ..RunRequest::new("apply", "a new password")
        };
        return running::apply_input(
            app,
            &account,
            job,
            &DesiredInput::default(),
            &policy,
            run,
            bounds,
        );
    };
    if let Some(saved) = running::read_saved_plan(Path::new(reference))? {
        if password.is_some() {
            let message = "a saved plan is applied as it is, without a password";
            return Err(
                OpError::new(OpErrorKind::Usage, message).hint("set the password by itself")
            );
        }
        return running::apply_saved_plan(app, &account, reference, saved, &policy, run, bounds);
    }
    let wanted = args.policy.wanted(app, bounds, reference, &account)?;
    let job =
        RunRequest { secrets: StepSecrets { password }, ..RunRequest::new("apply", reference) };
    running::apply_input(app, &account, job, &wanted, &policy, run, bounds)
}

/// The most bytes that are read of a file that should hold a password.
const LARGEST: u64 = 64 * 1024;

/// The new password, if one is to be set.
fn password(args: &Args, app: &App) -> Result<Option<String>, OpError> {
    if args.set_password {
        return app.out.secret("New password of the account").map(Some);
    }
    let Some(file) = &args.password_file else { return Ok(None) };
    let cannot = |why: String| {
        OpError::new(OpErrorKind::Failed, format_args!("{} cannot be read: {why}", file.display()))
    };
    let bytes = read_named(file, LARGEST).map_err(|error| cannot(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8".to_owned()))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Some(line.to_owned())),
        None => Err(cannot("its first line is empty".to_owned())),
    }
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
    bounds: &SessionLimits,
) -> Result<Exit, OpError> {
    let account = app.account(to)?;
    app.catch_interrupts();
    let wanted = policy.wanted(app, bounds, reference, &account)?;
    let job = RunRequest::new(command, reference);
    running::apply_input(app, &account, job, &wanted, &policy.policy(), run, bounds)
}
