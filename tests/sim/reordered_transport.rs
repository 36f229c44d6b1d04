//! A transport whose overlapping reads reach the service in a random order.

use linkvault::api::http::{FinishedRead, Request, Response, Transport, TransportError};

/// Sends each read that was begun when a response is waited for, in an order drawn from a seed.
pub struct ReorderedTransport<T> {
    inner: T,
    begun: Vec<(u64, Request)>,
    rng: fastrand::Rng,
}

impl<T> ReorderedTransport<T> {
    pub fn new(inner: T, seed: u64) -> Self {
        Self { inner, begun: Vec::new(), rng: fastrand::Rng::with_seed(seed) }
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
        Some(FinishedRead { id, outcome: self.inner.send(&request) })
    }
}
