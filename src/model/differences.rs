//! In which fields two readings of one record differ, by the table. Pure. The
//! vault counts changes by it and `diff` tells them by it, so both agree.

use std::collections::BTreeMap;

use super::{DecodedRecord, FieldValue, Record, RecordKey, Resource, Role};

/// A field's two values; `Null` where there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    pub name: String,
    pub before: serde_json::Value,
    pub after: serde_json::Value,
}

/// Fields by name, in order.
pub type FieldValues = Vec<(String, serde_json::Value)>;

/// A record's fields but its counter: the known ones by their own names, and
/// every other member that the service sent.
#[must_use]
pub fn fields(resource: Resource, record: &Record<'_>) -> FieldValues {
    let spec = resource.spec();
    let known = spec.read_fields().zip(&record.values);
    let mut fields: FieldValues = known
        .filter(|(field, _)| field.role != Role::Counter)
        .map(|(field, value)| {
            let shown = match value {
                FieldValue::Json(lexeme) => faithful_json(lexeme),
                value => value.json(),
            };
            (field.name.to_owned(), shown)
        })
        .collect();
    if let Ok(decoded) = DecodedRecord::read(resource, channel(&record.key), &record.raw) {
        let others = decoded.members.iter().filter(|member| spec.field(&member.name).is_none());
        for member in others {
            fields.push((member.name.clone().into_owned(), faithful_json(member.lexeme)));
        }
    }
    fields
}

/// The fields that differ, in the order of `before`, then of `after`.
#[must_use]
pub fn field_changes(before: FieldValues, after: FieldValues) -> Vec<FieldChange> {
    let mut fields: Vec<FieldChange> = Vec::new();
    let mut after: BTreeMap<_, _> =
        after.into_iter().enumerate().map(|(at, (k, v))| (k, (at, v))).collect();
    for (name, before) in before {
        let after = after.remove(&name).map(|(_, value)| value).unwrap_or_default();
        if before != after {
            fields.push(FieldChange { name, before, after });
        }
    }
    let mut rest: Vec<_> = after.into_iter().map(|(name, (at, value))| (at, name, value)).collect();
    rest.sort_by_key(|(at, ..)| *at);
    for (_, name, after) in rest {
        if !after.is_null() {
            fields.push(FieldChange { name, before: serde_json::Value::Null, after });
        }
    }
    fields
}

/// Whether two texts of the record called `key` have the same fields: only
/// their spelling, and the counter, may differ.
#[must_use]
pub fn equal_fields(resource: Resource, key: &RecordKey, one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let read = |raw| DecodedRecord::read(resource, channel(key), raw).ok();
    let Some((one, other)) = read(one).zip(read(other)) else { return false };
    let of = |decoded: &DecodedRecord<'_>| fields(resource, &decoded.record);
    field_changes(of(&one), of(&other)).is_empty()
}

fn channel(key: &RecordKey) -> Option<i64> {
    match key {
        RecordKey::Item { channel, .. } => Some(*channel),
        RecordKey::Id(_) => None,
    }
}

/// A value as JSON; one that JSON's numbers or our depth cannot hold exactly,
/// as its text.
fn faithful_json(lexeme: &str) -> serde_json::Value {
    match serde_json::from_str(lexeme) {
        Ok(serde_json::Value::Number(number)) if number.to_string() != lexeme => lexeme.into(),
        Ok(value) => value,
        Err(_) => lexeme.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_spelling_is_alike_and_another_value_is_not() {
        let alike = |one, other| equal_fields(Resource::Campaigns, &RecordKey::Id(1), one, other);
        let named = r#"{"id":1,"name":"a","public":true}"#;
        assert!(alike(named, r#"{"id":"1","domain":"a","public":"1"}"#));
        assert!(!alike(named, r#"{"id":1,"name":"b","public":true}"#));
        assert!(!alike(named, r#"{"id":1,"name":"a","public":true,"new":1}"#));
        assert!(!alike(named, "no JSON"));
    }

    #[test]
    fn a_counter_that_moved_is_alike() {
        let code = |scans: u32| format!(r#"{{"id":1,"scans":{scans}}}"#);
        assert!(equal_fields(Resource::QrCodes, &RecordKey::Id(1), &code(1), &code(2)));
    }
}
