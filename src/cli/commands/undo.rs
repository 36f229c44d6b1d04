//! `linkvault undo`: take a run back.

use crate::apply::ApplyError;
use crate::apply::undo::{state_after_run, undo_run};
use crate::change::policy::Policy;
use crate::cli::desk::WriteSession;
use crate::cli::planning::ConflictChoice;
use crate::cli::running::{self, RunArgs, RunRequest};
use crate::cli::session::SessionLimits;
use crate::cli::values;
use crate::cli::wanted::DesiredInput;
use crate::cli::{App, Exit, OpError, OpErrorKind, failures};
use crate::model::{CountOrPercent, Resource};
use crate::vault::VaultError;

/// Take a run back, as far as the API can
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault undo main 3 -n     print the plan only
  linkvault undo main 3

What the run created is deleted, what it changed is set back, and what it deleted is
created anew, with a new id. Whatever else has changed since is left alone.")]
pub struct Args {
    /// The account
    pub account: String,
    /// The run; `linkvault runs ACCOUNT` lists them
    #[arg(value_parser = values::run)]
    pub run: i64,
    /// Whose value counts where a field was changed again since the run
    #[arg(long, value_name = "WHOSE", default_value = "fail")]
    pub on_conflict: ConflictChoice,
    #[command(flatten)]
    pub how: RunArgs,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

/// Plans the way back, shows it, asks, and goes it.
///
/// # Errors
/// When there is no such run, it is not finished, or as [`running::apply_input`].
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let account = app.account(&args.account)?;
    app.catch_interrupts();
    crate::cli::states::open(&account)?;
    let name = &account.name;
    let mut desk = WriteSession::open(app, &account, "undo", &args.bounds)?;
    let run = desk.vault.run(args.run).map_err(|error| failures::vault_error(error, name))?;
    if run.finished.is_none() {
        let message = format!("run {} of {name} is not finished", run.number);
        return Err(OpError::new(OpErrorKind::Failed, message)
            .hint(format_args!("`linkvault resume {name} {}` finishes it first", run.number)));
    }
    let back = undo_run(&mut desk.vault, args.run).map_err(|error| match error {
        ApplyError::Vault(VaultError::NoSnapshot(before)) => {
            let message = format!(
                "run {} cannot be taken back: snapshot #{before} from before it was forgotten",
                run.number
            );
            OpError::new(OpErrorKind::NotFound, message).hint(format_args!(
                "`linkvault restore REF --to {name}` leads back to one that is there"
            ))
        }
        error => failures::apply_error(error, name),
    })?;
    for what in &back.changed {
        app.out.note(format_args!("not quite as it was: {what}"));
    }
    // Only what the run changed is wanted back; what changed since is a conflict.
    let base = state_after_run(&mut desk.vault, &run)?;
    let seen = |it: &Resource| base.as_ref().is_some_and(|base| base.get(*it).is_some());
    for resource in run.touched.iter().filter(|it| !seen(it)) {
        app.out.warn(format_args!(
            "{resource} as the run left them are not in the vault: what changed since is not known"
        ));
    }
    let wanted = DesiredInput {
        name: format!("run {}", run.number),
        desired: back.desired,
        unsupported: back.unsupported,
        base,
        ..DesiredInput::default()
    };
    let policy = Policy {
        delete: true,
        max_delete: CountOrPercent::Percent(100.0),
        max_update: CountOrPercent::Percent(100.0),
        on_conflict: args.on_conflict.into(),
        account: true,
    };
    let job = RunRequest::new("undo", &wanted.name);
    running::apply_input_in(desk, job, &wanted, &policy, &args.how)
}
