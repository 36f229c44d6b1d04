//! Decides which account is backed up next, from schedules, handled slots and retries. Pure: the
//! caller passes the time.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono_tz::Tz;

use crate::clock::Timestamp;
use crate::schedule::crontab::{Schedule, offset};

/// Recorded times before 1970 count as this: they cannot be right.
const EARLIEST: Timestamp = Timestamp(0);

/// Delays of the retries after a failed backup, unless the next slot is earlier.
const RETRIES: [Duration; 3] =
    [Duration::from_secs(300), Duration::from_secs(900), Duration::from_secs(3600)];

/// After a clock is set back by up to this time, no slot is handled twice. After a larger change
/// the clock is assumed to have been wrong before, and recorded times are ignored.
pub(crate) const MAX_SETBACK: Duration = Duration::from_secs(3 * 3600);

/// How long a backup may take before its slot counts as missed.
const GRACE: Duration = Duration::from_secs(3600);

/// Delay until a locked account is tried again.
pub const LOCKED_RETRY: Duration = Duration::from_secs(60);

/// The delay after the `failures`th failed attempt; `None` if it is not repeated.
#[must_use]
pub fn retry_delay(failures: u32) -> Option<Duration> {
    let nth = usize::try_from(failures).ok()?.checked_sub(1)?;
    RETRIES.get(nth).copied()
}

/// The schedule of an account with its time zone and offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    /// The slots.
    pub schedule: Schedule,
    /// Time zone of the slots.
    pub zone: Tz,
    /// Delay of each start after its slot.
    pub offset: Duration,
}

impl Timetable {
    /// The timetable of `account`, with its [`offset`] in the schedule's spread.
    #[must_use]
    pub fn new(account: &str, schedule: Schedule, zone: Tz) -> Self {
        let offset = offset(account, schedule.spread());
        Self { schedule, zone, offset }
    }

    /// Start of the first slot after `served`, with the offset.
    fn after(&self, served: Timestamp) -> Option<Timestamp> {
        Some(self.schedule.next_after(served.max(EARLIEST), self.zone)?.plus(self.offset))
    }

    /// From when a backup that ended at `complete` is too old: after two more slots, plus an hour
    /// for the backup itself.
    #[must_use]
    pub fn old_from(&self, complete: Timestamp) -> Option<Timestamp> {
        let first = self.schedule.next_after(complete.max(EARLIEST), self.zone)?;
        Some(self.after(first)?.plus(GRACE))
    }
}

/// The history of an account that enters the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueHistory {
    /// All slots up to this time are handled; `None`: it is due at once.
    pub served: Option<Timestamp>,
    /// Number of failed attempts since then, and the end of the last one.
    pub failed: Option<(u32, Timestamp)>,
    /// Whether the last backup was stopped and must be continued.
    pub stopped: bool,
}

/// How a backup ended, as far as it affects the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupEnd {
    /// A snapshot was made.
    Finished,
    /// It failed and will be retried.
    Failed,
    /// It failed and a retry would fail too, until a user acts.
    FailedForGood,
    /// The program was asked to stop.
    Stopped,
    /// Another process holds the account's lock: not counted as an attempt.
    Locked,
}

/// All accounts with the times when they are due.
#[derive(Debug, Default)]
pub struct DueQueue(BTreeMap<String, QueueEntry>);

#[derive(Debug)]
struct QueueEntry {
    timetable: Timetable,
    /// All slots up to this time are handled.
    served: Timestamp,
    /// Due at this time, regardless of the timetable.
    urgent: Option<Timestamp>,
    tries: u32,
    running: bool,
    /// Another process holds the account's lock: not due before this time.
    not_before: Option<Timestamp>,
    /// `served`, `urgent` and `tries` before the running backup.
    before: Option<(Timestamp, Option<Timestamp>, u32)>,
    /// When it is due; cached, since it is read often.
    next: Option<Timestamp>,
}

impl QueueEntry {
    fn update_next(&mut self) {
        let slot = self.timetable.after(self.served);
        let sooner = self.urgent.filter(|urgent| slot.is_none_or(|slot| *urgent < slot));
        self.next = sooner.or(slot).map(|next| self.not_before.map_or(next, |it| next.max(it)));
    }

    fn schedule_retry(&mut self, ended: Timestamp) {
        self.urgent = retry_delay(self.tries).map(|time| ended.plus(time));
    }

