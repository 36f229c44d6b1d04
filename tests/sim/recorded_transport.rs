//! The way to the service, overheard.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::http::{Request, Response, Transport, TransportError};
use linkvault::clock::{Clock as _, SimulatedClock};
use linkvault::progress::{Event, Progress};

use super::oracle::texts;
use super::secrets::Echoes;
use crate::sim::account_swap::Stranger;

/// More requests in one crawl mean that it hangs.
const TOO_MANY: usize = 30_000;

/// What passed over the wire.
#[derive(Debug, Default)]
pub struct Overheard {
    /// Paths with their queries, in order.
    pub asked: Vec<String>,
    /// When each of these left, and when it had ended.
    pub times: Vec<(Duration, Duration)>,
    /// Every record that arrived whole, as text.
    pub delivered: HashSet<String>,
}

/// Passes requests on and listens.
pub struct Wire<T> {
    pub inner: T,
    pub overheard: Arc<Mutex<Overheard>>,
    pub echoes: Echoes,
    /// What each path that begins so is answered with, whatever the service says.
    pub canned: Option<(String, String)>,
    pub stranger: Option<Arc<Mutex<Stranger>>>,
    pub clock: Arc<SimulatedClock>,
}

impl<T: Transport> Transport for Wire<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        {
            let mut overheard = self.overheard.lock().unwrap();
            overheard.asked.push(request.path.clone());
            assert!(overheard.asked.len() < TOO_MANY, "the crawl does not end");
        }
        let left = self.clock.monotonic();
        let outcome = self.inner.send(request);
        if let Some(stranger) = &self.stranger {
            stranger.lock().unwrap().request_ended(self.clock.monotonic());
        }
        let mut overheard = self.overheard.lock().unwrap();
        overheard.times.push((left, self.clock.monotonic()));
        let nth = overheard.asked.len();
        let mut response = match outcome {
            Ok(response) => response,
            Err(TransportError::NotSent(why)) => {
                return Err(TransportError::NotSent(self.echoes.in_error(nth, why)));
            }
            Err(TransportError::Unknown(why)) => {
                return Err(TransportError::Unknown(self.echoes.in_error(nth, why)));
            }
            Err(other) => return Err(other),
        };
        let canned = self.canned.as_ref().filter(|(path, _)| request.path.starts_with(path));
        if let Some((_, body)) = canned {
            response.body = body.clone().into_bytes();
        }
        overheard.delivered.extend(texts(&response.body));
        Ok(self.echoes.in_response(nth, response))
    }
}

/// Remembers what a watcher is told.
#[derive(Debug, Default)]
pub struct Watcher(Mutex<String>);

impl Watcher {
    /// What was said since the last call.
    pub fn heard(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Progress for Watcher {
    fn event(&self, event: &Event<'_>) {
        use std::fmt::Write as _;
        writeln!(self.0.lock().unwrap(), "{event:?}").unwrap();
    }
}
