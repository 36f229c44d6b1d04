//! The account's records that a step depends on: the record that it changes, or the records that
//! an assignment names. They must be unchanged when the step is sent.

use super::types::{Plan, PlanStep};
use crate::change::plan::fields::fingerprint;
use crate::change::plan::request::{RequestSubject, ResolvedRef};
use crate::model::{RecordKey, Resource, State, Verb};

/// Separates the fingerprints of an assignment.
const AND: char = '+';
/// Replaces the fingerprint of a record that the plan's state does not have.
const UNKNOWN: &str = "-";

/// A record and its fingerprint at the time of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFingerprint<'a> {
    /// Part of the record's key.
    pub resource: Resource,
    /// The record's id in the account.
    pub id: i64,
    /// Blake3 in hex: see [`fingerprint`].
    pub fingerprint: &'a str,
}

/// The records that must be unchanged when `step` is sent. Empty for a create; records that an
/// earlier step creates are left out.
pub fn fingerprints(step: &PlanStep) -> impl Iterator<Item = RecordFingerprint<'_>> {
    let parts = step.fingerprint.as_deref();
    let (whole, parts) = match step.verb {
        Verb::Assign => (None, parts),
        _ => (parts, None),
    };
    let own = whole.zip(step.id).map(|(fingerprint, id)| RecordFingerprint {
        resource: step.resource,
        id,
        fingerprint,
    });
    let named = named(step).into_iter();
    let named = named.zip(parts.into_iter().flat_map(|parts| parts.split(AND)));
    let named = named.filter_map(|(record, fingerprint)| {
        let (resource, id) = record?;
        (fingerprint != UNKNOWN).then_some(RecordFingerprint { resource, id, fingerprint })
    });
    own.into_iter().chain(named)
}

/// The records that an assignment names: the channel or campaign, and the QR code that it assigns.
fn named(step: &PlanStep) -> [Option<(Resource, i64)>; 2] {
    let after = step.after.as_ref().filter(|_| step.verb == Verb::Assign);
    let id = |resource: Resource, name: &str| match ResolvedRef::from_json(after?.get(name)?)? {
        ResolvedRef::Id(id) => Some((resource, id)),
        ResolvedRef::Step(_) => None,
    };
    if step.resource == Resource::Campaigns {
        return [id(Resource::Campaigns, "campaign"), None];
    }
    let is_code = after.and_then(|it| it.get("type")?.as_str()) == Some("qr");
    let code = if is_code { id(Resource::QrCodes, "id") } else { None };
    [id(Resource::Channels, "channel"), code]
}

/// The fingerprints of the records that an assignment names, as one text; `None` if `state` has
/// none of them.
pub(super) fn assignment_fingerprint(subject: &RequestSubject, state: &State) -> Option<String> {
    let part = |resource: Resource, it: ResolvedRef| {
        let ResolvedRef::Id(id) = it else { return None };
        let record = state.get(resource)?.get(&RecordKey::Id(id))?;
        Some(fingerprint(resource, record))
    };
    let parts = match subject {
        RequestSubject::Item { channel, kind, id } => {
            let code = if kind == "qr" { part(Resource::QrCodes, *id) } else { None };
            [part(Resource::Channels, *channel), code]
        }
        RequestSubject::Link { campaign, .. } => [part(Resource::Campaigns, *campaign), None],
        _ => return None,
    };
    if parts.iter().all(Option::is_none) {
        return None;
    }
    let parts = parts.map(|part| part.unwrap_or_else(|| UNKNOWN.to_owned()));
    Some(parts.join(&AND.to_string()))
}

/// Whether the fingerprint of an assignment has one part for each record that it names.
/// `bound` is false for plans of older versions, which have no fingerprints there.
pub(super) fn is_bound_assign(step: &PlanStep, bound: bool) -> bool {
    let names = named(step);
    let Some(fingerprint) = &step.fingerprint else {
        return !bound || names.iter().all(Option::is_none);
    };
    let parts: Vec<_> = fingerprint.split(AND).collect();
    let is_sum = |part: &str| part.len() == 64 && part.bytes().all(|it| it.is_ascii_hexdigit());
    parts.len() == names.len()
        && parts.iter().zip(names).all(|(part, name)| match name {
            Some(_) => is_sum(part),
            None => *part == UNKNOWN,
        })
}

impl Plan {
    /// The resources that must be read before the steps are sent: those that the steps change, and
    /// those of the records that assignments name.
    #[must_use]
    pub fn reads(&self) -> Vec<Resource> {
        let mut reads = self.touched();
        reads.extend(self.steps.iter().flat_map(fingerprints).map(|it| it.resource));
        reads.sort_unstable();
        reads.dedup();
        reads
    }
}

#[cfg(test)]
mod tests {
    use crate::change::plan::fingerprints::*;
    use crate::change::plan::tests::{plan_with_every_verb, sample_state};

    #[test]
    fn an_assignment_has_the_fingerprints_of_the_records_it_names_and_a_create_has_none() {
        let (plan, state) = (plan_with_every_verb(), sample_state());
        let mut assigns = 0;
        for step in &plan.steps {
            let all: Vec<_> = fingerprints(step).collect();
            for one in &all {
                let record = &state.get(one.resource).unwrap()[&RecordKey::Id(one.id)];
                assert_eq!(one.fingerprint, fingerprint(one.resource, record), "{step:?}");
            }
            match step.verb {
                Verb::Create => assert!(all.is_empty()),
                Verb::Assign => {
                    let names = named(step).into_iter().flatten().count();
                    assert_eq!(all.len(), names, "{step:?}");
                    assert!(is_bound_assign(step, true));
                    assigns += names;
                    let bare = PlanStep { fingerprint: None, ..step.clone() };
                    assert_eq!(is_bound_assign(&bare, true), names == 0, "{step:?}");
                    assert!(is_bound_assign(&bare, false), "a plan of an older version");
                }
                _ => assert_eq!(all.len(), 1),
            }
        }
        assert!(assigns > 1);
    }
}
