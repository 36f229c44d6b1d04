//! The ordered steps that lead from one state to another, what they cost, and
//! what cannot be done. What is printed is what is applied.
//!
//! * `types`: what a plan is · `planner`: a plan in the making
//! * `matching`: which record of the account a wanted one is
//! * `fields`: when two values are the same
//! * `updates`: updates, by `compare` · `creates` · `deletes` · `assign`: assignments
//! * `reused`: ids that the service gave again
//! * `order`: which step comes first · `request`: how it is sent
//! * [`problems`]: why there is no plan · [`saved`]: a plan as a file
//! * [`fingerprints`]: the records that must be as they were
//! * [`verify_step`]: whether what a step says of the account is so · `reversibility`: of its way back

mod assign;
mod compare;
mod creates;
mod deletes;
mod fields;
pub mod fingerprints;
mod matching;
mod naming;
mod order;
mod planner;
pub mod problems;
#[cfg(test)]
mod properties;
pub mod request;
mod reused;
mod reversibility;
pub mod saved;
#[cfg(test)]
pub(crate) mod tests;
mod types;
mod updates;
pub mod verify_step;

use super::desired::DesiredState;
use super::policy::Policy;
use crate::model::State;

pub use fields::{fingerprint, slug};
pub use matching::already_created;
pub use naming::ROTATOR;
pub use problems::PlanProblems;
pub use request::request;
pub use types::{
    AccountMemory, AgreedValues, CurrentState, JsonFields, KeptValue, MatchedRecord,
    MigrationMatches, MoveNote, Plan, PlanCost, PlanStep, PlannedRequest, Reused,
    UnsupportedChange,
};

/// The steps that make of `current` what is `desired`. With a `base`, only what
/// differs from it is wanted. The plan's cost is left open.
///
/// # Errors
/// Every row that means no record or several, and every conflict, at once.
pub fn plan(
    desired: &DesiredState,
    current: CurrentState<'_>,
    base: Option<&State>,
    policy: &Policy,
) -> Result<Plan, PlanProblems> {
    let reused = reused::ReusedIds::new(desired, current, base);
    let mut planner = planner::Planner::new(desired, current, base, policy, &reused);
    planner.plan_records();
    planner.unwanted();
    planner.items();
    planner.links();
    planner.finish()
}
