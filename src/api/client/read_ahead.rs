//! Reads that the caller announced: those in flight, and those that wait to be taken. Plain data.

use std::collections::{BTreeMap, VecDeque};

use super::width::Width;
use crate::api::error::ApiErrorKind;
use crate::api::http::{RemovedSecrets, Response};
use crate::api::pacer::SentRequest;

/// The first pages of this number of later lists may be kept while a long list is read.
const FIRST_PAGES: usize = 4;

/// The most bytes of responses to reads ahead, if none is larger than the largest so far.
const MAX_BYTES: usize = 32 << 20;

/// A read without a response yet.
#[derive(Debug)]
pub(super) struct ReadInFlight {
    pub id: u64,
    pub path: String,
    pub sent: SentRequest,
    /// The caller no longer needs it.
    pub unwanted: bool,
}

/// The result of a read, until the caller takes it.
#[derive(Debug)]
pub(super) struct KeptRead {
    pub outcome: Result<Response, ApiErrorKind>,
    pub removed: RemovedSecrets,
}

/// The announced reads of a client.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Not sent yet, in the order in which the caller will take them.
    announced: VecDeque<String>,
    pub in_flight: Vec<ReadInFlight>,
    /// Not taken yet.
    finished: BTreeMap<String, KeptRead>,
    pub width: Width,
    /// Size of the largest response so far, in bytes.
    largest: usize,
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

    /// Replaces the announced paths by as many of `paths` as may be sent before the next
    /// announcement.
    pub fn announce(&mut self, paths: impl IntoIterator<Item = String>) {
        self.announced.clear();
        let (room, mut paths) = (self.room(), paths.into_iter());
        while self.announced.len() < room
            && let Some(path) = paths.next()
        {
            if !self.finished.contains_key(&path) && !self.is_in_flight(&path) {
                self.announced.push_back(path);
            }
        }
    }

    /// The announced paths, which are no longer announced.
    pub fn take_announced(&mut self) -> VecDeque<String> {
        std::mem::take(&mut self.announced)
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

    /// How many further reads may be sent. The responses to keep are bounded, because a service may
    /// hold back the one that the caller waits for.
    pub fn room(&self) -> usize {
        let most = (2 * self.width.get() + FIRST_PAGES).min(MAX_BYTES / self.largest.max(1));
        most.saturating_sub(self.in_flight.len() + self.finished.len())
    }

    /// Tells the size of a response.
    pub fn received(&mut self, bytes: usize) {
        self.largest = self.largest.max(bytes);
    }

    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Number of the last read that was sent.
    pub fn last_id(&self) -> u64 {
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

    pub fn finish(&mut self, path: String, read: KeptRead) {
        self.finished.insert(path, read);
    }

    /// The read of `path`, if it succeeded. A failure stays for the read itself.
    pub fn take_success(&mut self, path: &str) -> Option<KeptRead> {
        self.finished.get(path)?.outcome.as_ref().ok()?;
        self.take(path)
    }

    pub fn take(&mut self, path: &str) -> Option<KeptRead> {
        self.finished.remove(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discarded_list_leaves_nothing_to_take() {
        let mut ahead = ReadAhead::new(4);
        for path in ["/api/qr?page=2", "/api/qrs?page=2"] {
            let outcome = Ok(Response::default());
            ahead.finish(
                path.to_owned(),
                KeptRead { outcome, removed: RemovedSecrets { list: 0, number: 0 } },
            );
        }
        ahead.announce(["/api/qr?page=2".to_owned(), "/api/qr?page=3".to_owned()]);
        assert_eq!(ahead.next_announced().map(String::as_str), Some("/api/qr?page=3"));
        ahead.discard("/api/qr");
        assert!(ahead.next_announced().is_none());
        assert!(ahead.take("/api/qr?page=2").is_none());
        assert!(ahead.take("/api/qrs?page=2").is_some());
    }
}
