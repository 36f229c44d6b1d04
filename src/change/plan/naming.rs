//! Names, labels and field values of records.

use std::collections::BTreeMap;

use super::fields;
use super::types::JsonFields;
use crate::change::desired::DesiredRecord;
use crate::model::{FieldValue, NaturalKey, Record, RecordKey, Resource, Role};

/// The field with the URL of a campaign's rotator, which contains the slug.
pub const ROTATOR: &str = "rotator";

/// The URL of a campaign's rotator, from the list of campaigns.
pub(super) fn rotator_url<'r>(resource: Resource, record: &'r Record<'static>) -> Option<&'r str> {
    let (place, _) = resource.spec().field(ROTATOR)?;
    fields::text(record.values.get(place)?)
}

/// A row's id, or else the natural key of its record.
pub(super) fn label(resource: Resource, row: &DesiredRecord) -> String {
    let cell = |name: &str| row.value(resource, name).map(FieldValue::cell);
    match (row.id, &row.old_name) {
        (Some(id), _) => id.to_string(),
        (None, Some(name)) => name.clone(),
        (None, None) => NaturalKey::text(resource, cell),
    }
}

/// The most problems of a resource that name a similar record, to bound the time.
pub(super) const MAX_SUGGESTED: usize = 100;

/// The names of all records.
pub(super) fn names_of<'a>(
    resource: Resource,
    records: &'a BTreeMap<RecordKey, Record<'static>>,
) -> Vec<&'a str> {
    let Some((place, _)) = resource.spec().field(label_field(resource)) else { return Vec::new() };
    let names = records.values().filter_map(|record| record.values.get(place));
    names.filter_map(fields::text).collect()
}

/// The name of a record.
pub(super) fn name_of(resource: Resource, record: &Record<'static>) -> String {
    label_of(resource, |name| record.values.get(resource.spec().field(name)?.0))
}

pub(super) fn label_of<'v>(
    resource: Resource,
    value: impl Fn(&str) -> Option<&'v FieldValue<'static>>,
) -> String {
    value(label_field(resource)).map(|value| value.cell().into_owned()).unwrap_or_default()
}

/// The field with the name of a record.
pub(super) fn label_field(resource: Resource) -> &'static str {
    match resource {
        Resource::Account => "email",
        Resource::Domains => "domain",
        Resource::ChannelItems => "title",
        _ => "name",
    }
}

/// All values of a record except its counter.
pub(super) fn all_fields(resource: Resource, record: &Record<'static>) -> JsonFields {
    let fields = resource.spec().read_fields().zip(&record.values);
    let fields = fields.filter(|(field, _)| field.role != Role::Counter);
    fields.map(|(field, value)| (field.name.to_owned(), value.json())).collect()
}

/// The resource's title with its article: `a campaign`, `the account`.
pub(super) fn with_article(resource: Resource) -> String {
    let article = if resource == Resource::Account { "the" } else { "a" };
    format!("{article} {}", resource.spec().title)
}
