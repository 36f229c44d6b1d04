//! Sent values: what linkvault sent and no list gives back.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::record::RecordKey;
use super::resource::Resource;

/// The sent values of one record, by field. A campaign's links stand under the field `links`, as
/// an array of ids; beside its slug stands the `rotator` that was seen after the slug was sent,
/// or `null` before that.
pub type SentFields = BTreeMap<String, Json>;

/// The sent values of records.
pub type SentValues = BTreeMap<(Resource, RecordKey), SentFields>;

/// A value that was sent and is to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentValue {
    pub resource: Resource,
    pub key: RecordKey,
    pub field: String,
    pub value: Json,
    /// It was sent with the record's create, so it is as old as the record.
    pub created: bool,
}

/// Reads a value as it is stored. `None`: text that is not JSON was not written by linkvault.
#[must_use]
pub fn decode(text: &str) -> Option<Json> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_it_was_stored_and_other_text_is_none() {
        for text in [r#""old""#, "null", "[3,5]", r#"{"b":1,"a":"é"}"#, "true"] {
            assert_eq!(decode(text).map(|json| json.to_string()).as_deref(), Some(text));
        }
        for text in ["", "old", "[3", "\"\\ud800\""] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
