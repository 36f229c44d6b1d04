//! When something is due: a line of crontab, meant as crontab means it, in a
//! time zone whose clocks change.
//!
//! The calendar is the `cron` crate's, which numbers weekdays otherwise and wants
//! both day fields to agree; what differs is translated here. Changes of the
//! clocks are treated as Vixie's cron treats them.

mod fields;

use std::str::FromStr as _;
use std::time::Duration;

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset as _, TimeZone as _, Utc};
use chrono_tz::Tz;

use crate::clock::Timestamp;
use crate::schedule::crontab::fields::{DAY, Field, HOUR, MINUTE, MONTH, SECOND, WEEKDAY};

/// The times at which something is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Whose union it is: by the day of the month, by the day of the week.
    calendars: Vec<cron::Schedule>,
    /// Whether it follows real time through a change of the clocks, as what is
    /// due every few minutes or hours must.
    steady: bool,
    seconds: bool,
}

/// The short forms.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// What has no slot between these is never due.
const FIRST: i64 = 1_704_067_200;

const DAY_SECONDS: i64 = 86_400;

impl Schedule {
    /// Reads five fields of crontab, six with seconds first, or a short form
    /// such as `@daily`.
    ///
    /// # Errors
    /// What is wrong, by field, and what is allowed there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('@') {
            let found = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            let Some((_, line)) = found else {
                let names: Vec<_> = NICKNAMES.iter().map(|(name, _)| *name).collect();
                return Err(format!("`{text}` is none of {}", names.join(", ")));
            };
            return Self::parse(line);
        }
        let parts: Vec<_> = text.split_whitespace().collect();
        let (second, rest) = match parts.as_slice() {
            rest @ [_, _, _, _, _] => (None, rest),
            [second, rest @ ..] if rest.len() == 5 => (Some(*second), rest),
            _ => {
                return Err(format!(
                    "must have the five fields of crontab (six with seconds), such as `0 3 * * *`, \
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
        let schedule = Self { calendars, steady: minute.starred || hour.starred, seconds };
        match schedule.wall_after(FIRST) {
            Some(_) => Ok(schedule),
            None => Err("day of the month: no month of the schedule has such a day".to_owned()),
        }
    }

    /// The first time after `after` at which it is due by the clocks of `zone`;
    /// `None` where the calendar ends.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: Tz) -> Option<Timestamp> {
        let after = after.0.div_euclid(1000);
        let next =
            if self.steady { self.real_after(after, zone) } else { self.fixed_after(after, zone) };
        Some(Timestamp(next?.checked_mul(1000)?))
    }

    /// How far the starts of several accounts may be drawn apart: within the
    /// minute, unless somebody named the second.
    #[must_use]
    pub const fn spread(&self) -> Duration {
        Duration::from_secs(if self.seconds { 0 } else { 60 })
    }

    /// The first matching reading of the clock on the wall after `wall`, both as
    /// seconds of a day without a zone.
    fn wall_after(&self, wall: i64) -> Option<i64> {
        let wall = DateTime::<Utc>::from_timestamp(wall, 0)?;
        let next = |calendar: &cron::Schedule| calendar.after(&wall).next();
        self.calendars.iter().filter_map(next).min().map(|found| found.timestamp())
    }

    /// For times named by hour and minute: what the clocks skip is due right
    /// after the gap, what they show twice is due the first time.
    fn fixed_after(&self, after: i64, zone: Tz) -> Option<i64> {
        let mut wall = after.checked_add(offset_at(zone, after)?)?;
        loop {
            wall = self.wall_after(wall)?;
            let instant = first_instant(zone, wall)?;
            if instant > after {
                return Some(instant);
            }
        }
    }

    /// For what is due every few minutes or hours: whenever the clocks show it.
    fn real_after(&self, after: i64, zone: Tz) -> Option<i64> {
        let mut from = after.checked_add(1)?;
        loop {
            let offset = offset_at(zone, from)?;
            let next = self.wall_after(from.checked_add(offset - 1)?)?.checked_sub(offset)?;
            // A change of the clocks matters near here, and near the time found;
            // between them no clock, however it is put, shows a time that matches.
            let near = next.min(from.saturating_add(2 * DAY_SECONDS));
            from = match change_after(zone, from, near) {
                Some(change) => change,
                None if near == next => return Some(next),
                None => near.max(next - 2 * DAY_SECONDS),
            };
        }
    }
}

/// What the clocks of `zone` are ahead of UTC, in seconds.
fn offset_at(zone: Tz, instant: i64) -> Option<i64> {
    let utc = DateTime::<Utc>::from_timestamp(instant, 0)?.naive_utc();
    Some(i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()))
}

/// The first instant in `(from, until]` at which the clocks are put elsewhere.
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

/// When the clocks of `zone` first show `wall`; where they skip it, the end of
/// the gap.
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

/// A part of `spread` that is always the same for `account`, so that many
/// accounts with one schedule do not start at once.
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
