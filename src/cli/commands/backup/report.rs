//! What a backup tells when it is done: for a newcomer, and for a program.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cli::{App, CliError, Escaped, Paint, TextTable};
use crate::config::AccountConfig;
use crate::crawl::CrawlReport;
use crate::format;
use crate::model::SnapshotId;
use crate::ops::backup::BackupReport;
use crate::vault::read::NewScans;
use crate::vault::snapshot::{ReadState, ResourceOutcome, Snapshot, SnapshotStatus};

/// The document of `--json`.
pub fn document(account: &AccountConfig, report: &BackupReport) -> Value {
    let BackupReport { summary, scans, problems: found, vault, unchanged_since, .. } = report;
    let snapshot = &summary.snapshot;
    let mut resources = Map::new();
    let (mut skipped, mut excluded) = (Vec::new(), Vec::new());
    for outcome in &snapshot.outcomes {
        match outcome.state {
            ReadState::Skipped => skipped.push(outcome.resource.name()),
            ReadState::Excluded => excluded.push(outcome.resource.name()),
            _ => {}
        }
        if is_excluded(outcome) {
            continue;
        }
        resources.insert(outcome.resource.name().to_owned(), resource(outcome));
    }
    let problems: Vec<_> = summary.problems.iter().map(ToString::to_string).collect();
    let alerts =
        found.iter().map(|it| json!({"kind": it.kind, "message": it.message, "hint": it.hint}));
    json!({
        "format": 1,
        "account": account.name,
        "snapshot": unchanged_since.unwrap_or(snapshot.number),
        "unchanged": unchanged_since.is_some(),
        "status": snapshot.status.name(),
        "requests": summary.usage.requests,
        "throttled": summary.usage.throttled,
        "waited_seconds": summary.usage.waited.as_secs_f64(),
        "resources": resources,
        "skipped": skipped,
        "excluded": excluded,
        "resumed": summary.resumed,
        "statistics": {
            "fetched": summary.stats.fetched,
            "failed": summary.stats.failed,
            "left": summary.stats.left,
        },
        "scans": {"codes": scans.codes, "more": scans.scans},
        "problems": problems,
        "alerts": alerts.collect::<Vec<_>>(),
        "field_changes": report.attempt.field_changes,
        "digest": snapshot.digest,
        "vault": vault.display().to_string(),
    })
}

fn resource(outcome: &ResourceOutcome) -> Value {
    let mut value = json!({
        "state": outcome.state.name(),
        "records": outcome.records,
        "added": outcome.added,
        "changed": outcome.changed,
        "removed": outcome.removed,
    });
    if let Some(message) = &outcome.message {
        value["message"] = json!(message);
    }
    value
}

/// The summary for people.
pub fn print(app: &App, account: &AccountConfig, report: &BackupReport) -> Result<(), CliError> {
    let BackupReport { summary, scans, time, .. } = report;
    let snapshot = &summary.snapshot;
    for outcome in snapshot.outcomes.iter().filter(|outcome| outcome.message.is_some()) {
        let message = outcome.message.as_deref().unwrap_or_default();
        let resource = outcome.resource;
        app.out.warn(format_args!("{resource}: {}: {message}", outcome.state.name()));
        if outcome.state == ReadState::NotOffered {
            app.out.warn(format_args!(
                "if the service no longer offers {resource} to this account, set \
                 `skip = [\"{resource}\"]` for it in the configuration"
            ));
        }
    }
    if let Some(since) = report.unchanged_since {
        app.out.summary(format_args!(
            "Read {}: it is equal to snapshot #{since}, so no new snapshot was kept",
            account.name
        ))?;
        return app.out.summary(cost(summary, *time));
    }
    let status = match snapshot.status {
        SnapshotStatus::Complete => app.out.paint(Paint::Added, "complete"),
        status => app.out.paint(Paint::Warning, status.name()),
    };
    let resumed = if summary.resumed { ", went on from where it stopped" } else { "" };
    app.out.summary(format_args!(
        "Backed up {}: snapshot #{}, {status}{resumed}{}",
        account.name,
        snapshot.number,
        excluded_resources(snapshot)
    ))?;
    app.out.summary("")?;
    app.out.summary(table(snapshot).render(app.out.table_width()))?;
    app.out.summary("")?;
    app.out.summary(cost(summary, *time))?;
    if let Some(movement) = scan_change(*scans) {
        app.out.summary(movement)?;
    }
    let size = std::fs::metadata(&account.vault).map_or(0, |file| file.len());
    app.out.summary(format_args!(
        "Saved in {} ({})",
        Escaped(account.vault.display()),
        format::size(size)
    ))?;
    app.out.summary("")?;
    app.out.summary(next(account, snapshot))
}