    /// After the clock was set back, replaces times that it set before.
    fn correct_after_setback(&mut self, now: Timestamp) {
        let served_ahead = self.served.since(now) > MAX_SETBACK;
        if served_ahead {
            self.served = now;
        }
        let urgent_ahead = self.urgent.is_some_and(|urgent| urgent.since(now) > RETRIES[2]);
        if urgent_ahead {
            self.urgent = Some(now);
        }
        let not_before_ahead = self.not_before.is_some_and(|it| it.since(now) > LOCKED_RETRY);
        if not_before_ahead {
            self.not_before = None;
        }
        if served_ahead || urgent_ahead || not_before_ahead {
            self.update_next();
        }
    }
}

impl DueQueue {
    /// Adds an account, or changes its timetable. A new timetable counts from `now`: its earlier
    /// slots are not missed slots.
    pub fn insert(
        &mut self,
        account: &str,
        timetable: Timetable,
        past: QueueHistory,
        now: Timestamp,
    ) {
        if let Some(entry) = self.0.get_mut(account) {
            if entry.timetable != timetable {
                entry.timetable = timetable;
                entry.served = now;
                entry.before = None;
                entry.update_next();
            }
            return;
        }
        let mut entry = QueueEntry {
            timetable,
            served: past.served.unwrap_or(now),
            urgent: (past.served.is_none() || past.stopped).then_some(now),
            tries: 0,
            running: false,
            not_before: None,
            before: None,
            next: None,
        };
        if let Some((tries, ended)) = past.failed {
            entry.tries = tries;
            entry.schedule_retry(ended);
        }
        entry.update_next();
        self.0.insert(account.to_owned(), entry);
    }

    /// Removes every account for which `stays` is false.
    pub fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        self.0.retain(|account, _| stays(account));
    }

    /// The accounts that are due at `now`, the longest overdue first.
    pub fn due(&mut self, now: Timestamp) -> Vec<String> {
        let mut due = Vec::new();
        for (account, entry) in self.0.iter_mut().filter(|(_, entry)| !entry.running) {
            entry.correct_after_setback(now);
            if let Some(next) = entry.next.filter(|next| *next <= now) {
                due.push((next, account.clone()));
            }
        }
        due.sort();
        due.into_iter().map(|(_, account)| account).collect()
    }

    /// Records that the backup of `account` begins. It handles all missed slots.
    pub fn begin(&mut self, account: &str, now: Timestamp) {
        let Some(entry) = self.0.get_mut(account) else { return };
        entry.before = Some((entry.served, entry.urgent, entry.tries));
        entry.not_before = None;
        let slot = entry.timetable.after(entry.served).is_some_and(|slot| slot <= now);
        if slot {
            entry.tries = 0;
        }
        let offset = i64::try_from(entry.timetable.offset.as_millis()).unwrap_or(0);
        entry.served = entry.served.max(Timestamp(now.0.saturating_sub(offset)));
        entry.urgent = None;
        entry.running = true;
        entry.update_next();
    }

    /// Records how the backup of `account` ended.
    pub fn end(&mut self, account: &str, ended: BackupEnd, now: Timestamp) {
        let Some(entry) = self.0.get_mut(account) else { return };
        entry.running = false;
        let before = entry.before.take();
        match ended {
            BackupEnd::Finished | BackupEnd::FailedForGood => entry.tries = 0,
            BackupEnd::Failed => {
                entry.tries = entry.tries.saturating_add(1);
                entry.schedule_retry(now);
            }
            BackupEnd::Stopped => entry.urgent = Some(now),
            BackupEnd::Locked => {
                entry.not_before = Some(now.plus(LOCKED_RETRY));
                match before {
                    Some(before) => (entry.served, entry.urgent, entry.tries) = before,
                    // The timetable changed: the account stays due by the old one.
                    None => entry.urgent = Some(now),
                }
            }
        }
        entry.update_next();
    }

    /// Time up to which the slots of `account` are handled, and the number of failed attempts
    /// since.
    #[must_use]
    pub fn served(&self, account: &str) -> Option<(Timestamp, u32)> {
        self.0.get(account).map(|entry| (entry.served, entry.tries))
    }

    /// When `account` is due next.
    #[must_use]
    pub fn next(&self, account: &str) -> Option<Timestamp> {
        self.0.get(account)?.next
    }

    /// When the first account that is not running is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.0.values().filter(|entry| !entry.running).filter_map(|entry| entry.next).min()
    }
}

#[cfg(test)]
mod tests;
