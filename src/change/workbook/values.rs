//! Values of cells as the texts that a CSV file would have.

use std::fmt::Write as _;

use chrono::{Days, NaiveDate, NaiveTime};

use crate::change::workbook::sheet::CellKind;

/// Numbers from here on have more than 15 digits. A spreadsheet replaces further digits that are typed
/// by zeros.
pub(super) const INEXACT: u64 = 1_000_000_000_000_000;

/// Whether a spreadsheet does not store all digits of a number.
#[expect(clippy::cast_precision_loss, reason = "the limit is exact")]
fn is_inexact(value: f64) -> bool {
    !value.is_finite() || value.abs() >= INEXACT as f64
}

/// Writes a number: whole numbers without decimals, all without an exponent except those with too
/// many digits, which then count as rounded in a copy as CSV.
pub(super) fn number(value: f64, text: &mut String) -> CellKind {
    if is_inexact(value) {
        text.push_str(&format!("{value:E}").replace('E', "E+"));
        return CellKind::Inexact;
    }
    // Without the sign of a negative zero.
    let _ = write!(text, "{}", value + 0.0);
    CellKind::Value
}

const SECONDS: f64 = 86_400.0;

/// Writes the day number of an `.xlsx` file as date and time, or as a time of day if it has no day.
pub(super) fn date(serial: f64, is_1904: bool, text: &mut String) -> CellKind {
    let seconds = (serial * SECONDS).round();
    // Until the year 9999.
    if !(0.0..2_958_466.0 * SECONDS).contains(&seconds) {
        return number(serial, text);
    }
    if !is_1904 && seconds < SECONDS {
        return duration(serial, text);
    }
    let (day, second) = ((seconds / SECONDS).floor(), seconds.rem_euclid(SECONDS));
    let first = match is_1904 {
        true => NaiveDate::from_ymd_opt(1904, 1, 1),
        // Excel counts a day 60 that did not exist, 29 February 1900.
        false if day < 60.0 => NaiveDate::from_ymd_opt(1899, 12, 31),
        false => NaiveDate::from_ymd_opt(1899, 12, 30),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let (day, second) = (day as u64, second as u32);
    let date = first.and_then(|first| first.checked_add_days(Days::new(day)));
    let time = NaiveTime::from_num_seconds_from_midnight_opt(second, 0);
    match date.zip(time) {
        Some((date, time)) => {
            let _ = write!(text, "{date} {time}");
            CellKind::Formatted
        }
        None => number(serial, text),
    }
}

/// Writes a part of a day as `HH:MM:SS`, with more than 24 hours if it is longer.
pub(super) fn duration(days: f64, text: &mut String) -> CellKind {
    let seconds = (days * SECONDS).round();
    if seconds < 0.0 || is_inexact(seconds) {
        return number(days, text);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let seconds = seconds as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let _ = write!(text, "{hours:02}:{minutes:02}:{:02}", seconds % 60);
    CellKind::Formatted
}

/// Writes `2025-07-10T15:05:25.5` or `2025-07-10` as the API writes dates.
pub(super) fn iso_date(iso: &str, text: &mut String) -> CellKind {
    let iso = iso.split('.').next().unwrap_or_default().trim_end_matches('Z');
    match iso.split_once('T') {
        Some((date, time)) => {
            let _ = write!(text, "{date} {time}");
        }
        None => {
            let _ = write!(text, "{iso} 00:00:00");
        }
    }
    CellKind::Formatted
}

/// Writes `PT15H05M25S` as `15:05:25`; other durations unchanged.
pub(super) fn iso_duration(iso: &str, text: &mut String) -> CellKind {
    let parts = iso.strip_prefix("PT").and_then(|rest| {
        let (hours, rest) = rest.split_once('H')?;
        let (minutes, rest) = rest.split_once('M')?;
        let seconds = rest.strip_suffix('S')?.split(['.', ',']).next()?;
        let number = |part: &str| part.parse::<u32>().ok();
        Some((number(hours)?, number(minutes)?, number(seconds)?))
    });
    match parts {
        Some((hours, minutes, seconds)) => {
            let _ = write!(text, "{hours:02}:{minutes:02}:{seconds:02}");
        }
        None => text.push_str(iso),
    }
    CellKind::Formatted
}

/// Writes a percentage as the number: `0.5` for 50 %.
pub(super) fn percentage(value: f64, text: &mut String) -> CellKind {
    match number(value, text) {
        CellKind::Value => CellKind::Formatted,
        kind => kind,
    }
}
