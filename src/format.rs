//! Formats numbers, sizes, durations and dates for people.

use std::borrow::Cow;
use std::time::Duration;

use crate::clock::Timestamp;

/// A number with separators: `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 record`, `2 records`.
#[must_use]
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// At most `most` names in a row: `a, b and 3 more`.
#[must_use]
pub fn list(names: &[String], most: usize) -> String {
    let (named, others) = names.split_at(most.min(names.len()));
    match others.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// How many scans QR codes have more than before: `+1 scan on 1 QR code`.
#[must_use]
pub fn new_scans(scans: i64, codes: u64) -> String {
    let noun = if scans.unsigned_abs() == 1 { "scan" } else { "scans" };
    format!("{scans:+} {noun} on {}", counted(codes, "QR code", "QR codes"))
}

/// A duration in at most two units: `0.4 s`, `41 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return if time.is_zero() { "0 s".to_owned() } else { format!("0.{} s", tenths(time)) };
    }
    let seconds = time.as_secs() + u64::from(time.subsec_millis() >= 500);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => two_units(seconds, (60, "min"), (1, "s")),
        3600..86_400 => two_units(seconds, (3600, "h"), (60, "min")),
        _ => two_units(seconds, (86_400, "d"), (3600, "h")),
    }
}

fn tenths(time: Duration) -> u32 {
    (time.subsec_millis() / 100).max(1)
}

fn two_units(seconds: u64, (large, a): (u64, &str), (small, b): (u64, &str)) -> String {
    let rest = seconds % large / small;
    let first = format!("{} {a}", count(seconds / large));
    if rest == 0 { first } else { format!("{first} {rest} {b}") }
}

/// At most `most` characters of `text`; a cut is marked with an ellipsis.
#[must_use]
pub fn truncate(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A size in bytes with a binary unit: `512 B`, `14.0 KiB`, `2.1 GiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < units.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, units[unit])
}

/// The distance of `then` from `now`: `3 hours ago`, `just now`, `in 5 minutes`.
#[must_use]
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let (past, future) = (now.since(then).as_secs(), then.since(now).as_secs());
    match (past, future) {
        (0..10, 0..10) => "just now".to_owned(),
        (_, 0) => format!("{} ago", largest_unit(past)),
        _ => format!("in {}", largest_unit(future)),
    }
}

fn largest_unit(seconds: u64) -> String {
    let units = [
        (365 * 86_400, "year"),
        (30 * 86_400, "month"),
        (86_400, "day"),
        (3600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let (length, unit) =
        units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or(units[5]);
    let number = seconds / length;
    format!("{} {unit}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Local date and time of this machine: `2026-11-20 13:31`.
#[must_use]
pub fn time(time: Timestamp) -> String {
    time.utc().map_or_else(
        || time.iso(),
        |utc| utc.with_timezone(&chrono::Local).format("%Y-%m-%d %H:%M").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use crate::format::*;

    #[test]
    fn counts_have_separators() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "record", "records"), "1 record");
        assert_eq!(counted(1000, "record", "records"), "1,000 records");
    }

    #[test]
    fn new_scans_have_a_sign_and_the_right_number() {
        assert_eq!(new_scans(1, 1), "+1 scan on 1 QR code");
        assert_eq!(new_scans(-3, 2), "-3 scans on 2 QR codes");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let cases = [
            (0, "0 s"),
            (20, "0.1 s"),
            (450, "0.4 s"),
            (41_000, "41 s"),
            (59_600, "1 min"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
            (7_200_000, "2 h"),
            (273_600_000, "3 d 4 h"),
        ];
        for (millis, text) in cases {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn sizes_have_one_decimal() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (14_680_064, "14.0 MiB")];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "15.9 EiB");
    }

    #[test]
    fn ages_are_past_or_future() {
        let now = Timestamp(1_000_000_000_000);
        let cases = [
            (0, "just now"),
            (-59, "59 seconds ago"),
            (-3 * 3600, "3 hours ago"),
            (-86_400, "1 day ago"),
            (-800 * 86_400, "2 years ago"),
            (300, "in 5 minutes"),
        ];
        for (seconds, text) in cases {
            assert_eq!(age(Timestamp(now.0 + seconds * 1000), now), text);
        }
    }
}
