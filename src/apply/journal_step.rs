//! The steps of a run, as the journal describes them.

use std::collections::BTreeSet;

use super::error::ApplyError;
use crate::change::plan::PlanStep;
use crate::clock::Timestamp;
use crate::model::Verb;
use crate::vault::Vault;
use crate::vault::journal::{JournalStep, Run, StepState};

/// The message of a step that was not sent because a person ended the run.
pub(super) const LEFT_BY_DECISION: &str = "left by decision";

/// A step and its progress.
#[derive(Debug)]
pub(super) struct StepRun {
    pub step: PlanStep,
    pub state: StepState,
    pub id: Option<i64>,
    /// How often this process has sent it. Tries of earlier processes do not count: steps are
    /// marked as sent in groups, so some of those tries may not have been sent.
    pub attempts: u32,
    /// When it was last marked as sent.
    pub sent: Option<Timestamp>,
    /// An earlier try may have taken effect.
    pub may_have_run: bool,
    /// This process has sent it although an earlier try may have taken effect.
    pub repeated: bool,
    /// A person decided that this update or delete is sent again.
    pub retried: bool,
    /// A repeated try would not be executed: the service refused one, or responded in a form that
    /// does not change.
    pub declined: bool,
    /// The id in the response to a create, if a record had it before.
    pub claimed: Option<i64>,
    /// The service reported that it created the record, but not its id.
    pub confirmed: bool,
    /// The latest message about it.
    pub message: Option<String>,
    /// Whether other steps need its record.
    pub needed: bool,
}

impl StepRun {
    /// Whether it has no outcome yet.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, StepState::Planned | StepState::Sent)
    }
}

/// The step in a row of the journal.
pub(super) fn parse_step(row: &JournalStep) -> Result<PlanStep, ApplyError> {
    serde_json::from_str(&row.spec)
        .map_err(|error| ApplyError::Journal { step: row.step, why: error.to_string() })
}

/// The steps of a run, with the state of each from the journal.
pub(super) fn load_step_runs(vault: &Vault, run: &Run) -> Result<Vec<StepRun>, ApplyError> {
    let mut all = Vec::new();
    for (nth, row) in (1..).zip(vault.steps(run.number)?) {
        let step = parse_step(&row)?;
        if (row.step, step.step) != (nth, nth) {
            let why = "it has another number".to_owned();
            return Err(ApplyError::Journal { step: nth, why });
        }
        let retried = row.state == StepState::Planned && row.attempts > 0;
        all.push(StepRun {
            retried: retried && step.verb != Verb::Create,
            step,
            state: row.state,
            id: row.id,
            attempts: 0,
            sent: row.sent,
            may_have_run: row.state == StepState::Sent || row.attempts > 0,
            repeated: false,
            declined: false,
            claimed: None,
            confirmed: false,
            message: row.message,
            needed: false,
        });
    }
    let needed: BTreeSet<_> = all.iter().flat_map(|work| work.step.waits_for.clone()).collect();
    for work in &mut all {
        work.needed = needed.contains(&work.step.step);
    }
    Ok(all)
}

/// `step 3 (create campaign Winter)`.
pub(super) fn step_title(step: &PlanStep) -> String {
    let (verb, title) = (step.verb.name(), step.resource.spec().title);
    format!("step {} ({verb} {title} {})", step.step, step.key)
}

pub(super) fn unfinished_step_message(
    name: &str,
    state: StepState,
    message: Option<&str>,
) -> String {
    format!("{name} {}: {}", state.name(), message.unwrap_or("not sent"))
}
