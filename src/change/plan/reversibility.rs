//! Whether a step can be undone and verified. Computed from the table and the known values, so
//! that the statements of a plan file can be checked.

use std::collections::BTreeMap;

use super::types::{Plan, PlanStep};
use crate::change::plan::naming::with_article;
use crate::model::{Field, Resource, Verb};

/// Whether a step can be undone and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reversibility {
    /// Whether the step can be undone.
    pub reversible: bool,
    /// Whether a list shows afterwards if the step succeeded.
    pub verifiable: bool,
    /// Why it cannot be undone or verified.
    pub remark: Option<StepRemark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepRemark {
    CannotDelete(Resource),
    ContentUnknown,
    ChannelNewId,
    NewId,
    OldValueUnknown,
    NotListed,
    CannotUnassign,
    CannotUnassignNorVerify,
}

impl StepRemark {
    pub fn text(self) -> String {
        let text = match self {
            Self::CannotDelete(resource) => {
                return format!("the API cannot delete {}", with_article(resource));
            }
            Self::ContentUnknown => "nobody knows its content, so it cannot be made again",
            Self::ChannelNewId => {
                "a deleted channel comes back with a new id, and its items one by one"
            }
            Self::NewId => "what was deleted comes back with a new id",
            Self::OldValueUnknown => "what it replaces is not known",
            Self::NotListed => "no list shows whether it was done",
            Self::CannotUnassign => "the API cannot unassign",
            Self::CannotUnassignNorVerify => "the API cannot unassign, and no list shows it",
        };
        text.to_owned()
    }
}

pub(super) fn of_create(resource: Resource) -> Reversibility {
    let reversible = resource.spec().endpoint(Verb::Delete).is_some();
    let remark = (!reversible).then_some(StepRemark::CannotDelete(resource));
    Reversibility { reversible, verifiable: true, remark }
}

/// What the records lose that `plan` creates again, in a line for each resource.
#[must_use]
pub fn losses(plan: &Plan) -> Vec<String> {
    let is_again =
        |it: &&PlanStep| it.verb == Verb::Create && it.replaces.is_some() && it.origin.is_none();
    let mut counts: BTreeMap<(Resource, &str), u64> = BTreeMap::new();
    for step in plan.steps.iter().filter(is_again) {
        let has_slug = step.after.as_ref().is_some_and(|after| after.contains_key("slug"));
        let lost = match step.resource {
            Resource::Campaigns if has_slug => "its id, list page, and links assigned by hand",
            Resource::Campaigns => "its id, addresses, and links assigned by hand",
            Resource::QrCodes => "its id, its address that printed codes open, and its scans",
            Resource::Pixels => "its id, and the links that use it",
            _ => "its id",
        };
        *counts.entry((step.resource, lost)).or_default() += 1;
    }
    let line = |((resource, lost), count): ((Resource, &str), u64)| {
        let creates = if count == 1 { "create" } else { "creates" };
        format!("{count} {creates} of {resource}: {lost}")
    };
    counts.into_iter().map(line).collect()
}

/// `content_unknown`: no list shows the content, and linkvault did not send it.
pub(super) fn of_delete(resource: Resource, content_unknown: bool) -> Reversibility {
    let remark = match resource {
        Resource::QrCodes if content_unknown => StepRemark::ContentUnknown,
        Resource::Channels => StepRemark::ChannelNewId,
        _ => StepRemark::NewId,
    };
    Reversibility { reversible: false, verifiable: true, remark: Some(remark) }
}

/// `overwrites_unknown`: it overwrites a value that is not known. `visible`: a list shows one of
/// the fields that change.
pub(super) fn of_update(overwrites_unknown: bool, visible: bool) -> Reversibility {
    let remark = match (overwrites_unknown, visible) {
        (true, _) => Some(StepRemark::OldValueUnknown),
        (false, false) => Some(StepRemark::NotListed),
        (false, true) => None,
    };
    Reversibility { reversible: !overwrites_unknown, verifiable: visible, remark }
}

/// `item`: a channel item is assigned. No list shows the links of a campaign.
pub(super) fn of_assign(item: bool) -> Reversibility {
    let remark =
        if item { StepRemark::CannotUnassign } else { StepRemark::CannotUnassignNorVerify };
    Reversibility { reversible: false, verifiable: item, remark: Some(remark) }
}

/// Whether the statements of `step` about itself are correct. `content_unknown` is `None` if the
/// sent values are not available.
pub(super) fn matches_step(step: &PlanStep, content_unknown: Option<bool>) -> bool {
    let is = |label: Reversibility| {
        (step.reversible, step.verifiable) == (label.reversible, label.verifiable)
            && step.remark == label.remark.map(StepRemark::text)
    };
    match step.verb {
        Verb::Create => is(of_create(step.resource)),
        Verb::Update => is(update(step)),
        Verb::Delete => {
            let either = [true, false]
                .into_iter()
                .filter(|it| content_unknown.is_none_or(|content_unknown| content_unknown == *it));
            either.into_iter().any(|content_unknown| is(of_delete(step.resource, content_unknown)))
        }
        _ => is(of_assign(step.resource == Resource::ChannelItems)),
    }
}

fn update(step: &PlanStep) -> Reversibility {
    let field = |name: &String| step.resource.spec().field(name).map(|(_, field)| field);
    let after = || step.after.iter().flatten().map(|(name, _)| name);
    let before = |name: &String| step.before.as_ref().and_then(|before| before.get(name));
    let hidden = |name: &&String| field(name).is_some_and(|it: &Field| !it.is_read());
    let overwrites_unknown =
        after().filter(hidden).any(|name| before(name).is_none_or(serde_json::Value::is_null));
    let visible = after().any(|name| field(name).is_some_and(Field::is_read));
    of_update(overwrites_unknown, visible)
}
