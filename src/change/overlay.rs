//! Applies desired records to a state, so that both can be compared. Values that the files do not
//! give stay unchanged.

use std::collections::{BTreeMap, BTreeSet};

use super::desired::{DesiredRecord, DesiredState, RecordRef};
use super::reformatted::is_reformatted;
use crate::model::equality::compare;
use crate::model::{
    DecodedRecord, FieldValue, FormEvidence, NaturalKey, Record, RecordKey, Resource, Role, State,
};

/// A state with the changes of files.
#[derive(Debug, Clone, Default)]
pub struct StateOverlay<'a> {
    /// Only the resources that the files contain.
    pub state: State,
    /// Rows without an id that match no record of the state.
    pub new: Vec<(Resource, &'a DesiredRecord)>,
    /// Rows with an old name that is not the name of exactly one record of the state.
    pub unmatched: Vec<(Resource, &'a DesiredRecord)>,
}

/// Applies `desired` to `state`, without write-only fields. A record of `base`, the state that the
/// files were exported from, is removed if the files no longer have it.
#[must_use]
pub fn overlay<'a>(
    desired: &'a DesiredState,
    state: &State,
    base: Option<&State>,
) -> StateOverlay<'a> {
    let mut overlay = StateOverlay::default();
    let empty = RecordMap::new();
    let channels = NaturalKeyIndex::of(Resource::Channels, state);
    for (&resource, desired) in &desired.resources {
        let existing = state.get(resource).unwrap_or(&empty);
        let names = NaturalKeyIndex::of(resource, state);
        let records = overlay.state.resource_mut(resource);
        records.clone_from(existing);
        let exported = base.and_then(|base| base.get(resource)).filter(|_| desired.is_complete);
        let mut gone: BTreeSet<_> = exported.into_iter().flat_map(|it| it.keys()).collect();
        for row in &desired.records {
            match names.key(resource, row, &channels) {
                Some(key) => {
                    gone.remove(&key);
                    let record = records.remove(&key);
                    let record = record.unwrap_or_else(|| record_with_key_only(resource, &key));
                    let forms = state.sent_of(resource, &key).into();
                    records.insert(key, changed(resource, record, row, forms));
                }
                None if row.old_name.is_some() => {
                    let renamed = names.key_of(row.natural_key(resource));
                    let is_same = |key: &RecordKey| {
                        let forms = state.sent_of(resource, key).into();
                        let is_unchanged =
                            |it: &Record<'static>| changed(resource, it.clone(), row, forms) == *it;
                        records.get(key).is_some_and(is_unchanged)
                    };
                    match renamed.filter(is_same) {
                        Some(key) => drop(gone.remove(&key)),
                        None => overlay.unmatched.push((resource, row)),
                    }
                }
                None => overlay.new.push((resource, row)),
            }
        }
        records.retain(|key, _| !gone.contains(key));
    }
    overlay
}

type RecordMap = BTreeMap<RecordKey, Record<'static>>;

/// Records by natural key; `None` for a key of several records.
struct NaturalKeyIndex(BTreeMap<NaturalKey, Option<RecordKey>>);

impl NaturalKeyIndex {
    fn of(resource: Resource, state: &State) -> Self {
        let mut names = BTreeMap::new();
        for record in state.get(resource).into_iter().flat_map(BTreeMap::values) {
            let sent = state.sent_of(resource, &record.key);
            for name in NaturalKey::all_of_record(resource, record, sent) {
                let key = Some(record.key.clone());
                names.entry(name).and_modify(|it| *it = None).or_insert(key);
            }
        }
        Self(names)
    }

    /// The record that a row refers to.
    fn key(&self, resource: Resource, row: &DesiredRecord, channels: &Self) -> Option<RecordKey> {
        if resource == Resource::ChannelItems {
            let channel = match row.channel.as_ref()? {
                RecordRef::Id(id) => *id,
                RecordRef::Name(name) => {
                    let key = NaturalKey::of_name(Resource::Channels, name)?;
                    channels.0.get(&key)?.as_ref()?.id()
                }
            };
            let kind = row.value(resource, "type")?.cell().into_owned();
            return Some(RecordKey::Item { channel, kind, id: row.id? });
        }
        if let Some(id) = row.id {
            return Some(RecordKey::Id(id));
        }
        self.key_of(row.current_key(resource))
    }

    /// The only record with a natural key.
    fn key_of(&self, key: Option<NaturalKey>) -> Option<RecordKey> {
        self.0.get(&key?)?.clone()
    }
}

/// A record with its key and no other fields.
fn record_with_key_only(resource: Resource, key: &RecordKey) -> Record<'static> {
    let (raw, channel) = match key {
        RecordKey::Id(id) => (format!("{{\"id\":{id}}}"), None),
        RecordKey::Item { channel, kind, id } => {
            (serde_json::json!({"type": kind, "id": id}).to_string(), Some(*channel))
        }
    };
    match DecodedRecord::read(resource, channel, &raw) {
        Ok(decoded) => decoded.record.into_owned(),
        Err(_) => Record { key: key.clone(), values: Vec::new(), raw: raw.into() },
    }
}

/// The record with the values of a row.
fn changed(
    resource: Resource,
    mut record: Record<'static>,
    row: &DesiredRecord,
    forms: FormEvidence<'_>,
) -> Record<'static> {
    let fields = resource.spec().fields;
    let mut changes = BTreeMap::new();
    for (&place, value) in &row.fields {
        let is_listed =
            fields.get(place).is_some_and(|it| it.is_read() && it.role != Role::Counter);
        if let Some(held) = record.values.get_mut(place).filter(|_| is_listed)
            && !fields.get(place).is_some_and(|field| {
                compare(field, value, held, forms).is_same() || is_reformatted(field, value, held)
            })
        {
            held.clone_from(value);
            changes.insert(place, value);
        }
    }
    if !changes.is_empty() {
        record.raw = text(resource, &record, &changes).into();
    }
    record
}

