//! Compares the statements of a step with the account. The step may come from a file, and users
//! approve what it displays.

use serde_json::Value as Json;

use super::types::{AccountMemory, CurrentState, JsonFields, PlanStep};
use crate::change::plan::fields::{sendable, slug, text};
use crate::change::plan::naming::{ROTATOR, all_fields, name_of, rotator_url};
use crate::change::plan::request::ResolvedRef;
use crate::change::plan::reversibility;
use crate::model::equality::are_equal;
use crate::model::value::from_json;
use crate::model::{NaturalKey, Record, RecordKey, Resource, SentFields, Verb};

/// Whether the name and the `before` values of `step` are those of its record, and whether the
/// other values that it sends are the record's current ones.
#[must_use]
pub fn describes_state(step: &PlanStep, current: CurrentState<'_>) -> bool {
    // A record that is to be restored must not exist.
    let replaced = step.replaces.filter(|_| step.origin.is_none()).map(RecordKey::Id);
    if replaced
        .is_some_and(|key| current.state.get(step.resource).is_some_and(|it| it.contains_key(&key)))
    {
        return false;
    }
    let Some((resource, id)) = owner(step) else { return true };
    let Some(records) = current.state.get(resource) else { return true };
    let Some(record) = records.get(&RecordKey::Id(id)) else { return false };
    let matches = || match step.verb {
        Verb::Update => update(step, record, current.memory),
        Verb::Delete => step.before.as_ref().is_some_and(|before| {
            let all = all_fields(resource, record);
            let sent = current.memory.sent.get(&(resource, record.key.clone()));
            let content_unknown = sent.is_none_or(|sent| !sent.contains_key("data"));
            all.len() == before.len()
                && all.keys().all(|name| value_before(resource, record, before, name))
                && (resource != Resource::QrCodes
                    || reversibility::matches_step(step, Some(content_unknown)))
        }),
        _ => true,
    };
    step.name == name_of(resource, record) && matches()
}

/// The record of the account whose name the step displays.
fn owner(step: &PlanStep) -> Option<(Resource, i64)> {
    match step.verb {
        // The step that sets a password has no values of the record.
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

/// Whether the step depends on the state of its record.
pub(super) fn has_fingerprint(step: &PlanStep) -> bool {
    step.fingerprint.is_some()
}

fn update(step: &PlanStep, record: &Record<'static>, memory: &AccountMemory) -> bool {
    let resource = step.resource;
    let sent = memory.sent.get(&(resource, record.key.clone()));
    let sent = |name: &str| sent.and_then(|sent| sent.get(name));
    let (Some(before), Some(after)) = (&step.before, &step.after) else { return false };
    let has_before = |name: &String| {
        let Some((place, _)) = resource.spec().field(name) else { return false };
        match record.values.get(place) {
            Some(_) => value_before(resource, record, before, name),
            None => {
                let now = unlisted_value(resource, record, sent(name), name).unwrap_or_default();
                before.get(name) == Some(&now)
            }
        }
    };
    let has_current = |(name, value): (&String, &Json)| {
        required_value(resource, record, sent(name), name).as_ref() == Some(value)
    };
    let is_open = |name: &&String| *name != "password";
    before.keys().all(|name| after.contains_key(name))
        && after.keys().filter(is_open).all(has_before)
        && (step.request.body.iter().flatten())
            .filter(|(name, _)| !after.contains_key(*name))
            .all(has_current)
}

/// Whether `before` has the record's value of a field.
fn value_before(
    resource: Resource,
    record: &Record<'static>,
    before: &JsonFields,
    name: &str,
) -> bool {
    let field = resource.spec().field(name);
    let value = field.and_then(|(place, field)| Some((field, record.values.get(place)?)));
    value.zip(before.get(name)).is_some_and(|((field, value), before)| {
        value.json() == *before || are_equal(field, value, &from_json(before))
    })
}

/// The current value of a field that the API requires in each update.
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

/// The value that linkvault sent for `record`, unless it was replaced since. A slug was replaced
/// if the rotator differs from the one that was read after the slug was sent.
#[must_use]
pub fn still_true<'s>(record: &Record<'_>, sent: &'s SentFields, name: &str) -> Option<&'s Json> {
    let value = sent.get(name)?;
    let seen = sent.get(ROTATOR).and_then(Json::as_str).filter(|_| name == "slug");
    let shown = Resource::Campaigns.spec().field(ROTATOR);
    let shown = shown.and_then(|(place, _)| text(record.values.get(place)?));
    let replaced = seen.zip(shown).is_some_and(|(seen, shown)| !same_address(seen, shown));
    (!replaced).then_some(value)
}

/// Whether two rotator URLs have the same slug. Their hosts may differ.
pub(super) fn same_address(one: &str, other: &str) -> bool {
    match (slug(one), slug(other)) {
        (None, None) => one == other,
        (one, other) => one == other,
    }
}

/// The value of a field that no list shows, if known.
pub(super) fn unlisted_value(
    resource: Resource,
    record: &Record<'static>,
    sent: Option<&Json>,
    name: &str,
) -> Option<Json> {
    let address = (name == "slug").then(|| rotator_url(resource, record)).flatten();
    address.map(|it| slug(it).unwrap_or_default().into()).or_else(|| sent.cloned())
}

/// Whether the name and the key of a create agree with its fields.
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
    fn a_sent_slug_is_valid_until_the_rotator_changes() {
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
        // The rotator has not been read since.
        assert!(is(Json::Null, made.clone()));
        assert!(!is(json!(""), made));
        let odd = json!("https://x.example/?c=5");
        assert!(is(odd.clone(), odd.clone()));
        assert!(!is(odd, json!("https://x.example/?c=6")));
    }
}
