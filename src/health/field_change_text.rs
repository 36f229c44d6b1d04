//! Changes of the service's fields as sentences.

use crate::escaped::Escaped;
use crate::format::list;
use crate::model::Resource;
use crate::model::field_changes::{FieldTypes, ServiceFieldChange, ServiceFieldChangeKind};

/// The most fields that a sentence names.
const MAX_NAMES: usize = 8;

/// The changes without a period, one for each resource and kind of change.
#[must_use]
pub fn sentences(changes: &[ServiceFieldChange]) -> Vec<String> {
    let mut sentences = Vec::new();
    for resource in Resource::ALL {
        let (mut new, mut missing, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for ServiceFieldChange { field, kind, .. } in
            changes.iter().filter(|it| it.resource == resource)
        {
            // The name comes from the service.
            let name = format!("`{}`", Escaped(field));
            match kind {
                ServiceFieldChangeKind::New { types } if types.is_empty() => new.push(name),
                ServiceFieldChangeKind::New { types } => {
                    new.push(format!("{name} ({})", names(types)))
                }
                ServiceFieldChangeKind::Missing => missing.push(name),
                ServiceFieldChangeKind::TypeChanged { from, to } => {
                    other.push(format!("{name} as {} instead of {}", names(to), names(from)));
                }
            }
        }
        let verbs = [("now sends", new), ("no longer sends", missing), ("sends", other)];
        sentences.extend(verbs.into_iter().filter(|(_, fields)| !fields.is_empty()).map(
            |(verb, fields)| {
                format!("the service {verb} {} for {resource}", list(&fields, MAX_NAMES))
            },
        ));
    }
    sentences
}

fn names(types: &FieldTypes) -> String {
    types.iter().map(|it| it.name()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use crate::health::field_change_text::*;
    use crate::model::field_changes::FieldType::{List, Number, Text};

    #[test]
    fn each_resource_and_kind_of_change_has_a_sentence_of_bounded_length() {
        use ServiceFieldChangeKind::{Missing, New, TypeChanged};
        let change = |resource, field: &str, kind| {
            let field = field.to_owned();
            ServiceFieldChange { resource, field, kind }
        };
        let mut changes = vec![
            change(Resource::Pixels, "a", Missing),
            change(Resource::Campaigns, "b", New { types: [Text, List].into() }),
            change(
                Resource::Campaigns,
                "c",
                TypeChanged { from: [Number].into(), to: [Text].into() },
            ),
        ];
        changes.extend(
            (0..9).map(|_| change(Resource::Campaigns, "\u{1b}[2J\n", New { types: [].into() })),
        );
        let escaped = "`\\u{1b}[2J\\n`, ".repeat(7);
        assert_eq!(
            sentences(&changes),
            [
                &format!(
                    "the service now sends `b` (text or list), {} and 2 more for campaigns",
                    escaped.trim_end_matches(", ")
                ),
                "the service sends `c` as text instead of number for campaigns",
                "the service no longer sends `a` for pixels",
            ]
        );
    }
}
