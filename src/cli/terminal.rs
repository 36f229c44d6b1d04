//! The terminal of stdin: its mode, and the keys that were typed before a question.

use std::io;

/// Discards the keys that were typed before a question is asked, so that they do not answer it.
pub(super) fn discard_typed_keys() {
    #[cfg(unix)]
    {
        use rustix::termios::{QueueSelector, tcflush};
        // Stdin may be no terminal.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }
}

/// The mode of the terminal, which is set again when this is dropped.
pub(super) struct SavedMode {
    #[cfg(unix)]
    saved: Option<rustix::termios::Termios>,
}

impl SavedMode {
    /// The present mode; nothing if stdin is no terminal.
    pub(super) fn of_stdin() -> Self {
        Self {
            #[cfg(unix)]
            saved: rustix::termios::tcgetattr(io::stdin()).ok(),
        }
    }
}

impl Drop for SavedMode {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(saved) = &self.saved {
            use rustix::termios::{OptionalActions, tcsetattr};
            // The terminal may be gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }
}

/// The terminal without echo, until it is dropped: the thread that reads a hidden answer may not
/// end.
pub(super) struct EchoOff {
    _saved: SavedMode,
}

impl EchoOff {
    /// Turns off the echo, so that keys are not shown even if they are typed as soon as the
    /// question is on the screen.
    pub(super) fn begin() -> Self {
        let saved = SavedMode::of_stdin();
        #[cfg(unix)]
        if let Some(mode) = &saved.saved {
            use rustix::termios::{LocalModes, OptionalActions, tcsetattr};
            let mut silent = mode.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            // Reading the answer tries it again, and fails if it cannot.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &silent);
        }
        Self { _saved: saved }
    }
}
