//! The answers to questions, as typed.

use crate::change::plan::StepAnswer;
use crate::ops::PlanAnswer;

/// The answer to a question for yes or no, which is no by default. `None`: ask again.
#[must_use]
pub fn yes_or_no(typed: &str) -> Option<bool> {
    match typed.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// The answer to the question whether to apply a plan. `None`: ask again.
#[must_use]
pub fn plan_answer(typed: &str, by_step: bool) -> Option<PlanAnswer> {
    match typed.trim().to_lowercase().as_str() {
        "s" | "step" | "steps" | "step by step" if by_step => Some(PlanAnswer::ChooseSteps),
        "a" | "all" => Some(PlanAnswer::Apply),
        other => {
            yes_or_no(other).map(|yes| if yes { PlanAnswer::Apply } else { PlanAnswer::Decline })
        }
    }
}

/// The answer to the question whether to apply a step, as `git add -p` has them. `None`: ask again.
#[must_use]
pub fn step_answer(typed: &str) -> Option<StepAnswer> {
    match typed.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(StepAnswer::Apply),
        "n" | "no" => Some(StepAnswer::Decline),
        "a" | "all" => Some(StepAnswer::ApplyRest),
        "q" | "quit" => Some(StepAnswer::DeclineRest),
        "g" => Some(StepAnswer::ApplyGroup),
        "d" => Some(StepAnswer::DeclineGroup),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_word_or_its_letter_and_anything_else_is_asked_again() {
        for (typed, yes) in [("y", true), (" YES ", true), ("", false), ("n", false), ("No", false)]
        {
            assert_eq!(yes_or_no(typed), Some(yes), "{typed:?}");
        }
        for typed in ["x", "yess", "1", "\u{1b}[A"] {
            assert_eq!(yes_or_no(typed), None);
            assert_eq!(plan_answer(typed, true), None);
            assert_eq!(step_answer(typed), None);
        }
        assert_eq!(plan_answer("all", false), Some(PlanAnswer::Apply));
        assert_eq!(plan_answer("", true), Some(PlanAnswer::Decline));
        assert_eq!(plan_answer("s", true), Some(PlanAnswer::ChooseSteps));
        assert_eq!(plan_answer("s", false), None);
        assert_eq!(step_answer("a"), Some(StepAnswer::ApplyRest));
        assert_eq!(step_answer("q"), Some(StepAnswer::DeclineRest));
        assert_eq!(step_answer("g"), Some(StepAnswer::ApplyGroup));
        assert_eq!(step_answer("d"), Some(StepAnswer::DeclineGroup));
        // A step is never chosen or declined by an empty line.
        assert_eq!(step_answer(""), None);
    }
}
