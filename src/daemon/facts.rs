//! What is known of an account's backups, as plain data: tries, what is wrong
//! and the news of it, counts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// One try at a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub started: Timestamp,
    pub ended: Timestamp,
    pub outcome: AttemptOutcome,
    /// The snapshot it made or went on with.
    pub snapshot: Option<i64>,
    /// Why it failed, or what the snapshot lacks.
    pub message: Option<String>,
    pub requests: u64,
    /// Requests that the service refused for its limit.
    pub throttled: u64,
    pub waited: Duration,
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
    /// Whether it failed because the service did not accept the key.
    #[serde(default)]
    pub key_refused: bool,
}

impl Attempt {
    /// One of which nothing else is known.
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
        }
    }
}

/// What it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    Complete,
    Partial,
    Failed,
    /// The program was told to stop; the next one goes on with it.
    Stopped,
    /// Another process works on the account; it is tried again soon.
    Locked,
}

/// Something that is wrong, from when it was first seen until it is no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub kind: ProblemKind,
    pub since: Timestamp,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// The kinds of problems, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The service does not accept the key.
    KeyRefused,
    /// The newest backup failed.
    Failed,
    /// The newest complete backup is older than it may be.
    Old,
    /// The newest backup lacks something.
    Partial,
    /// More records vanished than usual.
    Removed,
    /// Work after the backup (retention, export, copy) failed.
    After,
    /// A run has writes whose outcome nobody knows.
    Unknown,
}

/// What was counted since the daemon first saw the account.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    pub backups: u64,
    pub complete: u64,
    pub failures: u64,
    pub requests: u64,
    pub throttled: u64,
    pub waited: Duration,
}

/// What an account's vault tells, without a note of the daemon's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Held {
    /// The newest finished snapshot, as the attempt that ended with it.
    pub newest: Option<Attempt>,
    /// When the newest complete one ended.
    pub last_complete: Option<Timestamp>,
    /// Records by resource's name, as the newest snapshot shows them.
    pub records: BTreeMap<String, u64>,
    /// Requests a minute that the service allows, as last told, else as the
    /// configuration says.
    pub limit: Option<u64>,
    /// Writes of unfinished runs whose outcome nobody knows.
    pub unknown_writes: u64,
}

/// A problem that begins, or one that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    pub kind: ProblemKind,
    pub event: AlertEvent,
    /// When the problem began.
    pub since: Timestamp,
    pub at: Timestamp,
    pub message: String,
    pub hint: Option<String>,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertEvent {
    Begun,
    Ended,
}
