//! Parses the fields of a crontab expression.

use std::collections::BTreeSet;

/// A kind of field with its allowed values.
pub(crate) struct CronField {
    pub name: &'static str,
    pub low: u32,
    pub high: u32,
    /// Names of the values, the first for `low`.
    words: &'static [&'static str],
}

pub(crate) const SECOND: CronField = CronField { name: "second", low: 0, high: 59, words: &[] };
pub(crate) const MINUTE: CronField = CronField { name: "minute", low: 0, high: 59, words: &[] };
pub(crate) const HOUR: CronField = CronField { name: "hour", low: 0, high: 23, words: &[] };
pub(crate) const DAY: CronField =
    CronField { name: "day of the month", low: 1, high: 31, words: &[] };
pub(crate) const MONTH: CronField = CronField {
    name: "month",
    low: 1,
    high: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// Sunday is 0 and 7.
pub(crate) const WEEKDAY: CronField = CronField {
    name: "day of the week",
    low: 0,
    high: 7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// One parsed field. Whether it begins with `*` decides how the two day fields combine and how
/// daylight saving time is handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub values: BTreeSet<u32>,
    pub starred: bool,
}

impl Field {
    /// Every value of `kind`.
    pub fn all(kind: &CronField) -> Self {
        Self { values: (kind.low..=kind.high).collect(), starred: true }
    }

    /// Parses a list of values, ranges and steps.
    pub fn parse(kind: &CronField, text: &str) -> Result<Self, String> {
        let wrong = |what: String| {
            let CronField { name, low, high, words } = kind;
            let words = match words {
                [first, .., last] => format!(" or {first} to {last}"),
                _ => String::new(),
            };
            format!(
                "{name}: {what}; allowed are {low} to {high}{words}, `*`, lists, ranges and steps"
            )
        };
        let mut values = BTreeSet::new();
        for part in text.split(',') {
            values.extend(part_of(kind, part).map_err(wrong)?);
        }
        Ok(Self { values, starred: text.starts_with('*') })
    }

    /// The values as a list, each changed by `convert`.
    pub fn list(&self, convert: impl Fn(u32) -> u32) -> String {
        let values: BTreeSet<_> = self.values.iter().map(|value| convert(*value)).collect();
        values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

/// Parses `*`, `5`, `1-5`, `*/2` or `1-9/2`.
fn part_of(kind: &CronField, part: &str) -> Result<Vec<u32>, String> {
    if part.is_empty() {
        return Err("a value is missing".to_owned());
    }
    let (span, step) = match part.split_once('/') {
        None => (part, None),
        Some((span, step)) => {
            let number = number(step).filter(|step| *step > 0);
            let number = number.ok_or_else(|| format!("`{step}` is not a valid step"))?;
            (span, Some(number))
        }
    };
    let (low, high) = if span == "*" {
        (kind.low, kind.high)
    } else if let Some((low, high)) = span.split_once('-') {
        let (low, mut high) = (value(kind, low)?, value(kind, high)?);
        if kind.high == WEEKDAY.high && high == 0 && low > 0 {
            // A week that ends on Sunday, such as fri-sun.
            high = 7;
        }
        if low > high {
            return Err(format!("`{span}` goes backwards"));
        }
        (low, high)
    } else {
        let value = value(kind, span)?;
        if step.is_some() {
            let high = kind.high;
            return Err(format!(
                "`{part}` has a step without a range (did you mean `{span}-{high}/…`?)"
            ));
        }
        (value, value)
    };
    let step = usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX);
    Ok((low..=high).step_by(step).collect())
}

fn value(kind: &CronField, text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let word = kind.words.iter().position(|word| *word == lower);
    let word = word.and_then(|at| u32::try_from(at).ok()).map(|at| kind.low + at);
    let found =
        word.or_else(|| number(text)).ok_or_else(|| format!("`{text}` is not a valid value"))?;
    if (kind.low..=kind.high).contains(&found) {
        Ok(found)
    } else {
        Err(format!("{found} is out of range"))
    }
}

/// Parses a number without a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
