//! Steps of unknown outcome, on which a person decides: the records that they may have created, and
//! the decision.

use super::error::ApplyError;
use crate::apply::journal_step::{LEFT_BY_DECISION, parse_step};
use crate::apply::known_ids::known_ids_of;
use crate::apply::reconcile::{self, CreateOutcome};
use crate::apply::recovery::MAY_BE_OF_OTHERS;
use crate::apply::remember;
use crate::change::plan::PlanStep;
use crate::clock::Timestamp;
use crate::model::{Record, RecordKey, RunId, Verb};
use crate::vault::Vault;
use crate::vault::journal::{JournalStep, Run, RunStatus, StepResult, StepState};

/// The message of a skipped step that may have taken effect.
const MAY_BE_DONE: &str = "left by decision; whether it was done is not known";

/// Whether `row` was skipped by decision and may have taken effect. The journal has no state for it,
/// so its message tells.
pub(super) fn was_left_unknown(row: &JournalStep) -> bool {
    row.state == StepState::Skipped && row.message.as_deref() == Some(MAY_BE_DONE)
}

/// Whether the record of `row` may be one that another user created.
pub(super) fn may_be_of_others(row: &JournalStep) -> bool {
    row.state == StepState::Done && row.message.as_deref() == Some(MAY_BE_OF_OTHERS)
}

/// A person's decision on a step of unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDecision {
    /// The step created the record with this id.
    Adopt(i64),
    /// The step had no effect and is to be sent again.
    Retry,
    /// The step is not sent again; its outcome stays unknown.
    Skip,
}

/// A step of unknown outcome, and the records that it may have created.
#[derive(Debug, Clone)]
pub struct OpenStep {
    /// The step, from the journal.
    pub step: PlanStep,
    /// The records of the newest snapshot that it may have created; empty unless it is a create.
    pub candidates: Vec<Record<'static>>,
}

/// The steps of `run` that wait for a decision.
///
/// # Errors
/// If the run does not exist, or a step in the journal is invalid.
pub fn candidates(vault: &mut Vault, run: RunId) -> Result<Vec<OpenStep>, ApplyError> {
    let run = vault.run(run)?;
    let rows = vault.steps(run.number)?;
    let mut open = Vec::new();
    for row in rows.iter().filter(|row| row.state == StepState::Unknown) {
        let step = parse_step(row)?;
        let candidates = possible_records(vault, &run, &step, row)?;
        open.push(OpenStep { step, candidates });
    }
    Ok(open)
}

/// The records of the newest snapshot that `step` may have created.
fn possible_records(
    vault: &mut Vault,
    run: &Run,
    step: &PlanStep,
    row: &JournalStep,
) -> Result<Vec<Record<'static>>, ApplyError> {
    let sent = row.sent;
    let newest = vault.snapshots()?.last().map(|snapshot| snapshot.number);
    let Some(newest) = newest.filter(|_| step.verb == Verb::Create) else { return Ok(Vec::new()) };
    let now = vault.state(newest, &[step.resource])?;
    let now = now.get(step.resource).cloned().unwrap_or_default();
    let seen = known_ids_of(vault, run, step.resource, sent.map(|sent| (sent, step.step)))?;
    let done = vault.steps(run.number)?.into_iter().filter(|row| row.state == StepState::Done);
    let done: Vec<_> = done.filter_map(|row| parse_step(&row).ok()).collect();
    let mut ids = match reconcile::reconcile_create(step, &seen, sent, &now) {
        CreateOutcome::Created(id) => vec![id],
        CreateOutcome::Ambiguous(ids) => ids,
        CreateOutcome::NotCreated => {
            reconcile::unexplained_ids((step.resource, done.iter()), &seen, sent, &now)
        }
    };
    // The record that the run continued with, if it has a twin.
    ids.extend(row.id.filter(|id| !ids.contains(id)));
    Ok(ids.iter().filter_map(|id| now.get(&RecordKey::Id(*id)).cloned()).collect())
}

/// Stores a decision in the journal. `resume` then continues the run.
///
/// # Errors
/// If the step does not wait for a decision, or cannot have created the record.
pub fn decide(
    vault: &mut Vault,
    run: RunId,
    step: u32,
    decision: StepDecision,
    now: Timestamp,
) -> Result<(), ApplyError> {
    let fault = |why: String| ApplyError::Step { step, why };
    let all = candidates(vault, run)?;
    let open = all.into_iter().find(|open| open.step.step == step);
    let open = open.ok_or_else(|| fault("it needs no decision".to_owned()))?;
    let result = match decision {
        StepDecision::Adopt(id) => {
            let ids: Vec<_> = open.candidates.iter().map(|record| record.key.id()).collect();
            if !ids.contains(&id) {
                let why = match (open.step.verb, reconcile::format_ids(&ids)) {
                    (Verb::Create, none) if none.is_empty() => {
                        format!(
                            "{id} cannot be its record, and no other in the newest snapshot can"
                        )
                    }
                    (Verb::Create, may) => format!("{id} cannot be its record; these can: {may}"),
                    _ => "it creates no record to adopt; --retry sends it again, --leave leaves \
                          it as it is"
                        .to_owned(),
                };
                return Err(fault(why));
            }
            StepResult {
                id: Some(id),
                remember: remember::sent_values_of_step(&open.step, id),
                maps: remember::id_mapping(&open.step, Some(id)),
                ..StepResult::of(StepState::Done)
            }
        }
        StepDecision::Retry => StepResult::of(StepState::Planned),
        StepDecision::Skip => StepResult::of(StepState::Skipped).with_message(MAY_BE_DONE),
    };
    Ok(vault.record_result(run, step, &result, now, false)?)
}

/// Finishes a run without sending its remaining steps. Unknown outcomes stay unknown.
///
/// # Errors
/// If the run does not exist or is finished.
pub fn abandon(vault: &mut Vault, run: RunId, now: Timestamp) -> Result<(), ApplyError> {
    if vault.run(run)?.finished.is_some() {
        return Err(ApplyError::Finished(run));
    }
    vault.resume_run(run)?;
    for row in vault.steps(run)? {
        let why = match row.state {
            StepState::Planned => LEFT_BY_DECISION,
            StepState::Sent | StepState::Unknown => MAY_BE_DONE,
            _ => continue,
        };
        let left = StepResult::of(StepState::Skipped).with_message(why);
        vault.record_result(run, row.step, &left, now, true)?;
    }
    vault.flush()?;
    Ok(vault.suspend_run(run, RunStatus::Partial, None, 0, now)?)
}
