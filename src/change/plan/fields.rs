//! Compares values of fields, converts them for requests, and computes the fingerprint of a record.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::model::natural_key::fold_case;
use crate::model::{Field, FieldKind, FieldValue, Record, Resource, Role};

/// Whether two values of `field` are equivalent: a missing text is empty, an unset flag is off,
/// and colours are compared without case and blanks.
pub(super) fn equal_values(field: &Field, one: &FieldValue<'_>, other: &FieldValue<'_>) -> bool {
    if one == other {
        return true;
    }
    if field.kind == FieldKind::Bool {
        return flag(one).is_some_and(|one| Some(one) == flag(other));
    }
    match (text(one), text(other)) {
        (Some(one), Some(other)) => match field.kind {
            FieldKind::HexColor => one.eq_ignore_ascii_case(other),
            FieldKind::RgbColor => compact(one) == compact(other),
            _ if field.name == "domain" => domain(one) == domain(other),
            _ => one == other,
        },
        (None, None) => one.json() == other.json() && !one.json().is_null(),
        _ => false,
    }
}

/// Whether `wanted` was sent before and `live` differs from it only in case: some services
/// convert names to lower case.
pub(super) fn normalized(
    field: &Field,
    sent: Option<&Json>,
    wanted: &FieldValue<'_>,
    live: &FieldValue<'_>,
) -> bool {
    let was_sent = sent.is_some_and(|sent| equal_values(field, &from_json(sent), wanted));
    let but_for_case = || match (text(wanted), text(live)) {
        (Some(wanted), Some(live)) => fold_case(wanted) == fold_case(live),
        _ => false,
    };
    was_sent && but_for_case()
}

/// Converts a JSON value from the journal or a plan.
pub(super) fn from_json(json: &Json) -> FieldValue<'_> {
    match json {
        Json::Null => FieldValue::Null,
        Json::Bool(flag) => FieldValue::Bool(*flag),
        Json::String(text) => FieldValue::Text(Cow::Borrowed(text)),
        other => FieldValue::Json(Cow::Owned(other.to_string())),
    }
}

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

fn flag(value: &FieldValue<'_>) -> Option<bool> {
    match value {
        FieldValue::Bool(flag) => Some(*flag),
        value => is_empty(value).then_some(false),
    }
}

fn compact(colour: &str) -> String {
    colour.chars().filter(|letter| !letter.is_whitespace()).flat_map(char::to_lowercase).collect()
}

/// A domain's URL with scheme and host in lower case.
pub(super) fn domain(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    format!("{}{}", url[..end].to_lowercase(), &url[end..])
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

    fn field(resource: Resource, name: &str) -> &'static Field {
        resource.spec().field(name).unwrap().1
    }

    fn text_value(text: &str) -> FieldValue<'_> {
        FieldValue::Text(text.into())
    }

    #[test]
    fn a_missing_and_an_empty_text_are_equal_and_colours_ignore_case() {
        let name = field(Resource::Channels, "name");
        assert!(equal_values(name, &FieldValue::Null, &text_value("")));
        assert!(!equal_values(name, &text_value("a"), &text_value("A")));
        let color = field(Resource::Channels, "color");
        assert!(equal_values(color, &text_value("#aabbcc"), &text_value("#AABBCC")));
        let rgb = field(Resource::QrCodes, "background");
        assert!(equal_values(rgb, &text_value("rgb(1, 2,3)"), &text_value("RGB(1,2,3)")));
        let public = field(Resource::Campaigns, "public");
        assert!(equal_values(public, &FieldValue::Null, &FieldValue::Bool(false)));
        assert!(!equal_values(public, &FieldValue::Null, &FieldValue::Bool(true)));
    }

    #[test]
    fn a_name_in_lower_case_is_equal_only_to_a_name_that_was_sent() {
        let name = field(Resource::Channels, "name");
        let sent = Json::from("News");
        assert!(normalized(name, Some(&sent), &text_value("News"), &text_value("news")));
        assert!(!normalized(name, None, &text_value("News"), &text_value("news")));
        assert!(!normalized(name, Some(&sent), &text_value("Other"), &text_value("news")));
        assert!(!normalized(name, Some(&sent), &text_value("News"), &text_value("else")));
    }

    #[test]
    fn lists_are_compared_as_lists() {
        let data = field(Resource::QrCodes, "data");
        let one = FieldValue::Json(r#"["a", "b"]"#.into());
        assert!(equal_values(data, &one, &FieldValue::Json(r#"["a","b"]"#.into())));
        assert!(!equal_values(data, &one, &FieldValue::Json(r#"["b","a"]"#.into())));
        assert!(!equal_values(data, &FieldValue::Json("x".into()), &FieldValue::Json("y".into())));
    }

    #[test]
    fn a_domain_ignores_case_in_scheme_and_host_only() {
        assert_eq!(domain("HTTPS://Go.Example.com/Path"), "https://go.example.com/Path");
        assert_eq!(domain("Go.Example.com"), "go.example.com");
    }

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
