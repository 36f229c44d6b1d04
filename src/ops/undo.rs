//! Reverts a run, as far as the API allows.

use std::sync::Arc;

use super::account_session::SessionLimits;
use super::apply::{ApplyReport, RunOptions, RunRequest, report, run_input};
use super::error_sources::{apply_error, vault_error, without_skip};
use super::input::DesiredInput;
use super::resume::resume_options;
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind, StoredWork, state_ref};
use crate::apply::resolve::abandon;
use crate::apply::undo::{UndoInput, state_after_run, undo_run};
use crate::apply::{self, ApplyError};
use crate::change::policy::{OnConflict, Policy};
use crate::config::AccountConfig;
use crate::format;
use crate::model::{CountOrPercent, Resource, RunId};
use crate::vault::VaultError;
use crate::vault::journal::{Run, RunCommand, StepState};

/// The run to revert, and how.
pub struct UndoRequest<'a> {
    /// The account of the run.
    pub account: &'a AccountConfig,
    /// The run to revert. One that is not finished is ended first.
    pub run: RunId,
    /// What happens to fields that were changed again since the run.
    pub on_conflict: OnConflict,
    /// How to execute the plan.
    pub options: RunOptions,
    /// Limits on requests, time and the wait for the lock.
    pub limits: SessionLimits,
}

/// Makes a plan that reverts the run, shows it, asks for confirmation, and applies it. A run that
/// is not finished is ended first, after a confirmation: the outcome of its requests without a
/// response is looked up, and its remaining steps are not sent.
///
/// # Errors
/// If the run does not exist, its first snapshot was forgotten, or as
/// [`apply`](super::apply::apply).
pub fn undo(env: &Env, request: &UndoRequest<'_>) -> Result<ApplyReport, OpError> {
    env.catch_interrupts();
    request.options.require_files(env, &[])?;
    let kind = StoredWork::account_unless(request.options.dry_run);
    env.with_stored(&[request.account], kind, || undo_fetched(env, request))
}

fn undo_fetched(env: &Env, request: &UndoRequest<'_>) -> Result<ApplyReport, OpError> {
    let account = request.account;
    state_ref::open(account)?;
    let name = &account.name;
    let mut session = WriteSession::open(env, account, "undo", &request.limits)?;
    let run = session.vault.run(request.run).map_err(|error| vault_error(error, name))?;
    let run = match run.finished {
        None if request.options.dry_run => {
            env.note(format_args!(
                "run {} of {name} is not finished; its remaining steps are not sent",
                run.number
            ));
            run
        }
        None if !end_run(&mut session, &run, &request.options)? => {
            return Ok(ApplyReport::Declined);
        }
        None => session.vault.run(run.number)?,
        Some(_) => run,
    };
    let mut back = undo_run(&mut session.vault, request.run).map_err(|error| match error {
        ApplyError::Vault(VaultError::NoSnapshot(before)) => {
            let message = format!(
                "cannot undo run {}: snapshot #{before}, made before it, was forgotten",
                run.number
            );
            OpError::new(OpErrorKind::NotFound, message)
                .next(NextStep::RestoreInstead(name.clone()))
        }
        error => apply_error(error, name),
    })?;
    let delete = may_delete_uncertain(&session, &back, &request.options)?;
    back.decide_uncertain(delete);
    for what in &back.changed {
        env.note(format_args!("not completely restored: {what}"));
    }
    // Only changes of the run are reverted; later changes of the same fields are conflicts.
    let base = state_after_run(&mut session.vault, &run)?;
    let seen = |it: &Resource| base.as_ref().is_some_and(|base| base.get(*it).is_some());
    let touched = run.touched.iter().filter(|_| !run.steps.is_empty());
    for resource in touched.filter(|it| !seen(it)) {
        env.warn(format_args!(
            "{resource} after the run are not in the vault: later changes are not detected"
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
        allow_empty: false,
        max_delete: CountOrPercent::Percent(100.0),
        max_update: CountOrPercent::Percent(100.0),
        on_conflict: request.on_conflict,
        account: true,
    };
    let asked = RunRequest::new(RunCommand::Undo, &wanted.name);
    let end =
        run_input(&mut session, asked, &wanted, &policy, &request.options).map_err(without_skip)?;
    report(session, end, None, &request.options)
}

/// Asks whether to delete records that the run or another user created. Without a question they
/// stay.
fn may_delete_uncertain(
    session: &WriteSession<'_>,
    back: &UndoInput,
    options: &RunOptions,
) -> Result<bool, OpError> {
    let mut records = back.uncertain.iter();
    let Some(first) = records.next().filter(|_| !options.yes && !options.dry_run) else {
        return Ok(false);
    };
    let all = records.fold(format!("{} {}", first.resource, first.id), |all, it| {
        format!("{all}, {} {}", it.resource, it.id)
    });
    let question = format!(
        "No list shows whether the run or another user created {all}. Delete them with the rest?"
    );
    session.env.confirm(question, false, &*session.clock)
}

/// Asks whether to end `run`, and ends it. Returns whether the user agreed.
fn end_run(
    session: &mut WriteSession<'_>,
    run: &Run,
    options: &RunOptions,
) -> Result<bool, OpError> {
    let (env, account, number) = (session.env, session.account, run.number);
    let done = format::count(run.count(StepState::Done));
    let all = format::counted(run.steps.values().sum(), "step", "steps");
    let question = format!(
        "Run {number} of {} is not finished: {done} of {all} are done. End it and revert it?",
        account.name
    );
    if !env.confirm(question, options.yes, &*session.clock)? {
        env.note("nothing was written");
        return Ok(false);
    }
    let ended = resume_options(session, options.max_staleness(account));
    let progress = Arc::clone(&session.progress);
    let (client, vault) = (&mut session.session.client, &mut session.vault);
    let failed = |error| apply_error(error, &account.name);
    apply::end(client, vault, &*session.clock, &*progress, &ended, number).map_err(failed)?;
    progress.pause();
    if session.vault.run(number)?.finished.is_none() {
        // The undo reports the steps whose outcome is not known.
        abandon(&mut session.vault, number, session.clock.now()).map_err(failed)?;
    }
    env.note(format_args!("run {number} of {} was ended", account.name));
    Ok(true)
}
