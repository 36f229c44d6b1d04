//! Compares the records after a run with the values that it sent. The service may store a value in
//! another form.

use serde_json::Value as Json;

use crate::apply::reconcile::records_of_create;
use crate::change::plan::{JsonFields, PlanStep};
use crate::model::equality::compare;
use crate::model::{
    Equality, Field, FieldValue, FormEvidence, Record, RecordKey, State, Verb, value,
};
use crate::vault::journal::VerifiedState;

/// The result of verifying a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    /// As planned; with a remark if the service stored a value in another form.
    AsAsked(Option<String>),
    /// Not as planned, with the differences.
    Differs(String),
    /// No list shows it, with the reason.
    Hidden(String),
}

impl Verification {
    /// The result without its text, as the journal stores it.
    #[must_use]
    pub const fn state(&self) -> VerifiedState {
        match self {
            Self::AsAsked(_) => VerifiedState::Verified,
            Self::Differs(_) => VerifiedState::Differs,
            Self::Hidden(_) => VerifiedState::Hidden,
        }
    }

    /// The remark, the differences or the reason, for people.
    #[must_use]
    pub fn remark(&self) -> Option<&str> {
        match self {
            Self::AsAsked(remark) => remark.as_deref(),
            Self::Differs(why) | Self::Hidden(why) => Some(why),
        }
    }
}

/// Looks in `state` for the result of `step`. `id` is the id of its record, if known; `params` are
/// the values in its path. Also returns the id of the record: `id`, or the one that its natural key
/// shows.
#[must_use]
pub fn verify(
    step: &PlanStep,
    id: Option<i64>,
    params: &[String],
    state: &State,
) -> (Verification, Option<i64>) {
    let Some(records) = state.get(step.resource) else {
        return (Verification::Hidden("its list could not be read again".to_owned()), id);
    };
    let by_id = || records.get(&RecordKey::Id(id?));
    match step.verb {
        Verb::Delete => (verify_deleted(by_id().is_none()), id),
        Verb::Assign => (assigned(params, records), id),
        Verb::Create if id.is_none() => {
            let mut found = records_of_create(step, records);
            match (found.next(), found.next()) {
                (Some(record), None) => (fields(step, record), Some(record.key.id())),
                (Some(_), Some(_)) => {
                    (Verification::Hidden("several records have its key".to_owned()), id)
                }
                (None, _) => (Verification::Differs("it is not in the list".to_owned()), id),
            }
        }
        _ => match by_id() {
            Some(record) => (fields(step, record), id),
            None => (Verification::Differs("it is not in the list".to_owned()), id),
        },
    }
}

fn verify_deleted(gone: bool) -> Verification {
    if gone {
        Verification::AsAsked(None)
    } else {
        Verification::Differs("it is still in the list".to_owned())
    }
}

/// Whether a channel has the item; no list shows the links of a campaign.
fn assigned(params: &[String], records: &crate::apply::reconcile::RecordMap) -> Verification {
    let [channel, kind, id] = params else {
        return Verification::Hidden("no list shows the links of a campaign".to_owned());
    };
    let (Ok(channel), Ok(id)) = (channel.parse(), id.parse()) else {
        return Verification::Hidden("its path names no item".to_owned());
    };
    if records.contains_key(&RecordKey::Item { channel, kind: kind.clone(), id }) {
        Verification::AsAsked(None)
    } else {
        Verification::Differs("it is not in the list".to_owned())
    }
}

/// Compares the fields that were sent with the record.
fn fields(step: &PlanStep, record: &Record<'_>) -> Verification {
    let spec = step.resource.spec();
    let none = JsonFields::new();
    let asked = step.after.as_ref().or(step.request.body.as_ref()).unwrap_or(&none);
    let mut seen = false;
    let (mut remarks, mut wrong) = (Vec::new(), Vec::new());
    for (name, wanted) in asked {
        let Some((place, field)) = spec.field(name).filter(|(_, field)| field.is_read()) else {
            continue;
        };
        let Some(found) = record.values.get(place) else { continue };
        seen = true;
        let raw_value = wanted.to_string();
        let (asked, is) = (value::read(field.kind, &raw_value), found.cell());
        let asked = asked.cell();
        match became(field, wanted, found) {
            Equality::Equal => {}
            Equality::Stored => remarks.push(format!("`{asked}` is stored as `{is}`")),
            Equality::Different => {
                wrong.push(format!("`{name}` should be `{asked}` and is `{is}`"))
            }
        }
    }
    if !wrong.is_empty() {
        Verification::Differs(wrong.join("; "))
    } else if seen || step.verb == Verb::Create {
        Verification::AsAsked((!remarks.is_empty()).then(|| remarks.join("; ")))
    } else {
        Verification::Hidden("no list shows what was changed".to_owned())
    }
}

