//! Asks whether to apply a plan, or which of its steps.

use std::borrow::Cow;

use super::events::{PlanAnswer, PlanQuestion};
use super::observation::Observation;
use super::plan::guard_failure;
use super::write_session::WriteSession;
use super::{Env, OpError};
use crate::change::guards::check_guards;
use crate::change::labels::{StepLabel, StepLabels};
use crate::change::plan::{Plan, PlanPart, choose};
use crate::change::policy::Policy;
use crate::format;

/// How a plan is confirmed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlanConfirmation {
    /// Nothing is asked: the user has confirmed the plan already.
    pub yes: bool,
    /// The steps can be chosen one by one.
    pub by_step: bool,
    /// They are, without asking about the whole plan first.
    pub interactive: bool,
}

/// The most steps that are named as left out.
const MAX_NAMED: usize = 10;

/// Refuses a plan that exceeds a limit of `policy`, unless the user allows it when `ask` is true.
///
/// # Errors
/// If it exceeds one; with counts and limits.
pub(super) fn guard_or_ask(
    env: &Env,
    plan: &Plan,
    observation: &Observation,
    policy: &Policy,
    ask: bool,
) -> Result<(), OpError> {
    let Err(refusals) = check_guards(plan, &observation.state, policy) else { return Ok(()) };
    for refusal in &refusals {
        if !ask || !env.events().exceed_limit(refusal)? {
            return Err(guard_failure(plan, &refusals));
        }
    }
    Ok(())
}

/// The plan to apply: `plan`, or the steps of it that the user chose. `None` if the user declined.
///
/// # Errors
/// If a question cannot be asked, or is interrupted.
pub(super) fn confirm_plan<'p>(
    session: &WriteSession<'_>,
    plan: &'p Plan,
    observation: &Observation,
    PlanConfirmation { yes, by_step, interactive }: PlanConfirmation,
) -> Result<Option<Cow<'p, Plan>>, OpError> {
    let (env, clock, name) = (session.env, &*session.clock, &session.account.name);
    let steps = format::counted(plan.steps.len() as u64, "step", "steps");
    let answer = if interactive && by_step {
        PlanAnswer::ChooseSteps
    } else {
        let text = &match plan.reverts.len() as u64 {
            0 => format!("Apply {steps} to {name}?"),
            count => format!(
                "Nothing protects other people's edits from this input, and {} may revert one. \
                 Apply {steps} to {name}?",
                format::counted(count, "change", "changes")
            ),
        };
        let by_step = by_step && plan.steps.len() > 1;
        let question = PlanQuestion { text, plan, is_part: false, by_step };
        env.confirm_plan(&question, yes, clock)?
    };
    match answer {
        PlanAnswer::Apply => return Ok(Some(Cow::Borrowed(plan))),
        PlanAnswer::Decline => return Ok(None),
        PlanAnswer::ChooseSteps => {}
    }
    let chosen = choose(plan, |step| env.events().confirm_step(plan, step))?;
    let PlanPart { plan: mut part, left_out } = chosen;
    let labels = StepLabels::new(&plan.steps, &plan.contents);
    for (step, cause) in left_out.iter().take(MAX_NAMED) {
        let what = plan.steps.iter().find(|it| it.step == *step).map(|it| {
            let StepLabel { key, name } = labels.label(it);
            format!(" ({} of {}: {key} {name})", it.verb.name(), it.resource)
        });
        let what = what.unwrap_or_default();
        env.note(format_args!("step {step}{what} is left out: it depends on step {cause}"));
    }
    if let more @ 1.. = left_out.len().saturating_sub(MAX_NAMED) {
        env.note(format_args!("{more} more steps are left out: they depend on declined ones"));
    }
    if part.steps.is_empty() {
        return Ok(None);
    }
    if part.steps.len() < plan.steps.len() {
        part.cost = observation.cost(&part);
        let text = &format!("Apply {} of {steps} to {name}?", part.steps.len());
        let question = PlanQuestion { text, plan: &part, is_part: true, by_step: false };
        if env.confirm_plan(&question, false, clock)? != PlanAnswer::Apply {
            return Ok(None);
        }
    }
    Ok(Some(Cow::Owned(part)))
}
