//! Which fields the records of two backups have, and with which types. Most records need no
//! decoding: the template has the names of the fields, and the types of all but verbatim values.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::schema::version_table;
use super::{TransactionError, Vault, VaultError};
use crate::model::field_changes::{
    FieldSet, FieldType, ServiceFieldChange, field_changes, type_of, type_of_kind,
};
use crate::model::record::read_field;
use crate::model::{DecodedRecord, Field, Resource, SnapshotId};
use crate::vault::snapshot::ResourceOutcome;
use crate::vault::template::{SLOT, VERBATIM};
use crate::vault::version_rows::extra;

/// The maximum number of fields of a resource that are compared.
const MAX_FIELDS: usize = 1000;

impl Vault {
    /// How the fields of a resource changed from its outcome `before`, in an earlier snapshot, to
    /// its outcome `after`. Both readings are complete.
    ///
    /// Versions are read from the newest to the oldest. Without a changed record, one row is read;
    /// otherwise as many as it takes to find each field of the changed records in an older version.
    pub fn field_changes(
        &mut self,
        before: (SnapshotId, &ResourceOutcome),
        after: (SnapshotId, &ResourceOutcome),
    ) -> Result<Vec<ServiceFieldChange>, VaultError> {
        let Self { db, path, templates, .. } = self;
        let resource = after.1.resource;
        let mut read = || -> Result<Vec<ServiceFieldChange>, TransactionError> {
            let sql = format!(
                "SELECT since, until, shape, extra FROM {} ORDER BY version DESC",
                version_table(resource)
            );
            let mut find = db.prepare(&sql)?;
            let mut rows = find.query([])?;
            let mut comparison = FieldComparison::new(before, after);
            let mut known: HashMap<i64, TemplateFields> = HashMap::new();
            while let Some(row) = rows.next()? {
                let template_id = row.get(2)?;
                let fields = match known.entry(template_id) {
                    std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                    std::collections::hash_map::Entry::Vacant(entry) => {
                        let template = templates.template(db, template_id)?;
                        entry.insert(TemplateFields::of(resource, template))
                    }
                };
                let row = VersionFields {
                    since: row.get(0)?,
                    until: row.get(1)?,
                    template_id,
                    fields,
                    extra: extra(row, 3)?,
                };
                if !comparison.add(&row) {
                    break;
                }
            }
            Ok(comparison.changes())
        };
        read().map_err(|failure| failure.at(path))
    }
}

/// The fields of a template, without those of which another member of the record is read.
#[derive(Debug, Default, PartialEq, Eq)]
struct TemplateFields {
    resource: Option<Resource>,
    /// Names of all fields, with the types that the template determines.
    fixed: FieldSet,
    /// The fields with a verbatim value, in order; `None` for a value that does not count.
    verbatim: Vec<Option<(String, Option<&'static Field>)>>,
}

impl TemplateFields {
    fn of(resource: Resource, template: &str) -> Self {
        if template == VERBATIM {
            return Self { resource: Some(resource), ..Self::default() };
        }
        // The text of a record in which the value of each slot is the slot's number.
        let mut raw = String::with_capacity(template.len());
        let mut codes = Vec::new();
        for (nth, part) in template.split(SLOT).enumerate() {
            if nth == 0 {
                raw.push_str(part);
                continue;
            }
            let mut chars = part.chars();
            codes.push(chars.next());
            chars.next();
            raw.push_str(&codes.len().to_string());
            raw.push_str(chars.as_str());
        }
        let mut fields = Self::default();
        // A damaged template has no fields.
        let Ok(decoded) = DecodedRecord::read(resource, Some(0), &raw) else { return fields };
        for (name, field, raw_value) in members(resource, &decoded) {
            let slot = raw_value.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let code = slot.and_then(|slot| codes.get(slot).copied().flatten());
            if code == Some('x') {
                fields.verbatim.push(name.map(|name| (name.to_owned(), field)));
            }
            let Some(name) = name else { continue };
            let types = fields.fixed.entry(name.to_owned()).or_default();
            if code.is_some_and(|code| code != 'x') {
                types.extend(field.map(|field| type_of_kind(field.kind)));
            }
        }
        fields
    }

    /// Whether all records with the template have the same fields and types.
    fn is_fixed(&self) -> bool {
        self.resource.is_none() && self.verbatim.is_empty()
    }

