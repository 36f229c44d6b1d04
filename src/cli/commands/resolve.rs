//! `linkvault resolve`: records decisions on steps of unknown outcome.

use serde_json::{Value, json};

use crate::apply::resolve::{OpenStep, StepDecision};
use crate::cli::{App, CliError, CommandResult, Escaped, Exit, values};
use crate::config::AccountConfig;
use crate::model::{Record, RunId, Verb};
use crate::ops::resolve::{ResolveRequest, resolve};

/// Record a decision on steps whose outcome is unknown
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault resolve main 3               show the open steps and the candidates
  linkvault resolve main 3 --adopt 7=412    step 7 created record 412
  linkvault resolve main 3 --retry 7     it had no effect; send it again
  linkvault resolve main 3 --leave 7     do not send it again
  linkvault resolve main 3 --abandon     send no remaining step; end the run

Afterwards `linkvault resume` continues the run.")]
pub struct Args {
    /// The account
    pub account: String,
    /// The run
    #[arg(value_parser = values::run)]
    pub run: RunId,
    /// Record that the step created this record; repeatable
    #[arg(long, value_name = "STEP=ID", value_parser = adoption)]
    pub adopt: Vec<(u32, StepDecision)>,
    /// Send the step again: it created nothing; repeatable
    #[arg(long, value_name = "STEP")]
    pub retry: Vec<u32>,
    /// Do not send the step again, done or not; repeatable
    #[arg(long, value_name = "STEP")]
    pub leave: Vec<u32>,
    /// Send no remaining step and finish the run
    #[arg(long, conflicts_with_all = ["adopt", "retry", "leave"])]
    pub abandon: bool,
    /// Show the open steps and record no decision
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Accepted for scripts; this command never prompts
    #[arg(short, long)]
    pub yes: bool,
}

/// Parses `STEP=ID`: the step's number, and the decision to adopt the record with this id.
fn adoption(text: &str) -> Result<(u32, StepDecision), String> {
    let (step, id) = text.split_once('=').ok_or("write STEP=ID")?;
    let step = step.parse().map_err(|_| format!("`{step}` is not a step number"))?;
    let id = id.parse().map_err(|_| format!("`{id}` is not an id"))?;
    Ok((step, StepDecision::Adopt(id)))
}

/// Records the decisions, and shows the steps that are still open.
///
/// # Errors
/// If the run does not exist, or a decision is not possible.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.account)?;
    let again = args.retry.iter().map(|step| (*step, StepDecision::Retry));
    let left = args.leave.iter().map(|step| (*step, StepDecision::Skip));
    let decisions: Vec<_> = args.adopt.iter().copied().chain(again).chain(left).collect();
    let request = ResolveRequest {
        account: &account,
        run: args.run,
        decisions: &decisions,
        abandon: args.abandon,
        dry_run: args.dry_run,
    };
    let open = resolve(&app.env, &request)?;
    let decision = match (args.dry_run, args.abandon, decisions.is_empty()) {
        (false, true, _) => Some(RunDecision::Ended),
        (false, false, false) => Some(RunDecision::Decided),
        _ => None,
    };
    show(app, &account, args.run, &open, decision)?;
    Ok(Exit::of(Ok(CommandResult { unknown: open.len() as u64, ..CommandResult::default() })))
}

/// What this command has recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunDecision {
    /// Decisions on single steps.
    Decided,
    /// The end of the run.
    Ended,
}

fn show(
    app: &App,
    account: &AccountConfig,
    run: RunId,
    open: &[OpenStep],
    decision: Option<RunDecision>,
) -> Result<(), CliError> {
    let name = &account.name;
    if app.out.is_json() {
        let steps: Vec<_> = open.iter().map(document).collect();
        let document = json!({"format": 1, "account": name, "run": run, "open": steps});
        return app.out.json(&document);
    }
    for OpenStep { step, candidates } in open {
        let title = step.resource.spec().title;
        let (verb, key) = (step.verb.name(), Escaped(&step.key));
        app.out.line(format_args!("step {}: {verb} {title} {key}", step.step))?;
        for record in candidates {
            app.out.line(format_args!("    may be {}: {}", record.key, Escaped(&record.raw)))?;
        }
        if candidates.is_empty() && step.verb != Verb::Create {
            app.out.line("    no list shows whether it was done")?;
        } else if candidates.is_empty() {
            app.out.line("    no record in the newest snapshot can be its own")?;
        }
    }
    if open.is_empty() && decision == Some(RunDecision::Ended) {
        app.out
            .summary(format_args!("run {run} of {name} was ended; its other steps are not sent"))?;
        app.out.note(format_args!("`linkvault undo {name} {run}` reverts what it has done"));
    } else if open.is_empty() {
        app.out.summary(format_args!("no step of run {run} needs a decision"))?;
        if decision.is_some() {
            app.out.note(format_args!("`linkvault resume {name} {run}` continues it"));
        }
    } else {
        app.out.note("--adopt STEP=ID, --retry STEP or --leave STEP decides");
    }
    Ok(())
}

fn document(open: &OpenStep) -> Value {
    let record = |it: &Record<'_>| json!({"id": it.key.id(), "record": serde_json::from_str::<Value>(&it.raw).ok()});
    let candidates: Vec<_> = open.candidates.iter().map(record).collect();
    json!({"step": open.step.step, "resource": open.step.resource, "key": open.step.key,
        "candidates": candidates})
}
