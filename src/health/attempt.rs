//! Backup attempts, problems, alerts and totals of an account, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::health::removals::OpenRemovals;
use crate::model::SnapshotId;
use crate::model::field_changes::ServiceFieldChange;
use crate::model::named::named;

/// One backup attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupAttempt {
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Id of the snapshot that it made or continued.
    pub snapshot: Option<SnapshotId>,
    /// Why it failed, or what is missing from the snapshot.
    pub message: Option<String>,
    /// Requests that were sent.
    pub requests: u64,
    /// Requests that the service refused because of its rate limit.
    pub throttled: u64,
    /// Time spent waiting for the rate limit and before retries.
    pub waited: Duration,
    /// Records that are new.
    pub added: u64,
    /// Records that changed.
    pub changed: u64,
    /// Records that are gone.
    pub removed: u64,
    /// Whether it failed because the service refused the API key.
    #[serde(default)]
    pub key_refused: bool,
    /// Changes of the service's fields that no earlier attempt reported. The persisted state has
    /// them apart from the attempt.
    #[serde(skip)]
    pub field_changes: Vec<ServiceFieldChange>,
    /// Whether it covered only some of the resources.
    #[serde(default)]
    pub limited: bool,
    /// Whether `linkvault backup` made it, rather than the daemon.
    #[serde(default)]
    pub by_hand: bool,
}

/// A backup that has just ended.
#[derive(Debug, Clone, Copy)]
pub struct FinishedBackup<'a> {
    /// The recorded attempt.
    pub attempt: &'a BackupAttempt,
    /// Errors of the work after it; `None` before that work, or if there was none.
    pub after: Option<&'a [String]>,
}

impl BackupAttempt {
    /// An attempt with these times and this outcome; all else is empty.
    #[must_use]
    pub const fn new(started: Timestamp, ended: Timestamp, outcome: AttemptOutcome) -> Self {
        Self {
            started,
            ended,
            outcome,
            snapshot: None,
            message: None,
            requests: 0,
            throttled: 0,
            waited: Duration::ZERO,
            added: 0,
            changed: 0,
            removed: 0,
            key_refused: false,
            field_changes: Vec::new(),
            limited: false,
            by_hand: false,
        }
    }

    /// Whether it succeeded or failed. An attempt that was stopped, or that could not start,
    /// did neither.
    #[must_use]
    pub const fn is_result(&self) -> bool {
        match self.outcome {
            AttemptOutcome::Complete | AttemptOutcome::Partial | AttemptOutcome::Failed => true,
            AttemptOutcome::Stopped | AttemptOutcome::Locked => false,
        }
    }
}

named! {
    /// How a backup attempt ended.
    pub enum AttemptOutcome {
        /// The snapshot is complete.
        Complete = "complete",
        /// The snapshot lacks some resources or records.
        Partial = "partial",
        /// It failed.
        Failed = "failed",
        /// The program was asked to stop; the next attempt continues the snapshot.
        Stopped = "stopped",
        /// Another process holds the account's lock; the attempt is repeated soon.
        Locked = "locked",
    }
}

/// A problem of an account. It lasts until it is resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthProblem {
    /// Kind of the problem.
    pub kind: ProblemKind,
    /// When the problem began.
    pub since: Timestamp,
    /// What is wrong, in one sentence.
    pub message: String,
    /// A command or a next step for the user.
    pub hint: Option<String>,
    /// When the newest of its events occurred, such as the second removal of many records. A later
    /// event causes another alert.
    #[serde(default)]
    pub newest: Option<Timestamp>,
}

named! {
    /// The kinds of problems, worst first.
    pub enum ProblemKind {
        /// The service refuses the API key.
        KeyRefused = "key_refused",
        /// The newest backup failed.
        Failed = "failed",
        /// The newest complete backup is too old.
        Old = "old",
        /// A list that had records in the last 30 days is empty.
        Emptied = "emptied",
        /// The newest backup is partial.
        Partial = "partial",
        /// More records were removed than the settings allow; until they are back or the user
        /// acknowledges it.
        Removed = "removed",
        /// Another process has held the account's lock for an hour.
        Locked = "locked",
        /// Work after the backup (retention, export, copy) failed.
        PostBackup = "after",
        /// A run has writes whose outcome is not known.
        Unknown = "unknown",
        /// The newest backup found that the service sends other fields than before.
        Fields = "fields",
        /// Alerts or the heartbeat could not be delivered. It causes no alert itself.
        Undelivered = "undelivered",
    }
}

/// Totals over all recorded backups of an account.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupTotals {
    /// Backups that ended, whatever the outcome.
    pub backups: u64,
    /// Complete backups of all resources.
    pub complete: u64,
    /// Failed backups.
    pub failures: u64,
    /// Requests that were sent.
    pub requests: u64,
    /// Requests that the service refused because of its rate limit.
    pub throttled: u64,
    /// Time spent waiting for the rate limit and before retries.
    pub waited: Duration,
}

impl BackupTotals {
    /// Counts an attempt that ended.
    pub fn add(&mut self, attempt: &BackupAttempt) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.backups, 1);
        add(&mut self.requests, attempt.requests);
        add(&mut self.throttled, attempt.throttled);
        self.waited = self.waited.saturating_add(attempt.waited);
        match attempt.outcome {
            AttemptOutcome::Complete if !attempt.limited => add(&mut self.complete, 1),
            AttemptOutcome::Failed => add(&mut self.failures, 1),
            _ => {}
        }
    }
}

/// The status of an account according to its vault.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VaultSummary {
    /// The newest finished snapshot, as the attempt that made it.
    pub newest: Option<BackupAttempt>,
    /// End of the newest complete snapshot.
    pub last_complete: Option<Timestamp>,
    /// Number of records by resource name, in the newest snapshot.
    pub records: BTreeMap<String, u64>,
    /// Requests per minute that the service allows, as last reported, else as configured.
    pub limit: Option<u64>,
    /// Number of writes in unfinished runs whose outcome is not known.
    pub unknown_writes: u64,
    /// Start of the first of these runs.
    pub unknown_since: Option<Timestamp>,
    /// Removals of many records in the recent snapshots.
    pub removals: OpenRemovals,
    /// Start of a backup that another process is making.
    pub running: Option<Timestamp>,
    /// Why the vault cannot be read. The other fields then hold older values.
    pub unreadable: Option<String>,
}

impl VaultSummary {
    /// Replaces the summary with a newer one. If the vault could not be read, only `unreadable`
    /// changes.
    pub fn update(&mut self, newer: Self) {
        match newer.unreadable {
            None => *self = newer,
            unreadable => self.unreadable = unreadable,
        }
    }
}

/// A message that a problem began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Kind of the problem.
    pub kind: ProblemKind,
    /// Whether the problem began or ended.
    pub event: AlertEvent,
    /// When the problem began.
    pub since: Timestamp,
    /// When the alert was made.
    pub at: Timestamp,
    /// The problem, or how it was resolved.
    pub message: String,
    /// A command or a next step for the user.
    pub hint: Option<String>,
}

named! {
    /// Whether a problem began or ended.
    pub enum AlertEvent {
        /// A test by a user; there is no problem.
        Test = "test",
        /// The problem began.
        Begun = "begun",
        /// The problem was resolved.
        Ended = "ended",
    }
}
