//! The progress of a backup without a terminal, as lines of the log.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::escaped::Escaped;
use crate::format;
use crate::model::SnapshotId;
use crate::progress::{Event, Progress};

/// Logs the progress of a backup, and counts what was read.
#[derive(Debug, Default)]
pub struct LogProgress {
    account: String,
    /// Id of the snapshot; 0 before it exists.
    snapshot: AtomicI64,
    lists: AtomicU64,
    records: AtomicU64,
}

impl LogProgress {
    /// The progress of a backup of `account`.
    #[must_use]
    pub fn new(account: &str) -> Self {
        Self { account: account.to_owned(), ..Self::default() }
    }

    /// The snapshot, once it has begun.
    #[must_use]
    pub fn snapshot(&self) -> Option<SnapshotId> {
        Some(self.snapshot.load(Ordering::Relaxed)).filter(|number| *number != 0).map(SnapshotId)
    }

    /// The number of lists that were read, and that of their records.
    #[must_use]
    pub fn read(&self) -> (u64, u64) {
        (self.lists.load(Ordering::Relaxed), self.records.load(Ordering::Relaxed))
    }
}

impl Progress for LogProgress {
    fn event(&self, event: &Event<'_>) {
        let (account, run) = (self.account.as_str(), self.snapshot().map(|it| it.0));
        match *event {
            Event::Snapshot { number, resumed } => {
                self.snapshot.store(number, Ordering::Relaxed);
                let how = if resumed { "continues" } else { "begins" };
                tracing::info!(account, run = number, "backup {how}");
            }
            Event::Finished { resource, state, records } => {
                self.lists.fetch_add(1, Ordering::Relaxed);
                self.records.fetch_add(records, Ordering::Relaxed);
                tracing::debug!(account, run, resource, state, records, "read");
            }
            Event::Waiting { time, why } => {
                let time = format::duration(time);
                tracing::debug!(account, run, "waiting {time} for {}", Escaped(why));
            }
            Event::Warning { text } => tracing::warn!(account, run, "{}", Escaped(text)),
            Event::Listing { .. } | Event::Records { .. } | Event::Steps { .. } => {}
        }
    }
}
