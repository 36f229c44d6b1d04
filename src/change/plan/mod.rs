//! Computes the ordered steps that change one state into another, their cost, and the changes
//! that the API cannot make.
//!
//! * `types`: the types of a plan · `planner`: the state of a running planning
//! * `matching`: which record of the account a desired record is
//! * `fields`: comparison of values
//! * `updates`: updates, by `compare` · `creates` · `deletes` · `assign`: assignments
//! * `reused`: ids that the service gave to other records
//! * `order`: the order of the steps · `request`: their requests
//! * `part`: a part of the steps
//! * [`reverts`]: changes that may revert others' edits
//! * [`problems`]: why no plan can be made · [`saved`]: plan files
//! * [`fingerprints`]: the records that must be unchanged when a step is sent
//! * [`verify_step`]: compares a step with the account · `reversibility`: whether it can be undone

mod assign;
mod compare;
mod creates;
mod deletes;
mod fields;
pub mod fingerprints;
mod matching;
mod naming;
mod order;
mod part;
mod planner;
pub mod problems;
#[cfg(test)]
mod properties;
pub mod request;
mod reused;
mod reversibility;
pub mod reverts;
pub mod saved;
mod selection;
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
pub use part::{PlanPart, StepAnswer, choose, part};
pub use problems::{Conflict, PlanProblems};
pub use request::request;
pub use reversibility::losses;
pub use types::{
    AccountMemory, AgreedValues, CurrentState, JsonFields, KeptValue, MatchedRecord,
    MigrationMatches, MigrationNote, Plan, PlanCost, PlanStep, PlannedRequest, PossibleRevert,
    RequestRate, ReusedId, UnsupportedChange,
};

/// Plans the steps that change `current` into `desired`. With a `base`, only the differences
/// between `base` and `desired` are changed. The cost of the plan is not computed.
///
/// # Errors
/// All rows that identify no record or several, and all conflicts.
pub fn plan(
    desired: &DesiredState,
    current: CurrentState<'_>,
    base: Option<&State>,
    policy: &Policy,
) -> Result<Plan, PlanProblems> {
    let reused = reused::ReusedIds::new(desired, current, base);
    let mut planner = planner::Planner::new(desired, current, base, policy, &reused);
    planner.plan_records();
    planner.plan_deletes_by_id();
    planner.items();
    planner.links();
    planner.finish()
}
