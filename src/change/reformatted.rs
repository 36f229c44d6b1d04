//! Whether a cell has a value that the service sets in another form: spreadsheets reformat dates
//! and numbers.

use crate::model::{Field, FieldKind, FieldValue};

/// Whether `cell` is `value` in another form. An ambiguous date is equal if one of its readings is.
/// A date without a time, or without seconds, is compared as far as it goes.
#[must_use]
pub fn is_reformatted(field: &Field, cell: &FieldValue<'_>, value: &FieldValue<'_>) -> bool {
    let (cell, value) = (cell.cell(), value.cell());
    match field.kind {
        FieldKind::Date | FieldKind::DateTime => {
            let cell = readings(&cell);
            let values = if cell.is_empty() { Vec::new() } else { readings(&value) };
            values.iter().any(|value| cell.iter().any(|cell| cell.agrees_with(value)))
        }
        FieldKind::Int => digits(&cell).is_some_and(|digits| digits == value),
        _ => false,
    }
}

/// A date, with a time if one is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DateReading {
    date: (u32, u32, u32),
    time: Option<TimeReading>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimeReading {
    hour: u32,
    minute: u32,
    second: Option<u32>,
}

impl DateReading {
    fn agrees_with(&self, value: &Self) -> bool {
        let same_time = match (self.time, value.time) {
            (Some(mine), Some(theirs)) => {
                let same_second = mine.second.is_none_or(|it| it == theirs.second.unwrap_or(0));
                (mine.hour, mine.minute) == (theirs.hour, theirs.minute) && same_second
            }
            (Some(mine), None) => (mine.hour, mine.minute, mine.second.unwrap_or(0)) == (0, 0, 0),
            (None, _) => true,
        };
        self.date == value.date && same_time
    }
}

/// The longest text that can be a date.
const MAX_LENGTH: usize = 40;

/// All dates that a text may mean: of `7/10/2025` the 7th of October and the 10th of July.
fn readings(text: &str) -> Vec<DateReading> {
    let text = text.trim();
    if text.len() > MAX_LENGTH {
        return Vec::new();
    }
    let (date, time) = match text.split_once([' ', 'T', '\u{a0}', '\u{202f}']) {
        Some((date, time)) => (date.trim_end_matches(','), Some(time)),
        None => (text, None),
    };
    let time = match time.map(|text| time_reading(&text.to_ascii_lowercase())) {
        Some(None) => return Vec::new(),
        time => time.flatten(),
    };
    let dates = dates(date).into_iter();
    dates.map(|date| DateReading { date, time }).collect()
}

fn dates(text: &str) -> Vec<(u32, u32, u32)> {
    let Some(separator) = text.chars().find(|it| !it.is_ascii_digit()) else { return Vec::new() };
    let parts: Vec<_> = text.split(separator).collect();
    let (['.' | '/' | '-'], [one, two, three]) = ([separator], parts.as_slice()) else {
        return Vec::new();
    };
    let (Some(first), Some(second), Some(third)) = (number(one), number(two), number(three)) else {
        return Vec::new();
    };
    let year = if three.len() == 2 { 2000 + third } else { third };
    let all = match (one.len(), separator) {
        (4, _) => vec![(first, second, third)],
        (_, '.') => vec![(year, second, first)],
        _ => vec![(year, second, first), (year, first, second)],
    };
    let is_valid =
        |(_, month, day): &(u32, u32, u32)| (1..=12).contains(month) && (1..=31).contains(day);
    all.into_iter().filter(is_valid).collect()
}

/// A time in lower case, such as `15:05:25` or `3:05 pm`.
fn time_reading(text: &str) -> Option<TimeReading> {
    let text = text.trim();
    let (text, afternoon) = match (text.strip_suffix("pm"), text.strip_suffix("am")) {
        (Some(text), _) => (text.trim(), Some(true)),
        (_, Some(text)) => (text.trim(), Some(false)),
        _ => (text, None),
    };
    let mut parts = text.split(':');
    let hour = number(parts.next()?)?;
    let minute = number(parts.next()?)?;
    let second = match parts.next() {
        Some(part) => Some(number(part)?),
        None => None,
    };
    let hour = match afternoon {
        Some(true) if hour < 12 => hour + 12,
        Some(false) if hour == 12 => 0,
        _ => hour,
    };
    let is_valid = hour < 24 && minute < 60 && second.is_none_or(|it| it < 60);
    (is_valid && parts.next().is_none()).then_some(TimeReading { hour, minute, second })
}

