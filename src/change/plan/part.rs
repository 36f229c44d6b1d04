//! The part of a plan that a person chose, as a plan of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::order::{assigned, assigned_key};
use super::request::{RequestSubject, ResolvedRef, request};
use super::saved::subject;
use super::types::{Plan, PlanStep};
use crate::model::equality::fold_case;
use crate::model::{Resource, Verb};

/// A part of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanPart {
    /// The chosen steps with new numbers, without those that depend on declined ones. Its cost is
    /// not computed.
    pub plan: Plan,
    /// The steps that were not declined but depend on one that was, with its number, by their
    /// numbers in the whole plan.
    pub left_out: BTreeMap<u32, u32>,
}

/// The answer to the question whether to apply a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepAnswer {
    /// Apply it.
    Apply,
    /// Do not apply it.
    Decline,
    /// Apply it and all steps after it.
    ApplyRest,
    /// Apply neither it nor any step after it.
    DeclineRest,
    /// Apply it and the steps after it with the same resource and verb.
    ApplyGroup,
    /// Apply neither it nor the steps after it with the same resource and verb.
    DeclineGroup,
}

/// Asks about each step in turn, and returns the chosen part. Steps that depend on declined ones
/// are not asked about.
///
/// # Errors
/// The first error of `ask`.
pub fn choose<E>(
    plan: &Plan,
    mut ask: impl FnMut(&PlanStep) -> Result<StepAnswer, E>,
) -> Result<PlanPart, E> {
    let mut declined = BTreeSet::new();
    let mut out = None;
    // The answer for the steps of a resource and verb, or for all steps.
    let mut groups: BTreeMap<(Resource, &str), bool> = BTreeMap::new();
    let mut rest = None;
    for step in &plan.steps {
        let group = (step.resource, step.verb.name());
        let apply = match rest.or_else(|| groups.get(&group).copied()) {
            Some(apply) => apply,
            None if out
                .get_or_insert_with(|| dependents(plan, &declined))
                .contains_key(&step.step) =>
            {
                continue;
            }
            None => match ask(step)? {
                StepAnswer::Apply => true,
                StepAnswer::Decline => false,
                StepAnswer::ApplyRest => *rest.insert(true),
                StepAnswer::DeclineRest => *rest.insert(false),
                StepAnswer::ApplyGroup => *groups.entry(group).or_insert(true),
                StepAnswer::DeclineGroup => *groups.entry(group).or_insert(false),
            },
        };
        if !apply {
            declined.insert(step.step);
            out = None;
        }
    }
    Ok(part(plan, &declined))
}

/// The steps that cannot be done if `declined` are not: those that need a record which a declined
/// step creates, and those that take a name which a declined step would have freed. Each with the
/// number of the declined step.
fn dependents(plan: &Plan, declined: &BTreeSet<u32>) -> BTreeMap<u32, u32> {
    let mut causes: BTreeMap<u32, u32> = declined.iter().map(|step| (*step, *step)).collect();
    let mut held: BTreeMap<(Resource, String), u32> = BTreeMap::new();
    // Steps come after those that they depend on.
    for step in &plan.steps {
        let taken = name(step, step.after.as_ref());
        let needed = step.waits_for.iter().find_map(|on| causes.get(on));
        let cause = needed.or_else(|| held.get(taken.as_ref()?)).copied();
        let cause = causes.get(&step.step).copied().or(cause);
        let Some(cause) = cause else { continue };
        causes.insert(step.step, cause);
        if let (Verb::Update | Verb::Delete, Some(old)) =
            (step.verb, name(step, step.before.as_ref()))
            && Some(&old) != taken.as_ref()
        {
            held.insert(old, cause);
        }
    }
    causes.retain(|step, _| !declined.contains(step));
    causes
}

/// The plan without `declined` and the steps that depend on them.
#[must_use]
pub fn part(plan: &Plan, declined: &BTreeSet<u32>) -> PlanPart {
    let mut left_out = dependents(plan, declined);
    let mut numbers = BTreeMap::new();
    let mut steps: Vec<PlanStep> = Vec::new();
    for step in &plan.steps {
        if declined.contains(&step.step) || left_out.contains_key(&step.step) {
            continue;
        }
        let number = u32::try_from(steps.len() + 1).unwrap_or(u32::MAX);
        match renumbered(step, number, &numbers) {
            Some(made) => {
                numbers.insert(step.step, number);
                steps.push(made);
            }
            // No plan has such a step.
            None => drop(left_out.insert(step.step, step.step)),
        }
    }
    PlanPart { plan: Plan { steps, ..plan.clone() }, left_out }
}

/// `step` with a new number, and with the new numbers of the steps that it refers to.
fn renumbered(step: &PlanStep, number: u32, numbers: &BTreeMap<u32, u32>) -> Option<PlanStep> {
    let mut made = PlanStep { step: number, ..step.clone() };
    if step.waits_for.is_empty() {
        return Some(made);
    }
    let new = |it: ResolvedRef| match it {
        ResolvedRef::Step(step) => numbers.get(&step).copied().map(ResolvedRef::Step),
        id @ ResolvedRef::Id(_) => Some(id),
    };
    let subject = match subject(step)? {
        RequestSubject::Item { channel, kind, id } => {
            RequestSubject::Item { channel: new(channel)?, kind, id: new(id)? }
        }
        RequestSubject::Link { campaign, link } => {
            RequestSubject::Link { campaign: new(campaign)?, link }
        }
        RequestSubject::Record(id) => RequestSubject::Record(new(id)?),
        RequestSubject::Unnamed => RequestSubject::Unnamed,
    };
    made.waits_for = subject.steps().collect();
    made.waits_for.sort_unstable();
    made.key = assigned_key(&subject)?;
    made.after = assigned(&subject);
    made.request = request(step.resource, step.verb, &subject, step.request.body.clone())?;
    Some(made)
}

