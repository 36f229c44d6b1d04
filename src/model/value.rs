//! One value of a field, and how the service's lenient spellings become it.

use std::borrow::Cow;

use super::spec::FieldKind;

/// What a field of a record holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldValue<'a> {
    /// Absent, `null`, or `false` where text was possible.
    Null,
    Bool(bool),
    Int(i64),
    Text(Cow<'a, str>),
    /// What does not fit the field's kind, as the JSON text that came.
    Json(Cow<'a, str>),
}

impl FieldValue<'_> {
    /// The same value, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> FieldValue<'static> {
        match self {
            Self::Null => FieldValue::Null,
            Self::Bool(value) => FieldValue::Bool(value),
            Self::Int(value) => FieldValue::Int(value),
            Self::Text(text) => FieldValue::Text(Cow::Owned(text.into_owned())),
            Self::Json(text) => FieldValue::Json(Cow::Owned(text.into_owned())),
        }
    }

    /// As a cell of a table or CSV file; nothing is escaped. `Null` is empty.
    #[must_use]
    pub fn cell(&self) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::Borrowed(""),
            Self::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Int(value) => Cow::Owned(value.to_string()),
            Self::Text(text) | Self::Json(text) => Cow::Borrowed(text),
        }
    }

    /// As JSON. What did not fit its kind stands as it came.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Text(text) => text.as_ref().into(),
            Self::Json(text) => serde_json::from_str(text).unwrap_or(serde_json::Value::Null),
        }
    }
}

/// An integer, from a number or from a string that holds one.
#[must_use]
pub fn integer(lexeme: &str) -> Option<i64> {
    let digits = lexeme.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(lexeme);
    let signed = digits.strip_prefix('-').unwrap_or(digits);
    let plain = !signed.is_empty() && signed.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// A string literal's content, if `lexeme` is one that UTF-8 can hold.
#[must_use]
pub fn text(lexeme: &str) -> Option<Cow<'_, str>> {
    let inner = lexeme.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(lexeme).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Reads one JSON value leniently as `kind`. What does not fit is kept as
/// [`FieldValue::Json`].
#[must_use]
pub fn read(kind: FieldKind, lexeme: &str) -> FieldValue<'_> {
    let fitting = match kind {
        _ if lexeme == "null" => Some(FieldValue::Null),
        FieldKind::Int => integer(lexeme).map(FieldValue::Int),
        FieldKind::Bool => boolean(lexeme).map(FieldValue::Bool),
        FieldKind::TextOrFalse if lexeme == "false" => Some(FieldValue::Null),
        _ => words(lexeme).map(FieldValue::Text),
    };
    fitting.unwrap_or(FieldValue::Json(Cow::Borrowed(lexeme)))
}

fn boolean(lexeme: &str) -> Option<bool> {
    match lexeme {
        "true" | "1" | "\"1\"" | "\"true\"" => Some(true),
        "false" | "0" | "\"0\"" | "\"false\"" | "\"\"" => Some(false),
        _ => None,
    }
}

/// Text, from a string or from a number (a name may be `2026`).
fn words(lexeme: &str) -> Option<Cow<'_, str>> {
    let number = lexeme.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if number { Some(Cow::Borrowed(lexeme)) } else { text(lexeme) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_may_come_as_strings_but_not_as_fractions_or_beyond_64_bits() {
        assert_eq!(integer("12"), Some(12));
        assert_eq!(integer("\"12\""), Some(12));
        assert_eq!(integer("-3"), Some(-3));
        for bad in ["1.0", "1e3", "\"\"", "-", "\"+1\"", "9223372036854775808", "true", "\" 1\""] {
            assert_eq!(integer(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_lone_surrogate_is_kept_as_it_came() {
        let lexeme = "\"\\ud800\"";
        assert_eq!(read(FieldKind::Text, lexeme), FieldValue::Json(lexeme.into()));
    }

    #[test]
    fn the_false_of_a_campaign_without_rotator_is_nothing() {
        assert_eq!(read(FieldKind::TextOrFalse, "false"), FieldValue::Null);
        assert_eq!(
            read(FieldKind::TextOrFalse, "\"https://x\""),
            FieldValue::Text("https://x".into())
        );
    }
}
