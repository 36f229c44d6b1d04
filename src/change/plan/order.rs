//! The order of steps, and their numbers.

use std::collections::{BTreeSet, HashMap};

use super::request::{RequestSubject, ResolvedRef, request};
use super::types::{JsonFields, Plan, PlanStep, UnsupportedChange};
use crate::change::desired::SourceLocation;
use crate::change::plan::reversibility::{Reversibility, StepRemark};
use crate::model::natural_key::fold_case;
use crate::model::{Resource, Verb};

/// A step before it has its number. Its subject counts drafts.
#[derive(Debug, Clone)]
pub(super) struct StepDraft {
    pub resource: Resource,
    pub verb: Verb,
    pub key: String,
    pub name: String,
    pub id: Option<i64>,
    pub subject: RequestSubject,
    pub before: Option<JsonFields>,
    pub after: Option<JsonFields>,
    pub body: Option<JsonFields>,
    pub label: Reversibility,
    pub replaces: Option<i64>,
    pub fingerprint: Option<String>,
    pub source: Option<SourceLocation>,
}

impl StepDraft {
    fn rank(&self) -> (u8, Resource) {
        let verb = match self.verb {
            Verb::Delete => 0,
            Verb::Update => 1,
            Verb::Create => 2,
            _ => 3,
        };
        (verb, self.resource)
    }

    /// A changed name: what it was and what it will be, both without case.
    fn renamed(&self) -> Option<(String, String)> {
        let name = |fields: &Option<JsonFields>| {
            let text = fields.as_ref()?.get("name")?.as_str()?;
            Some(fold_case(text))
        };
        let (old, new) = (name(&self.before).unwrap_or_default(), name(&self.after)?);
        (self.verb == Verb::Update && old != new && !new.is_empty()).then_some((old, new))
    }
}

/// Sorts the drafts, numbers them and makes their requests. What cannot be done
/// has the key of its draft.
pub(super) fn finish(drafts: &[StepDraft]) -> Plan {
    let mut plan = Plan::default();
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by(|one, other| sort(&drafts[*one], &drafts[*other]));
    let (order, ring) = untangle(drafts, &order);
    for at in ring {
        let reason = "its new name belongs to a record which is renamed in the same plan and \
                      cannot give it up first: rename one of them to something else before";
        plan.unsupported.push(give_up(&drafts[at], reason));
    }
    let mut numbers = vec![0; drafts.len()];
    for at in order {
        let draft = &drafts[at];
        let number = u32::try_from(plan.steps.len() + 1).unwrap_or(u32::MAX);
        match number_step(draft, number, &numbers) {
            Some(step) => {
                numbers[at] = number;
                plan.steps.push(step);
            }
            None => plan.unsupported.push(give_up(draft, "the API has no request for it")),
        }
    }
    plan
}

fn give_up(draft: &StepDraft, reason: &str) -> UnsupportedChange {
    UnsupportedChange {
        resource: draft.resource,
        key: draft.key.clone(),
        reason: reason.to_owned(),
        source: draft.source.clone(),
    }
}

fn sort(one: &StepDraft, other: &StepDraft) -> std::cmp::Ordering {
    let subjects = || place(&one.subject).cmp(&place(&other.subject));
    one.rank().cmp(&other.rank()).then_with(subjects).then_with(|| one.key.cmp(&other.key))
}

fn place(subject: &RequestSubject) -> (Option<ResolvedRef>, &str, Option<ResolvedRef>) {
    match subject {
        RequestSubject::Unnamed => (None, "", None),
        RequestSubject::Record(id) => (Some(*id), "", None),
        RequestSubject::Item { channel, kind, id } => (Some(*channel), kind, Some(*id)),
        RequestSubject::Link { campaign, link } => {
            (Some(*campaign), "", Some(ResolvedRef::Id(*link)))
        }
    }
}