/// How the value `found` after a write compares with the one that it sent.
pub(super) fn became(field: &Field, sent: &Json, found: &FieldValue<'_>) -> Equality {
    let raw_value = sent.to_string();
    let sent = value::read(field.kind, &raw_value);
    compare(field, &sent, found, FormEvidence::JustSent)
}

/// The fields of a step's body to be stored as sent values: those that no list returns, and the
/// record's name and natural key. Never the password.
pub(super) fn unlisted_values(step: &PlanStep) -> impl Iterator<Item = (&str, &Json)> {
    let spec = step.resource.spec();
    let fields = step.request.body.iter().flatten();
    fields.map(|(name, value)| (name.as_str(), value)).filter(move |(name, _)| {
        let hidden = spec.field(name).is_some_and(|(_, field)| !field.is_read());
        let names_it = *name == "name" || spec.natural_key.contains(name);
        (hidden || names_it) && *name != "password"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::tests::{records, step};
    use crate::model::Resource;
    use serde_json::json;

    fn channels(raw: Json) -> State {
        let mut state = State::default();
        *state.resource_mut(Resource::Channels) = records(Resource::Channels, &[raw.to_string()]);
        state
    }

    fn verified_update(asked: Json, raw: Json) -> Verification {
        let step = step(1, Resource::Channels, Verb::Create, "/api/channel/add", Some(asked));
        verify(&step, Some(3), &[], &channels(raw)).0
    }

    #[test]
    fn a_lowercased_name_is_verified_with_a_remark() {
        let look = verified_update(json!({"name": "Spring"}), json!({"id": 3, "name": "spring"}));
        let remark = "`Spring` is stored as `spring`";
        assert_eq!(look, Verification::AsAsked(Some(remark.to_owned())));
    }

    #[test]
    fn a_domain_of_the_same_host_is_verified() {
        let verified_update = |found: &str| {
            let asked = json!({"domain": "https://Go.x.example/"});
            let create = step(1, Resource::Domains, Verb::Create, "/api/domain/add", Some(asked));
            let mut state = State::default();
            let raw = [json!({"id": 3, "domain": found}).to_string()];
            *state.resource_mut(Resource::Domains) = records(Resource::Domains, &raw);
            verify(&create, Some(3), &[], &state).0
        };
        for equal in ["https://Go.x.example/", "https://go.x.example/"] {
            assert_eq!(verified_update(equal), Verification::AsAsked(None));
        }
        assert!(matches!(verified_update("http://go.x.example"), Verification::AsAsked(Some(_))));
        assert!(matches!(verified_update("https://other.example"), Verification::Differs(_)));
    }

    #[test]
    fn colours_empty_text_and_booleans_are_compared_by_meaning() {
        let asked = json!({"name": "a", "color": "#ABCDEF", "description": "", "starred": false});
        let found = json!({"id": 3, "name": "a", "color": "#abcdef", "description": null});
        assert_eq!(verified_update(asked, found), Verification::AsAsked(None));
    }

    #[test]
    fn a_different_value_is_reported_with_field_and_both_values() {
        let found = json!({"id": 3, "name": "b", "starred": "1"});
        let why = "`name` should be `a` and is `b`";
        assert_eq!(
            verified_update(json!({"name": "a", "starred": true}), found),
            Verification::Differs(why.into())
        );
        let other = verified_update(json!({"name": "a"}), json!({"id": 4, "name": "a"}));
        assert_eq!(other, Verification::Differs("it is not in the list".to_owned()));
    }

    #[test]
    fn a_create_without_an_id_is_found_by_its_key() {
        let step = step(1, Resource::Channels, Verb::Create, "/x", Some(json!({"name": "A"})));
        let state = channels(json!({"id": 3, "name": "a"}));
        assert_eq!(verify(&step, None, &[], &state).1, Some(3));
    }
}
