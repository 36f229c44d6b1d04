//! How an account fares, as plain data: what `status`, the page, the metrics and
//! the alerts all tell from.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// One account at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    pub account: String,
    pub health: Health,
    /// One sentence for a person: that all is well, or what is not.
    pub words: String,
    /// The schedule as the configuration writes it; `None`: nobody scheduled it.
    pub schedule: Option<String>,
    /// When the next backup is due.
    pub next: Option<Timestamp>,
    /// When the backup that is under way began.
    pub running: Option<Timestamp>,
    /// The newest backup that ended.
    pub last: Option<Attempt>,
    /// When the newest one ended that was complete or partial.
    pub last_success: Option<Timestamp>,
    /// When the newest complete one ended.
    pub last_complete: Option<Timestamp>,
    /// Records by resource's name, as the newest snapshot shows them.
    pub records: BTreeMap<String, u64>,
    /// What is wrong now, worst first.
    pub problems: Vec<Problem>,
    pub totals: Totals,
    /// Requests a minute that the service allows, as last told.
    pub limit: Option<u64>,
    /// Writes of unfinished runs whose outcome nobody knows.
    pub unknown_writes: u64,
}

/// How it is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The newest backup is complete and young enough.
    Good,
    /// There has been no backup yet.
    New,
    /// Something is lacking, but backups are made.
    Warning,
    /// Backups fail, or are too old.
    Failing,
}

impl Health {
    /// The one spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::New => "new",
            Self::Warning => "warning",
            Self::Failing => "failing",
        }
    }
}

/// One try at a backup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
