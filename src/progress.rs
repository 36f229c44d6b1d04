//! What a long operation tells its watcher, as plain events. How they
//! are shown (bars, lines, JSON) is the business of `cli`.

use std::time::Duration;

/// Something that happened on the way.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A snapshot was begun, or is gone on with.
    Snapshot { number: i64, resumed: bool },
    /// A resource's listing begins (`parent`: the channel, for channel items).
    Listing { resource: &'a str, parent: Option<i64> },
    /// `done` records of `total` (when the service tells a total) were read.
    Records { resource: &'a str, done: u64, total: Option<u64> },
    /// Reading a resource ended with this state and number of records.
    Finished { resource: &'a str, state: &'a str, records: u64 },
    /// Waiting for the service's limit, or before a retry.
    Waiting { time: Duration, why: &'a str },
    /// `done` of `total` steps have an outcome; `requests` are left to make, which take
    /// about `time`.
    Steps { done: u64, total: u64, requests: u64, time: Duration },
    /// Something a person should know; the work goes on.
    Warning { text: &'a str },
}

/// Receives events. Every call returns quickly and never fails.
pub trait Progress {
    fn event(&self, event: &Event<'_>);
    /// Somebody is told or asked something before the work goes on: what is shown
    /// only while it does may go.
    fn pause(&self) {}
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn event(&self, _event: &Event<'_>) {}
}
