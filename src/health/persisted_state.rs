//! The recorded state of an account: each attempt of the daemon and of `linkvault backup`, and what
//! the daemon needs after a restart. `state_file` reads and writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::files::beside;
use crate::health::attempt::{
    AttemptOutcome, BackupAttempt, BackupTotals, HealthProblem, VaultSummary,
};
use crate::health::pending_alerts::{PendingAlert, PendingAlerts};
use crate::model::SnapshotId;
use crate::model::field_changes::ServiceFieldChange;
use crate::schedule::due_queue::QueueHistory;

/// The most attempts that are kept in memory until they are written.
const MAX_PENDING: usize = 100;

/// The newest attempts, if they could not start because another process holds the account's lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostponedBackups {
    /// Start of the first of them.
    pub since: Timestamp,
    /// Names the other process.
    pub message: String,
}

/// The most reported changes of fields that are kept, the newest ones.
const MAX_FIELD_CHANGES: usize = 100;

/// A change of the service's fields that a backup reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedFieldChange {
    /// The change.
    #[serde(flatten)]
    pub change: ServiceFieldChange,
    /// End of the backup.
    pub at: Timestamp,
    /// Its snapshot.
    pub snapshot: Option<SnapshotId>,
    /// Whether no later backup of the whole account succeeded.
    pub is_recent: bool,
}

/// The recorded state of one account. Its JSON is the content of the state file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistedState {
    /// Schedule and time zone that `served` refers to.
    pub schedule: Option<String>,
    /// All slots up to this time are handled.
    pub served: Option<Timestamp>,
    /// Number of failed attempts since `served`.
    pub tries: u32,
    /// The newest attempt that ended.
    pub last: Option<BackupAttempt>,
    /// The newest attempt that succeeded or failed, if that is not `last`.
    pub last_result: Option<BackupAttempt>,
    /// End of the first of the consecutive failures.
    pub failing_since: Option<Timestamp>,
    /// Attempts that could not start, if the newest attempts could not.
    pub put_off: Option<PostponedBackups>,
    /// End of the newest complete or partial backup.
    pub last_success: Option<Timestamp>,
    /// End of the newest complete backup.
    pub last_complete: Option<Timestamp>,
    /// The open problems.
    pub problems: Vec<HealthProblem>,
    /// Totals of all recorded backups.
    pub totals: BackupTotals,
    /// Number of records by resource name, in the newest snapshot.
    pub records: BTreeMap<String, u64>,
    /// Changes of the service's fields that backups reported, the newest last.
    pub field_changes: Vec<ReportedFieldChange>,
    /// Alerts that are not delivered yet.
    pub outbox: Vec<PendingAlert>,
    /// When the user last acknowledged removals.
    pub acknowledged: Option<Timestamp>,
    /// Since when attempts of the account are recorded.
    pub watched: Option<Timestamp>,
    /// Whether the heartbeat of a complete backup is not delivered yet.
    pub heartbeat: bool,
    /// Why the last delivery of the heartbeat failed.
    pub heartbeat_error: Option<String>,
    /// Errors of the work after the daemon's newest backup.
    pub after: Option<Vec<String>>,
    /// Attempts that are not written to the file yet.
    #[serde(skip)]
    pub pending: Vec<BackupAttempt>,
    /// The state in the file when it was last read or written, if other machines change it too.
    #[serde(skip)]
    pub base: Option<Box<PersistedState>>,
}

/// Path of the state file beside this vault.
#[must_use]
pub fn file(vault: &Path) -> PathBuf {
    beside(vault, ".daemon")
}

impl PendingAlerts {
    /// Leaves only what `state` still has.
    pub fn leave(&mut self, state: &PersistedState) {
        let find = |item: &PendingAlert| state.outbox.iter().find(|it| it.is_same(item)).cloned();
        self.outbox = self.outbox.iter().filter_map(find).collect();
        self.heartbeat &= state.heartbeat;
        self.heartbeat_error.clone_from(&state.heartbeat_error);
    }
}

impl PersistedState {
    /// Takes the recorded attempts from `other`, which has those of all processes, and adds the
    /// pending ones of `self`.
    pub fn take_record(&mut self, other: &Self) {
        self.last.clone_from(&other.last);
        self.last_result.clone_from(&other.last_result);
        self.failing_since = other.failing_since;
        self.put_off.clone_from(&other.put_off);
        self.last_success = other.last_success;
        self.last_complete = other.last_complete;
        self.totals = other.totals;
        self.field_changes.clone_from(&other.field_changes);
        self.watched = self.watched.or(other.watched);
        self.acknowledged = self.acknowledged.max(other.acknowledged);
        for attempt in std::mem::take(&mut self.pending) {
            self.add(&attempt);
        }
    }

    /// The newest attempt that succeeded or failed.
    #[must_use]
    pub fn result(&self) -> Option<&BackupAttempt> {
        self.last.as_ref().filter(|last| last.is_result()).or(self.last_result.as_ref())
    }

