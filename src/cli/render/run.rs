//! Shows the result of a run as text, JSON and exit code.

use serde_json::{Value, json};

use super::plan;
use crate::apply::RunReport;
use crate::change::plan::PlanStep;
use crate::cli::{App, CliError, CommandResult, Escaped, Exit};
use crate::config::AccountConfig;
use crate::format;
use crate::ops::apply::{AppliedRun, ApplyReport};
use crate::ops::rehearse::RehearsalReport;
use crate::vault::journal::StepState;

/// Shows the result of a request to change `account`. The plan was shown before.
pub fn show(app: &App, account: &AccountConfig, report: &ApplyReport) -> Result<Exit, CliError> {
    match report {
        ApplyReport::Declined => Ok(Exit::Done),
        ApplyReport::Applied(applied) => show_applied(app, account, applied),
        ApplyReport::Planned { plan, input, observation } => {
            if app.out.is_json() {
                let mut document = plan::document(plan, account, input, observation);
                document["dry_run"] = json!(true);
                app.out.json(&document)?;
            }
            Ok(exit(&RunReport::default(), plan.missing()))
        }
        // A plan without steps gets a document, too.
        ApplyReport::Nothing { plan, input, requests } => {
            if app.out.is_json() {
                let outcome = RunReport { requests: *requests, ..RunReport::default() };
                let mut document = document(account, &outcome);
                document["run"] = Value::Null;
                document["unsupported"] = json!(plan.unsupported);
                document["conflicts"] = json!({
                    "kept": plan.conflicts.kept, "overwritten": plan.conflicts.overwritten,
                });
                document["from"] = json!(input);
                app.out.json(&document)?;
            }
            Ok(exit(&RunReport::default(), plan.missing()))
        }
    }
}

/// Shows the result of a run.
pub fn show_applied(
    app: &App,
    account: &AccountConfig,
    applied: &AppliedRun,
) -> Result<Exit, CliError> {
    let AppliedRun { report, unsupported, missing } = applied;
    if app.out.is_json() {
        let mut document = document(account, report);
        document["unsupported"] = json!(unsupported);
        app.out.json(&document)?;
    }
    exit(report, *missing).after(print_outcome(app, account, report))
}

/// Shows the result of a rehearsal.
pub fn show_rehearsal(
    app: &App,
    account: &AccountConfig,
    report: &RehearsalReport,
) -> Result<Exit, CliError> {
    let (out, run) = (&app.out, &report.run);
    if out.is_json() {
        out.json(&rehearsal_document(account, report))?;
    } else if !report.plan.steps.is_empty() {
        for problem in &run.problems {
            out.line(Escaped(problem))?;
        }
        let (name, time) = (&account.name, format::duration(report.time));
        let requests = format::counted(run.requests, "request", "requests");
        out.line(format_args!("rehearsal for {name}: {}; {requests}, {time}", counts(run)))?;
        out.note("nothing was sent, and nothing was written");
    }
    Ok(exit(run, report.plan.missing()))
}

fn rehearsal_document(account: &AccountConfig, report: &RehearsalReport) -> Value {
    let RehearsalReport { plan, run, steps, time, snapshot, taken } = report;
    let step = |step: &PlanStep| {
        let row = steps.get(&step.step);
        let state = row.map_or(StepState::Planned, |row| row.state);
        json!({
            "step": step.step, "resource": step.resource.name(), "verb": step.verb.name(),
            "key": step.key, "state": state.name(),
            "message": row.and_then(|row| row.message.as_ref()),
        })
    };
    json!({
        "format": 1, "account": account.name, "rehearsed": true,
        "snapshot": snapshot, "snapshot_time": taken.iso(), "done": run.done,
        "refused": run.refused, "skipped": run.skipped, "stale": run.stale,
        "unknown": run.unknown, "not_sent": run.not_sent,
        "differs": run.different, "verified": run.verified, "requests": run.requests,
        "seconds": time.as_secs_f64(), "problems": run.problems,
        "steps": plan.steps.iter().map(step).collect::<Vec<_>>(),
        "unsupported": plan.unsupported,
    })
}

/// The exit code of a run, from its steps and the number of `unsupported` changes, for which the
/// plan has no step.
#[must_use]
pub fn exit(outcome: &RunReport, unsupported: u64) -> Exit {
    let sent = outcome.refused + outcome.skipped + outcome.not_sent;
    let missing = sent + outcome.stale + outcome.different + unsupported;
    // Others changed the records, so nothing was written.
    let stale = outcome.stale > 0 && outcome.done == 0;
    Exit::of(Ok(CommandResult { unknown: outcome.unknown, stale, missing, changes: false }))
}

/// The counts of a run as text: `3 done, 1 refused`.
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

/// Prints a line with the counts of a run, and a note about the next command.
pub fn print_outcome(
    app: &App,
    account: &AccountConfig,
    outcome: &RunReport,
) -> Result<(), CliError> {
    let requests = format::counted(outcome.requests, "request", "requests");
    let (run, name) = (outcome.run, &account.name);
    app.out.summary(format_args!("run {run} of {name}: {}; {requests}", counts(outcome)))?;
    if outcome.unknown > 0 {
        app.out.note(format_args!(
            "`linkvault resolve {name} {run}` shows the records that it may have created"
        ));
    } else if outcome.done > 0 {
        app.out.note(format_args!(
            "`linkvault undo {name} {run}` reverts it as far as the API allows"
        ));
    }
    Ok(())
}

/// The JSON document of a run.
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
