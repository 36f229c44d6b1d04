//! Sent values: values that linkvault sent and that no list returns.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::record::RecordKey;
use super::resource::Resource;

/// The sent values of one record, by field. For a campaign the field `links` is an array of link
/// ids, and the field `rotator` is the rotator seen after its slug was sent, `null` before that.
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
