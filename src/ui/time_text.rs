//! Times and values as text for the pages.

use serde_json::Value as Json;

use crate::clock::Timestamp;
use crate::format;
use crate::health::account_status::Health;

/// A time in the forms that the pages show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeText {
    /// ISO 8601 in UTC: `2026-11-20T12:31:25Z`.
    pub iso: String,
    /// Short form in UTC: `2026-11-20 12:31`.
    pub short: String,
    /// Distance from now: `3 hours ago`.
    pub age: String,
}

impl TimeText {
    /// The forms of `time` at the time `now`.
    #[must_use]
    pub fn new(time: Timestamp, now: Timestamp) -> Self {
        let short = time.utc().map(|utc| utc.format("%Y-%m-%d %H:%M").to_string());
        let iso = time.iso();
        Self { short: short.unwrap_or_else(|| iso.clone()), iso, age: format::age(time, now) }
    }
}

/// The most characters of a value that a page shows.
const MAX_LENGTH: usize = 400;

/// The value of a field as text; `None` for null.
#[must_use]
pub fn value(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(cut(text)),
        other => Some(cut(&other.to_string())),
    }
}

/// `text`, or its beginning with its length.
#[must_use]
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_LENGTH) {
        None => text.to_owned(),
        Some((at, _)) => {
            let length = format::count(text.chars().count() as u64);
            format!("{}… ({length} characters)", &text[..at])
        }
    }
}

/// The label of an account's health.
#[must_use]
pub const fn health(health: Health) -> &'static str {
    match health {
        Health::Good => "Good",
        Health::New => "No backup yet",
        Health::Warning => "Warning",
        Health::Failing => "Failing",
    }
}

#[cfg(test)]
mod tests {
    use crate::ui::time_text::*;

    #[test]
    fn a_time_has_date_and_age() {
        let now = Timestamp(1_763_730_000_000);
        let when = TimeText::new(Timestamp(now.0 - 3 * 3_600_000), now);
        assert_eq!(when.iso, "2025-11-21T10:00:00Z");
        assert_eq!((when.short.as_str(), when.age.as_str()), ("2025-11-21 10:00", "3 hours ago"));
        assert_eq!(TimeText::new(Timestamp(i64::MAX), now).short, format!("{} ms", i64::MAX));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(value(&Json::Null), None);
        assert_eq!(value(&serde_json::json!([1, true])), Some("[1,true]".to_owned()));
        let long = value(&Json::String("ä".repeat(500))).unwrap();
        assert_eq!(long, format!("{}… (500 characters)", "ä".repeat(MAX_LENGTH)));
    }
}
