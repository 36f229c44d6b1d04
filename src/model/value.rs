//! One value of a field, and its lenient decoding from the service's JSON.

use std::borrow::Cow;

use super::spec::FieldKind;

/// The value of a record's field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldValue<'a> {
    /// Absent, `null`, or `false` for a [`FieldKind::TextOrFalse`].
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Text, unescaped.
    Text(Cow<'a, str>),
    /// A value that does not fit the field's kind, as its JSON text.
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

    /// The value as a cell of a table or CSV file, without escapes. `Null` is empty.
    #[must_use]
    pub fn cell(&self) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::Borrowed(""),
            Self::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Int(value) => Cow::Owned(value.to_string()),
            Self::Text(text) | Self::Json(text) => Cow::Borrowed(text),
        }
    }

    /// The value as JSON.
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

/// A JSON value as the value of a field, whatever its type: a value from the journal or a plan.
#[must_use]
pub fn from_json(json: &serde_json::Value) -> FieldValue<'_> {
    match json {
        serde_json::Value::Null => FieldValue::Null,
        serde_json::Value::Bool(flag) => FieldValue::Bool(*flag),
        serde_json::Value::String(text) => FieldValue::Text(Cow::Borrowed(text)),
        other => FieldValue::Json(Cow::Owned(other.to_string())),
    }
}

/// Decodes an integer from a JSON number or a JSON string.
#[must_use]
pub fn integer(raw_value: &str) -> Option<i64> {
    let digits =
        raw_value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(raw_value);
    let signed = digits.strip_prefix('-').unwrap_or(digits);
    let plain = !signed.is_empty() && signed.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Decodes a JSON string; `None` if `raw_value` is not a string or has a lone surrogate.
#[must_use]
pub fn text(raw_value: &str) -> Option<Cow<'_, str>> {
    let inner = raw_value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw_value).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Decodes one JSON value leniently as `kind`. A value that does not fit becomes
/// [`FieldValue::Json`].
#[must_use]
pub fn read(kind: FieldKind, raw_value: &str) -> FieldValue<'_> {
    let fitting = match kind {
        _ if raw_value == "null" => Some(FieldValue::Null),
        FieldKind::Int => integer(raw_value).map(FieldValue::Int),
        FieldKind::Bool => boolean(raw_value).map(FieldValue::Bool),
        FieldKind::TextOrFalse if raw_value == "false" => Some(FieldValue::Null),
        _ => number_or_text(raw_value).map(FieldValue::Text),
    };
    fitting.unwrap_or(FieldValue::Json(Cow::Borrowed(raw_value)))
}

fn boolean(raw_value: &str) -> Option<bool> {
    match raw_value {
        "true" | "1" | "\"1\"" | "\"true\"" => Some(true),
        "false" | "0" | "\"0\"" | "\"false\"" | "\"\"" => Some(false),
        _ => None,
    }
}

/// Text from a JSON string or number: a name may be `2026`.
fn number_or_text(raw_value: &str) -> Option<Cow<'_, str>> {
    let number = raw_value.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if number { Some(Cow::Borrowed(raw_value)) } else { text(raw_value) }
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
    fn a_lone_surrogate_is_kept_as_raw_json() {
        let raw_value = "\"\\ud800\"";
        assert_eq!(read(FieldKind::Text, raw_value), FieldValue::Json(raw_value.into()));
    }

    #[test]
    fn false_for_a_rotator_is_null() {
        assert_eq!(read(FieldKind::TextOrFalse, "false"), FieldValue::Null);
        assert_eq!(
            read(FieldKind::TextOrFalse, "\"https://x\""),
            FieldValue::Text("https://x".into())
        );
    }
}