/// The name in `fields`, which only one record of its resource can have; without case.
fn name(step: &PlanStep, fields: Option<&super::JsonFields>) -> Option<(Resource, String)> {
    let field = match step.resource {
        Resource::Campaigns | Resource::Channels => "name",
        Resource::Domains => "domain",
        _ => return None,
    };
    let name = fields?.get(field)?.as_str()?;
    Some((step.resource, fold_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::RequestRate;
    use crate::change::plan::saved::{SavedPlan, read};
    use crate::change::plan::tests::plan_with_every_verb;

    /// Whether a saved plan with these steps would be accepted.
    fn is_valid(plan: &Plan) -> bool {
        let whose = ("main", "https://a.example", Some(1));
        read(SavedPlan::new(whose, 0, RequestRate::default(), plan.clone()).to_json().as_bytes())
            .is_ok()
    }

    #[test]
    fn every_part_of_a_plan_is_a_valid_plan() {
        let plan = plan_with_every_verb();
        assert!(is_valid(&plan));
        let numbers: Vec<u32> = plan.steps.iter().map(|step| step.step).collect();
        for choice in 0_u32..1 << numbers.len() {
            // Each single step, each pair, and every seventh of the other choices.
            if choice.count_ones() > 2 && choice % 7 != 0 {
                continue;
            }
            let declined: BTreeSet<u32> =
                numbers.iter().copied().filter(|step| choice >> (step - 1) & 1 == 1).collect();
            let part = part(&plan, &declined);
            assert!(is_valid(&part.plan), "{declined:?}: {part:?}");
            let left = part.plan.steps.len() + declined.len() + part.left_out.len();
            assert_eq!(left, plan.steps.len(), "{declined:?}");
            assert!(part.left_out.values().all(|cause| declined.contains(cause)), "{part:?}");
        }
        assert_eq!(part(&plan, &BTreeSet::new()).plan, plan);
    }

    #[test]
    fn steps_that_refer_to_a_declined_create_are_left_out_and_the_others_renumbered() {
        let plan = plan_with_every_verb();
        // Step 12 waits for step 7, and step 14 for step 8.
        let part = part(&plan, &BTreeSet::from([7]));
        assert_eq!(part.left_out, BTreeMap::from([(12, 7)]));
        assert_eq!(part.plan.steps.len(), 12);
        let last = part.plan.steps.last().unwrap();
        assert_eq!((last.step, last.waits_for.as_slice()), (12, &[7][..]));
        assert!(last.request.path.contains("{7}") && last.key.contains("{7}"), "{last:?}");
    }

    #[test]
    fn answers_choose_steps_and_dependents_are_not_asked_about() {
        use StepAnswer::{Apply, ApplyGroup, ApplyRest, Decline, DeclineGroup, DeclineRest};
        let plan = plan_with_every_verb();
        let chosen = |answers: &[StepAnswer]| {
            let mut asked = Vec::new();
            let part = choose(&plan, |step| {
                asked.push(step.step);
                answers.get(asked.len() - 1).copied().ok_or("no answer is left")
            });
            part.map(|part| (asked, part.plan.steps.len(), part.left_out))
        };
        let none = BTreeMap::new();
        assert_eq!(chosen(&[ApplyRest]), Ok((vec![1], 14, none.clone())));
        assert_eq!(chosen(&[DeclineRest]), Ok((vec![1], 0, none.clone())));
        assert_eq!(chosen(&[Apply, Decline, DeclineRest]), Ok((vec![1, 2, 3], 1, none)));
        let answers = [Apply, Apply, Apply, Apply, Apply, Apply, Decline, Decline, Apply, Apply];
        let answers = [&answers[..], &[Apply, Apply]].concat();
        let asked = (1..=11).chain([13]).collect();
        let left_out = BTreeMap::from([(12, 7), (14, 8)]);
        assert_eq!(chosen(&answers), Ok((asked, 10, left_out)));
        assert_eq!(chosen(&[Apply]), Err("no answer is left"));
        // Steps 11 and 12 assign links of campaigns, 13 and 14 items of channels.
        let answers = [&[Apply; 10][..], &[DeclineGroup, ApplyGroup]].concat();
        let asked = (1..=11).chain([13]).collect();
        assert_eq!(chosen(&answers), Ok((asked, 12, BTreeMap::new())));
    }

    #[test]
    fn a_name_that_a_declined_step_frees_is_not_taken() {
        let step = |number, verb, before: Option<&str>, after: Option<&str>| PlanStep {
            step: number,
            verb,
            before: before.map(|name| [("name".to_owned(), name.into())].into_iter().collect()),
            after: after.map(|name| [("name".to_owned(), name.into())].into_iter().collect()),
            waits_for: Vec::new(),
            ..plan_with_every_verb().steps[3].clone()
        };
        let steps = vec![
            step(1, Verb::Delete, Some("Old"), None),
            step(2, Verb::Update, Some("A"), Some("OLD")),
            step(3, Verb::Update, Some("B"), Some("a")),
            step(4, Verb::Update, Some("C"), Some("c")),
            step(5, Verb::Create, None, Some("b")),
        ];
        let plan = Plan { steps, ..Plan::default() };
        let out = |declined: &[u32]| dependents(&plan, &declined.iter().copied().collect());
        assert_eq!(out(&[1]), BTreeMap::from([(2, 1), (3, 1), (5, 1)]));
        assert_eq!(out(&[3]), BTreeMap::from([(5, 3)]));
        assert_eq!(out(&[4]), BTreeMap::new());
        assert_eq!(out(&[1, 3]), BTreeMap::from([(2, 1), (5, 3)]));
    }
}
