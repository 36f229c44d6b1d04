//! The page of a run with its steps.

use std::collections::BTreeMap;

use askama::Template;

use crate::change::labels::StepLabels;
use crate::change::plan::PlanStep;
use crate::format;
use crate::model::{RecordKey, Resource, SnapshotId};
use crate::ui::links;
use crate::ui::pages::changes;
use crate::ui::pages::rows::RunRow;
use crate::ui::pages::{
    Link, PageContext, PageError, PageFrame, PagedRows, Pager, RunExecutor, number,
};
use crate::ui::time_text::{self, TimeText};
use crate::vault::Vault;
use crate::vault::journal::{JournalStep, RunStatus, StepState, VerifiedState};

/// Steps per page.
const SIZE: u64 = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
struct StepRow {
    number: u32,
    verb: &'static str,
    resource: &'static str,
    record: String,
    href: Option<String>,
    state: &'static str,
    tone: &'static str,
    seen: &'static str,
    /// The service's message and the remark of the verification.
    words: Vec<String>,
}

#[derive(Template)]
#[template(path = "run.html", config = "src/ui/templates/askama.toml")]
struct RunPage {
    frame: PageFrame,
    run: RunRow,
    finished: Option<TimeText>,
    requests: String,
    verified: String,
    before: Option<Link>,
    after: Option<Link>,
    /// The next command for a run that is not finished.
    next: Option<String>,
    steps: Vec<StepRow>,
    pager: Pager,
}

/// Renders the page of a run.
///
/// # Errors
/// [`PageError::NotFound`] when the account or the run does not exist.
pub fn page(
    context: &PageContext<'_>,
    name: &str,
    run: &str,
    query: &PagedRows,
) -> Result<String, PageError> {
    let executor = context.run_executor(name);
    let vault = context.vault(name)?;
    let run = vault.run(number(run)?)?;
    let steps = vault.steps_of(run.number, Pager::slice(query.at(), SIZE))?;
    let snapshot = |it: Option<SnapshotId>| {
        it.map(|it| Link::new(links::snapshot(name, it), format!("#{it}")))
    };
    let next = match run.status {
        RunStatus::Running => match executor {
            RunExecutor::ThisMachine => None,
            RunExecutor::MaybeOther => Some(format!(
                "Another machine may be executing it. If that machine is lost, run `linkvault \
                 resume {name} {}` to continue",
                run.number
            )),
            RunExecutor::None => {
                Some(format!("Run `linkvault resume {name} {}` to continue", run.number))
            }
        },
        RunStatus::Unknown => {
            Some(format!("Run `linkvault resolve {name} {}` to see the open decisions", run.number))
        }
        RunStatus::Complete | RunStatus::Partial => None,
    };
    let link = |page: &str| links::with(&links::run(name, run.number), &[("page", page)]);
    let way = vec![Link::new(links::runs(name), "Runs")];
    let page = RunPage {
        frame: context.frame(name, &format!("Run {}", run.number), way),
        finished: run.finished.map(|time| TimeText::new(time, context.now)),
        requests: format::count(run.requests),
        verified: format::count(run.verified),
        before: snapshot(run.before),
        after: snapshot(run.after),
        next,
        steps: rows(name, &steps, &contents(&vault, &steps)?),
        pager: Pager::new(query.at(), SIZE, run.steps.values().sum(), link),
        run: RunRow::new(name, &run, executor, context.now),
    };
    Ok(page.render()?)
}

/// The contents of the QR codes that the steps change or assign, by id.
fn contents(vault: &Vault, steps: &[JournalStep]) -> Result<BTreeMap<i64, String>, PageError> {
    let mut known = BTreeMap::new();
    for step in steps.iter().filter_map(|row| serde_json::from_str::<PlanStep>(&row.spec).ok()) {
        let of = |name: &str| step.after.as_ref()?.get(name)?.as_i64();
        let id = match step.resource {
            Resource::QrCodes => step.id,
            Resource::ChannelItems => of("id"),
            _ => None,
        };
        if let Some(id) = id
            && let Some(content) = changes::content(vault, Resource::QrCodes, &RecordKey::Id(id))?
        {
            known.insert(id, content);
        }
    }
    Ok(known)
}

fn rows(account: &str, rows: &[JournalStep], contents: &BTreeMap<i64, String>) -> Vec<StepRow> {
    let steps: Vec<_> =
        rows.iter().map(|row| serde_json::from_str::<PlanStep>(&row.spec).ok()).collect();
    let labels = StepLabels::new(steps.iter().flatten(), contents);
    rows.iter().zip(&steps).map(|(it, step)| row(account, it, step.as_ref(), &labels)).collect()
}

fn row(
    account: &str,
    row: &JournalStep,
    step: Option<&PlanStep>,
    labels: &StepLabels<'_>,
) -> StepRow {
    let words = row.message.iter().chain(&row.remark).map(|words| time_text::cut(words)).collect();
    let tone = match row.state {
        StepState::Done => "good",
        StepState::Planned | StepState::Sent => "new",
        StepState::Refused | StepState::Skipped | StepState::Stale => "warning",
        StepState::Unknown => "failing",
    };
    let mut shown = StepRow {
        number: row.step,
        verb: "(damaged)",
        resource: "",
        record: String::new(),
        href: None,
        state: row.state.name(),
        tone,
        seen: row.verified.map_or("", VerifiedState::name),
        words,
    };
    let Some(step) = step else { return shown };
    let id = row.id.or(step.id);
    let key = RecordKey::parse(step.resource, &step.key).or_else(|| {
        // The key of a create is its name, until it has an id.
        (step.resource != Resource::ChannelItems).then_some(RecordKey::Id(id?))
    });
    let called = labels.record(step, row.id);
    (shown.verb, shown.resource) = (step.verb.name(), step.resource.name());
    shown.record = time_text::cut(&called);
    shown.href =
        key.filter(|_| id.is_some()).map(|key| links::record(account, step.resource, &key));
    shown
}
