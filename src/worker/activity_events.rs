//! The messages of an activity's operations, as lines of the log, and its progress for heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::change::plan::Plan;
use crate::escaped::Escaped;
use crate::format;
use crate::ops::{Events, NextStep, OpError};
use crate::progress::{Event, Progress};
use crate::temporal::payload::ActivityHeartbeat;

/// Receives the messages of an activity.
pub struct ActivityEvents {
    account: String,
    progress: Arc<ActivityProgress>,
    /// The receiver of the process, which has the texts of hints.
    process: Arc<dyn Events>,
}

impl ActivityEvents {
    /// The receiver for work on `account`.
    pub fn new(account: &str, process: Arc<dyn Events>) -> Self {
        let account = account.to_owned();
        let progress =
            Arc::new(ActivityProgress { account: account.clone(), ..Default::default() });
        Self { account, progress, process }
    }

    /// How far the work is.
    pub fn progress(&self) -> ActivityHeartbeat {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let snapshot = self.progress.snapshot.load(Ordering::Relaxed);
        ActivityHeartbeat {
            snapshot: Some(snapshot).filter(|it| *it != 0),
            lists: of(&self.progress.lists),
            records: of(&self.progress.records),
        }
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

    fn catch_interrupts(&self) {}

    fn planned(&self, _plan: &Plan, _is_answer: bool) -> Result<(), OpError> {
        Ok(())
    }

    fn confirm(&self, question: &str) -> Result<bool, OpError> {
        self.process.confirm(question)
    }

    fn hint(&self, next: &NextStep) -> Option<String> {
        self.process.hint(next)
    }
}

#[derive(Default)]
struct ActivityProgress {
    account: String,
    snapshot: AtomicI64,
    lists: AtomicU64,
    records: AtomicU64,
}

impl Progress for ActivityProgress {
    fn event(&self, event: &Event<'_>) {
        let account = self.account.as_str();
        match *event {
            Event::Snapshot { number, resumed } => {
                self.snapshot.store(number, Ordering::Relaxed);
                let how = if resumed { "continues" } else { "begins" };
                tracing::info!(account, run = number, "backup {how}");
            }
            Event::Finished { resource, state, records } => {
                self.lists.fetch_add(1, Ordering::Relaxed);
                self.records.fetch_add(records, Ordering::Relaxed);
                tracing::debug!(account, resource, state, records, "read");
            }
            Event::Waiting { time, why } => {
                let time = format::duration(time);
                tracing::debug!(account, "waiting {time} for {}", Escaped(why));
            }
            Event::Warning { text } => tracing::warn!(account, "{}", Escaped(text)),
            Event::Listing { .. } | Event::Records { .. } | Event::Steps { .. } => {}
        }
    }
}
