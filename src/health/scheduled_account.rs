//! An account that is backed up on a schedule.

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::model::CountOrPercent;
use crate::schedule::due_queue::Timetable;

/// An account that the daemon looks after.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledAccount {
    pub account: String,
    pub vault: PathBuf,
    /// The schedule as the configuration writes it.
    pub schedule: String,
    pub timetable: Timetable,
    /// The oldest that the newest complete backup may be; `None`: as old as the
    /// schedule lets it become.
    pub max_age: Option<Duration>,
    /// How many records may vanish between two backups.
    pub most_removed: CountOrPercent,
}

impl ScheduledAccount {
    /// From when a backup that was complete at `complete` is too old.
    #[must_use]
    pub fn too_old_at(&self, complete: Timestamp) -> Option<Timestamp> {
        match self.max_age {
            Some(age) => Some(complete.plus(age)),
            None => self.timetable.old_from(complete),
        }
    }

    /// What the persisted state is valid for: the schedule and the zone.
    #[must_use]
    pub fn schedule_id(&self) -> String {
        format!("{} {}", self.schedule, self.timetable.zone)
    }
}
