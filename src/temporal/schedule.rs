//! The schedules of a fleet, as declared and as Temporal has them, and the changes that make the
//! second equal to the first. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono_tz::Tz;

use crate::clock::Timestamp;
use crate::schedule::crontab::Calendar;

/// The format of a schedule; a newer one is written again by `fleet apply`.
const FORMAT: u32 = 1;

/// The schedule of an account as the configuration declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredSchedule {
    /// The name of the account.
    pub account: String,
    /// The schedule in crontab syntax, as the declaration spells it.
    pub crontab: String,
    /// Its calendars.
    pub calendars: Vec<Calendar>,
    /// Its time zone.
    pub zone: Tz,
    /// The longest delay of a start.
    pub jitter: Duration,
}

impl DeclaredSchedule {
    /// A text that is equal for equal schedules, and is stored with each of them.
    #[must_use]
    pub fn definition(&self) -> String {
        let Self { crontab, zone, jitter, .. } = self;
        let crontab = crontab.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{FORMAT} | {crontab} | {zone} | jitter {} s", jitter.as_secs())
    }
}

/// The state of a backup that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It is under way, or waits for a worker.
    Running,
    /// It has not succeeded yet, and waits for its repetition.
    Retrying,
    /// The backup and the work after it are complete.
    Complete,
    /// It failed, or is partial.
    Failed,
    /// It was cancelled or terminated.
    Stopped,
}

impl RunState {
    /// The word in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// A backup that a schedule started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedBackup {
    /// When it was started.
    pub started: Timestamp,
    /// Its state, as far as Temporal has told the schedule.
    pub state: RunState,
    /// The id of its workflow.
    pub workflow: String,
}

/// A schedule may learn of a start this long after it.
const LEARNED_AFTER: Duration = Duration::from_secs(60);

/// How long Temporal may take to list a backup that was started.
const LISTED_AFTER: Duration = Duration::from_secs(60);

impl StartedBackup {
    /// The state at `now`. `listed` is the state in Temporal's list of backups: a schedule learns
    /// late how a backup ended that it started.
    #[must_use]
    pub fn state_at(&self, now: Timestamp, listed: Option<RunState>) -> RunState {
        match self.state {
            RunState::Running if now.since(self.started) < LISTED_AFTER => {
                listed.unwrap_or(RunState::Running)
            }
            RunState::Running => listed.unwrap_or(RunState::Complete),
            ended => ended,
        }
    }

    /// A time before the start of its workflow: a schedule records the time at which it learned of
    /// the start, which is later.
    #[must_use]
    pub const fn before_start(&self) -> Timestamp {
        Timestamp(self.started.0.saturating_sub(LEARNED_AFTER.as_millis() as i64))
    }
}

/// Whether a schedule is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseState {
    /// Whether it is.
    pub is_paused: bool,
    /// Why it is paused, or another remark.
    pub note: Option<String>,
}

/// A schedule that Temporal has for this fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetSchedule {
    /// The name of the account.
    pub account: String,
    /// The definition that it was made from.
    pub definition: String,
    /// Whether it is paused.
    pub is_paused: bool,
    /// Why it is paused, or another remark of a person.
    pub note: Option<String>,
    /// Its newest backups, the newest last.
    pub recent: Vec<StartedBackup>,
    /// The next start, if it is not paused until then.
    pub next: Option<Timestamp>,
}

impl FleetSchedule {
    /// The next start; `None` while the schedule is paused.
    #[must_use]
    pub fn next_start(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.is_paused)
    }

    /// The backup that is under way or waits for a worker. There is one at most.
    #[must_use]
    pub fn running(&self) -> Option<&StartedBackup> {
        self.recent.last().filter(|it| it.state == RunState::Running)
    }
}

/// A change that `fleet apply` makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleChange {
    /// The account has no schedule yet.
    Create(DeclaredSchedule),
    /// The account's schedule is another one.
    Update {
        /// Its definition now.
        before: String,
        /// What it becomes.
        to: DeclaredSchedule,
    },
    /// The account is not declared.
    Delete {
        /// Its name.
        account: String,
        /// Its definition.
        before: String,
    },
}

impl ScheduleChange {
    /// The name of the account.
    #[must_use]
    pub fn account(&self) -> &str {
        match self {
            Self::Create(to) | Self::Update { to, .. } => &to.account,
            Self::Delete { account, .. } => account,
        }
    }

    /// The word for it in JSON.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Update { .. } => "update",
            Self::Delete { .. } => "delete",
        }
    }
}

/// The changes that make `existing` equal to `declared`, by name of the account.
#[must_use]
pub fn changes(declared: Vec<DeclaredSchedule>, existing: &[FleetSchedule]) -> Vec<ScheduleChange> {
    let mut left: BTreeMap<_, _> =
        existing.iter().map(|it| (it.account.as_str(), it.definition.as_str())).collect();
    let mut changes = Vec::new();
    for to in declared {
        match left.remove(to.account.as_str()) {
            None => changes.push(ScheduleChange::Create(to)),
            Some(before) if before == to.definition() => {}
            Some(before) => changes.push(ScheduleChange::Update { before: before.to_owned(), to }),
        }
    }
    let deleted = |(account, before): (&str, &str)| ScheduleChange::Delete {
        account: account.to_owned(),
        before: before.to_owned(),
    };
    changes.extend(left.into_iter().map(deleted));
    changes.sort_by(|one, other| one.account().cmp(other.account()));
    changes
}

