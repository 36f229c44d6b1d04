//! Whether what a step says of the account is so. A plan may come from a file,
//! and people agree to what they read in it.

use serde_json::Value as Json;

use super::types::{AccountMemory, CurrentState, JsonFields, PlanStep};
use crate::change::plan::fields::{equal_values, from_json, sendable, slug, text};
use crate::change::plan::naming::{ROTATOR, all_fields, name_of, rotator_url};
use crate::change::plan::request::ResolvedRef;
use crate::change::plan::reversibility;
use crate::model::{NaturalKey, Record, RecordKey, Resource, SentFields, Verb};

/// Whether `step` calls its record what it is called, knows what it holds, and
/// sends nothing beside what it says but what is there already.
#[must_use]
pub fn describes_state(step: &PlanStep, current: CurrentState<'_>) -> bool {
    // What was lost is not there.
    let lost = step.replaces.filter(|_| step.origin.is_none()).map(RecordKey::Id);
    if lost
        .is_some_and(|key| current.state.get(step.resource).is_some_and(|it| it.contains_key(&key)))
    {
        return false;
    }
    let Some((resource, id)) = owner(step) else { return true };
    let Some(records) = current.state.get(resource) else { return true };
    let Some(record) = records.get(&RecordKey::Id(id)) else { return false };
    let as_said = || match step.verb {
        Verb::Update => update(step, record, current.memory),
        Verb::Delete => step.before.as_ref().is_some_and(|before| {
            let all = all_fields(resource, record);
            let sent = current.memory.sent.get(&(resource, record.key.clone()));
            let lost = sent.is_none_or(|sent| !sent.contains_key("data"));
            all.len() == before.len()
                && all.keys().all(|name| value_before(resource, record, before, name))
                && (resource != Resource::QrCodes || reversibility::match_step(step, Some(lost)))
        }),
        _ => true,
    };
    step.name == name_of(resource, record) && as_said()
}

/// The record of the account whose name a step shows.
fn owner(step: &PlanStep) -> Option<(Resource, i64)> {
    match step.verb {
        // The password's own step says nothing of the record.
        Verb::Update | Verb::Delete => {
            Some((step.resource, step.id?)).filter(|_| has_fingerprint(step))
        }
        Verb::Assign => {
            let (resource, name) = match step.resource {
                Resource::Campaigns => (Resource::Campaigns, "campaign"),
                _ => (Resource::Channels, "channel"),
            };
            match ResolvedRef::from_json(step.after.as_ref()?.get(name)?)? {
                ResolvedRef::Id(id) => Some((resource, id)),
                ResolvedRef::Step(_) => None,
            }
        }
        _ => None,
    }
}

/// Whether a step is for a record as it was, and for no other.
pub(super) fn has_fingerprint(step: &PlanStep) -> bool {
    step.fingerprint.is_some()
}

fn update(step: &PlanStep, record: &Record<'static>, memory: &AccountMemory) -> bool {
    let resource = step.resource;
    let sent = memory.sent.get(&(resource, record.key.clone()));
    let sent = |name: &str| sent.and_then(|sent| sent.get(name));
    let (Some(before), Some(after)) = (&step.before, &step.after) else { return false };
    let true_before = |name: &String| {
        let Some((place, _)) = resource.spec().field(name) else { return false };
        match record.values.get(place) {
            Some(_) => value_before(resource, record, before, name),
            None => {
                let now = is_unlisted(resource, record, sent(name), name).unwrap_or_default();
                before.get(name) == Some(&now)
            }
        }
    };
    let true_carried = |(name, value): (&String, &Json)| {
        required_value(resource, record, sent(name), name).as_ref() == Some(value)
    };
    let is_open = |name: &&String| *name != "password";
    before.keys().all(|name| after.contains_key(name))
        && after.keys().filter(is_open).all(true_before)
        && (step.request.body.iter().flatten())
            .filter(|(name, _)| !after.contains_key(*name))
            .all(true_carried)
}

