//! What became of a create that had no answer: decided from the ids known
//! before it was sent, a listing that was read after it, and what was asked for.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::plan::{Fields, Step};
use crate::model::{Key, Record, Resource, Value};

/// The records of one resource.
pub type Records = BTreeMap<Key, Record<'static>>;

/// What a listing says of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It made exactly this record.
    One(i64),
    /// It made nothing, as far as this listing shows.
    None,
    /// It made one of these, or none.
    Several(Vec<i64>),
}

/// Whether a list shows by which key a record of `resource` is known, so that
/// creates without an answer can be told apart.
#[must_use]
pub fn shows_key(resource: Resource) -> bool {
    let spec = resource.spec();
    let read = |name: &&str| spec.field(name).is_some_and(|(_, field)| field.is_read());
    spec.natural_key.iter().all(read)
}

/// What `listing` says of the create `step`, when `known` were there before.
#[must_use]
pub fn find(step: &Step, known: &BTreeSet<i64>, listing: &Records) -> Found {
    let wanted = wanted_key(step);
    let new = listing.values().filter(|record| !known.contains(&record.key.id()));
    let ours = new.filter(|record| {
        wanted.is_none() || wanted.as_deref() == record_key(step.resource, record).as_deref()
    });
    let ids: Vec<_> = ours.map(|record| record.key.id()).collect();
    match ids[..] {
        [] => Found::None,
        [id] => Found::One(id),
        _ => Found::Several(ids),
    }
}

/// The natural key that a create asks for, to be compared with that of records;
/// `None` where lists do not show it.
#[must_use]
pub fn wanted_key(step: &Step) -> Option<Vec<String>> {
    if !shows_key(step.resource) {
        return None;
    }
    let none = Fields::new();
    let fields = step.request.body.as_ref().or(step.after.as_ref()).unwrap_or(&none);
    let names = step.resource.spec().natural_key.iter();
    Some(names.map(|name| normal(step.resource, &text(fields.get(*name)))).collect())
}

/// The natural key of a record, to be compared with what is asked for.
#[must_use]
pub fn record_key(resource: Resource, record: &Record<'_>) -> Option<Vec<String>> {
    let spec = resource.spec();
    let value = |name: &&str| {
        let (place, _) = spec.field(name)?;
        record.values.get(place).map(|value| normal(resource, &value.cell()))
    };
    spec.natural_key.iter().map(value).collect()
}

fn text(value: Option<&serde_json::Value>) -> String {
    match value {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Services change case and blanks of names; a domain is its host.
fn normal(resource: Resource, text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match resource {
        Resource::Pixels => text,
        Resource::Domains => {
            let host = text.split_once("://").map_or(&*text, |(_, host)| host);
            host.split(['/', '?', '#']).next().unwrap_or_default().to_lowercase()
        }
        _ => text.to_lowercase(),
    }
}

/// As `Value` cells, for messages: `12, 15 and 99`.
#[must_use]
pub fn ids_in_words(ids: &[i64]) -> String {
    let shown: Vec<_> = ids.iter().take(20).map(|id| Value::Int(*id).cell().into_owned()).collect();
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::tests::{records, step};
    use crate::model::Verb::Create;
    use serde_json::json;

    fn campaign(name: &str) -> Step {
        step(1, Resource::Campaigns, Create, "/api/campaign/add", Some(json!({"name": name})))
    }

    fn listing(names: &[(i64, &str)]) -> Records {
        let raw = names.iter().map(|(id, name)| json!({"id": id, "name": name}).to_string());
        records(Resource::Campaigns, &raw.collect::<Vec<_>>())
    }

    #[test]
    fn one_new_record_with_the_key_is_the_one_whatever_its_case() {
        let known = BTreeSet::from([1]);
        let all = listing(&[(1, "spring"), (2, "other"), (3, "spring")]);
        assert_eq!(find(&campaign("Spring "), &known, &all), Found::One(3));
        assert_eq!(find(&campaign("winter"), &known, &all), Found::None);
        let twice = listing(&[(2, "Spring"), (3, "spring")]);
        assert_eq!(find(&campaign("spring"), &known, &twice), Found::Several(vec![2, 3]));
    }

    #[test]
    fn a_code_is_the_one_new_record_since_its_list_shows_no_key() {
        let create = json!({"type": "text", "data": "x"});
        let create = step(1, Resource::QrCodes, Create, "/api/qr/add", Some(create));
        let codes = |ids: &[i64]| {
            let raw = ids.iter().map(|id| json!({"id": id, "name": "code"}).to_string());
            records(Resource::QrCodes, &raw.collect::<Vec<_>>())
        };
        let known = BTreeSet::from([4]);
        assert_eq!(find(&create, &known, &codes(&[4])), Found::None);
        assert_eq!(find(&create, &known, &codes(&[4, 6])), Found::One(6));
        assert_eq!(find(&create, &known, &codes(&[4, 6, 9])), Found::Several(vec![6, 9]));
        assert!(!shows_key(Resource::QrCodes) && shows_key(Resource::Pixels));
    }

    #[test]
    fn a_domain_is_its_host_and_a_pixel_its_type_and_tag() {
        let key = |resource, path, body| wanted_key(&step(1, resource, Create, path, Some(body)));
        let one = key(Resource::Domains, "/api/domain/add", json!({"domain": "https://Go.x.com/"}));
        let raw = [r#"{"id":1,"domain":"http://go.x.com"}"#.to_owned()];
        let domain = records(Resource::Domains, &raw);
        assert_eq!(one, record_key(Resource::Domains, domain.values().next().unwrap()));
        let body = json!({"type": "bing", "name": "n", "tag": "A"});
        let pixel = key(Resource::Pixels, "/api/pixel/add", body);
        assert_eq!(pixel, Some(vec!["bing".to_owned(), "A".to_owned()]));
    }
}
