//! A transport that records requests and responses.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::http::{Method, Request, Response, Transport, TransportError};
use linkvault::clock::{Clock as _, SimulatedClock};
use linkvault::progress::{Event, Progress};

use super::oracle::texts;
use super::secrets::Echoes;
use crate::sim::account_swap::OtherAccount;

/// Maximum number of requests in one crawl; more mean that it does not end.
const MAX_REQUESTS: usize = 30_000;

/// The recorded requests and responses.
#[derive(Debug, Default)]
pub struct RecordedTraffic {
    /// Requested paths with their queries, in order.
    pub paths: Vec<String>,
    /// When each of these requests was sent, and when it ended.
    pub times: Vec<(Duration, Duration)>,
    /// Every record that arrived completely, as text.
    pub delivered: HashSet<String>,
}

/// Forwards requests and records them.
pub struct RecordingTransport<T> {
    pub inner: T,
    pub traffic: Arc<Mutex<RecordedTraffic>>,
    pub echoes: Echoes,
    /// A path prefix, and the response to each such path instead of the service's.
    pub canned: Option<(String, String)>,
    pub other_account: Option<Arc<Mutex<OtherAccount>>>,
    pub clock: Arc<SimulatedClock>,
}

impl<T: Transport> Transport for RecordingTransport<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        {
            let mut traffic = self.traffic.lock().unwrap();
            traffic.paths.push(request.path.clone());
            assert!(traffic.paths.len() < MAX_REQUESTS, "the crawl does not end");
        }
        let left = self.clock.monotonic();
        let outcome = self.inner.send(request);
        if let Some(other_account) = &self.other_account {
            let is_write = request.method != Method::Get;
            other_account.lock().unwrap().request_ended(self.clock.monotonic(), is_write);
        }
        let mut traffic = self.traffic.lock().unwrap();
        traffic.times.push((left, self.clock.monotonic()));
        let nth = traffic.paths.len();
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
        traffic.delivered.extend(texts(&response.body));
        Ok(self.echoes.in_response(nth, response))
    }
}

/// Records progress events.
#[derive(Debug, Default)]
pub struct EventRecorder(Mutex<String>);

impl EventRecorder {
    /// The events since the last call.
    pub fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Progress for EventRecorder {
    fn event(&self, event: &Event<'_>) {
        use std::fmt::Write as _;
        writeln!(self.0.lock().unwrap(), "{event:?}").unwrap();
    }
}
