//! Compares two contents of one record field by field. The change counts of the vault and `diff`
//! use the same comparison, so they agree.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::equality::compare;
use super::value::from_json;
use super::{DecodedRecord, FieldValue, FormEvidence, Record, RecordKey, Resource, Role};

/// A field that differs. A missing field has the value `Null`.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// Name of the field.
    pub name: String,
    /// Value in the earlier record.
    pub before: Json,
    /// Value in the later record.
    pub after: Json,
}

/// Fields as name and value, in the order of the record.
pub type FieldValues = Vec<(String, Json)>;

/// A record's fields without its counter: first the fields of the table under their own names, then
/// every other member that the service sent.
#[must_use]
pub fn fields(resource: Resource, record: &Record<'_>) -> FieldValues {
    let spec = resource.spec();
    let known = spec.read_fields().zip(&record.values);
    let mut fields: FieldValues = known
        .filter(|(field, _)| field.role != Role::Counter)
        .map(|(field, value)| {
            let shown = match value {
                FieldValue::Json(raw_value) => faithful_json(raw_value),
                value => value.json(),
            };
            (field.name.to_owned(), shown)
        })
        .collect();
    if let Ok(decoded) = DecodedRecord::read(resource, channel(&record.key), &record.raw) {
        let others = decoded.members.iter().filter(|member| spec.field(&member.name).is_none());
        for member in others {
            fields.push((member.name.clone().into_owned(), faithful_json(member.raw_value)));
        }
    }
    fields
}

/// The fields that differ, in the order of `before`, then of `after`. `forms` are those that the
/// service gave to values of the record.
#[must_use]
pub fn field_changes(
    resource: Resource,
    before: FieldValues,
    after: FieldValues,
    forms: [FormEvidence<'_>; 2],
) -> Vec<FieldChange> {
    let is_same = |name: &str, before: &Json, after: &Json| {
        let Some((_, field)) = resource.spec().field(name) else { return before == after };
        let (before, after) = (from_json(before), from_json(after));
        // Either side may be the one that the other was sent as.
        compare(field, &before, &after, forms[1]).is_same()
            || compare(field, &after, &before, forms[0]).is_same()
    };
    let mut fields: Vec<FieldChange> = Vec::new();
    let mut after: BTreeMap<_, _> =
        after.into_iter().enumerate().map(|(at, (k, v))| (k, (at, v))).collect();
    for (name, before) in before {
        let after = after.remove(&name).map(|(_, value)| value).unwrap_or_default();
        if !is_same(&name, &before, &after) {
            fields.push(FieldChange { name, before, after });
        }
    }
    let mut rest: Vec<_> = after.into_iter().map(|(name, (at, value))| (at, name, value)).collect();
    rest.sort_by_key(|(at, ..)| *at);
    for (_, name, after) in rest {
        if !is_same(&name, &Json::Null, &after) {
            fields.push(FieldChange { name, before: Json::Null, after });
        }
    }
    fields
}

/// Whether two JSON texts of the record `key` have the same fields. They may differ in spelling
/// and in the counter.
#[must_use]
pub fn equal_fields(resource: Resource, key: &RecordKey, one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let read = |raw| DecodedRecord::read(resource, channel(key), raw).ok();
    let Some((one, other)) = read(one).zip(read(other)) else { return false };
    let decoded_fields = |decoded: &DecodedRecord<'_>| fields(resource, &decoded.record);
    let (one, other) = (decoded_fields(&one), decoded_fields(&other));
    field_changes(resource, one, other, [FormEvidence::None; 2]).is_empty()
}

fn channel(key: &RecordKey) -> Option<i64> {
    match key {
        RecordKey::Item { channel, .. } => Some(*channel),
        RecordKey::Id(_) => None,
    }
}

/// A value as JSON. A number that `serde_json` cannot hold exactly, and a value that it cannot
/// parse, becomes a string of its text.
fn faithful_json(raw_value: &str) -> Json {
    match serde_json::from_str(raw_value) {
        Ok(Json::Number(number)) if number.to_string() != raw_value => raw_value.into(),
        Ok(value) => value,
        Err(_) => raw_value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_equal_and_values_differ() {
        let equal = |one, other| equal_fields(Resource::Campaigns, &RecordKey::Id(1), one, other);
        let named = r#"{"id":1,"name":"a","public":true}"#;
        assert!(equal(named, r#"{"id":"1","domain":"a","public":"1"}"#));
        assert!(!equal(named, r#"{"id":1,"name":"b","public":true}"#));
        assert!(!equal(named, r#"{"id":1,"name":"a","public":true,"new":1}"#));
        assert!(!equal(named, "no JSON"));
    }

    #[test]
    fn counters_are_not_compared() {
        let code = |scans: u32| format!(r#"{{"id":1,"scans":{scans}}}"#);
        assert!(equal_fields(Resource::QrCodes, &RecordKey::Id(1), &code(1), &code(2)));
    }
}
