//! Guards: refuse a plan that updates or deletes more records than the policy allows.

use std::collections::BTreeMap;
use std::fmt;

use super::plan::Plan;
use super::policy::Policy;
use crate::model::{CountOrPercent, Resource, State, Verb};

/// A refusal: the plan changes more records of a resource than allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardRefusal {
    /// Resource of the records.
    pub resource: Resource,
    /// `Update` or `Delete`.
    pub verb: Verb,
    /// Number of records that the plan changes.
    pub count: u64,
    /// Number of records in the account.
    pub all: u64,
    /// The configured limit.
    pub bound: CountOrPercent,
    /// The limit as a number of records.
    pub allowed: u64,
}

/// The number of records and the limit: `the plan deletes 4 of 12 campaigns; the limit is 3`.
impl fmt::Display for GuardRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, verb, count, all, bound, allowed } = self;
        let verb = if *verb == Verb::Delete { "deletes" } else { "updates" };
        write!(f, "the plan {verb} {count} of {all} {resource}; the limit is {allowed}")?;
        match bound {
            CountOrPercent::Percent(_) => write!(f, " ({bound})"),
            CountOrPercent::Count(_) => Ok(()),
        }
    }
}

/// Checks that the plan stays within the policy.
///
/// # Errors
/// One refusal for each resource and verb above its limit.
pub fn check_guards(plan: &Plan, state: &State, policy: &Policy) -> Result<(), Vec<GuardRefusal>> {
    let mut counts: BTreeMap<(Resource, bool), u64> = BTreeMap::new();
    for step in &plan.steps {
        if matches!(step.verb, Verb::Delete | Verb::Update) {
            *counts.entry((step.resource, step.verb == Verb::Delete)).or_default() += 1;
        }
    }
    let refusals: Vec<_> = counts
        .into_iter()
        .filter_map(|((resource, deletes), count)| {
            let all = state.get(resource).map_or(0, |records| records.len() as u64);
            let (verb, bound) = match deletes {
                true => (Verb::Delete, policy.max_delete),
                false => (Verb::Update, policy.max_update),
            };
            let allowed = bound.allows(all).filter(|allowed| count > *allowed)?;
            Some(GuardRefusal { resource, verb, count, all, bound, allowed })
        })
        .collect();
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::tests::{campaigns, delete_all, planned};

    #[test]
    fn a_refusal_gives_numbers_and_limit() {
        let state = campaigns(12);
        let plan = planned(&delete_all(&state, 4), &state);
        let policy = Policy { delete: true, ..Policy::default() };
        let refused = check_guards(&plan, &state, &policy).unwrap_err();
        assert_eq!(
            refused[0].to_string(),
            "the plan deletes 4 of 12 campaigns; the limit is 3 (30%)"
        );
        let more = Policy { max_delete: CountOrPercent::Count(4), ..policy };
        assert_eq!(check_guards(&plan, &state, &more), Ok(()));
        assert_eq!(check_guards(&Plan::default(), &state, &policy), Ok(()));
    }
}
