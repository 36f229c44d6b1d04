//! Sorts and numbers the steps.

use std::collections::{BTreeSet, HashMap};

use super::request::{RequestSubject, ResolvedRef, request};
use super::types::{JsonFields, Plan, PlanStep, UnsupportedChange};
use crate::change::desired::SourceLocation;
use crate::change::plan::reversibility::{Reversibility, StepRemark};
use crate::model::equality::fold_case;
use crate::model::{Resource, Verb};

/// A step without a number. `ResolvedRef::Step` in its subject is the position of a draft.
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
    pub reversibility: Reversibility,
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

    /// The old and the new name of a renaming update, both without case.
    fn renamed(&self) -> Option<(String, String)> {
        let name = |fields: &Option<JsonFields>| {
            let text = fields.as_ref()?.get("name")?.as_str()?;
            Some(fold_case(text))
        };
        let (old, new) = (name(&self.before).unwrap_or_default(), name(&self.after)?);
        (self.verb == Verb::Update && old != new && !new.is_empty()).then_some((old, new))
    }
}

/// Sorts and numbers the drafts and builds their requests. Drafts that the API cannot do are
/// reported as unsupported, with the key of the draft.
pub(super) fn finish(drafts: &[StepDraft]) -> Plan {
    let mut plan = Plan::default();
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by(|one, other| sort(&drafts[*one], &drafts[*other]));
    let (order, cycle) = order_renames(drafts, &order);
    for at in cycle {
        let reason = "its new name belongs to a record which is renamed in the same plan and \
                      cannot give it up first: rename one of them before";
        plan.unsupported.push(unsupported(&drafts[at], reason));
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
            None => plan.unsupported.push(unsupported(draft, "the API has no request for it")),
        }
    }
    plan
}

fn unsupported(draft: &StepDraft, reason: &str) -> UnsupportedChange {
    UnsupportedChange {
        resource: draft.resource,
        key: draft.key.clone(),
        reason: reason.to_owned(),
        source: draft.source.clone(),
    }
}

/// Creates are equal here, so that a stable sort keeps the order of the input.
fn sort(one: &StepDraft, other: &StepDraft) -> std::cmp::Ordering {
    let subjects = || place(&one.subject).cmp(&place(&other.subject));
    one.rank().cmp(&other.rank()).then_with(subjects)
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

/// Orders an update that takes a name after those that free it. The second list has the updates
/// that wait for each other in a cycle.
fn order_renames(drafts: &[StepDraft], order: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let renames = |place: &usize| {
        let draft = &drafts[*place];
        draft.renamed().map(|(old, new)| ((draft.resource, old), (draft.resource, new)))
    };
    // For each name: how many records still have it, and the positions of the waiting updates.
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
        let freed = renames(&order[position]).and_then(|(old, _)| names.get_mut(&old));
        if let Some((holders, waiting)) = freed {
            *holders -= 1;
            if *holders == 0 {
                ready.extend(waiting.drain(..));
            }
        }
    }
    let mut cycle: Vec<usize> = names.into_values().flat_map(|(_, waiting)| waiting).collect();
    cycle.sort_unstable();
    (done, cycle.into_iter().map(|position| order[position]).collect())
}

/// The numbered step; `None` if a step that it needs has no number, or if the API has no request.
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
        reversible: draft.reversibility.reversible,
        verifiable: draft.reversibility.verifiable,
        remark: draft.reversibility.remark.map(StepRemark::text),
        replaces: draft.replaces,
        origin: None,
        fingerprint: draft.fingerprint.clone(),
        source: draft.source.clone(),
    })
}

/// The `after` of an assignment.
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

/// The key of an assignment: `channel/type/id` or `campaign/links/link`.
pub(super) fn assigned_key(subject: &RequestSubject) -> Option<String> {
    match subject {
        RequestSubject::Item { channel, kind, id } => Some(format!("{channel}/{kind}/{id}")),
        RequestSubject::Link { campaign, link } => Some(format!("{campaign}/links/{link}")),
        _ => None,
    }
}
