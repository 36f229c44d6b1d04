//! What receives the messages of an operation, and answers its questions.

use std::sync::Arc;

use super::{Details, NextStep, OpError, OpErrorKind};
use crate::change::guards::GuardRefusal;
use crate::change::plan::{Plan, PlanStep, StepAnswer};
use crate::migrate::ManualTask;
use crate::progress::{NoProgress, Progress};

/// The question whether to apply a plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanQuestion<'a> {
    /// Its text, such as `Apply 3 steps to main?`.
    pub text: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// Whether it is a part of the plan that was shown.
    pub is_part: bool,
    /// Whether the steps can be chosen one by one.
    pub by_step: bool,
}

/// The answer to a [`PlanQuestion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanAnswer {
    /// Apply the plan.
    Apply,
    /// Write nothing.
    Decline,
    /// Ask about each step.
    ChooseSteps,
}

/// Receives the messages of a running operation, and answers its questions.
pub trait Events: Send + Sync {
    /// A problem that does not stop the operation.
    fn warning(&self, text: &str);

    /// A remark that can be left out.
    fn note(&self, text: &str);

    /// The receiver of progress events for work on `account`. It shows progress until it is
    /// dropped.
    fn progress(&self, _account: &str) -> Arc<dyn Progress + Send + Sync> {
        Arc::new(NoProgress)
    }

    /// From now on an interrupt ends the waits of the clock instead of the process, so that an
    /// operation can finish its current step. Later calls do nothing.
    fn catch_interrupts(&self) {}

    /// A plan was made. `is_answer`: the user asked for the plan itself; otherwise a question for
    /// confirmation follows.
    ///
    /// # Errors
    /// If the plan cannot be shown.
    fn planned(&self, _plan: &Plan, _is_answer: bool) -> Result<(), OpError> {
        Ok(())
    }

    /// The manual work that a migration leaves, before the question whether to apply its plan. By
    /// default not shown.
    ///
    /// # Errors
    /// If it cannot be shown.
    fn manual_tasks(&self, _tasks: &[ManualTask]) -> Result<(), OpError> {
        Ok(())
    }

    /// Asks for confirmation.
    ///
    /// # Errors
    /// If the question cannot be asked, or has no answer.
    fn confirm(&self, question: &str) -> Result<bool, OpError>;

    /// Asks whether to apply a plan. By default as [`Self::confirm`].
    ///
    /// # Errors
    /// As [`Self::confirm`].
    fn confirm_plan(&self, question: &PlanQuestion<'_>) -> Result<PlanAnswer, OpError> {
        let yes = self.confirm(question.text)?;
        Ok(if yes { PlanAnswer::Apply } else { PlanAnswer::Decline })
    }

    /// Asks whether to apply `step` of `plan`, where the steps are chosen one by one. By default
    /// declines all of them.
    ///
    /// # Errors
    /// As [`Self::confirm`].
    fn confirm_step(&self, _plan: &Plan, _step: &PlanStep) -> Result<StepAnswer, OpError> {
        Ok(StepAnswer::DeclineRest)
    }

    /// Asks whether to exceed the limit of a guard. By default does not.
    ///
    /// # Errors
    /// As [`Self::confirm`].
    fn exceed_limit(&self, _refusal: &GuardRefusal) -> Result<bool, OpError> {
        Ok(false)
    }

    /// Asks whether `values`, which are probably mistakes, are meant. By default refuses to answer.
    ///
    /// # Errors
    /// As [`Self::confirm`].
    fn accept_suspicious(&self, question: &str, values: &Details) -> Result<bool, OpError> {
        let message = format!("cannot ask \"{question}\", so nothing was written");
        let failure = OpError::new(OpErrorKind::Usage, message).details(values.clone());
        Err(failure.next(NextStep::AcceptSuspicious))
    }

    /// The text of a next step, to be recorded with a failure; `None` if this receiver has no
    /// texts.
    fn hint(&self, _next: &NextStep) -> Option<String> {
        None
    }
}

/// Ignores all messages, and refuses to answer questions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn warning(&self, _text: &str) {}

    fn note(&self, _text: &str) {}

    fn confirm(&self, question: &str) -> Result<bool, OpError> {
        let message = format!("cannot ask \"{question}\", so nothing was written");
        Err(OpError::new(OpErrorKind::Usage, message))
    }
}
