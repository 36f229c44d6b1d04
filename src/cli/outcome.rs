//! What came of a run, told to a person and to programs, and as an exit code.

use std::path::Path;

use serde_json::{Value, json};

use super::app::App;
use super::desk::WriteSession;
use super::error::{CommandResult, Exit, OpError};
use super::rejected::{self, RunInput};
use crate::apply::{self, RunReport};
use crate::change::plan::PlanStep;
use crate::config::AccountConfig;
use crate::format;
use crate::vault::journal::StepState;

/// The most problems that are told one by one.
const MOST_TOLD: usize = 20;

/// Tells of a run's problems that its progress has not told.
pub fn warn_of(app: &App, account: &AccountConfig, outcome: &RunReport) {
    outcome.unreported.iter().take(MOST_TOLD).for_each(|problem| app.out.warn(problem));
    if let more @ 1.. = outcome.unreported.len().saturating_sub(MOST_TOLD) {
        let (name, run) = (&account.name, outcome.run);
        app.out.warn(format_args!("and {more} more; `linkvault runs {name} {run}` shows them all"));
    }
}

/// Tells what a run came to.
///
/// # Errors
/// The run's own, or when the news cannot be written.
pub fn finish(
    desk: WriteSession<'_>,
    outcome: Result<RunReport, apply::ApplyError>,
    to: Option<&Path>,
) -> Result<Exit, OpError> {
    let WriteSession { app, account, session, vault, progress, .. } = desk;
    let checkpoint = vault.checkpoint();
    let outcome = outcome.map_err(|error| super::failures::apply_error(error, &account.name))?;
    checkpoint?;
    drop((session, progress));
    warn_of(app, account, &outcome);
    let steps = vault.steps(outcome.run)?;
    let refused: Vec<(PlanStep, String)> = steps
        .iter()
        .filter(|it| matches!(it.state, StepState::Refused | StepState::Skipped | StepState::Stale))
        .filter_map(|it| {
            let step = serde_json::from_str(&it.spec).ok()?;
            Some((step, it.message.clone().unwrap_or_default()))
        })
        .collect();
    let origin = RunInput::read(&vault.run(outcome.run)?.plan);
    let rows = rejected::rows(&refused, &origin.unsupported);
    rejected::write(app, &rows, &origin, to);
    let exit = exit(&outcome, origin.missing());
    if app.out.is_json() {
        let mut document = document(account, &outcome);
        document["unsupported"] = json!(origin.unsupported);
        app.out.json(&document)?;
    }
    exit.after(tell(app, account, &outcome))
}

/// The exit code of a run: by its steps, and by how much of its input is
/// `unsupported`, which the plan has no step for.
#[must_use]
pub fn exit(outcome: &RunReport, unsupported: u64) -> Exit {
    let sent = outcome.refused + outcome.skipped + outcome.not_sent;
    let missing = sent + outcome.stale + outcome.different + unsupported;
    // Others changed what was planned for, and so nothing was written.
    let stale = outcome.stale > 0 && outcome.done == 0;
    Exit::of(Ok(CommandResult { unknown: outcome.unknown, stale, missing, changes: false }))
}

/// `3 done, 1 refused`.
#[must_use]
pub fn counts(outcome: &RunReport) -> String {
    let mut parts = vec![format!("{} done", format::count(outcome.done))];
    for (count, word) in [
        (outcome.refused, "refused"),
        (outcome.skipped, "skipped"),
        (outcome.stale, "stale"),
        (outcome.unknown, "unknown"),
        (outcome.not_sent, "not sent"),
        (outcome.different, "not as asked"),
    ] {
        if count > 0 {
            parts.push(format!("{} {word}", format::count(count)));
        }
    }
    parts.push(format!("{} verified", format::count(outcome.verified)));
    parts.join(", ")
}

/// Says in a line what a run came to.
///
/// # Errors
/// When it cannot be printed.
pub fn tell(app: &App, account: &AccountConfig, outcome: &RunReport) -> Result<(), OpError> {
    let requests = format::counted(outcome.requests, "request", "requests");
    let (run, name) = (outcome.run, &account.name);
    app.out.summary(format_args!("run {run} of {name}: {}; {requests}", counts(outcome)))?;
    if outcome.unknown > 0 {
        app.out.note(format_args!(
            "`linkvault resolve {name} {run}` shows what may have become of it"
        ));
    } else if outcome.done > 0 {
        app.out.note(format_args!(
            "`linkvault undo {name} {run}` takes it back as far as the API can"
        ));
    }
    Ok(())
}

/// A run's outcome for programs.
#[must_use]
pub fn document(account: &AccountConfig, outcome: &RunReport) -> Value {
    json!({
        "format": 1, "account": account.name, "run": outcome.run, "done": outcome.done,
        "refused": outcome.refused, "skipped": outcome.skipped, "stale": outcome.stale,
        "unknown": outcome.unknown, "not_sent": outcome.not_sent,
        "differs": outcome.different, "verified": outcome.verified, "requests": outcome.requests,
        "snapshot_before": outcome.before, "snapshot_after": outcome.after,
        "problems": outcome.problems,
    })
}
