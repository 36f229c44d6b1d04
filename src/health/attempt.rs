//! What is known of an account's backups, as plain data: tries, what is wrong
//! and the alerts about it, counts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// An enum, each variant with its one name in files, documents and metrics.
macro_rules! named {
    ($(#[$doc:meta])* pub enum $type:ident {
        $($(#[$about:meta])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$about])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// Every variant, in this order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The one spelling.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

/// One try at a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupAttempt {
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
    /// The lists in which it found records removed, by resource's name.
    #[serde(default)]
    pub removals: BTreeMap<String, RemovedCount>,
    /// Whether it was asked for some of the resources only.
    #[serde(default)]
    pub limited: bool,
    /// Whether `linkvault backup` made it, and not the daemon.
    #[serde(default)]
    pub by_hand: bool,
}

/// What a backup found removed from one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedCount {
    pub removed: u64,
    /// Records in the list as the backup before showed it.
    pub before: u64,
}

impl BackupAttempt {
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
            removals: BTreeMap::new(),
            limited: false,
            by_hand: false,
        }
    }

    /// Whether it tells how backups of the account do: a stopped backup, and one
    /// that could not begin, say nothing.
    #[must_use]
    pub const fn is_result(&self) -> bool {
        match self.outcome {
            AttemptOutcome::Complete | AttemptOutcome::Partial | AttemptOutcome::Failed => true,
            AttemptOutcome::Stopped | AttemptOutcome::Locked => false,
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
pub struct HealthProblem {
    pub kind: ProblemKind,
    pub since: Timestamp,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

named! {
    /// The kinds of problems, worst first.
    pub enum ProblemKind {
        /// The service does not accept the key.
        KeyRefused = "key_refused",
        /// The newest backup failed.
        Failed = "failed",
        /// The newest complete backup is older than it may be.
        Old = "old",
        /// A list has become empty that had records shortly before.
        Emptied = "emptied",
        /// The newest backup lacks something.
        Partial = "partial",
        /// More records vanished than usual.
        Removed = "removed",
        /// For an hour, another process has kept backups from beginning.
        Locked = "locked",
        /// Work after the backup (retention, export, copy) failed.
        After = "after",
        /// A run has writes whose outcome is not known.
        Unknown = "unknown",
    }
}

/// What was counted since a backup of the account was first recorded.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupTotals {
    pub backups: u64,
    pub complete: u64,
    pub failures: u64,
    pub requests: u64,
    pub throttled: u64,
    pub waited: Duration,
}

/// What an account's vault tells, without a note of the daemon's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VaultSummary {
    /// The newest finished snapshot, as the attempt that ended with it.
    pub newest: Option<BackupAttempt>,
    /// When the newest complete one ended.
    pub last_complete: Option<Timestamp>,
    /// Records by resource's name, as the newest snapshot shows them.
    pub records: BTreeMap<String, u64>,
    /// Requests a minute that the service allows, as last told, else as the
    /// configuration says.
    pub limit: Option<u64>,
    /// Writes of unfinished runs whose outcome is not known.
    pub unknown_writes: u64,
    /// When the first of these runs began.
    pub unknown_since: Option<Timestamp>,
    /// Lists that have become empty.
    pub emptied: Vec<EmptiedList>,
    /// Since when another process has been making a backup.
    pub running: Option<Timestamp>,
    /// Why the vault cannot be read. The rest is then as it was before.
    pub unreadable: Option<String>,
}

impl VaultSummary {
    /// Takes over what a newer look at the vault found.
    pub fn update(&mut self, newer: Self) {
        match newer.unreadable {
            None => *self = newer,
            unreadable => self.unreadable = unreadable,
        }
    }
}

/// A list that is empty and had records in one of the backups before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptiedList {
    pub resource: String,
    /// The most records that one of those backups showed.
    pub had: u64,
    /// The newest backup that showed this many.
    pub snapshot: i64,
    /// When the first backup ended that found the list empty.
    pub since: Timestamp,
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

named! {
    /// Which of the two.
    pub enum AlertEvent {
        Begun = "begun",
        Ended = "ended",
    }
}