    /// Records an attempt that ended. For one that could not start, only records since when that
    /// is so.
    pub fn add(&mut self, attempt: &BackupAttempt) {
        // Bounds the memory while the disk is full.
        if self.pending.len() >= MAX_PENDING {
            self.pending.remove(0);
        }
        self.pending.push(attempt.clone());
        if attempt.outcome == AttemptOutcome::Locked {
            let message = attempt.message.clone().unwrap_or_default();
            let since = self.put_off.as_ref().map_or(attempt.started, |it| it.since);
            self.put_off = Some(PostponedBackups { since: since.min(attempt.started), message });
            return;
        }
        self.put_off = None;
        self.watched.get_or_insert(attempt.started);
        self.add_field_changes(attempt);
        self.totals.add(attempt);
        match attempt.outcome {
            // It proves nothing about the other resources.
            AttemptOutcome::Complete | AttemptOutcome::Partial if attempt.limited => {}
            AttemptOutcome::Complete => {
                self.last_complete = Some(attempt.ended);
                self.last_success = Some(attempt.ended);
            }
            AttemptOutcome::Partial => self.last_success = Some(attempt.ended),
            AttemptOutcome::Failed | AttemptOutcome::Stopped | AttemptOutcome::Locked => {}
        }
        if attempt.is_result() {
            let failed = attempt.outcome == AttemptOutcome::Failed;
            let since = self.failing_since.unwrap_or(attempt.ended).min(attempt.ended);
            // A refused key is a different problem from other failures.
            let same = self.result().is_none_or(|last| last.key_refused == attempt.key_refused);
            self.failing_since = failed.then_some(if same { since } else { attempt.ended });
            self.last_result = None;
        } else if self.last.as_ref().is_some_and(BackupAttempt::is_result) {
            self.last_result = self.last.take();
        }
        self.last = Some(attempt.clone());
    }

    pub(super) fn add_field_changes(&mut self, attempt: &BackupAttempt) {
        if matches!(attempt.outcome, AttemptOutcome::Complete | AttemptOutcome::Partial) {
            let is_whole = !attempt.limited;
            self.field_changes.iter_mut().for_each(|it| it.is_recent &= !is_whole);
        }
        self.field_changes.extend(attempt.field_changes.iter().map(|change| {
            let (at, snapshot) = (attempt.ended, attempt.snapshot);
            ReportedFieldChange { change: change.clone(), at, snapshot, is_recent: true }
        }));
        let over = self.field_changes.len().saturating_sub(MAX_FIELD_CHANGES);
        self.field_changes.drain(..over);
    }

    /// Takes what other processes and machines recorded: `found` is in the file now.
    pub fn take_found(&mut self, found: Self) {
        match self.base.take() {
            Some(base) => {
                self.rebase(&base, &found);
                self.base = Some(Box::new(found));
            }
            None => self.take_record(&found),
        }
    }

    /// What is not delivered yet; `None` if all is.
    #[must_use]
    pub fn pending_alerts(&self) -> Option<PendingAlerts> {
        (self.heartbeat || !self.outbox.is_empty()).then(|| PendingAlerts {
            outbox: self.outbox.clone(),
            heartbeat: self.heartbeat,
            heartbeat_error: self.heartbeat_error.clone(),
        })
    }

    /// Removes the alerts that were `taken` for delivery and are not `left`. Those that were added
    /// or removed meanwhile stay so.
    pub fn restore_pending(&mut self, taken: &PendingAlerts, left: &PendingAlerts) {
        let find = |outbox: &[PendingAlert], item: &PendingAlert| {
            outbox.iter().find(|it| it.is_same(item)).cloned()
        };
        let outbox = std::mem::take(&mut self.outbox).into_iter().filter_map(|item| {
            if find(&taken.outbox, &item).is_some() {
                find(&left.outbox, &item)
            } else {
                Some(item)
            }
        });
        self.outbox = outbox.collect();
        self.heartbeat &= left.heartbeat || !taken.heartbeat;
        if taken.heartbeat {
            self.heartbeat_error.clone_from(&left.heartbeat_error);
        }
    }

    /// Whether a backup has reported the same change.
    #[must_use]
    pub fn has_reported(&self, change: &ServiceFieldChange) -> bool {
        self.field_changes.iter().any(|it| it.change.repeats(change))
    }

    /// The history that the due queue needs, for an account with the schedule `schedule` and this
    /// vault.
    #[must_use]
    pub fn past(&self, schedule: &str, summary: &VaultSummary, now: Timestamp) -> QueueHistory {
        let last = self.last.as_ref();
        // A user who stops `linkvault backup` does not want the daemon to continue it.
        let stopped =
            last.is_some_and(|last| last.outcome == AttemptOutcome::Stopped && !last.by_hand);
        let failed = last
            .filter(|last| last.outcome == AttemptOutcome::Failed && !last.key_refused)
            .filter(|_| self.tries > 0)
            .map(|last| (self.tries, last.ended));
        let newest = summary.newest.as_ref().map(|newest| newest.started);
        let served = match &self.schedule {
            Some(known) if known == schedule => self.served.or(newest),
            // A changed schedule counts from now.
            Some(_) => Some(now),
            None => newest,
        };
        // An account without a backup is due at once.
        let served = served.filter(|_| newest.is_some() || failed.is_some());
        QueueHistory { served, failed, stopped }
    }
}

#[cfg(test)]
pub(crate) mod tests;
