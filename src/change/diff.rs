//! Compares two states field by field. Pure.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::labels::{self, content_text};
pub use crate::model::differences::FieldChange;
use crate::model::differences::{self, FieldValues, fields};
use crate::model::named::named;
use crate::model::{FieldValue, Record, RecordKey, Resource, Role, State};

named! {
    /// The kind of a record's change.
    pub enum ChangeKind {
        /// Only the later state has the record.
        Added = "added",
        /// Only the earlier state has the record.
        Removed = "removed",
        /// Some fields differ.
        Changed = "changed",
    }
}

/// A record that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordChange {
    /// Resource of the record.
    pub resource: Resource,
    /// Identity of the record.
    pub key: RecordKey,
    /// How it changed.
    pub kind: ChangeKind,
    /// The fields that differ; all fields of an added or removed record.
    pub fields: Vec<FieldChange>,
    /// The content of a QR code, if it is known.
    pub content: Option<String>,
}

/// A counter that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterChange {
    /// Resource of the record.
    pub resource: Resource,
    /// Identity of the record.
    pub key: RecordKey,
    /// Name of the counter's field.
    pub field: &'static str,
    /// Earlier value.
    pub before: i64,
    /// Later value.
    pub after: i64,
}

/// The difference between two states.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateDiff {
    /// Changed records, sorted by resource and key.
    pub changes: Vec<RecordChange>,
    /// Differing counters. They are not changes: the service counts them up.
    pub movements: Vec<CounterChange>,
    /// Resources that only one of the states has; they are not compared.
    pub unread: Vec<Resource>,
}

/// Compares two states by resource and key.
#[must_use]
pub fn diff(before: &State, after: &State) -> StateDiff {
    let mut diff = StateDiff::default();
    for resource in Resource::ALL {
        match (before.get(resource), after.get(resource)) {
            (Some(_), Some(_)) => compare(&mut diff, resource, before, after),
            (None, None) => {}
            _ => diff.unread.push(resource),
        }
    }
    diff
}

/// Compares one resource. Sent values are compared if both states have them.
fn compare(diff: &mut StateDiff, resource: Resource, before: &State, after: &State) {
    let none = BTreeMap::new();
    let (was, is) = (before, after);
    let (before, after) = (was.get(resource).unwrap_or(&none), is.get(resource).unwrap_or(&none));
    let compare_sent = was.sent.is_some() && is.sent.is_some();
    let fields = |state: &State, record: &Record<'_>| {
        let mut fields = fields(resource, record);
        if compare_sent {
            fields.extend(hidden(state, resource, &record.key));
        }
        fields
    };
    let same_sent =
        |key: &RecordKey| !compare_sent || hidden(was, resource, key).eq(hidden(is, resource, key));
    let mut changes = Vec::new();
    for (key, old) in before {
        match after.get(key) {
            None => {
                let fields = given(fields(was, old)).map(|(name, before)| FieldChange {
                    name,
                    before,
                    after: Json::Null,
                });
                changes.push(change(resource, key, ChangeKind::Removed, fields.collect()));
            }
            Some(new) if old.raw == new.raw && same_sent(key) => {}
            Some(new) => {
                let (old_fields, new_fields) = (fields(was, old), fields(is, new));
                let forms = [was, is].map(|state| state.sent_of(resource, key).into());
                let fields = differences::field_changes(resource, old_fields, new_fields, forms);
                if !fields.is_empty() {
                    changes.push(change(resource, key, ChangeKind::Changed, fields));
                }
                diff.movements.extend(counter_change(resource, old, new));
            }
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(key)) {
        let fields = given(fields(is, new)).map(|(name, after)| FieldChange {
            name,
            before: Json::Null,
            after,
        });
        changes.push(change(resource, key, ChangeKind::Added, fields.collect()));
    }
    if resource == Resource::QrCodes {
        let content =
            |state: &State, key| content_text(state.sent(resource, key, labels::CONTENT)?);
        for it in &mut changes {
            it.content = content(is, &it.key).or_else(|| content(was, &it.key));
        }
    }
    changes.sort_by(|one, other| one.key.cmp(&other.key));
    diff.changes.append(&mut changes);
}

