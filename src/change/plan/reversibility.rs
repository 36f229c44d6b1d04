//! What a step says of its way back, and of whether it can be seen: given by the
//! table and by what is known, so that a plan file can be held against it.

use super::types::PlanStep;
use crate::change::plan::naming::with_article;
use crate::model::{Field, Resource, Verb};

/// What there is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reversibility {
    /// Whether the step can be undone.
    pub reversible: bool,
    /// Whether a list can tell afterwards that it was done.
    pub verifiable: bool,
    /// Why not.
    pub remark: Option<StepRemark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepRemark {
    CannotDelete(Resource),
    ContentLost,
    ChannelAnew,
    Anew,
    Forgets,
    Unseen,
    Forever,
    ForeverUnseen,
}

impl StepRemark {
    pub fn text(self) -> String {
        let text = match self {
            Self::CannotDelete(resource) => {
                return format!("the API cannot delete {}", with_article(resource));
            }
            Self::ContentLost => "nobody knows its content, so it cannot be made again",
            Self::ChannelAnew => {
                "a deleted channel comes back with a new id, and its items one by one"
            }
            Self::Anew => "what was deleted comes back with a new id",
            Self::Forgets => "what it replaces is not known",
            Self::Unseen => "no list shows whether it was done",
            Self::Forever => "the API cannot unassign",
            Self::ForeverUnseen => "the API cannot unassign, and no list shows it",
        };
        text.to_owned()
    }
}

pub(super) fn of_create(resource: Resource) -> Reversibility {
    let reversible = resource.spec().endpoint(Verb::Delete).is_some();
    let remark = (!reversible).then_some(StepRemark::CannotDelete(resource));
    Reversibility { reversible, verifiable: true, remark }
}

/// `lost`: the record's content is not known.
pub(super) fn of_delete(resource: Resource, lost: bool) -> Reversibility {
    let remark = match resource {
        Resource::QrCodes if lost => StepRemark::ContentLost,
        Resource::Channels => StepRemark::ChannelAnew,
        _ => StepRemark::Anew,
    };
    Reversibility { reversible: false, verifiable: true, remark: Some(remark) }
}

/// `forgets`: it overwrites a value that is not known. `visible`: a list shows
/// one of the fields that change.
pub(super) fn of_update(forgets: bool, visible: bool) -> Reversibility {
    let remark = match (forgets, visible) {
        (true, _) => Some(StepRemark::Forgets),
        (false, false) => Some(StepRemark::Unseen),
        (false, true) => None,
    };
    Reversibility { reversible: !forgets, verifiable: visible, remark }
}

/// Of an item of a channel; the links of a campaign are in no list.
pub(super) fn of_assign(item: bool) -> Reversibility {
    let remark = if item { StepRemark::Forever } else { StepRemark::ForeverUnseen };
    Reversibility { reversible: false, verifiable: item, remark: Some(remark) }
}

/// Whether `step` says of itself what is so. Whether a code's content is lost
/// is known where there is a memory: `lost`.
pub(super) fn match_step(step: &PlanStep, lost: Option<bool>) -> bool {
    let is = |label: Reversibility| {
        (step.reversible, step.verifiable) == (label.reversible, label.verifiable)
            && step.remark == label.remark.map(StepRemark::text)
    };
    match step.verb {
        Verb::Create => is(of_create(step.resource)),
        Verb::Update => is(update(step)),
        Verb::Delete => {
            let either = [true, false].into_iter().filter(|it| lost.is_none_or(|lost| lost == *it));
            either.into_iter().any(|lost| is(of_delete(step.resource, lost)))
        }
        _ => is(of_assign(step.resource == Resource::ChannelItems)),
    }
}

fn update(step: &PlanStep) -> Reversibility {
    let field = |name: &String| step.resource.spec().field(name).map(|(_, field)| field);
    let after = || step.after.iter().flatten().map(|(name, _)| name);
    let before = |name: &String| step.before.as_ref().and_then(|before| before.get(name));
    let hidden = |name: &&String| field(name).is_some_and(|it: &Field| !it.is_read());
    let forgets =
        after().filter(hidden).any(|name| before(name).is_none_or(serde_json::Value::is_null));
    let visible = after().any(|name| field(name).is_some_and(Field::is_read));
    of_update(forgets, visible)
}
