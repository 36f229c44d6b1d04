//! Reads that overlap: the client sends reads that the caller announced while it waits for the one
//! that the caller needs, and keeps their responses.

use std::time::Duration;

use super::Client;
use super::read_ahead::{KeptRead, ReadInFlight};
use crate::api::error::ApiErrorKind;
use crate::api::http::{FinishedRead, Request, Response, TransportError};

impl Client {
    /// Announces the reads that will follow, in their order, instead of those announced before. Takes
    /// only as many of `paths` as it can send. While the client waits for a response, it may send
    /// some of them, and keeps their responses until they are read.
    pub fn announce(&mut self, paths: impl IntoIterator<Item = String>) {
        if self.may_read_ahead() {
            self.ahead.announce(paths);
        }
    }

    /// Drops the announced reads of the list at `path`, without its query, and their responses. A
    /// later read of them is a new request.
    pub fn discard_announced(&mut self, path: &str) {
        self.ahead.discard(path);
    }

    /// Drops all announced reads and their responses.
    pub fn discard_all_announced(&mut self) {
        self.ahead.discard_all();
    }

    /// Whether announced reads may overlap.
    #[must_use]
    pub fn may_read_ahead(&self) -> bool {
        self.ahead.width.most() > 1
    }

    /// Sends a read, or takes its response if it was announced and sent already.
    pub(super) fn read(&mut self, request: &Request) -> Result<Response, ApiErrorKind> {
        if self.ahead.is_idle() {
            self.pace()?;
            return self.attempt(request);
        }
        self.ahead.wanted.clone_from(&request.path);
        loop {
            if !self.ahead.in_flight.is_empty() {
                // Otherwise, the caller's own read comes first.
                self.send_announced();
            }
            if let Some(kept) = self.ahead.take(&request.path)
                && let Some(outcome) = self.without_later_secrets(request, kept)
            {
                return outcome;
            }
            if !self.ahead.is_in_flight(&request.path) {
                self.ahead.forget_announced(&request.path);
                while !self.ahead.in_flight.is_empty() && !self.may_overlap() {
                    self.require_not_interrupted()?;
                    self.receive();
                }
                if self.ahead.in_flight.is_empty() {
                    self.pace()?;
                } else {
                    self.require_within_limits()?;
                }
                if !self.begin(request) {
                    self.receive_all();
                    self.pace()?;
                    return self.attempt(request);
                }
                continue;
            }
            if !self.receive() {
                self.require_not_interrupted()?;
            }
        }
    }

    /// The response of an announced read of `path`, if it has arrived. Sends further announced
    /// reads, so that they are under way while the caller works.
    pub fn take_arrived(&mut self, path: &str) -> Option<Response> {
        while let Some(finished) = self.transport.inner.try_next_read() {
            self.end(finished);
        }
        let kept = self.ahead.take_success(path)?;
        let response = self.without_later_secrets(&self.read_request(path), kept)?.ok()?;
        self.send_announced();
        Some(response)
    }

    /// The result of an early read without the secrets that were added since it arrived. `None` for
    /// an error with such a text: the read is repeated.
    fn without_later_secrets(
        &self,
        request: &Request,
        kept: KeptRead,
    ) -> Option<Result<Response, ApiErrorKind>> {
        if kept.removed == self.transport.redactor.removed_secrets() {
            return Some(kept.outcome);
        }
        let response = kept.outcome.ok()?;
        Some(Ok(self.transport.redactor.response(request, response)))
    }

    /// Waits for all reads in flight, or until an interrupt.
    pub(super) fn receive_all(&mut self) {
        while !self.ahead.in_flight.is_empty() && !self.clock.interrupted() {
            self.receive();
        }
    }

    /// Sends announced reads as long as they may overlap.
    fn send_announced(&mut self) {
        while self.may_overlap()
            && self.ahead.room() > 0
            && self.require_within_limits().is_ok()
            && let Some(path) = self.ahead.next_announced().cloned()
        {
            let request = self.read_request(&path);
            if !self.begin(&request) {
                return;
            }
            self.ahead.forget_announced(&path);
        }
    }

    fn may_overlap(&self) -> bool {
        self.ahead.in_flight.len() < self.ahead.width.get()
            && self.pacer.state().may_overlap(self.clock.monotonic())
    }

    pub(super) fn read_request(&self, path: &str) -> Request {
        Request { key: self.key.clone(), ..Request::get(path) }
    }

    /// Begins a read. Returns `false` if other clients have spent its turn, or the transport cannot.
    fn begin(&mut self, request: &Request) -> bool {
        let Ok(sent) = self.before_send(request) else { return false };
        let id = self.ahead.next_id();
        if !self.transport.inner.begin_read(id, request) {
            self.counters.requests -= 1;
            self.pacer.not_sent(sent);
            return false;
        }
        let path = request.path.clone();
        self.ahead.in_flight.push(ReadInFlight { id, path, sent, unwanted: false });
        true
    }

    /// Waits until one of the reads in flight has ended, and keeps its result. Returns `false` if the
    /// transport has given up all of them, as it does some time after an interrupt.
    fn receive(&mut self) -> bool {
        let Some(finished) = self.transport.inner.next_read() else {
            for read in std::mem::take(&mut self.ahead.in_flight) {
                let lost = TransportError::Unknown("internal error: a read was lost".to_owned());
                let (id, time) = (read.id, Duration::ZERO);
                self.keep(read, FinishedRead { id, outcome: Err(lost), time, removed: None });
            }
            return false;
        };
        self.end(finished);
        true
    }

    fn end(&mut self, finished: FinishedRead) {
        if let Some(read) = self.ahead.end(finished.id) {
            self.keep(read, finished);
        }
    }

    fn keep(&mut self, read: ReadInFlight, finished: FinishedRead) {
        let FinishedRead { outcome, time, .. } = finished;
        let request = self.read_request(&read.path);
        let removed = self.transport.redactor.removed_secrets();
        let outcome = match finished.removed == Some(removed) {
            true => outcome,
            false => self.transport.redactor.outcome(&request, outcome),
        };
        let bytes = outcome.as_ref().map_or(0, |response| response.body.len());
        let outcome = self.after_send(&request, read.sent, time, outcome);
        let sent = self.ahead.last_id();
        match &outcome {
            Err(kind) if is_overload(kind) => self.ahead.width.failed(read.id, sent),
            _ => self.ahead.width.good(read.id, sent, (&read.path, bytes), time),
        }
        // A failure under load is not that of a read which the caller has not asked for yet.
        let is_early = read.path != self.ahead.wanted;
        let is_stale = is_early && matches!(&outcome, Err(kind) if is_overload(kind));
        if !read.unwanted && !is_stale {
            self.ahead.finish(read.path, KeptRead { outcome, removed });
        }
    }
}

/// Whether the service may have too many requests to handle.
fn is_overload(kind: &ApiErrorKind) -> bool {
    kind.is_transient() || matches!(kind, ApiErrorKind::Throttled(_))
}

#[cfg(test)]
mod tests;
