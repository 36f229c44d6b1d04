//! The sandbox in process: a [`Transport`] without a socket. All waiting is done on the given
//! clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::exchange::{ExchangeEnd, exchange};
use super::faults::{Fault, Faults};
use super::service::SandboxService;
use crate::api::http::{FinishedRead, Request, Response, Transport, TransportError};
use crate::clock::{Clock, Timestamp};

/// Called before each request, for example to act as a second user.
pub type RequestHook = Box<dyn FnMut(&mut SandboxService, Timestamp) + Send>;

/// Called after each request that changed the store.
pub type WriteHook = Box<dyn FnMut(&SandboxService) + Send>;

/// A transport that sends requests to a shared service.
pub struct SandboxTransport {
    service: Arc<Mutex<SandboxService>>,
    clock: Arc<dyn Clock>,
    faults: Arc<Mutex<Faults>>,
    latency: Duration,
    lanes: usize,
    begun: Vec<BegunRead>,
    hook: Option<RequestHook>,
    on_write: Option<WriteHook>,
}

/// A read without a response yet.
struct BegunRead {
    id: u64,
    request: Request,
    sent: Duration,
    /// When it reaches the service, on the monotonic clock.
    arrives: Duration,
    fault: Option<Fault>,
}

impl SandboxTransport {
    /// A transport without faults and latency, which sends one request at a time.
    #[must_use]
    pub fn new(service: Arc<Mutex<SandboxService>>, clock: Arc<dyn Clock>) -> Self {
        Self {
            service,
            clock,
            faults: Arc::default(),
            latency: Duration::ZERO,
            lanes: 1,
            begun: Vec::new(),
            hook: None,
            on_write: None,
        }
    }

    /// Injects `faults`, which the caller can still change.
    #[must_use]
    pub fn with_faults(mut self, faults: Arc<Mutex<Faults>>) -> Self {
        self.faults = faults;
        self
    }

    /// Lets each request take this time.
    #[must_use]
    pub const fn with_latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sends up to this number of reads at the same time: their latencies overlap on the clock.
    #[must_use]
    pub const fn with_lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }

    /// Calls `hook` before each request.
    #[must_use]
    pub fn with_hook(
        mut self,
        hook: impl FnMut(&mut SandboxService, Timestamp) + Send + 'static,
    ) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Calls `save` after each request that changed the store, even if its response is lost.
    #[must_use]
    pub fn with_on_write(mut self, save: impl FnMut(&SandboxService) + Send + 'static) -> Self {
        self.on_write = Some(Box::new(save));
        self
    }

    fn pass(&self, time: Duration) {
        if !time.is_zero() {
            self.clock.sleep(time);
        }
    }

    /// Lets the service handle a request that arrives now.
    fn handle(
        &mut self,
        request: &Request,
        fault: Option<Fault>,
    ) -> Result<Response, TransportError> {
        let now = self.clock.now();
        let ending = {
            let mut service = lock(&self.service);
            if let Some(hook) = &mut self.hook {
                hook(&mut service, now);
            }
            let before = service.revision();
            let ending = exchange(&mut service, now, request, fault);
            if let Some(save) = self.on_write.as_mut().filter(|_| service.revision() != before) {
                save(&service);
            }
            ending
        };
        match ending {
            ExchangeEnd::Answer(response) => Ok(response),
            ExchangeEnd::Slow(response, time) => {
                self.pass(time);
                Ok(response)
            }
            ExchangeEnd::Cut(response, at) if at >= response.body.len() => Ok(response),
            ExchangeEnd::Cut(_, at) => unknown(format!("the answer broke off after {at} bytes")),
            ExchangeEnd::Silence => unknown("the connection closed without an answer"),
            ExchangeEnd::Reset => unknown("the connection was reset"),
            ExchangeEnd::NoConnection => {
                Err(TransportError::NotSent("the connection was refused".to_owned()))
            }
        }
    }
}

impl Transport for SandboxTransport {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        let injected = lock(&self.faults).next(request);
        self.pass(self.latency + injected.latency);
        self.handle(request, injected.fault)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        if self.begun.len() >= self.lanes {
            return false;
        }
        let injected = lock(&self.faults).next(request);
        let sent = self.clock.monotonic();
        let arrives = sent + self.latency + injected.latency;
        let request = request.clone();
        self.begun.push(BegunRead { id, request, sent, arrives, fault: injected.fault });
        true
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        let order = |(at, read): &(usize, &BegunRead)| (read.arrives, *at);
        let (first, _) = self.begun.iter().enumerate().min_by_key(order)?;
        let BegunRead { id, request, sent, arrives, fault } = self.begun.remove(first);
        let started = self.clock.monotonic();
        self.pass(arrives.saturating_sub(started));
        let outcome = self.handle(&request, fault);
        // Without the time for which a response that had arrived was not asked for.
        let waited = started.saturating_sub(arrives);
        let time = self.clock.monotonic().saturating_sub(sent).saturating_sub(waited);
        Some(FinishedRead { id, outcome, time, removed: None })
    }
}