/// Whether `before` has of a field what the record has.
fn value_before(
    resource: Resource,
    record: &Record<'static>,
    before: &JsonFields,
    name: &str,
) -> bool {
    let field = resource.spec().field(name);
    let value = field.and_then(|(place, field)| Some((field, record.values.get(place)?)));
    value.zip(before.get(name)).is_some_and(|((field, value), before)| {
        value.json() == *before || equal_values(field, value, &from_json(before))
    })
}

/// What an update sends along, unchanged, because the API requires it.
pub(super) fn required_value(
    resource: Resource,
    record: &Record<'static>,
    sent: Option<&Json>,
    name: &str,
) -> Option<Json> {
    let (place, field) = resource.spec().field(name)?;
    let value = match record.values.get(place) {
        Some(value) => sendable(field, value),
        None => sent.cloned(),
    };
    value.filter(|value| !value.is_null() && value.as_str() != Some(""))
}

/// The value that was sent for `record`, unless it was replaced since: a slug was, where the
/// rotator is not the one that was seen after the slug was sent.
#[must_use]
pub fn still_true<'s>(record: &Record<'_>, sent: &'s SentFields, name: &str) -> Option<&'s Json> {
    let value = sent.get(name)?;
    let seen = sent.get(ROTATOR).and_then(Json::as_str).filter(|_| name == "slug");
    let shown = Resource::Campaigns.spec().field(ROTATOR);
    let shown = shown.and_then(|(place, _)| text(record.values.get(place)?));
    let replaced = seen.zip(shown).is_some_and(|(seen, shown)| !same_address(seen, shown));
    (!replaced).then_some(value)
}

/// Whether two rotators are of the same slug, whatever their hosts.
pub(super) fn same_address(one: &str, other: &str) -> bool {
    match (slug(one), slug(other)) {
        (None, None) => one == other,
        (one, other) => one == other,
    }
}

/// What a field that no list shows holds, as far as it can be known.
pub(super) fn is_unlisted(
    resource: Resource,
    record: &Record<'static>,
    sent: Option<&Json>,
    name: &str,
) -> Option<Json> {
    let address = (name == "slug").then(|| rotator_url(resource, record)).flatten();
    address.map(|it| slug(it).unwrap_or_default().into()).or_else(|| sent.cloned())
}

/// Whether a create from a file is called what it says, and by whom it can be known.
pub(super) fn has_correct_name(step: &PlanStep) -> bool {
    let Some(after) = &step.after else { return false };
    let key = NaturalKey::text_of_json(step.resource, after);
    let label = crate::change::plan::naming::label_field(step.resource);
    let sends = step.resource.spec().endpoint(Verb::Create);
    let sends = sends.is_some_and(|it| it.params.iter().any(|param| param.name == label));
    let name = after.get(label).map(|it| text(&from_json(it)).unwrap_or_default().to_owned());
    (key.is_empty() || step.key == key) && (!sends || step.name == name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::change::plan::verify_step::*;
    use crate::model::DecodedRecord;
    use serde_json::json;

    #[test]
    fn a_slug_that_was_sent_is_true_while_the_rotator_is_as_it_was_seen_then() {
        let is = |seen: Json, shown: Json| {
            let raw = json!({"id": 1, "name": "a", "rotator": shown}).to_string();
            let record = DecodedRecord::read(Resource::Campaigns, None, &raw).unwrap().record;
            let sent = [("slug", json!("a/b")), (ROTATOR, seen), ("links", json!([3]))];
            let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
            assert_eq!(still_true(&record, &sent, "links"), Some(&json!([3])));
            still_true(&record, &sent, "slug").is_some()
        };
        let made = json!("https://x.example/r/a-b");
        assert!(is(made.clone(), made.clone()));
        assert!(is(made.clone(), json!("http://moved.example:81/r/a-b")));
        assert!(!is(made.clone(), json!("https://x.example/r/b")));
        assert!(!is(made.clone(), json!(false)));
        // It has not been seen yet.
        assert!(is(Json::Null, made.clone()));
        assert!(!is(json!(""), made));
        let odd = json!("https://x.example/?c=5");
        assert!(is(odd.clone(), odd.clone()));
        assert!(!is(odd, json!("https://x.example/?c=6")));
    }
}
