//! `linkvault undo`: take a run back.

use crate::apply::ApplyError;
use crate::apply::undo::{left_by, undo_of};
use crate::change::policy::{Bound, Policy};
use crate::cli::desk::Desk;
use crate::cli::planning::Whose;
use crate::cli::running::{self, Job, RunArgs};
use crate::cli::session::Bounds;
use crate::cli::values;
use crate::cli::wanted::Read;
use crate::cli::{App, Exit, Failure, Kind, failures};
use crate::model::Resource;
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
    pub on_conflict: Whose,
    #[command(flatten)]
    pub how: RunArgs,
    #[command(flatten)]
    pub bounds: Bounds,
}

/// Plans the way back, shows it, asks, and goes it.
///
/// # Errors
/// When there is no such run, it is not finished, or as [`running::push`].
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let account = app.account(&args.account)?;
    app.catch_interrupts();
    crate::cli::states::open(&account)?;
    let name = &account.name;
    let mut desk = Desk::open(app, &account, "undo", &args.bounds)?;
    let run = desk.vault.run(args.run).map_err(|error| failures::of_vault(error, name))?;
    if run.finished.is_none() {
        let message = format!("run {} of {name} is not finished", run.number);
        return Err(Failure::new(Kind::Failed, message)
            .hint(format_args!("`linkvault resume {name} {}` finishes it first", run.number)));
    }
    let back = undo_of(&mut desk.vault, args.run).map_err(|error| match error {
        ApplyError::Vault(VaultError::NoSnapshot(before)) => {
            let message = format!(
                "run {} cannot be taken back: snapshot #{before} from before it was forgotten",
                run.number
            );
            Failure::new(Kind::NotFound, message).hint(format_args!(
                "`linkvault restore REF --to {name}` leads back to one that is there"
            ))
        }
        error => failures::of_apply(error, name),
    })?;
    for what in &back.changed {
        app.out.note(format_args!("not quite as it was: {what}"));
    }
    // Only what the run changed is wanted back; what changed since is a conflict.
    let base = left_by(&mut desk.vault, &run)?;
    let seen = |it: &Resource| base.as_ref().is_some_and(|base| base.get(*it).is_some());
    for resource in run.touched.iter().filter(|it| !seen(it)) {
        app.out.warn(format_args!(
            "{resource} as the run left them are not in the vault: what changed since is not known"
        ));
    }
    let wanted = Read {
        name: format!("run {}", run.number),
        desired: back.desired,
        unsupported: back.unsupported,
        base,
        ..Read::default()
    };
    let policy = Policy {
        delete: true,
        max_delete: Bound::Percent(100),
        max_update: Bound::Percent(100),
        on_conflict: args.on_conflict.into(),
        account: true,
    };
    let job = Job::new("undo", &wanted.name);
    running::push_from(desk, job, &wanted, &policy, &args.how)
}
