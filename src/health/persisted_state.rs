//! What is recorded of an account's backups, in one private file beside the
//! vault: each attempt, whether the daemon or `linkvault backup` made it, and what
//! the daemon remembers between its processes. A backup that fails may not be able
//! to write to the vault, or there is none yet. What is lost with the file costs
//! no backup: the vault tells when the newest was made.
//!
//! Several processes write the file. Each holds its lock while it reads the file,
//! adds its attempts and replaces the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::files::{
    self, Durability, beside, open_private, private_file, private_folder_of, read_private,
};
use crate::health::attempt::{
    AttemptOutcome, BackupAttempt, BackupTotals, HealthProblem, VaultSummary,
};
use crate::health::pending_alerts::PendingAlert;
use crate::schedule::due_queue::QueueHistory;

/// A longer file is not ours.
const LONGEST: u64 = 4 << 20;

/// The file's size is a multiple of this, so that a full disk still has room for
/// what is recorded next.
const BLOCK: usize = 4096;

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

/// The notes of one account.
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

/// Where the notes of the account with this vault are.
#[must_use]
pub fn file(vault: &Path) -> PathBuf {
    beside(vault, ".daemon")
}

impl PersistedState {
    /// The notes beside `vault`; new ones where there are none or they are
    /// broken, and then why.
    #[must_use]
    pub fn read(vault: &Path) -> (Self, Option<String>) {
        let path = file(vault);
        match read(&path) {
            Ok(notes) => (notes, None),
            Err(error) if error.kind() == ErrorKind::NotFound => (Self::default(), None),
            Err(error) => {
                let path = path.display();
                let why = format!("{path} cannot be read and is begun anew: {error}");
                (Self::default(), Some(why))
            }
        }
    }

    /// The notes in the file beside `vault`; `None` where they cannot be read.
    #[must_use]
    pub fn known(vault: &Path) -> Option<Self> {
        read(&file(vault)).ok()
    }

    /// Writes the daemon's notes, whole or not at all. What other processes have
    /// recorded meanwhile stays, and is in these notes afterwards.
    ///
    /// # Errors
    /// When they cannot be written; the file is then as it was.
    pub fn write(&mut self, vault: &Path) -> io::Result<()> {
        let path = file(vault);
        let _lock = lock(&path);
        let mut notes = self.clone();
        if let Ok(in_file) = read(&path) {
            notes.take_record(&in_file);
        }
        replace(&path, &notes)?;
        notes.pending.clear();
        *self = notes;
        Ok(())
    }

    /// Adds a backup that ended to the file beside `vault`.
    ///
    /// # Errors
    /// When it cannot be written; the file is then as it was.
    pub fn record(vault: &Path, attempt: &BackupAttempt) -> io::Result<()> {
        let path = file(vault);
        let _lock = lock(&path);
        let (mut notes, _) = Self::read(vault);
        notes.add(attempt);
        replace(&path, &notes)
    }

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

fn read(path: &Path) -> io::Result<PersistedState> {
    Ok(serde_json::from_slice(&read_private(path, LONGEST)?)?)
}

/// Waits until no other process writes this file. Where that cannot be had, on a
/// full disk for one, a record that may be lost is better than none.
fn lock(path: &Path) -> Option<File> {
    private_folder_of(path).ok()?;
    let file = private_file(&beside(path, ".lock")).ok()?;
    file.lock().ok()?;
    Some(file)
}

fn replace(path: &Path, notes: &PersistedState) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(notes)?;
    // Spaces after a JSON document mean nothing.
    bytes.resize(bytes.len().next_multiple_of(BLOCK), b' ');
    let written =
        private_folder_of(path).and_then(|()| files::replace(path, &bytes, Durability::Synced));
    match written {
        Err(error) if is_full(&error) => overwrite(path, &bytes).map_err(|_| error),
        result => result,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// Writes into the blocks that the file has: a full disk has no others. That a crash
/// now loses the notes is the lesser evil.
fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut bytes = bytes.to_vec();
    let size = usize::try_from(open_private(path)?.metadata()?.len()).unwrap_or(usize::MAX);
    if size < bytes.len() || size as u64 > LONGEST {
        return Err(ErrorKind::StorageFull.into());
    }
    bytes.resize(size, b' ');
    let mut file = private_file(path)?;
    file.write_all(&bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests;
