//! What a plan may do, and who wins where two people changed the same thing.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::plan::Plan;
use crate::model::{Resource, State, Verb};

/// What happens to a cell that was edited here and has changed there as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Nothing is written.
    #[default]
    Fail,
    /// The edited value is pushed.
    Mine,
    /// The account keeps its value.
    Theirs,
}

/// How many records of a resource may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountOrPercent {
    Count(u64),
    /// Of what the account has of a resource; it binds from ten records on.
    Percent(u8),
}

/// What the person allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Without it, nothing is deleted.
    pub delete: bool,
    pub max_delete: CountOrPercent,
    pub max_update: CountOrPercent,
    pub on_conflict: OnConflict,
    /// Whether the account's own record may be changed.
    pub account: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            delete: false,
            max_delete: CountOrPercent::Percent(30),
            max_update: CountOrPercent::Percent(30),
            on_conflict: OnConflict::Fail,
            account: false,
        }
    }
}

/// What is neither a number nor a percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a number such as 12 nor a percentage such as 30%")]
pub struct CountOrPercentError(String);

impl FromStr for CountOrPercent {
    type Err = CountOrPercentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || CountOrPercentError(text.to_owned());
        let digits = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| part.parse::<u64>().ok()).flatten().ok_or_else(error)
        };
        match text.trim().strip_suffix('%') {
            None => digits(text.trim()).map(Self::Count),
            Some(part) => match u8::try_from(digits(part.trim_end())?) {
                Ok(percent @ 0..=100) => Ok(Self::Percent(percent)),
                _ => Err(error()),
            },
        }
    }
}

impl fmt::Display for CountOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A percentage says nothing of fewer records than this.
const FEW: u64 = 10;

impl CountOrPercent {
    /// How many of `all` records it lets through; `None` when it does not bind.
    fn allows(self, all: u64) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count),
            Self::Percent(_) if all < FEW => None,
            Self::Percent(percent) => {
                let allowed = u128::from(all) * u128::from(percent) / 100;
                Some(u64::try_from(allowed).unwrap_or(u64::MAX))
            }
        }
    }
}

/// More of one resource than the policy lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardRefusal {
    pub resource: Resource,
    pub verb: Verb,
    /// What the plan touches.
    pub count: u64,
    /// What the account has.
    pub all: u64,
    pub bound: CountOrPercent,
    /// What the bound comes to.
    pub allowed: u64,
}

impl fmt::Display for GuardRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, verb, count, all, bound, allowed } = self;
        let (done, flag) = match verb {
            Verb::Delete => ("deletes", "--max-delete"),
            _ => ("updates", "--max-update"),
        };
        write!(f, "the plan {done} {count} of {all} {resource}; the limit is {allowed}")?;
        if matches!(bound, CountOrPercent::Percent(_)) {
            write!(f, " ({bound})")?;
        }
        write!(f, ". To allow it, add `{flag} {count}`")
    }
}

/// Whether the plan stays within the policy.
///
/// # Errors
/// Each resource of which too many records are touched.
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
    fn a_bound_is_a_number_or_a_percentage() {
        assert_eq!("12".parse(), Ok(CountOrPercent::Count(12)));
        assert_eq!(" 30 %".parse(), Ok(CountOrPercent::Percent(30)));
        for wrong in ["", "%", "101%", "-1", "+1", "1.5", "x", "99999999999999999999"] {
            assert!(wrong.parse::<CountOrPercent>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_percentage_binds_from_ten_records_on() {
        assert_eq!(CountOrPercent::Percent(30).allows(9), None);
        assert_eq!(CountOrPercent::Percent(30).allows(10), Some(3));
        assert_eq!(CountOrPercent::Count(0).allows(1), Some(0));
    }

    #[test]
    fn a_refusal_gives_numbers_limit_and_flag() {
        let state = campaigns(12);
        let plan = planned(&delete_all(&state, 4), &state);
        let policy = Policy { delete: true, ..Policy::default() };
        let refused = check_guards(&plan, &state, &policy).unwrap_err();
        assert_eq!(
            refused[0].to_string(),
            "the plan deletes 4 of 12 campaigns; the limit is 3 (30%). \
             To allow it, add `--max-delete 4`"
        );
        let more = Policy { max_delete: CountOrPercent::Count(4), ..policy };
        assert_eq!(check_guards(&plan, &state, &more), Ok(()));
        assert_eq!(check_guards(&Plan::default(), &state, &policy), Ok(()));
    }
}
