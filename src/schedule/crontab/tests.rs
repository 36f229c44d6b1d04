//! Compares schedules over whole years with an oracle that checks every minute.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{Datelike as _, Timelike as _};
use proptest::prelude::*;

use crate::schedule::crontab::*;

fn parsed(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> Timestamp {
    let time = DateTime::parse_from_rfc3339(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Timestamp(time.timestamp_millis())
}

/// The times from `begin` (not included), by UTC.
fn times(text: &str, zone: Tz, begin: &str, count: usize) -> Vec<String> {
    let (schedule, mut now) = (parsed(text), at(begin));
    let next = std::iter::from_fn(|| {
        now = schedule.next_after(now, zone)?;
        Some(now.iso())
    });
    next.take(count).collect()
}

/// The rules of crontab's manual, without our parser: each field is `*`, `*/n` or a list of
/// numbers.
struct Line {
    fields: Vec<[bool; 60]>,
    either: bool,
}

impl Line {
    fn new(text: &str) -> Self {
        let texts: Vec<_> = text.split(' ').collect();
        let fields = texts.iter().zip([0, 0, 1, 1, 0]).map(|(text, low)| {
            std::array::from_fn(|value| {
                text.split(',').any(|part| match part.strip_prefix("*/") {
                    Some(step) => {
                        value >= low && (value - low) % step.parse::<usize>().unwrap() == 0
                    }
                    None => part == "*" || part.parse::<usize>().unwrap() == value,
                })
            })
        });
        let either = !texts[2].starts_with('*') && !texts[4].starts_with('*');
        Self { fields: fields.collect(), either }
    }

    fn matches(&self, minute: i64) -> bool {
        let field = |at: usize, value: u32| self.fields[at][value as usize];
        if !field(0, u32::try_from(minute.rem_euclid(60)).unwrap()) {
            return false;
        }
        let wall = DateTime::<Utc>::from_timestamp(minute * 60, 0).unwrap();
        let sunday = wall.weekday().num_days_from_sunday();
        let weekday = field(4, sunday) || sunday == 0 && field(4, 7);
        let day = field(2, wall.day());
        field(1, wall.hour())
            && field(3, wall.month())
            && if self.either { day || weekday } else { day && weekday }
    }
}

/// All minutes of a year with their local times.
struct Year {
    zone: Tz,
    /// Each minute with its local time, in order.
    minutes: Vec<(i64, i64)>,
    first_shown: BTreeMap<i64, i64>,
}

impl Year {
    fn new(zone: Tz, year: i32) -> Self {
        let begin = chrono::NaiveDate::from_ymd_opt(year, 1, 1).unwrap().and_hms_opt(0, 0, 0);
        let begin = begin.unwrap().and_utc().timestamp() / 60 - 1440;
        let shown = |minute: i64| {
            let time = DateTime::<Utc>::from_timestamp(minute * 60, 0).unwrap();
            time.with_timezone(&zone).naive_local().and_utc().timestamp() / 60
        };
        let minutes: Vec<_> =
            (begin..begin + 367 * 1440).map(|minute| (minute, shown(minute))).collect();
        let mut first_shown = BTreeMap::new();
        for (minute, shown) in &minutes {
            first_shown.entry(*shown).or_insert(*minute);
        }
        Self { zone, minutes, first_shown }
    }

    fn due(&self, text: &str) -> BTreeSet<i64> {
        let line = Line::new(text);
        let begins = |at: usize| text.split(' ').nth(at).unwrap().starts_with('*');
        if begins(0) || begins(1) {
            let due = self.minutes.iter().filter(|(_, shown)| line.matches(*shown));
            return due.map(|(minute, _)| *minute).collect();
        }
        let (first, last) = (self.minutes[0].1, self.minutes[self.minutes.len() - 1].1);
        let due = (first..=last).filter(|shown| line.matches(*shown));
        // A skipped local time is due right after the gap.
        due.filter_map(|shown| self.first_shown.range(shown..).map(|(_, minute)| *minute).next())
            .collect()
    }

    fn agrees(&self, text: &str) {
        let schedule = parsed(text);
        let (begin, end) = (self.minutes[0].0, self.minutes[self.minutes.len() - 1].0);
        let mut now = Timestamp(begin * 60_000);
        let mut found = BTreeSet::new();
        while let Some(next) = schedule.next_after(now, self.zone) {
            assert!(next > now && next.0 % 60_000 == 0, "{text} {} {}", self.zone, next.iso());
            now = next;
            if next.0 / 60_000 > end {
                break;
            }
            found.insert(next.0 / 60_000);
        }
        // The oracle does not see beyond the edges of the year.
        let inner = |set: &BTreeSet<i64>| -> BTreeSet<i64> {
            set.range(begin + 1440..end - 1440).copied().collect()
        };
        let (found, due) = (inner(&found), inner(&self.due(text)));
        let odd = found.symmetric_difference(&due).next();
        let odd = odd.map(|minute| Timestamp(minute * 60_000).iso());
        assert_eq!(odd, None, "{text} in {}, {} times", self.zone, due.len());
    }
}

#[test]
fn a_year_in_many_zones_agrees_with_the_oracle() {
    use chrono_tz::{America, Asia, Australia, Europe};
    let lines = [
        "30 2 * * *",
        "15,45 0,1,2,3 * * *",
        "0 0 * * *",
        "30 * * * *",
        "*/20 1,2 * * *",
        "0 */5 * * *",
        "0 3 1,15 * 1",
        "0 3 */2 * 1,3",
        "0 3 * 2,3 7",
        "5 4 29 2 *",
        "59 23 31 12 *",
        "* * 29 3 *",
    ];
    let zones = [
        (Europe::Berlin, 2026),
        (America::New_York, 2026),
        (Australia::Lord_Howe, 2027),
        (Asia::Kolkata, 2026),
        (chrono_tz::UTC, 2028),
        (America::Santiago, 2026),
        (Asia::Beirut, 2026),
        (chrono_tz::Africa::Casablanca, 2027),
        (chrono_tz::Pacific::Apia, 2011),
    ];
    for (zone, year) in zones {
        let year = Year::new(zone, year);
        for line in lines {
            year.agrees(line);
        }
    }
}

#[test]
fn a_skipped_time_is_due_once_right_after_the_gap_and_a_repeated_one_once() {
    let berlin = chrono_tz::Europe::Berlin;
    let spring = times("30 2 * * *", berlin, "2026-03-28T12:00:00Z", 2);
    assert_eq!(spring, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    let both = times("15,45 2,3 * * *", berlin, "2026-03-28T12:00:00Z", 3);
    assert_eq!(both, ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:45:00Z"]);
    let autumn = times("30 2 * * *", berlin, "2026-10-24T12:00:00Z", 2);
    assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    let hourly = times("@hourly", berlin, "2026-10-24T23:30:00Z", 3);
    assert_eq!(hourly, ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]);
}

#[test]
fn either_day_field_matches_if_both_are_restricted() {
    let utc = chrono_tz::UTC;
    // 2026-11-13 is a Friday.
    let either = times("0 0 13 * fri", utc, "2026-11-01T00:00:00Z", 4);
    let days = ["2026-11-06", "2026-11-13", "2026-11-20", "2026-11-27"];
    assert_eq!(either, days.map(|day| format!("{day}T00:00:00Z")));
    let both = times("0 0 */13 * fri", utc, "2026-11-01T00:00:00Z", 1);
    assert_eq!(both, ["2026-11-27T00:00:00Z"]);
    let sundays = times("0 0 * * 0", utc, "2026-11-01T12:00:00Z", 3);
    assert_eq!(sundays, times("0 0 * * 7", utc, "2026-11-01T12:00:00Z", 3));
    assert_eq!(sundays, times("@weekly", utc, "2026-11-01T12:00:00Z", 3));
    assert_eq!(sundays[0], "2026-11-08T00:00:00Z");
}

#[test]
fn six_fields_begin_with_the_second() {
    let found = times("*/20 59 23 * * *", chrono_tz::UTC, "2026-11-01T23:59:10Z", 4);
    let rest = ["01T23:59:20Z", "01T23:59:40Z", "02T23:59:00Z", "02T23:59:20Z"];
    assert_eq!(found, rest.map(|time| format!("2026-11-{time}")));
    assert_eq!(parsed("0 0 3 * * *").spread(), Duration::ZERO);
    assert_eq!(parsed("0 3 * * *").spread(), Duration::from_secs(60));
}

#[test]
fn names_ranges_and_steps_mean_what_crontab_means() {
    let same = |one: &str, other: &str| assert_eq!(parsed(one), parsed(other), "{one}");
    same("0 0 * JAN-mar *", "0 0 * 1,2,3 *");
    same("0 0 * * mon-fri", "0 0 * * 1-5");
    same("0 0 * * fri-sun", "0 0 * * 5-7");
    same("0 0 * * 5-7", "0 0 * * 0,5,6");
    same("0-30/10 0 * * *", "0,10,20,30 0 * * *");
    same("  0   3 * * *  ", "0 3 * * *");
    same("@midnight", "@DAILY");
}

#[test]
fn a_mistake_names_the_field_and_the_allowed_values() {
    let cases = [
        (
            "0 3 * *",
            "must have the five fields of crontab (or six, with seconds), such as `0 3 * * *`, but has 4",
        ),
        (
            "60 3 * * *",
            "minute: 60 is out of range; allowed are 0 to 59, `*`, lists, ranges and steps",
        ),
        (
            "0 24 * * *",
            "hour: 24 is out of range; allowed are 0 to 23, `*`, lists, ranges and steps",
        ),
        (
            "0 3 0 * *",
            "day of the month: 0 is out of range; allowed are 1 to 31, `*`, lists, ranges and steps",
        ),
        (
            "0 3 * feb,xyz *",
            "month: `xyz` is not a valid value; allowed are 1 to 12 or jan to dec, `*`, lists, ranges and steps",
        ),
        (
            "0 3 * * 8",
            "day of the week: 8 is out of range; allowed are 0 to 7 or sun to sat, `*`, lists, ranges and steps",
        ),
        (
            "5-1 3 * * *",
            "minute: `5-1` goes backwards; allowed are 0 to 59, `*`, lists, ranges and steps",
        ),
        (
            "*/0 3 * * *",
            "minute: `0` is not a valid step; allowed are 0 to 59, `*`, lists, ranges and steps",
        ),
        (
            "5/15 3 * * *",
            "minute: `5/15` has a step without a range (did you mean `5-59/…`?); allowed are 0 to 59, `*`, lists, ranges and steps",
        ),
        (
            "1,,2 3 * * *",
            "minute: a value is missing; allowed are 0 to 59, `*`, lists, ranges and steps",
        ),
        (
            "+5 3 * * *",
            "minute: `+5` is not a valid value; allowed are 0 to 59, `*`, lists, ranges and steps",
        ),
        (
            "61 0 3 * * *",
            "second: 61 is out of range; allowed are 0 to 59, `*`, lists, ranges and steps",
        ),
        ("0 0 30 2 *", "day of the month: no month of the schedule has this day"),
        (
            "@reboot",
            "unknown schedule `@reboot`, expected one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly",
        ),
    ];
    for (text, error) in cases {
        assert_eq!(Schedule::parse(text).map(|_| ()), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn offsets_are_stable_and_spread_out() {
    let minute = Duration::from_secs(60);
    let all: BTreeSet<_> = (0..1000).map(|nth| offset(&format!("account-{nth}"), minute)).collect();
    assert!(all.len() > 950 && all.iter().all(|offset| *offset < minute));
    let by_second: BTreeSet<_> = all.iter().map(Duration::as_secs).collect();
    assert_eq!(by_second.len(), 60);
    assert_eq!(offset("main", minute), offset("main", minute));
    assert_eq!(offset("main", Duration::ZERO), Duration::ZERO);
}

proptest! {
    #[test]
    fn any_text_is_a_schedule_or_an_error(text in "[0-9*/,@ a-z-]{0,24}|\\PC*") {
        if let Err(error) = Schedule::parse(&text) {
            prop_assert!(!error.is_empty());
        }
    }

    #[test]
    fn next_is_always_later(
        second in prop::option::of(0_u32..60), minute in "[0-9]|\\*|\\*/7|30-40",
        hour in "2|\\*|\\*/3|0-5", day in "\\*|29|1-7/2", weekday in "\\*|0|7|1-5",
        begin in -10_000_000_000_000_i64..6_000_000_000_000,
        zone in 0..chrono_tz::TZ_VARIANTS.len(),
    ) {
        let second = second.map_or(String::new(), |second| format!("{second} "));
        let schedule = parsed(&format!("{second}{minute} {hour} {day} * {weekday}"));
        let zone = chrono_tz::TZ_VARIANTS[zone];
        let mut now = Timestamp(begin);
        for _ in 0..20 {
            let Some(next) = schedule.next_after(now, zone) else { break };
            prop_assert!(next > now);
            now = next;
        }
    }
}

#[test]
fn extreme_times_do_not_panic() {
    for line in ["0 3 * * *", "* * * * *", "@yearly"] {
        for time in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX] {
            let _ = parsed(line).next_after(Timestamp(time), chrono_tz::Asia::Beirut);
        }
    }
}
