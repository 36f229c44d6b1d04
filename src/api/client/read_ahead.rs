//! Reads that the caller announced: those in flight, and those that wait to be taken. Plain data.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::api::error::ApiErrorKind;
use crate::api::http::Response;
use crate::api::pacer::SentRequest;

/// A read without a response yet.
#[derive(Debug)]
pub(super) struct ReadInFlight {
    pub id: u64,
    pub path: String,
    pub sent: SentRequest,
    pub start: Duration,
    /// The caller no longer needs it.
    pub unwanted: bool,
}

/// The announced reads of a client.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Not sent yet, in the order in which the caller will take them.
    announced: VecDeque<String>,
    pub in_flight: Vec<ReadInFlight>,
    /// Not taken yet.
    finished: BTreeMap<String, Result<Response, ApiErrorKind>>,
    pub width: Width,
    /// The path for which the caller waits.
    pub wanted: String,
    last_id: u64,
}

impl ReadAhead {
    /// With up to `lanes` reads in flight.
    pub fn new(lanes: usize) -> Self {
        Self { width: Width::new(lanes), ..Self::default() }
    }

    pub fn is_idle(&self) -> bool {
        self.announced.is_empty() && self.in_flight.is_empty() && self.finished.is_empty()
    }

    /// Replaces the announced paths.
    pub fn announce(&mut self, paths: impl IntoIterator<Item = String>) {
        self.announced.clear();
        for path in paths {
            if !self.finished.contains_key(&path) && !self.is_in_flight(&path) {
                self.announced.push_back(path);
            }
        }
    }

    /// Drops everything of the list at `path`, so that no old response is taken for a new one.
    pub fn discard(&mut self, path: &str) {
        let is_of_list = |other: &str| {
            other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('?'))
        };
        self.announced.retain(|other| !is_of_list(other));
        self.finished.retain(|other, _| !is_of_list(other));
        for read in self.in_flight.iter_mut().filter(|read| is_of_list(&read.path)) {
            read.unwanted = true;
        }
    }

    /// Drops everything.
    pub fn discard_all(&mut self) {
        self.announced.clear();
        self.finished.clear();
        self.in_flight.iter_mut().for_each(|read| read.unwanted = true);
    }

    /// Whether another response may be kept: a service may hold back the one that the caller waits
    /// for.
    pub fn has_room(&self) -> bool {
        self.in_flight.len() + self.finished.len() < 2 * self.width.get()
    }

    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub fn next_announced(&self) -> Option<&String> {
        self.announced.front()
    }

    pub fn forget_announced(&mut self, path: &str) {
        self.announced.retain(|other| other != path);
    }

    pub fn is_in_flight(&self, path: &str) -> bool {
        self.in_flight.iter().any(|read| read.path == path && !read.unwanted)
    }

    pub fn end(&mut self, id: u64) -> Option<ReadInFlight> {
        let at = self.in_flight.iter().position(|read| read.id == id)?;
        Some(self.in_flight.swap_remove(at))
    }

    pub fn finish(&mut self, path: String, outcome: Result<Response, ApiErrorKind>) {
        self.finished.insert(path, outcome);
    }

    pub fn take(&mut self, path: &str) -> Option<Result<Response, ApiErrorKind>> {
        self.finished.remove(path)
    }
}

/// How many reads may be in flight: fewer when the service fails or gets slower, and one more after
/// that many good responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Width {
    most: usize,
    now: usize,
    /// Good responses since the last change.
    good: usize,
    /// The shortest time of a response.
    shortest: Option<Duration>,
}

impl Default for Width {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Width {
    pub const fn new(most: usize) -> Self {
        Self { most, now: most, good: 0, shortest: None }
    }

    pub const fn get(self) -> usize {
        self.now
    }

    /// A response came after `time`.
    pub fn good(&mut self, time: Duration) {
        /// Times below this are not slow, whatever the shortest one was.
        const NEVER_SLOW: Duration = Duration::from_millis(500);
        let shortest = self.shortest.map_or(time, |known| known.min(time));
        self.shortest = Some(shortest);
        if time > NEVER_SLOW && time > shortest * 3 {
            self.now = self.now.saturating_sub(1).max(1);
            self.good = 0;
            return;
        }
        self.good += 1;
        if self.good >= self.now && self.now < self.most {
            self.now += 1;
            self.good = 0;
        }
    }

    /// The service failed, or there was no response.
    pub fn failed(&mut self) {
        self.now = (self.now / 2).max(1);
        self.good = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_slow_responses_reduce_the_reads_in_flight_and_good_ones_raise_them() {
        let mut width = Width::new(4);
        assert_eq!(width.get(), 4);
        width.failed();
        assert_eq!(width.get(), 2);
        for expected in [2, 3, 3, 3, 4, 4] {
            width.good(Duration::from_millis(200));
            assert_eq!(width.get(), expected);
        }
        for expected in [3, 2, 1, 1] {
            width.good(Duration::from_millis(700));
            assert_eq!(width.get(), expected);
        }
        width.good(Duration::from_millis(599));
        assert_eq!(width.get(), 2);
    }

    #[test]
    fn a_discarded_list_leaves_nothing_to_take() {
        let mut ahead = ReadAhead::default();
        ahead.finish("/api/qr?page=2".to_owned(), Ok(Response::default()));
        ahead.finish("/api/qrs?page=2".to_owned(), Ok(Response::default()));
        ahead.announce(["/api/qr?page=2".to_owned(), "/api/qr?page=3".to_owned()]);
        assert_eq!(ahead.next_announced().map(String::as_str), Some("/api/qr?page=3"));
        ahead.discard("/api/qr");
        assert!(ahead.next_announced().is_none());
        assert!(ahead.take("/api/qr?page=2").is_none());
        assert!(ahead.take("/api/qrs?page=2").is_some());
    }
}
