//! A limit on how many records may change or be removed, as a number or a percentage.

use std::fmt;
use std::str::FromStr;

/// The largest number of records of an account or a list that may change or be removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CountOrPercent {
    /// Number of records.
    Count(u64),
    /// Percentage of all records, from 0 to 100. Not applied to fewer than
    /// [`MIN_RECORDS_FOR_PERCENT`] records.
    Percent(f64),
}

/// A percentage is not applied to fewer records than this.
pub const MIN_RECORDS_FOR_PERCENT: u64 = 10;

impl Default for CountOrPercent {
    fn default() -> Self {
        Self::Percent(30.0)
    }
}

impl CountOrPercent {
    /// The number of `all` records that it allows; `None` for a percentage of fewer than
    /// [`MIN_RECORDS_FOR_PERCENT`] records.
    #[must_use]
    pub fn allows(self, all: u64) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count),
            Self::Percent(_) if all < MIN_RECORDS_FOR_PERCENT => None,
            // f64 is exact up to 2⁵³ records.
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss
            )]
            Self::Percent(percent) => Some((all as f64 * percent / 100.0) as u64),
        }
    }
}

/// The text is neither a number nor a percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a number such as 12 nor a percentage such as 30%")]
pub struct CountOrPercentError(String);

/// Parses a whole number, or a whole percentage such as `30%`.
impl FromStr for CountOrPercent {
    type Err = CountOrPercentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || CountOrPercentError(text.to_owned());
        let digits = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| part.parse::<u64>().ok()).flatten().ok_or_else(error)
        };
        match text.trim().strip_suffix('%') {
            None => digits(text.trim()).map(Self::Count),
            Some(part) => match u8::try_from(digits(part.trim_end())?) {
                Ok(percent @ 0..=100) => Ok(Self::Percent(percent.into())),
                _ => Err(error()),
            },
        }
    }
}

impl fmt::Display for CountOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_percentage() {
        assert_eq!("12".parse(), Ok(CountOrPercent::Count(12)));
        assert_eq!(" 30 %".parse(), Ok(CountOrPercent::Percent(30.0)));
        for wrong in ["", "%", "101%", "-1", "+1", "1.5", "1.5%", "x", "99999999999999999999"] {
            assert!(wrong.parse::<CountOrPercent>().is_err(), "{wrong}");
        }
        assert_eq!(CountOrPercent::default().to_string(), "30%");
    }

    #[test]
    fn a_percentage_applies_from_ten_records_on() {
        assert_eq!(CountOrPercent::Percent(30.0).allows(9), None);
        for (percent, all, allowed) in [(30, 10, 3), (29, 100, 29), (57, 100, 57), (7, 99, 6)] {
            assert_eq!(CountOrPercent::Percent(percent.into()).allows(all), Some(allowed));
        }
        assert_eq!(CountOrPercent::Percent(12.5).allows(40), Some(5));
        assert_eq!(CountOrPercent::Count(0).allows(1), Some(0));
    }
}
