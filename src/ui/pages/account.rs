//! The page of an account: status, records, changes, snapshots and runs.

use std::sync::Arc;

use askama::Template;

use crate::clock::Timestamp;
use crate::format;
use crate::health::account_status::AccountStatus;
use crate::model::{Resource, SnapshotId};
use crate::ui::chart::{Chart, chart};
use crate::ui::links;
use crate::ui::pages::changes::{self, ChangeRow};
use crate::ui::pages::overview::limit_usage;
use crate::ui::pages::rows::{RunRow, SnapshotRow};
use crate::ui::pages::{ChartSeries, Link, PageContext, PageError, PageFrame, RunExecutor};
use crate::ui::time_text::{self, TimeText};
use crate::vault::browse::PageRange;
use crate::vault::journal::Run;
use crate::vault::snapshot::Snapshot;
use crate::vault::{Vault, VaultError};

/// How many of the newest snapshots, runs and changes the page shows.
const SNAPSHOTS: u64 = 10;
const RUNS: u64 = 5;
const CHANGES: u64 = 10;

/// The data of the page.
struct Facts {
    frame: PageFrame,
    account_status: AccountStatus,
    snapshots: Vec<Snapshot>,
    all_snapshots: u64,
    running: Option<Snapshot>,
    lines: Arc<ChartSeries>,
    /// The newest snapshot with changes, the first of them, and their number.
    changes: Option<(SnapshotId, Vec<ChangeRow>, u64)>,
    runs: Vec<Run>,
    executor: RunExecutor,
    all_runs: u64,
    size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ProblemRow {
    message: String,
    hint: Option<String>,
    since: TimeText,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ResourceRow {
    name: &'static str,
    href: String,
    records: String,
}

#[derive(Template)]
#[template(path = "account.html", config = "src/ui/templates/askama.toml")]
struct AccountPage {
    frame: PageFrame,
    name: String,
    health: &'static str,
    tone: &'static str,
    words: String,
    complete: Option<TimeText>,
    next: Option<TimeText>,
    schedule: Option<String>,
    running: Option<TimeText>,
    last: Option<Last>,
    used: String,
    size: String,
    problems: Vec<ProblemRow>,
    charts: Vec<Chart>,
    resources: Vec<ResourceRow>,
    changes: Vec<ChangeRow>,
    changes_of: Option<Link>,
    more_changes: Option<String>,
    snapshots: Vec<SnapshotRow>,
    all_snapshots: String,
    snapshots_href: String,
    compare_href: Option<String>,
    runs: Vec<RunRow>,
    all_runs: String,
    runs_href: String,
}

/// The newest backup as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    ended: TimeText,
    text: String,
    message: Option<String>,
}

/// Renders the page of the account `name`.
///
/// # Errors
/// [`PageError::NotFound`] when the account does not exist.
pub fn page(context: &PageContext<'_>, name: &str) -> Result<String, PageError> {
    let account_status = context.accounts.account_status(name)?;
    let facts = match context.open(name)? {
        Some(mut vault) => read(&mut vault, account_status, context)?,
        None => Facts {
            frame: context.frame(name, "", Vec::new()),
            account_status,
            snapshots: Vec::new(),
            all_snapshots: 0,
            running: None,
            lines: Arc::default(),
            changes: None,
            runs: Vec::new(),
            executor: RunExecutor::None,
            all_runs: 0,
            size: 0,
        },
    };
    Ok(build(facts, context.now).render()?)
}

fn read(
    vault: &mut Vault,
    account_status: AccountStatus,
    context: &PageContext<'_>,
) -> Result<Facts, VaultError> {
    let snapshots = vault.newest_snapshots(PageRange { skip: 0, take: SNAPSHOTS })?;
    let changes = newest_changes(vault, &account_status.account, &snapshots)?;
    Ok(Facts {
        frame: context.frame(&account_status.account, "", Vec::new()),
        all_snapshots: vault.count_snapshots()?,
        running: vault.running()?.map(|(snapshot, _)| snapshot),
        lines: context.series.of(vault)?,
        changes,
        runs: vault.newest_runs(PageRange { skip: 0, take: RUNS })?,
        executor: context.run_executor(&account_status.account),
        all_runs: vault.count_runs()?,
        size: vault.size(),
        account_status,
        snapshots,
    })
}

type LatestChanges = Option<(SnapshotId, Vec<ChangeRow>, u64)>;

/// The changes of the newest snapshot that has any.
fn newest_changes(
    vault: &mut Vault,
    account: &str,
    snapshots: &[Snapshot],
) -> Result<LatestChanges, VaultError> {
    for snapshot in snapshots {
        let moved = snapshot.outcomes.iter().any(|it| it.added + it.changed + it.removed > 0);
        let Some(before) = vault.snapshot_before(snapshot.number)?.filter(|_| moved) else {
            continue;
        };
        let pair = (before, snapshot.number);
        let counts = changes::counts(vault, pair, |_| String::new())?;
        let selected = changes::selected(&counts, None);
        let all: u64 = selected.iter().map(|(_, count)| count).sum();
        if all > 0 {
            let slice = PageRange { skip: 0, take: CHANGES };
            let rows = changes::read(vault, account, pair, &selected, slice)?;
            return Ok(Some((snapshot.number, rows, all)));
        }
    }
    Ok(None)
}

fn build(facts: Facts, now: Timestamp) -> AccountPage {
    let it = facts.account_status;
    let name = it.account.clone();
    let when = |time| TimeText::new(time, now);
    let last = it.last.as_ref().map(|last| Last {
        ended: when(last.ended),
        text: format!(
            "{} in {}, waited {}, {} refused by the rate limit",
            format::counted(last.requests, "request", "requests"),
            format::duration(last.ended.since(last.started)),
            format::duration(last.waited),
            format::count(last.throttled)
        ),
        message: last.message.as_deref().map(time_text::cut),
    });
    let problems = it.problems.iter().map(|problem| ProblemRow {
        message: time_text::cut(&problem.message),
        hint: problem.hint.clone(),
        since: when(problem.since),
    });
    let lines = &facts.lines;
    let (of, all, rows) = match facts.changes {
        Some((number, rows, all)) => (Some(number), all, rows),
        None => (None, 0, Vec::new()),
    };
    let changes_of =
        of.map(|number| Link::new(links::snapshot(&name, number), format!("#{number}")));
    AccountPage {
        frame: facts.frame,
        health: time_text::health(it.health),
        tone: it.health.name(),
        words: time_text::cut(&it.words),
        complete: it.last_complete.map(when),
        next: it.next.map(when),
        schedule: it.schedule.clone(),
        running: it.running.or(facts.running.map(|it| it.started)).map(when),
        used: limit_usage(it.limit, it.last.as_ref()),
        last,
        size: format::size(facts.size),
        problems: problems.collect(),
        charts: charts(lines, now),
        resources: resources(&name, facts.snapshots.first()),
        more_changes: (all > rows.len() as u64).then(|| format::count(all)),
        changes: rows,
        changes_of,
        snapshots: facts.snapshots.iter().map(|it| SnapshotRow::new(&name, it, now)).collect(),
        all_snapshots: format::count(facts.all_snapshots),
        snapshots_href: links::snapshots(&name),
        compare_href: (facts.all_snapshots > 1).then(|| links::compare(&name)),
        runs: facts.runs.iter().map(|it| RunRow::new(&name, it, facts.executor, now)).collect(),
        all_runs: format::count(facts.all_runs),
        runs_href: links::runs(&name),
        name,
    }
}

fn charts(lines: &ChartSeries, now: Timestamp) -> Vec<Chart> {
    if lines.records.is_empty() {
        return Vec::new();
    }
    vec![
        chart("records", "Records over time", ("record", "records"), &lines.records, now),
        chart("scans", "Scans over time", ("scan", "scans"), &lines.scans, now),
    ]
}

fn resources(account: &str, newest: Option<&Snapshot>) -> Vec<ResourceRow> {
    let Some(newest) = newest else { return Vec::new() };
    let of = |resource: Resource| ResourceRow {
        name: resource.name(),
        href: links::records(account, resource),
        records: format::count(newest.outcome(resource).map_or(0, |it| it.records)),
    };
    Resource::ALL.into_iter().map(of).collect()
}
