//! The messages of an activity's operations, as lines of the log, and its progress for heartbeats.

use std::sync::Arc;

use crate::escaped::Escaped;
use crate::ops::log_progress::LogProgress;
use crate::ops::{Events, NextStep, OpError};
use crate::progress::Progress;
use crate::temporal::payload::ActivityHeartbeat;

/// Receives the messages of an activity.
pub struct ActivityEvents {
    account: String,
    progress: Arc<LogProgress>,
    /// The receiver of the process, which has the texts of hints.
    process: Arc<dyn Events>,
}

impl ActivityEvents {
    /// The receiver for work on `account`.
    pub fn new(account: &str, process: Arc<dyn Events>) -> Self {
        let progress = Arc::new(LogProgress::new(account));
        Self { account: account.to_owned(), progress, process }
    }

    /// How far the work is.
    pub fn progress(&self) -> ActivityHeartbeat {
        let (snapshot, (lists, records)) = (self.progress.snapshot(), self.progress.read());
        ActivityHeartbeat { snapshot: snapshot.map(|it| it.0), lists, records }
    }
}

impl Events for ActivityEvents {
    fn warning(&self, text: &str) {
        tracing::warn!(account = self.account, "{}", Escaped(text));
    }

    fn note(&self, text: &str) {
        tracing::info!(account = self.account, "{}", Escaped(text));
    }

    fn progress(&self, _account: &str) -> Arc<dyn Progress + Send + Sync> {
        Arc::clone(&self.progress) as _
    }

    fn confirm(&self, question: &str) -> Result<bool, OpError> {
        self.process.confirm(question)
    }

    fn hint(&self, next: &NextStep) -> Option<String> {
        self.process.hint(next)
    }
}
