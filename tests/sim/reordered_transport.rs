//! A transport whose overlapping reads reach the service, and respond, in a random order.

use std::sync::Arc;

use linkvault::api::http::{FinishedRead, Request, Response, Transport, TransportError};
use linkvault::clock::{Clock, SimulatedClock};

/// Sends each read at once or when a response is waited for, as drawn from a seed. The responses
/// come in a drawn order too.
pub struct ReorderedTransport<T> {
    inner: T,
    begun: Vec<BegunRead>,
    rng: fastrand::Rng,
    clock: Arc<SimulatedClock>,
}

enum BegunRead {
    Sent(FinishedRead),
    Waiting(u64, Request),
}

impl<T: Transport> ReorderedTransport<T> {
    pub fn new(inner: T, seed: u64, clock: Arc<SimulatedClock>) -> Self {
        Self { inner, begun: Vec::new(), rng: fastrand::Rng::with_seed(seed), clock }
    }

    fn read(&mut self, id: u64, request: &Request) -> FinishedRead {
        let start = self.clock.monotonic();
        let outcome = self.inner.send(request);
        let time = self.clock.monotonic().saturating_sub(start);
        FinishedRead { id, outcome, time, removed: None }
    }
}

impl<T: Transport> Transport for ReorderedTransport<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        self.inner.send(request)
    }

    fn lanes(&self) -> usize {
        usize::MAX
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        let begun = if self.rng.bool() {
            BegunRead::Sent(self.read(id, request))
        } else {
            BegunRead::Waiting(id, request.clone())
        };
        self.begun.push(begun);
        true
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        if self.begun.is_empty() {
            return None;
        }
        let drawn = self.rng.usize(..self.begun.len());
        Some(match self.begun.swap_remove(drawn) {
            BegunRead::Sent(finished) => finished,
            BegunRead::Waiting(id, request) => self.read(id, &request),
        })
    }

    fn try_next_read(&mut self) -> Option<FinishedRead> {
        if self.rng.u8(..4) > 0 { self.next_read() } else { None }
    }
}
