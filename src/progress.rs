//! Progress of a long operation, as plain events. `cli` shows them as bars, lines or JSON.

use std::time::Duration;

/// One event of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A snapshot begins, or an interrupted one continues.
    Snapshot {
        /// Id of the snapshot.
        number: i64,
        /// Whether an interrupted snapshot continues.
        resumed: bool,
    },
    /// The listing of a resource begins.
    Listing {
        /// Name of the resource.
        resource: &'a str,
        /// Id of the channel, for channel items.
        parent: Option<i64>,
    },
    /// Records of a listing were read.
    Records {
        /// Name of the resource.
        resource: &'a str,
        /// Records read so far.
        done: u64,
        /// Records of the whole list, if the service reports it.
        total: Option<u64>,
    },
    /// The listing of a resource ended.
    Finished {
        /// Name of the resource.
        resource: &'a str,
        /// State of the listing, such as `complete`.
        state: &'a str,
        /// Records read.
        records: u64,
    },
    /// The operation waits for the service's rate limit or before a retry.
    Waiting {
        /// Length of the wait.
        time: Duration,
        /// Reason, for people.
        why: &'a str,
    },
    /// Steps of a run got an outcome.
    Steps {
        /// Steps with an outcome.
        done: u64,
        /// All steps of the run.
        total: u64,
        /// Requests that are left.
        requests: u64,
        /// Estimated time for these requests.
        time: Duration,
    },
    /// A warning; the operation continues.
    Warning {
        /// The warning, for people.
        text: &'a str,
    },
}

/// Receives the events of an operation. Implementations return quickly.
pub trait Progress {
    /// Handles one event.
    fn event(&self, event: &Event<'_>);
    /// Called before a message or a question. Removes what is shown only while the operation
    /// runs, such as a progress bar.
    fn pause(&self) {}
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn event(&self, _event: &Event<'_>) {}
}
