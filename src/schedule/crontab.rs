//! Crontab expressions with time zones and daylight saving time.
//!
//! The `cron` crate computes the calendar. It numbers weekdays differently and requires both day
//! fields to match; this module translates between the two. Changes of daylight saving time are
//! handled as in Vixie cron.

mod fields;

use std::str::FromStr as _;
use std::time::Duration;

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset as _, TimeZone as _, Utc};
use chrono_tz::Tz;
use cron::TimeUnitSpec as _;

use crate::clock::Timestamp;
use crate::schedule::crontab::fields::{DAY, Field, HOUR, MINUTE, MONTH, SECOND, WEEKDAY};

/// A parsed crontab expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The schedule is the union of these: by day of the month and by day of the week.
    calendars: Vec<cron::Schedule>,
    /// Whether the minute or the hour begins with `*`. Vixie cron runs such a job in real time
    /// through a change of daylight saving time, and others by the shown time.
    wildcard: bool,
    /// Whether it has a field for seconds.
    seconds: bool,
}

/// Times that match in each of these fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// Seconds of the minute.
    pub seconds: Vec<u32>,
    /// Minutes of the hour.
    pub minutes: Vec<u32>,
    /// Hours of the day.
    pub hours: Vec<u32>,
    /// Days of the month, from 1.
    pub days: Vec<u32>,
    /// Months of the year, from 1.
    pub months: Vec<u32>,
    /// Days of the week; Sunday is 0.
    pub weekdays: Vec<u32>,
}

/// The short forms and what they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A schedule without a slot after this time is refused: 2024-01-01, a leap year, in Unix seconds.
const SEARCH_START: i64 = 1_704_067_200;

const DAY_SECONDS: i64 = 86_400;

impl Schedule {
    /// Parses five fields of crontab, or six with seconds first, or a short form such as
    /// `@daily`.
    ///
    /// # Errors
    /// A sentence with the field, the mistake and the allowed values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('@') {
            let found = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            let Some((_, line)) = found else {
                let names: Vec<_> = NICKNAMES.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "unknown schedule `{text}`, expected one of {}",
                    names.join(", ")
                ));
            };
            return Self::parse(line);
        }
        let parts: Vec<_> = text.split_whitespace().collect();
        let (second, rest) = match parts.as_slice() {
            rest @ [_, _, _, _, _] => (None, rest),
            [second, rest @ ..] if rest.len() == 5 => (Some(*second), rest),
            _ => {
                return Err(format!(
                    "must have the five fields of crontab (or six, with seconds), such as `0 3 * * *`, \
                     but has {}",
                    parts.len()
                ));
            }
        };
        let second_field = Field::parse(&SECOND, second.unwrap_or("0"))?;
        let kinds = [&MINUTE, &HOUR, &DAY, &MONTH, &WEEKDAY];
        let read: Result<Vec<_>, _> =
            kinds.into_iter().zip(rest).map(|(kind, text)| Field::parse(kind, text)).collect();
        let read: [Field; 5] =
            read?.try_into().map_err(|_| "must have the five fields of crontab".to_owned())?;
        Self::of(&second_field, &read, second.is_some())
    }

    fn of(second: &Field, fields: &[Field; 5], seconds: bool) -> Result<Self, String> {
        let [minute, hour, day, month, weekday] = fields;
        let line = |day: &Field, weekday: &Field| {
            let plain = |it: u32| it;
            let line = format!(
                "{} {} {} {} {} {}",
                second.list(plain),
                minute.list(plain),
                hour.list(plain),
                day.list(plain),
                month.list(plain),
                weekday.list(|it| it % 7 + 1),
            );
            cron::Schedule::from_str(&line).map_err(|error| error.to_string())
        };
        let either = !day.starred && !weekday.starred;
        let calendars = match either {
            true => vec![line(day, &Field::all(&WEEKDAY))?, line(&Field::all(&DAY), weekday)?],
            false => vec![line(day, weekday)?],
        };
        let schedule = Self { calendars, wildcard: minute.starred || hour.starred, seconds };
        match schedule.wall_after(SEARCH_START) {
            Some(_) => Ok(schedule),
            None => Err("day of the month: no month of the schedule has this day".to_owned()),
        }
    }

    /// The first slot after `after` in `zone`; `None` at the end of the calendar.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: Tz) -> Option<Timestamp> {
        let after = after.0.div_euclid(1000);
        let next = if self.wildcard {
            self.wildcard_after(after, zone)
        } else {
            self.fixed_time_after(after, zone)
        };
        Some(Timestamp(next?.checked_mul(1000)?))
    }

    /// The schedule as calendars: its slots are those of all of them together.
    #[must_use]
    pub fn calendars(&self) -> Vec<Calendar> {
        let read = |calendar: &cron::Schedule| Calendar {
            seconds: calendar.seconds().iter().collect(),
            minutes: calendar.minutes().iter().collect(),
            hours: calendar.hours().iter().collect(),
            days: calendar.days_of_month().iter().collect(),
            months: calendar.months().iter().collect(),
            weekdays: calendar.days_of_week().iter().map(|day| day - 1).collect(),
        };
        self.calendars.iter().map(read).collect()
    }

    /// The time over which starts of several accounts are spread: a minute, or zero if the
    /// schedule names the second.
    #[must_use]
    pub const fn spread(&self) -> Duration {
        Duration::from_secs(if self.seconds { 0 } else { 60 })
    }

    /// The first matching local time after `wall`, both as seconds since 1970 without a time zone.
    fn wall_after(&self, wall: i64) -> Option<i64> {
        let wall = DateTime::<Utc>::from_timestamp(wall, 0)?;
        let next = |calendar: &cron::Schedule| calendar.after(&wall).next();
        self.calendars.iter().filter_map(next).min().map(|found| found.timestamp())
    }

    /// The next slot of a schedule with a fixed hour and minute. A skipped local time is due right
    /// after the gap; a repeated one is due the first time.
    fn fixed_time_after(&self, after: i64, zone: Tz) -> Option<i64> {
        let mut wall = after.checked_add(offset_at(zone, after)?)?;
        loop {
            wall = self.wall_after(wall)?;
            let instant = first_instant(zone, wall)?;
            if instant > after {
                return Some(instant);
            }
        }
    }

    /// The next slot of a wildcard schedule: whenever the local time matches.
    fn wildcard_after(&self, after: i64, zone: Tz) -> Option<i64> {
        let mut from = after.checked_add(1)?;
        loop {
            let offset = offset_at(zone, from)?;
            let next = self.wall_after(from.checked_add(offset - 1)?)?.checked_sub(offset)?;
            // Only a change of the offset near `from` or near `next` matters: between them no
            // offset gives a matching local time.
            let near = next.min(from.saturating_add(2 * DAY_SECONDS));
            from = match change_after(zone, from, near) {
                Some(change) => change,
                None if near == next => return Some(next),
                None => near.max(next - 2 * DAY_SECONDS),
            };
        }
    }
}