/// The sent values of a record that its list does not return, including a campaign's links.
pub fn hidden<'s>(
    state: &'s State,
    resource: Resource,
    key: &RecordKey,
) -> impl Iterator<Item = (String, Json)> + use<'s> {
    let fields = state.unlisted_sent_values(resource, key);
    let fields = fields.map(|(_, field, value)| (field.name.to_owned(), value.clone()));
    let links = state.sent(resource, key, "links").filter(|_| resource == Resource::Campaigns);
    fields.chain(links.map(|links| ("links".to_owned(), links.clone())))
}

/// The fields of a record that is only on one side.
fn given(fields: FieldValues) -> impl Iterator<Item = (String, Json)> {
    fields.into_iter().filter(|(_, value)| !value.is_null())
}

fn change(
    resource: Resource,
    key: &RecordKey,
    kind: ChangeKind,
    fields: Vec<FieldChange>,
) -> RecordChange {
    RecordChange { resource, key: key.clone(), kind, fields, content: None }
}

fn counter_change(resource: Resource, old: &Record<'_>, new: &Record<'_>) -> Option<CounterChange> {
    let place = resource.spec().read_fields().position(|field| field.role == Role::Counter)?;
    let field = resource.spec().counter()?.name;
    match (old.values.get(place)?, new.values.get(place)?) {
        (FieldValue::Int(before), FieldValue::Int(after)) if before != after => {
            let key = new.key.clone();
            Some(CounterChange { resource, key, field, before: *before, after: *after })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DecodedRecord;

    fn state(resource: Resource, records: &[&str]) -> State {
        let mut state = State::default();
        let all = state.resource_mut(resource);
        for raw in records {
            let record = DecodedRecord::read(resource, Some(1), raw).unwrap().record.into_owned();
            all.insert(record.key.clone(), record);
        }
        state
    }

    #[test]
    fn a_change_names_its_fields_with_both_values() {
        let before = state(Resource::Campaigns, &[r#"{"id":1,"name":"a","public":true}"#]);
        let after = state(Resource::Campaigns, &[r#"{"id":1,"name":"b","public":true,"new":[1]}"#]);
        let diff = diff(&before, &after);
        let fields: Vec<_> = diff.changes[0]
            .fields
            .iter()
            .map(|it| format!("{}: {} -> {}", it.name, it.before, it.after))
            .collect();
        assert_eq!(fields, ["name: \"a\" -> \"b\"", "new: null -> [1]"]);
    }

    #[test]
    fn another_spelling_is_not_a_change() {
        let before = state(Resource::Campaigns, &[r#"{"id":"1","domain":"a","public":"1"}"#]);
        let after = state(Resource::Campaigns, &[r#"{"public":true,"id":1,"name":"a"}"#]);
        assert_eq!(diff(&before, &after), StateDiff::default());
    }

    #[test]
    fn counters_are_not_changes() {
        let before = state(Resource::QrCodes, &[r#"{"id":1,"scans":3}"#]);
        let after = state(Resource::QrCodes, &[r#"{"id":1,"scans":"5"}"#, r#"{"id":2,"scans":0}"#]);
        let diff = diff(&before, &after);
        assert_eq!((diff.movements[0].before, diff.movements[0].after), (3, 5));
        assert_eq!(diff.changes.len(), 1);
        assert_eq!(diff.changes[0].kind, ChangeKind::Added);
    }

    #[test]
    fn a_resource_of_one_state_only_is_not_compared() {
        let before = state(Resource::QrCodes, &[r#"{"id":1,"scans":3}"#]);
        let found = diff(&before, &State::default());
        assert_eq!(found.changes, []);
        assert_eq!(found.unread, [Resource::QrCodes]);
    }
}
