//! Snapshots and runs as table rows.

use crate::clock::Timestamp;
use crate::format;
use crate::model::{RunId, SnapshotId};
use crate::ui::links;
use crate::ui::pages::RunExecutor;
use crate::ui::time_text::TimeText;
use crate::vault::journal::{Run, RunStatus, StepState};
use crate::vault::snapshot::{Snapshot, SnapshotStatus};

/// A snapshot as a table row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    pub number: SnapshotId,
    pub href: String,
    pub begun: TimeText,
    pub status: &'static str,
    /// CSS class of the status.
    pub tone: &'static str,
    pub records: String,
    /// Its changes, one text for each resource.
    pub changes: Vec<String>,
    pub tag: Option<String>,
}

impl SnapshotRow {
    pub fn new(account: &str, snapshot: &Snapshot, now: Timestamp) -> Self {
        Self {
            number: snapshot.number,
            href: links::snapshot(account, snapshot.number),
            begun: TimeText::new(snapshot.started, now),
            status: snapshot.status.name(),
            tone: match snapshot.status {
                SnapshotStatus::Complete => "good",
                SnapshotStatus::Partial => "warning",
                SnapshotStatus::Running => "new",
            },
            records: format::count(snapshot.records()),
            changes: changes(snapshot),
            tag: snapshot.tag.clone(),
        }
    }
}

/// The changes of a snapshot, such as `campaigns: 2 added, 1 removed`.
fn changes(snapshot: &Snapshot) -> Vec<String> {
    let phrase = |it: &crate::vault::snapshot::ResourceOutcome| {
        let parts = [(it.added, "added"), (it.changed, "changed"), (it.removed, "removed")];
        let some = parts.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<_> =
            some.map(|(count, word)| format!("{} {word}", format::count(count))).collect();
        (!words.is_empty()).then(|| format!("{}: {}", it.resource, words.join(", ")))
    };
    snapshot.outcomes.iter().filter_map(phrase).collect()
}

/// A run as a table row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    pub number: RunId,
    pub href: String,
    pub begun: TimeText,
    pub command: &'static str,
    pub input: String,
    pub status: &'static str,
    pub tone: &'static str,
    /// Counts of steps by state, such as `3 done, 1 refused`.
    pub steps: String,
}

impl RunRow {
    pub fn new(account: &str, run: &Run, executor: RunExecutor, now: Timestamp) -> Self {
        let mut counts: Vec<_> = run.steps.iter().filter(|(_, count)| **count > 0).collect();
        counts.sort_by_key(|(state, _)| **state != StepState::Done);
        let counts = counts.into_iter();
        let steps: Vec<_> = counts
            .map(|(state, count)| format!("{} {}", format::count(*count), state.name()))
            .collect();
        Self {
            number: run.number,
            href: links::run(account, run.number),
            begun: TimeText::new(run.started, now),
            command: run.command.name(),
            input: run.input.clone(),
            status: match (run.status, executor) {
                (RunStatus::Running, RunExecutor::MaybeOther) => "unfinished",
                (status, executor) => status.label(executor == RunExecutor::ThisMachine),
            },
            tone: match run.status {
                RunStatus::Complete => "good",
                RunStatus::Partial => "warning",
                RunStatus::Running => "new",
                RunStatus::Unknown => "failing",
            },
            steps: steps.join(", "),
        }
    }
}