/// Puts an update that takes a name behind those that give it up. The second
/// list are those that wait for each other.
fn untangle(drafts: &[StepDraft], order: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let renames = |place: &usize| {
        let draft = &drafts[*place];
        draft.renamed().map(|(old, new)| ((draft.resource, old), (draft.resource, new)))
    };
    // Of a name: how many have yet to give it up, and who waits for it.
    let mut names: HashMap<(Resource, String), (usize, Vec<usize>)> = HashMap::new();
    for (old, _) in order.iter().filter_map(renames) {
        names.entry(old).or_default().0 += 1;
    }
    let mut ready = BTreeSet::new();
    for (position, place) in order.iter().enumerate() {
        match renames(place).and_then(|(_, new)| names.get_mut(&new)) {
            Some((_, waiting)) => waiting.push(position),
            None => {
                ready.insert(position);
            }
        }
    }
    let mut done = Vec::with_capacity(order.len());
    while let Some(position) = ready.pop_first() {
        done.push(order[position]);
        let given_up = renames(&order[position]).and_then(|(old, _)| names.get_mut(&old));
        if let Some((holders, waiting)) = given_up {
            *holders -= 1;
            if *holders == 0 {
                ready.extend(waiting.drain(..));
            }
        }
    }
    let mut ring: Vec<usize> = names.into_values().flat_map(|(_, waiting)| waiting).collect();
    ring.sort_unstable();
    (done, ring.into_iter().map(|position| order[position]).collect())
}

/// The step, if all that it stands on has a number.
fn number_step(draft: &StepDraft, number: u32, numbers: &[u32]) -> Option<PlanStep> {
    let renumber = |it: ResolvedRef| match it {
        ResolvedRef::Step(draft) => {
            let number = *numbers.get(draft as usize)?;
            (number > 0).then_some(ResolvedRef::Step(number))
        }
        id @ ResolvedRef::Id(_) => Some(id),
    };
    let subject = match &draft.subject {
        RequestSubject::Unnamed => RequestSubject::Unnamed,
        RequestSubject::Record(id) => RequestSubject::Record(renumber(*id)?),
        RequestSubject::Item { channel, kind, id } => RequestSubject::Item {
            channel: renumber(*channel)?,
            kind: kind.clone(),
            id: renumber(*id)?,
        },
        RequestSubject::Link { campaign, link } => {
            RequestSubject::Link { campaign: renumber(*campaign)?, link: *link }
        }
    };
    let (key, after) = match assigned_key(&subject) {
        Some(key) => (key, assigned(&subject)),
        None => (draft.key.clone(), draft.after.clone()),
    };
    let mut waits_for: Vec<u32> = subject.steps().collect();
    waits_for.sort_unstable();
    Some(PlanStep {
        step: number,
        resource: draft.resource,
        verb: draft.verb,
        key,
        name: draft.name.clone(),
        id: draft.id,
        before: draft.before.clone(),
        after,
        request: request(draft.resource, draft.verb, &subject, draft.body.clone())?,
        waits_for,
        reversible: draft.label.reversible,
        verifiable: draft.label.verifiable,
        remark: draft.label.remark.map(StepRemark::text),
        replaces: draft.replaces,
        origin: None,
        fingerprint: draft.fingerprint.clone(),
        source: draft.source.clone(),
    })
}

/// What an assignment tells in its `after`.
pub(super) fn assigned(subject: &RequestSubject) -> Option<JsonFields> {
    let mut after = JsonFields::new();
    match subject {
        RequestSubject::Item { channel, kind, id } => {
            after.insert("channel".to_owned(), channel.json());
            after.insert("type".to_owned(), kind.as_str().into());
            after.insert("id".to_owned(), id.json());
        }
        RequestSubject::Link { campaign, link } => {
            after.insert("campaign".to_owned(), campaign.json());
            after.insert("link".to_owned(), (*link).into());
        }
        _ => return None,
    }
    Some(after)
}

/// An assignment's key.
pub(super) fn assigned_key(subject: &RequestSubject) -> Option<String> {
    match subject {
        RequestSubject::Item { channel, kind, id } => Some(format!("{channel}/{kind}/{id}")),
        RequestSubject::Link { campaign, link } => Some(format!("{campaign}/links/{link}")),
        _ => None,
    }
}
