//! A transport whose overlapping reads reach the service in a random order.

use std::sync::Arc;

use linkvault::api::http::{FinishedRead, Request, Response, Transport, TransportError};
use linkvault::clock::{Clock, SimulatedClock};

/// Sends each read that was begun when a response is waited for, in an order drawn from a seed.
pub struct ReorderedTransport<T> {
    inner: T,
    begun: Vec<(u64, Request)>,
    rng: fastrand::Rng,
    clock: Arc<SimulatedClock>,
}

impl<T> ReorderedTransport<T> {
    pub fn new(inner: T, seed: u64, clock: Arc<SimulatedClock>) -> Self {
        Self { inner, begun: Vec::new(), rng: fastrand::Rng::with_seed(seed), clock }
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
        self.begun.push((id, request.clone()));
        true
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        if self.begun.is_empty() {
            return None;
        }
        let (id, request) = self.begun.swap_remove(self.rng.usize(..self.begun.len()));
        let start = self.clock.monotonic();
        let outcome = self.inner.send(&request);
        let time = self.clock.monotonic().saturating_sub(start);
        Some(FinishedRead { id, outcome, time })
    }

    fn try_next_read(&mut self) -> Option<FinishedRead> {
        if self.rng.u8(..4) > 0 { self.next_read() } else { None }
    }
}
