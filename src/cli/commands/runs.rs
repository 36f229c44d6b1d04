//! `linkvault runs`: lists the runs of an account, or the steps of one.

use std::collections::BTreeMap;

use crate::model::{Resource, RunId};
use crate::ops::{error_sources, state_ref};
use serde_json::{Value, json};

use crate::change::labels::{self, StepLabels};
use crate::change::plan::PlanStep;
use crate::cli::values;
use crate::cli::{App, CliError, Escaped, Exit, TextTable};
use crate::clock::Timestamp;
use crate::config::AccountConfig;
use crate::format;
use crate::vault::journal::{JournalStep, Run, StepState};
use crate::vault::lock::{Lock, LockPurpose};

/// List the runs of an account, or the steps of one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault runs main
  linkvault runs main 3          every step of run 3
  linkvault runs main 3 --json")]
pub struct Args {
    /// The account
    pub account: String,
    /// A run's number
    #[arg(value_parser = values::run)]
    pub run: Option<RunId>,
}

/// Lists the runs, or the steps of one.
///
/// # Errors
/// If the vault or the run does not exist.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.account)?;
    let vault = state_ref::open(&account)?;
    let is_executing = Lock::holder_for(&account.vault, LockPurpose::Run).is_some();
    if let Some(number) = args.run {
        let told = |error| error_sources::vault_error(error, &account.name);
        let run = vault.run(number).map_err(told)?;
        let contents = labels::contents(&vault.sent_values(None, &[Resource::QrCodes])?);
        return steps(app, &account, &run, is_executing, (&vault.steps(number)?, &contents));
    }
    let runs = vault.runs()?;
    if app.out.is_json() {
        let all: Vec<_> = runs.iter().map(|run| document(run, is_executing)).collect();
        app.out.json(&json!({"format": 1, "account": account.name, "runs": all}))?;
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        app.out.note(format_args!("nothing was applied to {} yet", account.name));
        return Ok(Exit::Done);
    }
    let headers = ["run", "begun", "command", "from", "status", "steps"];
    let mut table = TextTable::new(&headers).right(&[0]);
    for run in &runs {
        table.row([
            run.number.to_string(),
            local_time(&account, run.started),
            run.command.name().to_owned(),
            run.input.clone(),
            run.status.label(is_executing).to_owned(),
            counts(run),
        ]);
    }
    app.out.table(table)?;
    if let Some(run) = runs.iter().find(|run| run.finished.is_none() && !is_executing) {
        let (name, number) = (&account.name, run.number);
        app.out.note(format_args!(
            "run {number} is not finished; `linkvault resume {name}` continues it"
        ));
    }
    Ok(Exit::Done)
}

/// The counts of a run as text: `3 done, 1 refused`.
fn counts(run: &Run) -> String {
    let some = run.steps.iter().filter(|(_, count)| **count > 0);
    let mut parts: Vec<_> =
        some.map(|(state, count)| format!("{} {}", format::count(*count), state.name())).collect();
    if parts.is_empty() {
        return "nothing to do".to_owned();
    }
    parts.sort_by_key(|part| !part.ends_with("done"));
    parts.join(", ")
}

fn local_time(account: &AccountConfig, time: Timestamp) -> String {
    let local = state_ref::local_time(account, time);
    local.map_or_else(|| time.iso(), |time| time.format("%Y-%m-%d %H:%M").to_string())
}

fn steps(
    app: &App,
    account: &AccountConfig,
    run: &Run,
    is_executing: bool,
    (steps, contents): (&[JournalStep], &BTreeMap<i64, String>),
) -> Result<Exit, CliError> {
    let planned: Vec<_> =
        steps.iter().map(|row| serde_json::from_str::<PlanStep>(&row.spec).ok()).collect();
    let labels = StepLabels::new(planned.iter().flatten(), contents);
    if app.out.is_json() {
        let mut whole = document(run, is_executing);
        whole["format"] = json!(1);
        whole["account"] = json!(account.name);
        let rows = steps.iter().zip(&planned);
        whole["steps"] =
            rows.map(|(row, step)| step_document(row, step.as_ref(), &labels)).collect();
        app.out.json(&whole)?;
        return Ok(Exit::Done);
    }
    let mut table =
        TextTable::new(&["step", "verb", "resource", "record", "state", "seen"]).right(&[0]);
    for (row, step) in steps.iter().zip(&planned) {
        let Some(step) = step else {
            table.row([row.step.to_string(), "(damaged)".to_owned()]);
            continue;
        };
        let record = labels.record(step, row.id);
        table.row([
            row.step.to_string(),
            step.verb.name().to_owned(),
            step.resource.to_string(),
            record,
            row.state.name().to_owned(),
            row.verified.map_or_else(String::new, |it| it.name().to_owned()),
        ]);
    }
    app.out.table(table)?;
    for row in steps {
        for text in row.message.iter().chain(&row.remark) {
            app.out.line(format_args!("step {}: {}", row.step, Escaped(text)))?;
        }
    }
    let begun = local_time(account, run.started);
    let (number, name) = (run.number, &account.name);
    app.out.summary(format_args!(
        "run {number} of {name}: {} of {}, begun {begun}, {}",
        run.command.name(),
        Escaped(&run.input),
        run.status.label(is_executing)
    ))?;
    Ok(Exit::Done)
}

fn document(run: &Run, is_executing: bool) -> Value {
    json!({
        "run": run.number, "command": run.command, "from": run.input,
        "status": run.status.label(is_executing),
        "started": run.started.iso(), "finished": run.finished.map(Timestamp::iso),
        "snapshot_before": run.before, "snapshot_after": run.after, "requests": run.requests,
        "done": run.count(StepState::Done), "refused": run.count(StepState::Refused),
        "skipped": run.count(StepState::Skipped), "stale": run.count(StepState::Stale),
        "unknown": run.count(StepState::Unknown),
        "not_sent": run.count(StepState::Planned), "verified": run.verified,
    })
}

fn step_document(row: &JournalStep, step: Option<&PlanStep>, labels: &StepLabels<'_>) -> Value {
    let mut document: Value = serde_json::from_str(&row.spec).unwrap_or_else(|_| json!({}));
    document["step"] = json!(row.step);
    document["state"] = json!(row.state.name());
    document["attempts"] = json!(row.attempts);
    document["created_id"] = json!(row.id);
    document["message"] = json!(row.message);
    document["seen"] = json!(row.verified);
    document["remark"] = json!(row.remark);
    if let Some(content) = step.and_then(|step| labels.content(step)) {
        document["content"] = json!(content);
    }
    document
}
