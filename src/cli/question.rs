//! A question on the terminal that Ctrl-C can end.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::process::ProcessHandle;

type Answer = Option<io::Result<String>>;

/// The present question, if there is one.
#[derive(Debug, Clone, Default)]
pub struct Prompt(Arc<Mutex<PromptState>>);

#[derive(Debug, Default)]
struct PromptState {
    /// Ends the present question.
    asked: Option<Sender<Answer>>,
    /// Whether an interrupt came. No question is asked after it.
    ended: bool,
    /// Whether the reading thread noticed the Ctrl-C that ended the last question.
    interrupted: bool,
    /// Whether a pager has the terminal: Ctrl-C is for it.
    paging: bool,
    /// The process of the pager while it runs.
    pager: Option<ProcessHandle>,
}

/// Leaves Ctrl-C to a pager until it is dropped.
pub struct PagingGuard(Prompt);

impl Drop for PagingGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.paging, state.pager) = (false, None);
    }
}

impl PagingGuard {
    /// Notes the process of the pager, or `None` before its end is collected, after which another
    /// process may have its number.
    pub fn set_pager(&self, pager: Option<ProcessHandle>) {
        let mut state = self.0.state();
        state.pager = pager;
        if state.ended {
            state.end_pager();
        }
    }
}

impl PromptState {
    fn end_pager(&self) -> bool {
        self.pager.is_some_and(ProcessHandle::end)
    }
}

impl Prompt {
    /// The answer that `read` returns, or `None` if [`Prompt::end`] was called or is called first.
    /// Then the reading thread is left blocked until the program ends. `read` shows the question, so
    /// that it is not on the screen before an interrupt can end it.
    pub fn answer(
        &self,
        read: impl FnOnce() -> io::Result<String> + Send + 'static,
    ) -> io::Result<Option<String>> {
        let (answered, answer) = mpsc::channel();
        {
            // In one step with the check: an interrupt ends this question, or came before it.
            let mut state = self.state();
            if state.ended {
                return Ok(None);
            }
            *state = PromptState { asked: Some(answered.clone()), ..PromptState::default() };
        }
        let reader = move || {
            // If the question was ended, there is no receiver any more.
            let _ = answered.send(Some(read()));
        };
        std::thread::Builder::new().name("question".to_owned()).spawn(reader)?;
        let came = answer.recv().ok().flatten();
        let interrupted = matches!(&came, Some(Err(error)) if is_interrupt(error));
        let mut state = self.state();
        (state.asked, state.interrupted) = (None, interrupted);
        drop(state);
        came.transpose()
    }

    /// Ends the present question. Returns whether the interrupt belongs to a question: to the
    /// present one, or to one whose reading thread noticed it first.
    pub fn end(&self) -> bool {
        let mut state = self.state();
        state.ended = true;
        let ended = state.asked.take().is_some_and(|asked| asked.send(None).is_ok());
        ended || state.interrupted
    }

    /// Ends the pager, if one has the terminal.
    pub fn end_pager(&self) -> bool {
        let state = self.state();
        state.end_pager() || state.paging
    }

    /// From now on Ctrl-C is for a pager, until the guard is dropped.
    pub fn paging(&self) -> PagingGuard {
        self.state().paging = true;
        PagingGuard(self.clone())
    }

    /// Whether Ctrl-C is for a pager.
    pub fn is_paging(&self) -> bool {
        self.state().paging
    }

    fn state(&self) -> MutexGuard<'_, PromptState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the terminal reported Ctrl-C as this error.
pub fn is_interrupt(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_ends_with_an_answer_or_an_interrupt() {
        let question = Prompt::default();
        assert_eq!(question.answer(|| Ok("y".to_owned())).unwrap(), Some("y".to_owned()));
        assert!(question.answer(|| Err(io::Error::other("gone"))).is_err());
        let (reading, read) = mpsc::channel();
        let (_never, nothing) = mpsc::channel::<String>();
        let asked = question.clone();
        let asking = std::thread::spawn(move || {
            asked.answer(move || {
                reading.send(()).unwrap();
                nothing.recv().map_err(io::Error::other)
            })
        });
        read.recv().unwrap();
        assert!(question.end());
        assert_eq!(asking.join().unwrap().unwrap(), None);
        assert!(!question.end(), "nothing is asked");
        // A question is not asked after an interrupt, which could not end it any more.
        assert_eq!(question.answer(|| Ok("y".to_owned())).unwrap(), None);
    }
}