/// Successive values as ranges: their first and last values.
#[must_use]
pub fn ranges(values: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *value => *last = *value,
            _ => ranges.push((*value, *value)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::crontab::Schedule;

    fn declared(account: &str, crontab: &str) -> DeclaredSchedule {
        let schedule = Schedule::parse(crontab).unwrap();
        DeclaredSchedule {
            account: account.into(),
            crontab: crontab.into(),
            calendars: schedule.calendars(),
            zone: chrono_tz::Europe::Berlin,
            jitter: schedule.spread(),
        }
    }

    fn existing(of: &DeclaredSchedule) -> FleetSchedule {
        FleetSchedule {
            account: of.account.clone(),
            definition: of.definition(),
            is_paused: false,
            note: None,
            recent: Vec::new(),
            next: None,
        }
    }

    #[test]
    fn schedules_become_equal_to_the_declaration() {
        let has = [declared("kept", "0 3 * * *"), declared("moved", "0 4 * * *")];
        let has: Vec<_> = has.iter().chain([&declared("gone", "@daily")]).map(existing).collect();
        let want = vec![
            declared("new", "@daily"),
            declared("moved", "0 5 * * *"),
            declared("kept", "0  3 * * *"),
        ];
        let made = changes(want, &has);
        let made: Vec<_> = made.iter().map(|it| (it.verb(), it.account())).collect();
        assert_eq!(made, [("delete", "gone"), ("update", "moved"), ("create", "new")]);
    }

    #[test]
    fn a_backup_that_was_just_started_is_not_complete_because_it_is_not_listed_yet() {
        use RunState::{Complete, Failed, Running};
        let state = |state, seconds: i64, listed| {
            let workflow = String::new();
            let run = StartedBackup { started: Timestamp(0), state, workflow };
            run.state_at(Timestamp(seconds * 1000), listed)
        };
        assert_eq!(state(Running, 1, None), Running);
        assert_eq!(state(Running, 1, Some(Complete)), Complete);
        assert_eq!(state(Running, 3600, Some(Running)), Running);
        assert_eq!(state(Running, 3600, Some(Failed)), Failed);
        // The list that was asked for has those that did not complete.
        assert_eq!(state(Running, 3600, None), Complete);
        assert_eq!(state(Failed, 1, None), Failed);
    }

    #[test]
    fn a_start_that_its_schedule_learned_of_late_is_in_the_list() {
        let (state, workflow) = (RunState::Running, String::new());
        let run = StartedBackup { started: Timestamp(100_000), state, workflow };
        assert_eq!(run.before_start(), Timestamp(40_000));
    }

    proptest! {
        #[test]
        fn applied_changes_leave_nothing_to_change(
            before in proptest::collection::btree_map("[a-d]", 0_u32..4, 0..4),
            after in proptest::collection::btree_map("[a-d]", 0_u32..4, 0..4),
        ) {
            let all = |of: &BTreeMap<String, u32>| -> Vec<_> {
                of.iter().map(|(name, hour)| declared(name, &format!("0 {hour} * * *"))).collect()
            };
            let mut has: BTreeMap<_, _> = all(&before)
                .iter().map(|it| (it.account.clone(), existing(it))).collect();
            let now: Vec<_> = has.values().cloned().collect();
            for change in changes(all(&after), &now) {
                match change {
                    ScheduleChange::Create(to) | ScheduleChange::Update { to, .. } => {
                        has.insert(to.account.clone(), existing(&to));
                    }
                    ScheduleChange::Delete { account, .. } => {
                        has.remove(&account);
                    }
                }
            }
            let now: Vec<_> = has.values().cloned().collect();
            prop_assert_eq!(changes(all(&after), &now), []);
            prop_assert_eq!(now.len(), after.len());
        }

        #[test]
        fn ranges_have_exactly_the_values(values in proptest::collection::btree_set(0_u32..60, 0..20)) {
            let values: Vec<_> = values.into_iter().collect();
            let shown: Vec<_> = ranges(&values).into_iter().flat_map(|(first, last)| first..=last).collect();
            prop_assert_eq!(shown, values);
        }
    }

    #[test]
    fn the_calendars_of_a_crontab_line_have_its_values() {
        let [by_day, by_weekday] = &declared("a", "5 1-3 1 * sun").calendars[..] else { panic!() };
        assert_eq!(
            (&by_day.minutes[..], &by_day.hours[..], &by_day.days[..]),
            (&[5][..], &[1, 2, 3][..], &[1][..])
        );
        assert_eq!(by_day.weekdays, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((&by_weekday.weekdays[..], by_weekday.days.len()), (&[0][..], 31));
        assert_eq!(by_day.seconds, [0]);
    }
}