/// Offset of `zone` from UTC at `instant`, in seconds.
fn offset_at(zone: Tz, instant: i64) -> Option<i64> {
    let utc = DateTime::<Utc>::from_timestamp(instant, 0)?.naive_utc();
    Some(i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()))
}

/// The first instant in `(from, until]` at which the offset of `zone` changes.
fn change_after(zone: Tz, from: i64, until: i64) -> Option<i64> {
    let known = offset_at(zone, from)?;
    let mut low = from;
    while low < until {
        let mut high = (low + DAY_SECONDS / 2).min(until);
        if offset_at(zone, high)? == known {
            low = high;
            continue;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match offset_at(zone, middle)? == known {
                true => low = middle,
                false => high = middle,
            }
        }
        return Some(high);
    }
    None
}

/// The first instant with local time `wall` in `zone`; if it is skipped, the end of the gap.
fn first_instant(zone: Tz, wall: i64) -> Option<i64> {
    let shown: NaiveDateTime = DateTime::<Utc>::from_timestamp(wall, 0)?.naive_utc();
    match zone.from_local_datetime(&shown) {
        LocalResult::Single(time) => Some(time.timestamp()),
        LocalResult::Ambiguous(one, other) => Some(one.timestamp().min(other.timestamp())),
        LocalResult::None => {
            let mut from = wall - 2 * DAY_SECONDS;
            loop {
                let change = change_after(zone, from, wall + 2 * DAY_SECONDS)?;
                let ahead = offset_at(zone, change)?;
                if change + ahead > wall {
                    return Some(change);
                }
                from = change;
            }
        }
    }
}

/// A fixed delay for `account` between zero and `spread`, so that accounts with the same schedule
/// do not all start at once.
#[must_use]
pub fn offset(account: &str, spread: Duration) -> Duration {
    let hash = blake3::hash(account.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    let millis = u64::try_from(spread.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(u64::from_le_bytes(first).checked_rem(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests;