/// The record's JSON text with changed values; other members keep their text.
fn text(
    resource: Resource,
    record: &Record<'_>,
    changes: &BTreeMap<usize, &FieldValue<'static>>,
) -> String {
    let channel = match &record.key {
        RecordKey::Item { channel, .. } => Some(*channel),
        RecordKey::Id(_) => None,
    };
    let mut members = Vec::new();
    let mut member = |name: &str, raw_value: &str| {
        members.push(format!("{}:{raw_value}", serde_json::Value::from(name)));
    };
    if let Ok(decoded) = DecodedRecord::read(resource, channel, &record.raw) {
        for (it, place) in decoded.members.iter().zip(&decoded.places) {
            if !place.is_some_and(|place| changes.contains_key(&place)) {
                member(&it.name, it.raw_value);
            }
        }
    }
    for (place, value) in changes {
        match value {
            FieldValue::Json(raw_value) => member(resource.spec().fields[*place].name, raw_value),
            value => member(resource.spec().fields[*place].name, &value.json().to_string()),
        }
    }
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::csv_files::{CsvKind, CsvRecords as Rows, ExportContext, read};
    use crate::change::diff::{ChangeKind, diff};

    fn desired(resource: Resource, text: &str) -> DesiredState {
        let sheet = CsvKind::Resource(resource);
        let read = read(sheet, "x.csv", text.as_bytes(), ExportContext::default()).unwrap();
        let Rows::Of(_, records) = read.records else { panic!("links") };
        let mut desired = DesiredState::default();
        desired.resources.entry(resource).or_default().records = records;
        desired
    }

    fn state(resource: Resource, raws: &[&str]) -> State {
        let mut state = State::default();
        for raw in raws {
            let record = DecodedRecord::read(resource, None, raw).unwrap().record.into_owned();
            state.resource_mut(resource).insert(record.key.clone(), record);
        }
        state
    }

    #[test]
    fn values_that_a_file_does_not_give_stay() {
        let there = state(
            Resource::Campaigns,
            &[
                r#"{"id":1,"domain":"Old","public":true,"extra":[1]}"#,
                r#"{"id":2,"name":"Two"}"#,
                r#"{"id":3,"name":"Three","public":false}"#,
            ],
        );
        let wanted = desired(
            Resource::Campaigns,
            "id,name,public\n1,New,1\n,THREE,yes\n,Four,no\n9,Nine,no\n",
        );
        assert_eq!(wanted.resources[&Resource::Campaigns].records.len(), 4);
        let laid = overlay(&wanted, &there, None);
        let found = diff(&there, &laid.state);
        let changes: Vec<_> = found
            .changes
            .iter()
            .map(|it| {
                let fields: Vec<_> = it
                    .fields
                    .iter()
                    .map(|it| format!("{} {}->{}", it.name, it.before, it.after))
                    .collect();
                format!("{} {}", it.key, fields.join(" "))
            })
            .collect();
        assert_eq!(changes[0], "1 name \"Old\"->\"New\"");
        assert_eq!(changes[1], "3 name \"Three\"->\"THREE\" public false->true");
        assert_eq!(laid.new.len(), 1);
        assert_eq!(found.changes.last().map(|it| it.kind), Some(ChangeKind::Added));
    }

    #[test]
    fn a_row_matches_the_record_with_its_natural_key() {
        let found = |resource: Resource, there: &State, text: &str| {
            let wanted = desired(resource, text);
            let new = overlay(&wanted, there, None).new.len();
            wanted.resources[&resource].records.len() - new
        };
        let pixels = state(Resource::Pixels, &[r#"{"id":1,"type":"bing","tag":"A-1"}"#]);
        assert_eq!(found(Resource::Pixels, &pixels, "type,name,tag\nbing,n,A-1\n"), 1);
        assert_eq!(found(Resource::Pixels, &pixels, "type,name,tag\nbing,n,a-1\n"), 0);
        let domains = state(Resource::Domains, &[r#"{"id":1,"domain":"https://Go.x.example/"}"#]);
        assert_eq!(found(Resource::Domains, &domains, "domain\nhttp://go.x.example\n"), 1);
        // The natural key of a code is in its sent values.
        let code = || state(Resource::QrCodes, &[r#"{"id":1,"name":"c"}"#]);
        let sent = [("type", "text"), ("data", "hello")];
        let sent = sent.map(|(name, value)| (name.to_owned(), value.into())).into();
        let sent = BTreeMap::from([((Resource::QrCodes, RecordKey::Id(1)), sent)]);
        let text = "type,data\ntext,hello\ntext,Hello\n";
        assert_eq!(found(Resource::QrCodes, &code().with_sent(Some(sent)), text), 1);
        assert_eq!(found(Resource::QrCodes, &code(), text), 0);
    }

    #[test]
    fn a_row_removed_from_an_export_is_removed_and_a_newer_record_is_not() {
        let raws = [r#"{"id":1,"name":"a"}"#, r#"{"id":2,"name":"b"}"#, r#"{"id":3,"name":"c"}"#];
        let (base, there) =
            (state(Resource::Campaigns, &raws[..2]), state(Resource::Campaigns, &raws));
        let mut wanted = desired(Resource::Campaigns, "id,name\n1,a\n");
        assert_eq!(diff(&there, &overlay(&wanted, &there, Some(&base)).state).changes, []);
        wanted.resources.get_mut(&Resource::Campaigns).unwrap().is_complete = true;
        let found = diff(&there, &overlay(&wanted, &there, Some(&base)).state).changes;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind, found[0].key.id()), (ChangeKind::Removed, 2));
    }
}