/// What was not read on purpose, and why, so that a partial snapshot explains itself.
fn excluded_resources(snapshot: &Snapshot) -> String {
    let names = |state: ReadState| {
        let those = snapshot.outcomes.iter().filter(|it| it.state == state);
        those.map(|it| it.resource.name()).collect::<Vec<_>>().join(", ")
    };
    let (skipped, excluded) = (names(ReadState::Skipped), names(ReadState::Excluded));
    let mut text = String::new();
    if !skipped.is_empty() {
        text += &format!("; not asked for, and as last known: {skipped}");
    }
    if !excluded.is_empty() {
        text += &format!("; skipped by the configuration: {excluded}");
    }
    text
}

fn is_excluded(outcome: &ResourceOutcome) -> bool {
    matches!(outcome.state, ReadState::Skipped | ReadState::Excluded)
}

fn table(snapshot: &Snapshot) -> TextTable {
    let mut table =
        TextTable::new(&["resource", "records", "added", "changed", "removed", "state"])
            .right(&[1, 2, 3, 4]);
    for outcome in snapshot.outcomes.iter().filter(|it| !is_excluded(it)) {
        table.row([
            outcome.resource.name().to_owned(),
            format::count(outcome.records),
            format::count(outcome.added),
            format::count(outcome.changed),
            format::count(outcome.removed),
            outcome.state.name().replace('_', " "),
        ]);
    }
    table
}

fn cost(summary: &CrawlReport, time: Duration) -> String {
    let mut text = format!(
        "{} in {}",
        format::counted(summary.usage.requests, "request", "requests"),
        format::duration(time)
    );
    if summary.usage.waited >= Duration::from_secs(1) {
        text += &format!(", {} of them waiting", format::duration(summary.usage.waited));
    }
    if summary.usage.throttled > 0 {
        text += &format!(", {} refused for the limit", format::count(summary.usage.throttled));
    }
    if summary.stats.fetched > 0 {
        let codes = format::counted(summary.stats.fetched, "QR code", "QR codes");
        text += &format!("; statistics of {codes} fetched");
    }
    if summary.stats.left > 0 {
        let codes = format::counted(summary.stats.left, "QR code", "QR codes");
        text += &format!("; those of {codes} left for the next backup");
    }
    text
}

fn scan_change(new: NewScans) -> Option<String> {
    (new.codes > 0)
        .then(|| format!("{} since the snapshot before", format::new_scans(new.scans, new.codes)))
}

/// What to try now: read what could not be read, after the first backup look at
/// it, later at what changed.
fn next(account: &AccountConfig, snapshot: &Snapshot) -> String {
    let name = &account.name;
    let lacks = |it: &ResourceOutcome| matches!(it.state, ReadState::Failed | ReadState::Drifted);
    if snapshot.outcomes.iter().any(lacks) {
        format!(
            "Next: linkvault backup {name}   again, to read what is missing\n      \
             linkvault show {name}     what is stored, and what is missing"
        )
    } else if snapshot.number == SnapshotId::FIRST {
        format!(
            "Next: linkvault show {name} campaigns   what was saved\n      \
             linkvault backup {name}           again, to see what changes"
        )
    } else {
        format!(
            "Next: linkvault diff {name}        what changed since the snapshot before\n      \
             linkvault snapshots {name}   all snapshots"
        )
    }
}
