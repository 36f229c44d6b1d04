//! Whose turn it is: each account's schedule, how far it was served, and what
//! is tried again. Told the time, it touches nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono_tz::Tz;

use crate::clock::Timestamp;
use crate::schedule::crontab::{Schedule, offset};

/// Nothing was backed up before, whatever somebody wrote down: 1970 began.
const EARLIEST: Timestamp = Timestamp(0);

/// When a backup that failed is tried again, unless its next time comes before.
const RETRIES: [Duration; 3] =
    [Duration::from_secs(300), Duration::from_secs(900), Duration::from_secs(3600)];

/// A clock that is set back by no more serves no slot twice; one that is set
/// back further was wrong before, and what it said is forgotten.
pub(crate) const SET_BACK: Duration = Duration::from_secs(3 * 3600);

/// A backup may take so long before the one that it should have made is missed.
const GRACE: Duration = Duration::from_secs(3600);

/// When an account is tried again on which another process works.
const SOON: Duration = Duration::from_secs(60);

/// When an account is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    pub schedule: Schedule,
    pub zone: Tz,
    /// How long after its time it begins.
    pub offset: Duration,
}

impl Timetable {
    /// The timetable of `account`, with its own part of the schedule's spread.
    #[must_use]
    pub fn new(account: &str, schedule: Schedule, zone: Tz) -> Self {
        let offset = offset(account, schedule.spread());
        Self { schedule, zone, offset }
    }

    /// When the first slot after `served` begins.
    fn after(&self, served: Timestamp) -> Option<Timestamp> {
        Some(self.schedule.next_after(served.max(EARLIEST), self.zone)?.plus(self.offset))
    }

    /// Until when a backup that was complete at `complete` is young enough: two
    /// slots on, and an hour for the backup itself.
    #[must_use]
    pub fn old_from(&self, complete: Timestamp) -> Option<Timestamp> {
        let first = self.schedule.next_after(complete.max(EARLIEST), self.zone)?;
        Some(self.after(first)?.plus(GRACE))
    }
}

/// What is known of an account that comes onto the agenda.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueHistory {
    /// Its slots up to here are done with; `None`: it is due at once.
    pub served: Option<Timestamp>,
    /// How many tries failed since, and when the last of them ended.
    pub failed: Option<(u32, Timestamp)>,
    /// Whether the last one was stopped and is to be gone on with.
    pub stopped: bool,
}

/// How a backup ended, as far as the agenda minds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupEnd {
    Finished,
    /// It is tried again.
    Failed,
    /// It failed, and would again until somebody does something.
    FailedForGood,
    Stopped,
    /// Another process works on the account: this was no try at all.
    Locked,
}

/// The accounts and when each is due.
#[derive(Debug, Default)]
pub struct DueQueue(BTreeMap<String, QueueEntry>);

#[derive(Debug)]
struct QueueEntry {
    timetable: Timetable,
    /// Slots up to here are done with.
    served: Timestamp,
    /// Due regardless of the timetable.
    urgent: Option<Timestamp>,
    tries: u32,
    running: bool,
    /// Another process works on the account: not before then.
    not_before: Option<Timestamp>,
    /// What `served`, `urgent` and `tries` were before the backup under way.
    before: Option<(Timestamp, Option<Timestamp>, u32)>,
    /// When it is due; kept, for it is asked all the time.
    next: Option<Timestamp>,
}

impl QueueEntry {
    fn settle(&mut self) {
        let slot = self.timetable.after(self.served);
        let sooner = self.urgent.filter(|urgent| slot.is_none_or(|slot| *urgent < slot));
        self.next = sooner.or(slot).map(|next| self.not_before.map_or(next, |it| next.max(it)));
    }

    fn try_again(&mut self, ended: Timestamp) {
        let nth = usize::try_from(self.tries).unwrap_or(usize::MAX).wrapping_sub(1);
        self.urgent = RETRIES.get(nth).map(|time| ended.plus(*time));
    }

    /// Believes the clock that was set back, and not what it said before.
    fn look_at_the_clock(&mut self, now: Timestamp) {
        let set_back = self.served.since(now) > SET_BACK;
        if set_back {
            self.served = now;
        }
        let far = self.urgent.is_some_and(|urgent| urgent.since(now) > RETRIES[2]);
        if far {
            self.urgent = Some(now);
        }
        let later = self.not_before.is_some_and(|it| it.since(now) > SOON);
        if later {
            self.not_before = None;
        }
        if set_back || far || later {
            self.settle();
        }
    }
}

impl DueQueue {
    /// Puts an account on the agenda, or gives it another timetable: that one
    /// counts from `now`, for its earlier slots were never missed.
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
                entry.settle();
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
            entry.try_again(ended);
        }
        entry.settle();
        self.0.insert(account.to_owned(), entry);
    }

    /// Takes every account off that `stays` does not know.
    pub fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        self.0.retain(|account, _| stays(account));
    }

    /// Who is due at `now`, the longest due first.
    pub fn due(&mut self, now: Timestamp) -> Vec<String> {
        let mut due = Vec::new();
        for (account, entry) in self.0.iter_mut().filter(|(_, entry)| !entry.running) {
            entry.look_at_the_clock(now);
            if let Some(next) = entry.next.filter(|next| *next <= now) {
                due.push((next, account.clone()));
            }
        }
        due.sort();
        due.into_iter().map(|(_, account)| account).collect()
    }

    /// Notes that the backup of `account` begins: however many slots were
    /// missed, all of them are served by this one.
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
        entry.settle();
    }

    /// Notes how it ended.
    pub fn end(&mut self, account: &str, ended: BackupEnd, now: Timestamp) {
        let Some(entry) = self.0.get_mut(account) else { return };
        entry.running = false;
        let before = entry.before.take();
        match ended {
            BackupEnd::Finished | BackupEnd::FailedForGood => entry.tries = 0,
            BackupEnd::Failed => {
                entry.tries = entry.tries.saturating_add(1);
                entry.try_again(now);
            }
            BackupEnd::Stopped => entry.urgent = Some(now),
            BackupEnd::Locked => {
                entry.not_before = Some(now.plus(SOON));
                match before {
                    Some(before) => (entry.served, entry.urgent, entry.tries) = before,
                    // A new timetable: what was due by the old one is due all the same.
                    None => entry.urgent = Some(now),
                }
            }
        }
        entry.settle();
    }

    /// How far the slots of `account` are done with, and how many tries failed since.
    #[must_use]
    pub fn served(&self, account: &str) -> Option<(Timestamp, u32)> {
        self.0.get(account).map(|entry| (entry.served, entry.tries))
    }

    /// When the next backup of `account` is due.
    #[must_use]
    pub fn next(&self, account: &str) -> Option<Timestamp> {
        self.0.get(account)?.next
    }

    /// When somebody is due next.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.0.values().filter(|entry| !entry.running).filter_map(|entry| entry.next).min()
    }
}

#[cfg(test)]
mod tests;
