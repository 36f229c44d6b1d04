//! Steps whose outcome needs a person: what may be their record, and what was
//! decided.

use super::error::ApplyError;
use super::settle::{self, Found};
use super::{keep, run};
use crate::change::plan::Step;
use crate::clock::Timestamp;
use crate::model::{Key, Record, Verb};
use crate::vault::Vault;
use crate::vault::journal::{Run, RunStatus, Settled, StepState};

/// Of a step that was left, though it may have been done.
pub const MAY_BE_DONE: &str = "left by decision; whether it was done is not known";

/// What a person decides on a step of unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The record of that id is what it made.
    Adopt(i64),
    /// It made nothing; it is to be sent again.
    Retry,
    /// It is to be left as it is.
    Skip,
}

/// A step of unknown outcome, and the records that it may have made.
#[derive(Debug, Clone)]
pub struct Open {
    pub step: Step,
    pub candidates: Vec<Record<'static>>,
}

/// The steps of `run` that wait for a decision.
///
/// # Errors
/// When there is no such run, or the vault cannot be read.
pub fn candidates(vault: &mut Vault, run: i64) -> Result<Vec<Open>, ApplyError> {
    let run = vault.run(run)?;
    let rows = vault.steps(run.number)?;
    let mut open = Vec::new();
    for row in rows.iter().filter(|row| row.state == StepState::Unknown) {
        let step = run::step_of(row)?;
        let candidates = may_be(vault, &run, &step, row.sent)?;
        open.push(Open { step, candidates });
    }
    Ok(open)
}

/// The records that may be what `step` made, as the newest snapshot shows them.
fn may_be(
    vault: &mut Vault,
    run: &Run,
    step: &Step,
    sent: Option<Timestamp>,
) -> Result<Vec<Record<'static>>, ApplyError> {
    let newest = vault.snapshots()?.last().map(|snapshot| snapshot.number);
    let Some(newest) = newest.filter(|_| step.verb == Verb::Create) else { return Ok(Vec::new()) };
    let now = vault.state(newest, &[step.resource])?;
    let now = now.get(step.resource).cloned().unwrap_or_default();
    let seen = run::seen_before(vault, run, step.resource, sent)?;
    let done = vault.steps(run.number)?.into_iter().filter(|row| row.state == StepState::Done);
    let done: Vec<_> = done.filter_map(|row| run::step_of(&row).ok()).collect();
    let ids = match settle::find(step, &seen, sent, &now) {
        Found::One(id) => vec![id],
        Found::Several(ids) => ids,
        Found::None => settle::unexplained((step.resource, done.iter()), &seen, sent, &now),
    };
    Ok(ids.iter().filter_map(|id| now.get(&Key::Id(*id)).cloned()).collect())
}

/// Notes what a person decided. `resume` then goes on with the run.
///
/// # Errors
/// When the step waits for no decision, or the record cannot be its own.
pub fn decide(
    vault: &mut Vault,
    run: i64,
    step: u32,
    decision: Decision,
    now: Timestamp,
) -> Result<(), ApplyError> {
    let fault = |why: String| ApplyError::Step { step, why };
    let all = candidates(vault, run)?;
    let open = all.into_iter().find(|open| open.step.step == step);
    let open = open.ok_or_else(|| fault("it waits for no decision".to_owned()))?;
    let settled = match decision {
        Decision::Adopt(id) => {
            let ids: Vec<_> = open.candidates.iter().map(|record| record.key.id()).collect();
            if !ids.contains(&id) {
                let why = match (open.step.verb, settle::ids_in_words(&ids)) {
                    (Verb::Create, none) if none.is_empty() => {
                        format!(
                            "{id} cannot be its record, and no other in the newest snapshot can"
                        )
                    }
                    (Verb::Create, may) => format!("{id} cannot be its record; these can: {may}"),
                    _ => {
                        "it makes no record to be adopted; --retry sends it again, --leave leaves \
                          it as it is"
                            .to_owned()
                    }
                };
                return Err(fault(why));
            }
            Settled {
                id: Some(id),
                remember: keep::of_step(&open.step, id),
                maps: keep::maps(&open.step, Some(id)),
                ..Settled::of(StepState::Done)
            }
        }
        Decision::Retry => Settled::of(StepState::Planned),
        Decision::Skip => Settled::of(StepState::Skipped).saying(MAY_BE_DONE),
    };
    Ok(vault.settle_step(run, step, &settled, now, false)?)
}

/// Gives a run up: what was not sent is left, what is not known stays so, and
/// the run is finished.
///
/// # Errors
/// When there is no such run, it is finished, or the vault cannot be written.
pub fn abandon(vault: &mut Vault, run: i64, now: Timestamp) -> Result<(), ApplyError> {
    if vault.run(run)?.finished.is_some() {
        return Err(ApplyError::Finished(run));
    }
    vault.take_up_run(run)?;
    for row in vault.steps(run)? {
        let why = match row.state {
            StepState::Planned => "left by decision",
            StepState::Sent | StepState::Unknown => MAY_BE_DONE,
            _ => continue,
        };
        let left = Settled::of(StepState::Skipped).saying(why);
        vault.settle_step(run, row.step, &left, now, true)?;
    }
    vault.settle()?;
    Ok(vault.leave_run(run, RunStatus::Partial, None, 0, now)?)
}
