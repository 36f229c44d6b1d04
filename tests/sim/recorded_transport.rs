//! A transport that records requests and responses.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::http::{Request, Response, Transport, TransportError};
use linkvault::clock::{Clock as _, SimulatedClock};
use linkvault::progress::{Event, Progress};

use super::oracle::texts;
use super::secrets::Echoes;
use crate::sim::account_swap::Stranger;

/// Maximum number of requests in one crawl; more mean that it does not end.
const TOO_MANY: usize = 30_000;

/// The recorded requests and responses.
#[derive(Debug, Default)]
pub struct Overheard {
    /// Requested paths with their queries, in order.
    pub paths: Vec<String>,
    /// When each of these requests was sent, and when it ended.
    pub times: Vec<(Duration, Duration)>,
    /// Every record that arrived completely, as text.
    pub delivered: HashSet<String>,
}

/// Forwards requests and records them.
pub struct Wire<T> {
    pub inner: T,
    pub overheard: Arc<Mutex<Overheard>>,
    pub echoes: Echoes,
    /// A path prefix, and the response to each such path instead of the service's.
    pub canned: Option<(String, String)>,
    pub stranger: Option<Arc<Mutex<Stranger>>>,
    pub clock: Arc<SimulatedClock>,
}

impl<T: Transport> Transport for Wire<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        {
            let mut overheard = self.overheard.lock().unwrap();
            overheard.paths.push(request.path.clone());
            assert!(overheard.paths.len() < TOO_MANY, "the crawl does not end");
        }
        let left = self.clock.monotonic();
        let outcome = self.inner.send(request);
        if let Some(stranger) = &self.stranger {
            stranger.lock().unwrap().request_ended(self.clock.monotonic());
        }
        let mut overheard = self.overheard.lock().unwrap();
        overheard.times.push((left, self.clock.monotonic()));
        let nth = overheard.paths.len();
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

/// Records progress events.
#[derive(Debug, Default)]
pub struct Watcher(Mutex<String>);

impl Watcher {
    /// The events since the last call.
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
