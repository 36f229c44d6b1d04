//! Converts values of fields for requests, and computes the fingerprint of a record.

use serde_json::Value as Json;

use crate::model::equality::flag;
use crate::model::{Field, FieldKind, FieldValue, Record, Resource, Role};

/// The value for a request body; `None` if it does not fit the field's type.
pub(super) fn sendable(field: &Field, value: &FieldValue<'_>) -> Option<Json> {
    match (field.kind, value) {
        (FieldKind::Bool, value) => flag(value).map(Json::Bool),
        (FieldKind::TextOrList, FieldValue::Json(_)) => {
            Some(value.json()).filter(|json| json.is_array() || json.is_object())
        }
        (_, value) => text(value).map(Json::from),
    }
}

/// Whether a value is missing or an empty text.
pub(super) fn is_empty(value: &FieldValue<'_>) -> bool {
    text(value) == Some("")
}

/// The text; empty for a missing value, `None` for other types.
pub(super) fn text<'v>(value: &'v FieldValue<'_>) -> Option<&'v str> {
    match value {
        FieldValue::Null => Some(""),
        FieldValue::Text(text) => Some(text),
        _ => None,
    }
}

/// The slug of a rotator's URL: `summer` for `https://x/r/summer`.
#[must_use]
pub fn slug(rotator: &str) -> Option<&str> {
    let (before, slug) = rotator.trim_end_matches('/').rsplit_once('/')?;
    let plain = !slug.is_empty() && !slug.contains(['?', '#']);
    (plain && before.ends_with("/r")).then_some(slug)
}

/// A hash of a record's values, in hex. It ignores the JSON spelling and the counter, which the
/// service increments.
#[must_use]
pub fn fingerprint(resource: Resource, record: &Record<'_>) -> String {
    let mut sum = blake3::Hasher::new();
    let mut add = |tag: u8, text: &str| {
        sum.update(&[tag]);
        sum.update(&(text.len() as u64).to_le_bytes());
        sum.update(text.as_bytes());
    };
    add(b'k', &record.key.to_string());
    let fields = resource.spec().read_fields().zip(&record.values);
    for (_, value) in fields.filter(|(field, _)| field.role != Role::Counter) {
        let tag = match value {
            FieldValue::Null => b'0',
            FieldValue::Bool(_) => b'b',
            FieldValue::Int(_) => b'i',
            FieldValue::Text(_) => b't',
            FieldValue::Json(_) => b'j',
        };
        add(tag, &value.cell());
    }
    sum.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DecodedRecord;

    #[test]
    fn a_slug_is_the_last_part_of_a_rotators_address() {
        assert_eq!(slug("https://x.example/r/summer"), Some("summer"));
        for none in ["https://x.example/summer", "", "/r/", "r/x?y", "https://x/r/a/b"] {
            assert_eq!(slug(none), None, "{none}");
        }
    }

    #[test]
    fn a_fingerprint_depends_on_values_and_not_on_spelling_or_counter() {
        let of = |raw: &str| {
            let record =
                DecodedRecord::read(Resource::QrCodes, None, raw).unwrap().record.into_owned();
            fingerprint(Resource::QrCodes, &record)
        };
        let first = of(r#"{"id":1,"scans":3,"name":"a"}"#);
        assert_eq!(first, of(r#"{"name":"a","id":"1","scans":"9"}"#));
        assert_ne!(first, of(r#"{"id":1,"scans":3,"name":"b"}"#));
    }
}