    /// Calls `take` with each field of a record, and with its type, if its value tells one.
    fn each(&self, extra: Option<&str>, mut take: impl FnMut(&str, Option<FieldType>)) {
        if let (Some(resource), Some(raw)) = (self.resource, extra) {
            let Ok(decoded) = DecodedRecord::read(resource, Some(0), raw) else { return };
            for (name, field, raw_value) in members(resource, &decoded) {
                if let Some(name) = name {
                    take(name, type_of(field, raw_value));
                }
            }
            return;
        }
        for (name, types) in &self.fixed {
            take(name, None);
            types.iter().for_each(|it| take(name, Some(*it)));
        }
        let values = extra.into_iter().flat_map(|extra| extra.split(SLOT));
        for (verbatim, raw_value) in self.verbatim.iter().zip(values) {
            if let Some((name, field)) = verbatim {
                take(name, type_of(*field, raw_value));
            }
        }
    }
}

/// The members of a record, each with the name of its field, the row of the table, and its value.
/// The name is `None` if another member is read as this field.
fn members<'d>(
    resource: Resource,
    decoded: &'d DecodedRecord<'_>,
) -> impl Iterator<Item = (Option<&'d str>, Option<&'static Field>, &'d str)> {
    decoded.members.iter().zip(&decoded.places).map(move |(member, place)| {
        let raw_value = member.raw_value;
        if let Some(place) = *place {
            let field = read_field(resource, place);
            return (Some(field.name), Some(field), raw_value);
        }
        let same = resource.spec().field(&member.name);
        let repeats = same.is_some_and(|(same, _)| decoded.places.contains(&Some(same)));
        ((!repeats).then_some(&*member.name), None, raw_value)
    })
}

/// A version of a record, as the comparison needs it.
struct VersionFields<'a> {
    since: SnapshotId,
    until: Option<SnapshotId>,
    template_id: i64,
    fields: &'a TemplateFields,
    extra: Option<&'a str>,
}

impl VersionFields<'_> {
    fn is_shown_by(&self, number: SnapshotId) -> bool {
        self.since <= number && self.until.is_none_or(|until| until > number)
    }
}