fn number(text: &str) -> Option<u32> {
    let is_plain = (1..=4).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// The digits of a whole number with separators after each three digits, such as `1.234.567`.
fn digits(text: &str) -> Option<String> {
    let text = text.trim();
    let separators = ['.', ',', '\'', '\u{2019}', ' ', '\u{a0}', '\u{202f}'];
    let separator = text.chars().find(|it| separators.contains(it))?;
    let mut groups = text.split(separator);
    let first = groups.next()?;
    let mut all = first.to_owned();
    let is_digits = |part: &str| part.bytes().all(|it| it.is_ascii_digit());
    let mut valid = (1..=3).contains(&first.len()) && is_digits(first);
    for group in groups {
        valid &= group.len() == 3 && is_digits(group);
        all.push_str(group);
    }
    valid.then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Resource;
    use proptest::prelude::*;

    fn is_same(resource: Resource, name: &str, cell: &str, value: &str) -> bool {
        let (_, field) = resource.spec().field(name).unwrap();
        let text = |text: &str| FieldValue::Text(text.to_owned().into());
        is_reformatted(field, &text(cell), &text(value))
    }

    #[test]
    fn reformatted_dates_are_equal() {
        let date = |cell: &str| is_same(Resource::QrCodes, "date", cell, "2025-07-10 15:05:25");
        for text in [
            "10.07.2025 15:05",
            "10.7.25 15:05:25",
            "7/10/2025 3:05 PM",
            "10/07/2025 15:05",
            "7/10/2025 3:05:25 pm",
            "2025-07-10T15:05:25",
            "2025/7/10 15:05",
            "10.07.2025",
            "10-07-2025 15:05",
            " 2025-07-10 15:05 ",
            "10/7/2025, 15:05",
        ] {
            assert!(date(text), "{text}");
        }
        for text in [
            "11.07.2025 15:05",
            "07.10.2025 15:05",
            "10.07.2025 15:06",
            "10.07.2025 15:05:26",
            "7/10/2025 3:05",
            "2025-10-07",
            "",
            "x",
            "10.07",
            "10.07.2025 later",
            "32.07.2025",
            "10.07.2025 15:05:25:1",
            "10/07.2025",
        ] {
            assert!(!date(text), "{text}");
        }
        assert!(is_same(Resource::ChannelItems, "date", "10.07.2025 00:00", "2025-07-10"));
        assert!(!is_same(Resource::ChannelItems, "date", "10.07.2025 01:00", "2025-07-10"));
        assert!(!is_same(Resource::QrCodes, "date", "10.07.2025", "never"));
    }

    #[test]
    fn numbers_with_separators_are_equal() {
        let scans = |cell: &str| is_same(Resource::QrCodes, "scans", cell, "1234567");
        for text in ["1.234.567", "1,234,567", "1 234 567", "1'234'567", "1\u{202f}234\u{202f}567"]
        {
            assert!(scans(text), "{text}");
        }
        for text in ["1.234567", "1.234.568", "12.34.567", ".234.567", "1.234,567", "x", ""] {
            assert!(!scans(text), "{text}");
        }
    }

    #[test]
    fn other_fields_are_compared_as_they_are() {
        assert!(!is_same(Resource::QrCodes, "name", "10.07.2025", "2025-07-10"));
    }

    proptest! {
        #[test]
        fn any_text_is_compared(cell in any::<String>(), value in any::<String>()) {
            is_same(Resource::QrCodes, "date", &cell, &value);
            is_same(Resource::QrCodes, "scans", &cell, &value);
        }
    }
}
