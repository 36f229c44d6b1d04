//! What is recorded of an account's backups: each attempt, whether the daemon or
//! `linkvault backup` made it, and what the daemon remembers between its processes.
//! `state_file` reads and writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::files::beside;
use crate::health::attempt::{
    AttemptOutcome, BackupAttempt, BackupTotals, HealthProblem, VaultSummary,
};
use crate::health::pending_alerts::PendingAlert;
use crate::schedule::due_queue::QueueHistory;

/// The most attempts that wait to be written.
const MOST_PENDING: usize = 100;

/// Backups that could not begin because another process works on the account,
/// and none that could since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostponedBackups {
    /// When the first of them was to begin.
    pub since: Timestamp,
    /// Which process.
    pub message: String,
}

/// What is remembered of one account.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistedState {
    /// The schedule and the zone by which `served` counts.
    pub schedule: Option<String>,
    /// Slots up to here are done with.
    pub served: Option<Timestamp>,
    /// How many tries failed since.
    pub tries: u32,
    /// The newest backup that ended.
    pub last: Option<BackupAttempt>,
    /// The newest of them that says how backups do, where that is not `last`.
    pub last_result: Option<BackupAttempt>,
    /// When the first of the failures in a row ended.
    pub failing_since: Option<Timestamp>,
    pub put_off: Option<PostponedBackups>,
    /// When the newest one ended that was complete or partial.
    pub last_success: Option<Timestamp>,
    /// When the newest complete one ended.
    pub last_complete: Option<Timestamp>,
    /// What is wrong, since when.
    pub problems: Vec<HealthProblem>,
    pub totals: BackupTotals,
    /// Records by resource's name, as the newest snapshot shows them.
    pub records: BTreeMap<String, u64>,
    /// Alerts that are still to be delivered.
    pub outbox: Vec<PendingAlert>,
    /// Since when the account is looked after.
    pub watched: Option<Timestamp>,
    /// Whether the heartbeat of a complete backup is still to be delivered.
    pub heartbeat: bool,
    /// What went wrong in the work after the daemon's newest backup.
    pub after: Option<Vec<String>>,
    /// Attempts that are not in the file yet.
    #[serde(skip)]
    pub pending: Vec<BackupAttempt>,
}

/// The file of the persisted state of the account with this vault.
#[must_use]
pub fn file(vault: &Path) -> PathBuf {
    beside(vault, ".daemon")
}

impl PersistedState {
    /// Takes over the record of attempts from `other`, which knows those of all
    /// processes, and adds those that it cannot know yet.
    pub fn take_record(&mut self, other: &Self) {
        self.last.clone_from(&other.last);
        self.last_result.clone_from(&other.last_result);
        self.failing_since = other.failing_since;
        self.put_off.clone_from(&other.put_off);
        self.last_success = other.last_success;
        self.last_complete = other.last_complete;
        self.totals = other.totals;
        self.watched = self.watched.or(other.watched);
        for attempt in std::mem::take(&mut self.pending) {
            self.add(&attempt);
        }
    }

    /// The newest backup that says how backups do.
    #[must_use]
    pub fn result(&self) -> Option<&BackupAttempt> {
        self.last.as_ref().filter(|last| last.is_result()).or(self.last_result.as_ref())
    }

    /// Adds a backup that ended. Of one that could not begin it is noted only since
    /// when that is so.
    pub fn add(&mut self, attempt: &BackupAttempt) {
        // A disk that never has room must not fill the memory.
        if self.pending.len() >= MOST_PENDING {
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
        let totals = &mut self.totals;
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut totals.backups, 1);
        add(&mut totals.requests, attempt.requests);
        add(&mut totals.throttled, attempt.throttled);
        totals.waited = totals.waited.saturating_add(attempt.waited);
        match attempt.outcome {
            // It proves nothing about the resources that were left out.
            AttemptOutcome::Complete | AttemptOutcome::Partial if attempt.limited => {}
            AttemptOutcome::Complete => {
                add(&mut totals.complete, 1);
                self.last_complete = Some(attempt.ended);
                self.last_success = Some(attempt.ended);
            }
            AttemptOutcome::Partial => self.last_success = Some(attempt.ended),
            AttemptOutcome::Failed => add(&mut totals.failures, 1),
            AttemptOutcome::Stopped | AttemptOutcome::Locked => {}
        }
        if attempt.is_result() {
            let failed = attempt.outcome == AttemptOutcome::Failed;
            let since = self.failing_since.unwrap_or(attempt.ended).min(attempt.ended);
            // A refused key is another problem than a failure.
            let same = self.result().is_none_or(|last| last.key_refused == attempt.key_refused);
            self.failing_since = failed.then_some(if same { since } else { attempt.ended });
            self.last_result = None;
        } else if self.last.as_ref().is_some_and(BackupAttempt::is_result) {
            self.last_result = self.last.take();
        }
        self.last = Some(attempt.clone());
    }

    /// What the agenda is to know of an account with the timetable `schedule`
    /// and this vault.
    #[must_use]
    pub fn past(&self, schedule: &str, held: &VaultSummary, now: Timestamp) -> QueueHistory {
        let last = self.last.as_ref();
        // A user who stops a backup made by hand does not want the daemon to continue it.
        let stopped =
            last.is_some_and(|last| last.outcome == AttemptOutcome::Stopped && !last.by_hand);
        let failed = last
            .filter(|last| last.outcome == AttemptOutcome::Failed && !last.key_refused)
            .filter(|_| self.tries > 0)
            .map(|last| (self.tries, last.ended));
        let newest = held.newest.as_ref().map(|newest| newest.started);
        let served = match &self.schedule {
            Some(known) if known == schedule => self.served.or(newest),
            // A schedule that changed meanwhile counts from now.
            Some(_) => Some(now),
            None => newest,
        };
        // An account without a backup does not wait for the schedule.
        let served = served.filter(|_| newest.is_some() || failed.is_some());
        QueueHistory { served, failed, stopped }
    }
}

#[cfg(test)]
pub(crate) mod tests;