/// Compares versions, from the newest to the oldest.
struct FieldComparison<'a> {
    before: (SnapshotId, &'a ResourceOutcome),
    after: (SnapshotId, &'a ResourceOutcome),
    /// Fields of the versions that `after` shows and `before` does not.
    found: FieldSet,
    found_records: u64,
    /// Those of `found` that older versions have.
    known: FieldSet,
    /// Fields that all versions of `before` have.
    required: Option<BTreeSet<String>>,
    required_records: u64,
    has_older: bool,
    /// Templates that are already part of `found`, `known` or `required`.
    merged: [HashSet<i64>; 3],
}

impl<'a> FieldComparison<'a> {
    fn new(
        before: (SnapshotId, &'a ResourceOutcome),
        after: (SnapshotId, &'a ResourceOutcome),
    ) -> Self {
        Self {
            before,
            after,
            found: FieldSet::new(),
            found_records: 0,
            known: FieldSet::new(),
            required: None,
            required_records: 0,
            has_older: false,
            merged: Default::default(),
        }
    }

    /// Whether no record is unchanged, and some record existed before: only then can a field be
    /// missing.
    fn all_changed(&self) -> bool {
        self.found_records == self.after.1.records && self.after.1.added < self.after.1.records
    }

    /// Adds an older version. Returns whether still older ones can change the result.
    fn add(&mut self, version: &VersionFields<'_>) -> bool {
        if version.since > self.before.0 {
            if version.is_shown_by(self.after.0) {
                self.found_records += 1;
                merge(&mut self.found, &mut self.merged[0], version, |found, name| {
                    found.contains_key(name) || found.len() < MAX_FIELDS
                });
            }
            return true;
        }
        self.has_older = true;
        if self.found.is_empty() {
            return false;
        }
        let found = &self.found;
        let is_news = merge(&mut self.known, &mut self.merged[1], version, |_, name| {
            found.contains_key(name)
        });
        if self.all_changed() && version.is_shown_by(self.before.0) {
            self.require(version);
        }
        let complete = !self.all_changed() || self.required_records == self.before.1.records;
        // Comparing is needed only if this version had something to add.
        !(complete && (is_news || self.all_changed()) && self.is_known())
    }

    fn require(&mut self, version: &VersionFields<'_>) {
        self.required_records += 1;
        let is_verbatim = version.fields.resource.is_some();
        if !is_verbatim && !self.merged[2].insert(version.template_id) {
            return;
        }
        let mut names = BTreeSet::new();
        version.fields.each(version.extra, |name, _| {
            if names.len() < MAX_FIELDS && !names.contains(name) {
                names.insert(name.to_owned());
            }
        });
        match &mut self.required {
            None => self.required = Some(names),
            Some(required) => required.retain(|name| names.contains(name)),
        }
    }

    /// Whether older versions have all that the new ones have.
    fn is_known(&self) -> bool {
        self.found
            .iter()
            .all(|(name, types)| self.known.get(name).is_some_and(|known| types.is_subset(known)))
    }

    fn changes(self) -> Vec<ServiceFieldChange> {
        if !self.has_older || self.found.is_empty() {
            return Vec::new();
        }
        let all = self.required_records == self.before.1.records;
        let required = self.required.filter(|_| all).unwrap_or_default();
        field_changes(self.after.1.resource, &self.known, &required, &self.found)
    }
}

/// Adds the fields of `version` that `admits` to `set`. Returns whether that changed it.
fn merge(
    set: &mut FieldSet,
    merged: &mut HashSet<i64>,
    version: &VersionFields<'_>,
    admits: impl Fn(&FieldSet, &str) -> bool,
) -> bool {
    if version.fields.is_fixed() && !merged.insert(version.template_id) {
        return false;
    }
    let mut is_changed = false;
    version.fields.each(version.extra, |name, kind| {
        if !admits(set, name) {
            return;
        }
        let types = match set.get_mut(name) {
            Some(types) => types,
            None => {
                is_changed = true;
                set.entry(name.to_owned()).or_default()
            }
        };
        is_changed |= kind.is_some_and(|kind| types.insert(kind));
    });
    is_changed
}

#[cfg(test)]
mod tests {
    use crate::vault::field_types::*;
    use crate::vault::template::pack;
    use proptest::prelude::*;

    fn set(each: impl FnOnce(&mut dyn FnMut(&str, Option<FieldType>))) -> FieldSet {
        let mut set = FieldSet::new();
        each(&mut |name, kind| set.entry(name.to_owned()).or_default().extend(kind));
        set
    }

    /// The fields of a record by its template are those of its text.
    fn agrees(resource: Resource, raw: &str) -> FieldSet {
        let decoded = DecodedRecord::read(resource, Some(7), raw).unwrap();
        let direct = set(|take| {
            for (name, field, raw_value) in members(resource, &decoded) {
                name.into_iter().for_each(|name| take(name, type_of(field, raw_value)));
            }
        });
        let packed = pack(resource, &decoded);
        let fields = TemplateFields::of(resource, &packed.template);
        assert_eq!(set(|take| fields.each(packed.extra.as_deref(), take)), direct, "{raw}");
        let whole = TemplateFields::of(resource, VERBATIM);
        assert_eq!(set(|take| whole.each(Some(raw), take)), direct, "{raw}");
        direct
    }

    #[test]
    fn aliases_and_repeated_members_are_one_field() {
        let raw = r#"{"id":1,"domain":"a","public":"1","rotator":false,"x":[1],"id":{},"x":2}"#;
        let fields = agrees(Resource::Campaigns, raw);
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["id", "name", "public", "rotator", "x"]);
        assert_eq!(fields["id"], [FieldType::Number].into());
        assert_eq!(fields["x"], [FieldType::Number, FieldType::List].into());
        let both = agrees(Resource::Campaigns, r#"{"domain":{},"id":1,"name":"b"}"#);
        assert_eq!(both["name"], [FieldType::Text].into());
        let code = agrees(Resource::QrCodes, r#"{"id":1,"type":"link","data":{"a":1}}"#);
        assert_eq!(code["data"], [FieldType::Object].into(), "a write-only field");
        agrees(Resource::ChannelItems, r#"{"id":"01","type":"links","channel":5}"#);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..3)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_template_has_the_fields_of_its_records(
            id in any::<i64>(), name in json(), public in json(), rotator in json(),
            key in any::<String>(), other in json(), pretty in any::<bool>(),
        ) {
            let value = serde_json::json!({
                "name": name, "public": public, "id": id, "rotator": rotator, (key): other,
            });
            // `key` may be the id.
            prop_assume!(value["id"] == id);
            let raw = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            agrees(Resource::Campaigns, &raw.unwrap());
        }
    }
}
