//! Sent values: values that linkvault sent and that no list returns, and the forms in which the
//! service stores others.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::record::RecordKey;
use super::resource::Resource;

/// The sent values of one record, by field. For a campaign the field `links` is an array of link
/// ids, and the field `rotator` is the rotator seen after its slug was sent, `null` before that. The
/// field `name.stored` holds both forms of a `name` that the service stored in another form
/// ([`form_of`]).
pub type SentFields = BTreeMap<String, Json>;

/// The sent values of all records.
pub type SentValues = BTreeMap<(Resource, RecordKey), SentFields>;

/// A sent value that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentValue {
    /// Resource of the record.
    pub resource: Resource,
    /// Identity of the record.
    pub key: RecordKey,
    /// Name of the field.
    pub field: String,
    /// The value, as it was sent.
    pub value: Json,
    /// Whether it was sent with the create of the record: it then holds since the record exists.
    pub created: bool,
}

/// A value that the service stored in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredForm<'a> {
    /// The value that linkvault sent.
    pub sent: &'a Json,
    /// The value that the list showed after that; `None` if no list was read since.
    pub stored: Option<&'a Json>,
}

/// Both forms of a value of `field`, to be kept among the sent values of its record.
#[must_use]
pub fn form_of(field: &str, sent: &Json, stored: &Json) -> (String, Json) {
    (format!("{field}{STORED}"), serde_json::json!({"sent": sent, "stored": stored}))
}

/// A value of `field` that was sent and not read since, in the place of [`form_of`].
#[must_use]
pub fn unseen_form(field: &str, sent: &Json) -> (String, Json) {
    (format!("{field}{STORED}"), serde_json::json!({"sent": sent}))
}

/// The forms of a field that [`form_of`] has kept.
#[must_use]
pub fn stored_form<'a>(sent: &'a SentFields, field: &str) -> Option<StoredForm<'a>> {
    // Few records have such values, so the name is not put together for each of the others.
    let is_of = |name: &str| name.strip_suffix(STORED) == Some(field);
    let (_, form) = sent.iter().find(|(name, _)| is_of(name))?;
    Some(StoredForm { sent: form.get("sent")?, stored: form.get("stored") })
}

/// The end of the names of values that hold both forms.
const STORED: &str = ".stored";

/// Decodes a stored value; `None` for text that is not JSON, which linkvault never writes.
#[must_use]
pub fn decode(text: &str) -> Option<Json> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_decode_and_other_text_does_not() {
        for text in [r#""old""#, "null", "[3,5]", r#"{"b":1,"a":"é"}"#, "true"] {
            assert_eq!(decode(text).map(|json| json.to_string()).as_deref(), Some(text));
        }
        for text in ["", "old", "[3", "\"\\ud800\""] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
