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

/// The mode of the terminal, which is set again on drop: a hidden question turns off the echo, and
/// its thread may not end.
pub(super) struct TerminalMode {
    #[cfg(unix)]
    saved: Option<rustix::termios::Termios>,
}

impl TerminalMode {
    /// The present mode.
    pub(super) fn save() -> Self {
        Self {
            #[cfg(unix)]
            saved: rustix::termios::tcgetattr(io::stdin()).ok(),
        }
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(saved) = &self.saved {
            use rustix::termios::{OptionalActions, tcsetattr};
            // The terminal may be gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }
}
