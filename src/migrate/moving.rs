//! A move between its map and its report: the plan for it, and what is left to
//! a person once the plan is known.

use std::collections::BTreeMap;

use super::{Manual, Mapped, Report};
use crate::change::desired::Desired;
use crate::change::plan::{Current, Plan, PlanProblems, plan};
use crate::change::policy::Policy;
use crate::model::{Key, Resource};

/// What the records of the source are in the other account, by their old ids.
pub type Ids = BTreeMap<(Resource, i64), i64>;

/// A move with its plan.
#[derive(Debug, Clone, Default)]
pub struct Moving {
    pub desired: Desired,
    /// What is left to a person.
    pub manual: Vec<Manual>,
    pub plan: Plan,
    /// What is there already.
    here: Ids,
}

impl Moving {
    /// Plans. `current` is the other account, with the ids that it is known to
    /// have for those of the source.
    ///
    /// # Errors
    /// When rows leave open what is meant.
    pub fn plan(
        mapped: Mapped,
        current: Current<'_>,
        policy: &Policy,
    ) -> Result<Self, PlanProblems> {
        let Mapped { desired, mut manual, .. } = mapped;
        let plan = plan(&desired, current, None, policy)?;
        let is_there = |resource, id| {
            current.state.get(resource).is_some_and(|live| live.contains_key(&Key::Id(id)))
        };
        let known = current.memory.ids.iter().map(|(old, new)| (*old, *new));
        let mut here: Ids =
            known.filter(|((resource, _), new)| is_there(*resource, *new)).collect();
        here.extend(matched(&plan));
        let moved =
            |it: &Manual| it.id.parse().is_ok_and(|id| here.contains_key(&(it.resource, id)));
        manual.retain(|it| !(it.once && moved(it)));
        Ok(Self { desired, manual, plan, here })
    }

    /// What came of it. `steps` tells of the plan's steps, by their numbers, why
    /// each was not done, or nothing of one that was; a step that it does not have
    /// was not begun. `made` are the ids that a run gave.
    #[must_use]
    pub fn report(&self, steps: &BTreeMap<u32, Option<String>>, made: Ids) -> Report {
        let not_begun = || Some("it is not there yet".to_owned());
        let undone = self.plan.steps.iter().filter_map(|it| {
            let why = steps.get(&it.step).cloned().unwrap_or_else(not_begun)?;
            Some((it.step, why))
        });
        let mut ids = self.here.clone();
        ids.extend(made);
        ids.extend(matched(&self.plan));
        Report::new(&self.desired, &self.plan, self.manual.clone(), &undone.collect(), &ids)
    }
}

fn matched(plan: &Plan) -> impl Iterator<Item = ((Resource, i64), i64)> + '_ {
    let all = plan.foreign.iter().flat_map(|it| &it.matched);
    all.map(|it| ((it.resource, it.old), it.new))
}
