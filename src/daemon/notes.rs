//! What the daemon remembers of an account between its processes, in one
//! private file beside the vault. What is lost with it costs no backup: the
//! vault tells when the newest was made.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::agenda::Past;
use super::facts::{Attempt, AttemptOutcome, Held, Problem, Totals};
use super::outbox::Outgoing;
use crate::clock::Timestamp;
use crate::files::{beside, private_folder_of};

/// A longer file is not ours.
const LONGEST: u64 = 4 << 20;

/// The notes of one account.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// The schedule and the zone by which `served` counts.
    pub schedule: Option<String>,
    /// Slots up to here are done with.
    pub served: Option<Timestamp>,
    /// How many tries failed since.
    pub tries: u32,
    /// The newest backup that ended.
    pub last: Option<Attempt>,
    /// When the newest one ended that was complete or partial.
    pub last_success: Option<Timestamp>,
    /// When the newest complete one ended.
    pub last_complete: Option<Timestamp>,
    /// What is wrong, since when.
    pub problems: Vec<Problem>,
    pub totals: Totals,
    /// Records by resource's name, as the newest snapshot shows them.
    pub records: BTreeMap<String, u64>,
    /// Alerts that are still to be delivered.
    pub outbox: Vec<Outgoing>,
    /// Since when the account is looked after.
    pub watched: Option<Timestamp>,
    /// Whether the heartbeat of a complete backup is still to be delivered.
    pub heartbeat: bool,
}

/// Where the notes of the account with this vault are.
#[must_use]
pub fn file(vault: &Path) -> PathBuf {
    beside(vault, ".daemon")
}

impl Notes {
    /// The notes beside `vault`; new ones where there are none or they are
    /// broken, and then why.
    #[must_use]
    pub fn read(vault: &Path) -> (Self, Option<String>) {
        let path = file(vault);
        match read(&path) {
            Ok(notes) => (notes, None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Self::default(), None),
            Err(error) => {
                let path = path.display();
                let why = format!("{path} cannot be read and is begun anew: {error}");
                (Self::default(), Some(why))
            }
        }
    }

    /// Writes them whole or not at all.
    ///
    /// # Errors
    /// When they cannot be written; the file is then as it was.
    pub fn write(&self, vault: &Path) -> io::Result<()> {
        let path = file(vault);
        private_folder_of(&path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(&serde_json::to_vec(self)?)?;
        new.as_file().sync_data()?;
        new.persist(&path)?;
        Ok(())
    }

    /// Adds a backup that ended. One that could not begin is none.
    pub fn add(&mut self, attempt: &Attempt) {
        if attempt.outcome == AttemptOutcome::Locked {
            return;
        }
        let totals = &mut self.totals;
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut totals.backups, 1);
        add(&mut totals.requests, attempt.requests);
        add(&mut totals.throttled, attempt.throttled);
        totals.waited = totals.waited.saturating_add(attempt.waited);
        match attempt.outcome {
            AttemptOutcome::Complete => {
                add(&mut totals.complete, 1);
                self.last_complete = Some(attempt.ended);
                self.last_success = Some(attempt.ended);
            }
            AttemptOutcome::Partial => self.last_success = Some(attempt.ended),
            AttemptOutcome::Failed => add(&mut totals.failures, 1),
            AttemptOutcome::Stopped | AttemptOutcome::Locked => {}
        }
        self.last = Some(attempt.clone());
    }

    /// What the agenda is to know of an account with the timetable `schedule`
    /// and this vault.
    #[must_use]
    pub fn past(&self, schedule: &str, held: &Held, now: Timestamp) -> Past {
        let last = self.last.as_ref();
        let stopped = last.is_some_and(|last| last.outcome == AttemptOutcome::Stopped);
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
        // Whoever has no backup at all does not wait for the schedule.
        let served = served.filter(|_| newest.is_some() || failed.is_some());
        Past { served, failed, stopped }
    }
}

fn read(path: &Path) -> io::Result<Notes> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests;
