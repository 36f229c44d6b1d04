//! An account with a schedule.

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::schedule::due_queue::Timetable;

/// An account with a schedule, for the daemon and for `status`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledAccount {
    /// Name of the account.
    pub account: String,
    /// Path of its vault.
    pub vault: PathBuf,
    /// The schedule as the configuration spells it.
    pub schedule: String,
    /// The parsed schedule with time zone and offset.
    pub timetable: Timetable,
    /// The largest allowed age of the newest complete backup; `None` to derive it from the
    /// schedule.
    pub max_age: Option<Duration>,
}

impl ScheduledAccount {
    /// From when the newest complete backup, which ended at `complete`, is too old.
    #[must_use]
    pub fn too_old_at(&self, complete: Timestamp) -> Option<Timestamp> {
        match self.max_age {
            Some(age) => Some(complete.plus(age)),
            None => self.timetable.old_from(complete),
        }
    }

    /// Schedule and time zone, as the persisted state records them.
    #[must_use]
    pub fn schedule_id(&self) -> String {
        format!("{} {}", self.schedule, self.timetable.zone)
    }
}
