//! Questions on the terminal: confirmation, a line of text, a secret.

use std::fmt::Display;
use std::io::{self, BufRead as _, Write as _};

use super::Output;
use crate::change::plan::StepAnswer;
use crate::cli::answers::{plan_answer, step_answer, yes_or_no};
use crate::cli::question::is_interrupt;
use crate::cli::terminal::{EchoOff, discard_typed_keys};
use crate::cli::{CliError, Escaped, OpErrorKind, hints};
use crate::ops::{Details, NextStep, OpError, PlanAnswer};

impl Output {
    /// Whether questions can be asked: stdin and stderr are terminals.
    #[must_use]
    pub const fn can_ask(&self) -> bool {
        self.around.stdin_terminal && self.around.stderr_terminal
    }

    /// Asks for confirmation; with `yes`, returns true without asking.
    ///
    /// # Errors
    /// If there is no terminal, the answer cannot be read, or a signal ends the question.
    pub fn confirm(&self, question: impl Display, yes: bool) -> Result<bool, OpError> {
        if yes {
            return Ok(true);
        }
        if !self.can_ask() {
            let message =
                format!("cannot ask \"{question}\" without a terminal; nothing was written");
            return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::Confirm));
        }
        let question = format!("{question} [y/N]");
        self.ask_until(&question, "answer y or n", false, yes_or_no)
    }

    /// Asks whether to apply a plan.
    ///
    /// # Errors
    /// As [`Self::confirm`].
    pub fn confirm_plan(&self, question: &str, by_step: bool) -> Result<PlanAnswer, OpError> {
        if !self.can_ask() || !by_step {
            let yes = self.confirm(question, false)?;
            return Ok(if yes { PlanAnswer::Apply } else { PlanAnswer::Decline });
        }
        let question = format!("{question} [y/N, s: step by step]");
        let help = "y: apply all steps; n: apply none; s: ask about each step";
        self.ask_until(&question, help, PlanAnswer::Decline, |typed| plan_answer(typed, true))
    }

    /// Asks whether to apply a step, which `shown` describes and which has this number of all.
    ///
    /// # Errors
    /// As [`Self::confirm`].
    pub fn confirm_step(
        &self,
        shown: &str,
        (number, all): (u32, usize),
    ) -> Result<StepAnswer, OpError> {
        let question = format!("Apply this step ({number} of {all})? [y,n,a,q,g,d,?]");
        if !self.can_ask() {
            return self.confirm(question, false).map(|_| StepAnswer::DeclineRest);
        }
        self.tell(format_args!("{shown}"));
        let help = "y: apply this step\nn: do not apply it\na: apply it and all the rest\n\
                    q: apply neither it nor any of the rest\n\
                    g: apply it and the rest of its resource and verb\n\
                    d: apply neither it nor the rest of its resource and verb";
        self.ask_until(&question, help, StepAnswer::DeclineRest, step_answer)
    }

    /// Asks for the exact `count` of records, to exceed a limit. Returns false without a terminal.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn exceed_limit(&self, numbers: &str, count: u64) -> Result<bool, OpError> {
        if !self.can_ask() {
            return Ok(false);
        }
        self.warn(numbers);
        discard_typed_keys();
        let typed = self.ask(format_args!("Type {count} to allow it, or Enter to stop:"))?;
        Ok(typed.is_some_and(|typed| typed == count.to_string()))
    }

    /// Asks whether `values`, which are probably mistakes, are meant.
    ///
    /// # Errors
    /// As [`Self::confirm`].
    pub fn accept_suspicious(&self, question: &str, values: &Details) -> Result<bool, OpError> {
        if !self.can_ask() {
            let message =
                format!("cannot ask \"{question}\" without a terminal; nothing was written");
            let failure = OpError::new(OpErrorKind::Usage, message).details(values.clone());
            return Err(failure.next(NextStep::AcceptSuspicious));
        }
        let lines = self.shown_details(values).map(|line| format!("\n  {}", Escaped(line)));
        self.warn(format_args!("values that are probably mistakes:{}", lines.collect::<String>()));
        self.ask_until(&format!("{question} [y/N]"), "answer y or n", false, yes_or_no)
    }

    /// Asks until `parse` accepts the answer. At the end of the input, the answer is `otherwise`.
    fn ask_until<T>(
        &self,
        question: &str,
        help: &str,
        otherwise: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, OpError> {
        loop {
            discard_typed_keys();
            let Some(typed) = self.ask(question)? else { return Ok(otherwise) };
            if let Some(answer) = parse(&typed) {
                return Ok(answer);
            }
            self.tell(format_args!("{help}"));
        }
    }

    /// Asks for a line of text, which is trimmed. `None` at the end of the input.
    ///
    /// # Errors
    /// If the question cannot be shown, the answer cannot be read, or a signal ends the question.
    pub fn ask(&self, question: impl Display) -> Result<Option<String>, OpError> {
        let mut stderr = self.stderr.clone();
        let _ = self.stdout().flush();
        let question = format!("{} ", Escaped(question));
        let read = move || {
            // In one call, so that progress bars cannot interrupt it.
            stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush())?;
            let mut answer = String::new();
            io::stdin().lock().read_line(&mut answer).map(|_| answer)
        };
        let answer = self.answered(self.question.answer(read))?;
        if !answer.ends_with('\n') {
            // The terminal has shown no end of the line.
            self.tell(format_args!(""));
        }
        Ok((!answer.is_empty()).then(|| answer.trim().to_owned()))
    }

    /// Asks for a line of text without showing the answer.
    ///
    /// # Errors
    /// As [`Self::ask`], or if the input ends.
    pub fn ask_hidden(&self, question: impl Display) -> Result<String, OpError> {
        let _ = self.stdout().flush();
        let question = format!("{}: ", Escaped(question));
        let _echo = EchoOff::begin();
        let answer = self.question.answer(|| rpassword::prompt_password(question));
        self.answered(answer)
    }

    /// Asks twice for a secret, without showing it. `what` is the text of the question.
    ///
    /// # Errors
    /// If there is no terminal, or the answers are empty or differ.
    pub fn secret(&self, what: &str) -> Result<String, CliError> {
        if !self.can_ask() {
            let message =
                format!("cannot ask for \"{what}\" without a terminal; nothing was written");
            return Err(CliError::new(OpErrorKind::Usage, message).hint(hints::NAME_PASSWORD_FILE));
        }
        let first = self.ask_hidden(what)?;
        let again = self.ask_hidden("The same again")?;
        if first.is_empty() || first != again {
            let message = "the two passwords differ or are empty; nothing was written";
            return Err(CliError::new(OpErrorKind::Usage, message));
        }
        Ok(first)
    }

    /// The answer, or the error of a question that has none.
    fn answered(&self, answer: io::Result<Option<String>>) -> Result<String, OpError> {
        match answer {
            Ok(Some(answer)) => return Ok(answer),
            Err(error) if !is_interrupt(&error) => {
                let message = format!("cannot read the answer: {error}; nothing was written");
                return Err(OpError::new(OpErrorKind::Failed, message));
            }
            Ok(None) | Err(_) => {}
        }
        self.tell(format_args!(""));
        Err(OpError::new(OpErrorKind::Interrupted, "interrupted; nothing was written"))
    }
}
