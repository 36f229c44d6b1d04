//! Round values for the axes of a chart. Uses integers only, so that large values are exact.

use chrono::{DateTime, Datelike as _, NaiveDate, Utc};

use crate::clock::Timestamp;

/// Round values in about `wanted` steps: the first is at most `least`, the last at least `most`.
/// Returns two or more values.
#[must_use]
pub fn values(least: i64, most: i64, wanted: u32) -> Vec<i128> {
    let (mut least, mut most) = (i128::from(least.min(most)), i128::from(most.max(least)));
    if least == most {
        // Puts a flat line in the middle, without a negative tick below zero.
        least = if least == 0 { 0 } else { least - 1 };
        most += 1;
    }
    let step = round((most - least + i128::from(wanted) - 1) / i128::from(wanted.max(1)));
    let first = least.div_euclid(step) * step;
    let last = -(-most).div_euclid(step) * step;
    let mut ticks = Vec::new();
    let mut at = first;
    while at <= last {
        ticks.push(at);
        at += step;
    }
    ticks
}

/// The smallest of 1, 2, 5, 10, 20, … that is at least `step`.
fn round(step: i128) -> i128 {
    let mut power = 1;
    loop {
        for factor in [1, 2, 5] {
            if power * factor >= step {
                return power * factor;
            }
        }
        power *= 10;
    }
}

/// A short label: `950`, `12,345`, `1.2M`, `-3.5G`.
#[must_use]
pub fn label(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let size = value.unsigned_abs();
    for (unit, name) in [(18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M")] {
        let unit = 10_u128.pow(unit);
        if size >= unit {
            let (whole, tenth) = (size / unit, size % unit * 10 / unit);
            let rest = if tenth == 0 { String::new() } else { format!(".{tenth}") };
            return format!("{sign}{whole}{rest}{name}");
        }
    }
    format!("{sign}{}", crate::format::count(u64::try_from(size).unwrap_or(u64::MAX)))
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Steps in milliseconds: divisors of a day, and whole days.
const STEPS: [i64; 13] = [
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
];

/// Steps in months.
const MONTHS: [i32; 8] = [1, 3, 6, 12, 24, 60, 120, 1200];

/// Round times from `begin` to `end` with their labels, at most about `most`. Empty if no round
/// time
/// lies between, or outside the calendar.
#[must_use]
pub fn times(begin: Timestamp, end: Timestamp, most: usize) -> Vec<(Timestamp, String)> {
    let Some((first, last)) = begin.utc().zip(end.utc()) else { return Vec::new() };
    let span = end.0 - begin.0;
    let fits = |step: &i64| span / step < most as i64;
    if let Some(step) = STEPS.into_iter().find(|step| fits(step)) {
        // Weeks begin on Monday; 1970-01-01 was a Thursday.
        let shift = if step >= 7 * DAY { 4 * DAY } else { 0 };
        let start = (begin.0 - shift).div_euclid(step) * step + shift;
        let all = (0..).map(|nth| Timestamp(start + nth * step));
        let within = all.skip_while(|it| *it < begin).take_while(|it| *it <= end);
        return within.map(|it| (it, label_of(it, step))).collect();
    }
    let index = |date: &DateTime<Utc>| date.year() * 12 + date.month0() as i32;
    let months = index(&last) - index(&first) + 1;
    let Some(step) = MONTHS.into_iter().find(|step| months / step < most as i32) else {
        return Vec::new();
    };
    let from = index(&first).div_euclid(step);
    let all = (from..=index(&last).div_euclid(step)).filter_map(|nth| month(nth * step));
    let within = all.filter(|it| (begin..=end).contains(it));
    let form = if step >= 12 { "%Y" } else { "%b %Y" };
    within.map(|it| (it, formatted(it, form))).collect()
}

fn label_of(time: Timestamp, step: i64) -> String {
    if step >= DAY || time.0.rem_euclid(DAY) == 0 {
        return formatted(time, "%-d %b");
    }
    formatted(time, "%H:%M")
}

fn formatted(time: Timestamp, form: &str) -> String {
    time.utc().map_or_else(String::new, |utc| utc.format(form).to_string())
}

fn month(index: i32) -> Option<Timestamp> {
    let month = u32::try_from(index.rem_euclid(12)).ok()? + 1;
    let date = NaiveDate::from_ymd_opt(index.div_euclid(12), month, 1)?;
    Some(Timestamp(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis()))
}

#[cfg(test)]
mod tests {
    use crate::ui::chart_ticks::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_round_and_enclose() {
        assert_eq!(values(0, 97, 4), [0, 50, 100]);
        assert_eq!(values(100_000, 100_017, 4), [100_000, 100_005, 100_010, 100_015, 100_020]);
        assert_eq!(values(-7, 12, 4), [-10, -5, 0, 5, 10, 15]);
    }

    #[test]
    fn a_flat_line_has_room_around_it() {
        assert_eq!(values(0, 0, 4), [0, 1]);
        assert_eq!(values(52, 52, 4), [51, 52, 53]);
        assert_eq!(values(-3, -3, 4), [-4, -3, -2]);
    }

    #[test]
    fn labels_are_short() {
        for (value, text) in [
            (0, "0"),
            (999_999, "999,999"),
            (1_000_000, "1M"),
            (1_250_000, "1.2M"),
            (-3_500_000_000, "-3.5G"),
            (i128::from(i64::MAX), "9.2E"),
        ] {
            assert_eq!(label(value), text);
        }
    }

    fn labels(begin: &str, end: &str) -> Vec<String> {
        let at =
            |text: &str| Timestamp(DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis());
        times(at(begin), at(end), 5).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn times_are_round_at_every_length() {
        let hours = labels("2026-11-21T09:10:00Z", "2026-11-21T12:20:00Z");
        assert_eq!(hours, ["10:00", "11:00", "12:00"]);
        let night = labels("2026-11-20T20:00:00Z", "2026-11-21T08:00:00Z");
        assert_eq!(night, ["21:00", "21 Nov", "03:00", "06:00"]);
        let days = labels("2026-11-01T09:00:00Z", "2026-11-20T09:00:00Z");
        assert_eq!(days, ["2 Nov", "9 Nov", "16 Nov"]);
        let year = labels("2025-11-21T09:00:00Z", "2026-11-20T09:00:00Z");
        assert_eq!(year, ["Jan 2026", "Apr 2026", "Jul 2026", "Oct 2026"]);
        let decades = labels("1999-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        assert_eq!(decades, ["2000", "2010", "2020"]);
    }

    proptest! {
        #[test]
        fn any_values_are_enclosed_by_few_ticks(a in any::<i64>(), b in any::<i64>()) {
            let ticks = values(a, b, 4);
            prop_assert!(ticks.len() >= 2 && ticks.len() <= 7, "{ticks:?}");
            prop_assert!(ticks[0] <= i128::from(a.min(b)));
            prop_assert!(ticks[ticks.len() - 1] >= i128::from(a.max(b)));
        }

        #[test]
        fn any_times_have_few_ticks_between_them(a in any::<i64>(), b in any::<i64>()) {
            let (a, b) = (Timestamp(a.min(b)), Timestamp(a.max(b)));
            let ticks = times(a, b, 5);
            prop_assert!(ticks.len() <= 6);
            prop_assert!(ticks.iter().all(|(it, _)| (a..=b).contains(it)));
        }

        #[test]
        fn current_times_have_few_ticks(
            a in 0_i64..4_000_000_000_000, span in 1_i64..400_000_000_000
        ) {
            let ticks = times(Timestamp(a), Timestamp(a + span), 5);
            prop_assert!(ticks.len() <= 6);
        }
    }
}
