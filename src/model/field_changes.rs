//! Fields that the service began to send, stopped sending, or sends with another type.
//!
//! Services mix the spellings of one value: `12` and `"12"`, `true` and `1`, `[]` for an empty
//! object, `false` or `""` for none. So a field of the table that fits its kind has one type in all
//! spellings, and of other fields a value that can be of several types counts for none.
//! Names and types only; no value leaves this module.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::named::named;
use super::value::{self, FieldValue};
use super::{Field, FieldKind, Resource};
use crate::format::truncate;

named! {
    /// The type of a value.
    pub enum FieldType {
        /// A string.
        Text = "text",
        /// An integer or a fraction.
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
        /// An array.
        List = "list",
        /// An object.
        Object = "object",
    }
}

/// The types of a field's values.
pub type FieldTypes = BTreeSet<FieldType>;

/// The fields of some records by name, each with its types. A field without a telling value has no
/// type.
pub type FieldSet = BTreeMap<String, FieldTypes>;

/// One change of a resource's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceFieldChange {
    /// The resource.
    pub resource: Resource,
    /// Name of the field, at most 60 characters of it.
    pub field: String,
    /// The change.
    #[serde(flatten)]
    pub kind: ServiceFieldChangeKind,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ServiceFieldChangeKind {
    /// No earlier record has the field.
    New {
        /// Its types.
        types: FieldTypes,
    },
    /// Every record had the field, and none has it now.
    Missing,
    /// The field has a type that no earlier record has.
    TypeChanged {
        /// Its types in earlier records.
        from: FieldTypes,
        /// Its new types.
        to: FieldTypes,
    },
}

impl ServiceFieldChange {
    /// Whether `other` reports the same. The types before are not compared.
    #[must_use]
    pub fn repeats(&self, other: &Self) -> bool {
        use ServiceFieldChangeKind::{Missing, New, TypeChanged};
        let same = match (&self.kind, &other.kind) {
            (New { .. }, New { .. }) | (Missing, Missing) => true,
            (TypeChanged { to, .. }, TypeChanged { to: other, .. }) => to == other,
            _ => false,
        };
        same && self.resource == other.resource && self.field == other.field
    }
}

/// The type of a field's value; `None` if the value tells none. `field` is the row of the table,
/// `None` for a field that the table does not have.
#[must_use]
pub fn type_of(field: Option<&Field>, raw_value: &str) -> Option<FieldType> {
    match field.map(|field| (field.kind, value::read(field.kind, raw_value))) {
        Some((_, FieldValue::Null)) => None,
        Some((_, FieldValue::Json(_))) | None => json_type(raw_value),
        Some((kind, _)) => Some(type_of_kind(kind)),
    }
}

/// The type of all values that fit `kind`.
#[must_use]
pub const fn type_of_kind(kind: FieldKind) -> FieldType {
    match kind {
        FieldKind::Int => FieldType::Number,
        FieldKind::Bool => FieldType::Boolean,
        _ => FieldType::Text,
    }
}

fn json_type(raw_value: &str) -> Option<FieldType> {
    match raw_value.as_bytes().first()? {
        b'"' => {
            let is_ambiguous = value::text(raw_value).is_some_and(|text| {
                matches!(&*text, "" | "true" | "false")
                    || (text.len() <= MAX_NUMBER && text.parse::<f64>().is_ok())
            });
            (!is_ambiguous).then_some(FieldType::Text)
        }
        b'[' => {
            let is_empty = raw_value.bytes().skip(1).all(|byte| b" \t\r\n]".contains(&byte));
            (!is_empty).then_some(FieldType::List)
        }
        b'{' => Some(FieldType::Object),
        b't' => Some(FieldType::Boolean),
        b'f' | b'n' => None,
        _ => (!matches!(raw_value, "0" | "1")).then_some(FieldType::Number),
    }
}

/// No number has a longer text.
const MAX_NUMBER: usize = 40;

/// The most changes of one resource at once.
const MAX_CHANGES: usize = 50;