fn unknown(text: impl Into<String>) -> Result<Response, TransportError> {
    Err(TransportError::Unknown(text.into()))
}

/// Ignores poisoning: the data is plain and stays usable after a panic.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::api::http::ApiKey;
    use crate::clock::SimulatedClock;
    use crate::sandbox::store::StoredChannel;
    use crate::sandbox::{Behaviour, Store};

    fn transport(
        faults: &str,
    ) -> (SandboxTransport, Arc<Mutex<SandboxService>>, Arc<SimulatedClock>) {
        let service = SandboxService::new(Store::default(), ApiKey::new("k"), Behaviour::default());
        let (service, clock) =
            (Arc::new(Mutex::new(service)), Arc::new(SimulatedClock::new(Timestamp(0))));
        let faults = Arc::new(Mutex::new(faults.parse().unwrap()));
        let transport = SandboxTransport::new(service.clone(), clock.clone()).with_faults(faults);
        (transport, service, clock)
    }

    fn channels() -> Request {
        Request { key: Some(ApiKey::new("k")), ..Request::get("/api/channels") }
    }

    #[test]
    fn responses_come_from_the_shared_service() {
        let (mut transport, service, _) = transport("");
        assert_eq!(transport.send(&channels()).unwrap().status, 200);
        assert_eq!(service.lock().unwrap().totals().handled, 1);
    }

    #[test]
    fn latency_passes_on_the_clock() {
        let (transport, _, clock) = transport("latency=250ms,slow-body=1:1s");
        transport.with_latency(Duration::from_millis(50)).send(&channels()).unwrap();
        assert_eq!(clock.now(), Timestamp(1_300));
    }

    #[test]
    fn the_latencies_of_overlapping_reads_pass_at_the_same_time() {
        let (transport, service, clock) = transport("latency:900ms@1");
        let mut transport = transport.with_latency(Duration::from_millis(100)).with_lanes(3);
        for id in 1..=3 {
            assert!(transport.begin_read(id, &channels()));
        }
        assert!(!transport.begin_read(4, &channels()), "all lanes are used");
        let mut ended = Vec::new();
        while let Some(read) = transport.next_read() {
            assert_eq!(read.outcome.unwrap().status, 200);
            ended.push((read.id, clock.now().0));
        }
        assert_eq!(ended, [(2, 100), (3, 100), (1, 1_000)]);
        assert_eq!(service.lock().unwrap().totals().handled, 3);
        transport.begin_read(5, &channels());
        clock.sleep(Duration::from_secs(9));
        assert_eq!(transport.next_read().unwrap().time, Duration::from_millis(100));
    }

    #[test]
    fn silence_is_unknown_and_no_connection_is_not_sent() {
        for (fault, known) in [("lost-reply", false), ("reset", false), ("no-connection", true)] {
            let (mut transport, ..) = transport(&format!("{fault}=1"));
            let error = transport.send(&channels()).unwrap_err();
            assert_eq!(matches!(error, TransportError::NotSent(_)), known, "{fault}");
        }
    }

    #[test]
    fn a_second_user_acts_before_each_request() {
        let (transport, service, _) = transport("");
        let mut transport = transport.with_hook(|service, _| {
            service.mutate(|store| store.channels.add(StoredChannel::default()));
        });
        transport.send(&channels()).unwrap();
        transport.send(&channels()).unwrap();
        assert_eq!(service.lock().unwrap().store().channels.len(), 2);
    }

    #[test]
    fn a_write_is_saved_even_if_its_response_is_lost() {
        let saved = Arc::new(AtomicI64::new(0));
        let counter = saved.clone();
        let (transport, ..) = transport("lost-reply@2");
        let mut transport = transport.with_on_write(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        let _ = transport.send(&channels());
        let mut write = channels();
        write.method = crate::api::http::Method::Post;
        write.path = "/api/channel/add".to_owned();
        write.body = Some(br#"{"name":"A"}"#.to_vec());
        assert!(transport.send(&write).is_err());
        assert_eq!(saved.load(Ordering::SeqCst), 1);
    }
}
