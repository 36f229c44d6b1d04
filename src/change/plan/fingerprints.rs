//! The records of the account that a step was planned against: what it changes,
//! or what an assignment names. They must be as they were when it is sent.

use super::types::{Plan, PlanStep};
use crate::change::plan::fields::fingerprint;
use crate::change::plan::request::{RequestSubject, ResolvedRef};
use crate::model::{RecordKey, Resource, State, Verb};

/// Stands between the fingerprints of an assignment.
const AND: char = '+';
/// Stands for a record that the plan does not know.
const UNKNOWN: &str = "-";

/// One record, and its fingerprint when the plan was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFingerprint<'a> {
    pub resource: Resource,
    pub id: i64,
    pub fingerprint: &'a str,
}

/// The records that `step` must find as they were. None of a create, and none of
/// a record that an earlier step creates.
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

/// The records that an assignment names: its owner, and a QR code that is its item.
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

/// What an assignment is bound to, as `state` shows it.
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

/// Whether the fingerprint of an assignment has the form that its records give it.
/// `bound`: the plan is one in which each record that an assignment names has one.
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
    /// The resources that must be read before its steps are sent: those that they
    /// touch, and those of the records that its assignments name.
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
    use crate::change::plan::tests::{everything, lifelike};

    #[test]
    fn an_assignment_is_bound_to_what_it_names_and_a_create_to_nothing() {
        let (plan, state) = (everything(), lifelike());
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