/// The changes of the fields of `resource`. `known` are the fields of all earlier records,
/// `required` those that every record of the backup before has, if no record of it is unchanged.
/// `found` are the fields of the records that are new or changed since then.
#[must_use]
pub fn field_changes(
    resource: Resource,
    known: &FieldSet,
    required: &BTreeSet<String>,
    found: &FieldSet,
) -> Vec<ServiceFieldChange> {
    let new_or_other = found.iter().filter_map(|(name, types)| {
        let Some(from) = known.get(name) else {
            return Some((name, ServiceFieldChangeKind::New { types: types.clone() }));
        };
        let to: FieldTypes = types.difference(from).copied().collect();
        let changed = !from.is_empty() && !to.is_empty();
        changed.then(|| (name, ServiceFieldChangeKind::TypeChanged { from: from.clone(), to }))
    });
    let missing = required.iter().filter(|name| !found.contains_key(*name));
    let missing = missing.map(|name| (name, ServiceFieldChangeKind::Missing));
    let changes = new_or_other.chain(missing).take(MAX_CHANGES);
    changes
        .map(|(name, kind)| ServiceFieldChange {
            resource,
            field: truncate(name, 60).into_owned(),
            kind,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(fields: &[(&str, &[FieldType])]) -> FieldSet {
        fields
            .iter()
            .map(|(name, types)| ((*name).to_owned(), types.iter().copied().collect()))
            .collect()
    }

    fn required(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The changes of QR codes, without the resource.
    fn found(
        known: &FieldSet,
        before: &[&str],
        found: &FieldSet,
    ) -> Vec<(String, ServiceFieldChangeKind)> {
        let changes = field_changes(Resource::QrCodes, known, &required(before), found);
        changes.into_iter().map(|it| (it.field, it.kind)).collect()
    }

    use FieldType::{Boolean, List, Number, Object, Text};
    use ServiceFieldChangeKind::{Missing, New, TypeChanged};

    #[test]
    fn a_field_that_no_earlier_record_has_is_new() {
        let known = set(&[("id", &[Number])]);
        let now = set(&[("id", &[Number]), ("note", &[]), ("owner", &[Text, Object])]);
        let note = ("note".to_owned(), New { types: [].into() });
        let owner = ("owner".to_owned(), New { types: [Text, Object].into() });
        assert_eq!(found(&known, &["id"], &now), [note, owner]);
        assert_eq!(found(&now, &[], &known), [], "only some records have them");
    }

    #[test]
    fn a_field_that_every_record_had_and_none_has_is_missing() {
        let known = set(&[("id", &[Number]), ("note", &[Text])]);
        let now = set(&[("id", &[Number])]);
        assert_eq!(found(&known, &["id", "note"], &now), [("note".to_owned(), Missing)]);
        assert_eq!(found(&known, &["id"], &now), []);
    }

    #[test]
    fn a_type_that_no_earlier_record_has_is_a_change() {
        let known = set(&[("a", &[Number]), ("b", &[]), ("c", &[Text, List])]);
        let now = set(&[("a", &[Text, Number]), ("b", &[Text]), ("c", &[List])]);
        let change = TypeChanged { from: [Number].into(), to: [Text].into() };
        assert_eq!(found(&known, &[], &now), [("a".to_owned(), change)]);
        assert_eq!(found(&known, &[], &set(&[("a", &[]), ("c", &[])])), [], "no value, no type");
    }

    #[test]
    fn a_change_is_repeated_whatever_the_types_were_before() {
        let of =
            |kind| ServiceFieldChange { resource: Resource::Pixels, field: "a".to_owned(), kind };
        let types = |them: &[FieldType]| them.iter().copied().collect::<FieldTypes>();
        let other = |from, to| of(TypeChanged { from: types(from), to: types(to) });
        assert!(other(&[Text], &[List]).repeats(&other(&[Text, Number], &[List])));
        assert!(!other(&[Text], &[List]).repeats(&other(&[Text], &[Object])));
        let new = of(New { types: types(&[]) });
        assert!(new.repeats(&of(New { types: types(&[Text]) })));
        assert!(!new.repeats(&of(Missing)));
        assert!(!new.repeats(&ServiceFieldChange { field: "b".to_owned(), ..new.clone() }));
    }

    #[test]
    fn values_that_services_mix_have_the_same_type() {
        let (_, public) = Resource::Campaigns.spec().field("public").unwrap();
        for raw in ["true", "1", "\"0\"", "\"true\"", "false"] {
            assert_eq!(type_of(Some(public), raw), Some(Boolean), "{raw}");
        }
        assert_eq!(type_of(Some(public), "null"), None);
        assert_eq!(type_of(Some(public), "\"maybe\""), Some(Text));
        let (_, rotator) = Resource::Campaigns.spec().field("rotator").unwrap();
        assert_eq!(type_of(Some(rotator), "false"), None);
        let (_, scans) = Resource::QrCodes.spec().field("scans").unwrap();
        for raw in ["12", "\"12\"", "1.5"] {
            assert_eq!(type_of(Some(scans), raw), Some(Number), "{raw}");
        }
        for raw in
            ["null", "false", "0", "1", "\"1\"", "\"\"", "\"true\"", "\"-1.5e3\"", "[]", "[ ]"]
        {
            assert_eq!(type_of(None, raw), None, "{raw}");
        }
        let typed = [("12", Number), ("-0.5", Number), ("true", Boolean), ("\"12 px\"", Text)];
        for (raw, wanted) in
            typed.into_iter().chain([("[0]", List), ("{}", Object), ("\"\\ud800\"", Text)])
        {
            assert_eq!(type_of(None, raw), Some(wanted), "{raw}");
        }
    }

    #[test]
    fn changes_and_names_are_bounded() {
        let names = (0..1000).map(|nth| format!("{nth:03}{}", "x".repeat(500)));
        let now: FieldSet = names.map(|name| (name, FieldTypes::new())).collect();
        let changes = found(&FieldSet::new(), &[], &now);
        assert_eq!(changes.len(), 50);
        assert_eq!(changes[0].0.chars().count(), 61, "with an ellipsis");
    }

    #[test]
    fn a_change_reads_back_from_its_json() {
        let from = [Number].into();
        let kind = TypeChanged { from, to: [Text].into() };
        let change =
            ServiceFieldChange { resource: Resource::QrCodes, field: "size".to_owned(), kind };
        let json = serde_json::json!({
            "resource": "qr_codes", "field": "size", "change": "type_changed",
            "from": ["number"], "to": ["text"],
        });
        assert_eq!(serde_json::to_value(&change).unwrap(), json);
        assert_eq!(serde_json::from_value::<ServiceFieldChange>(json).unwrap(), change);
    }
}
