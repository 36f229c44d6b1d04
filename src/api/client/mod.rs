//! Sends requests: waits for the pacer, retries where that is safe, and respects limits on time and
//! requests. Writes go one at a time, reads that the caller announced may overlap. It parses
//! envelopes, but not records.

mod limits;
mod overlap;
mod read_ahead;
mod request_trace;
mod shared_pacer;
mod width;

pub use limits::{ClientLimits, GetOptions, RetryPolicy};
pub use request_trace::WIRE;
pub use shared_pacer::ExchangePacerState;

use super::envelope::{self, classify, classify_write};
use super::error::{ApiError, ApiErrorKind};
use super::http::{ApiKey, Method, Request, Response, Transport, TransportError};
use super::pacer::{Pacer, PacerState, SentRequest};
use super::redact::{RedactingTransport, Redactor};
use crate::api::rate_limit_headers::RateLimitHeaders;
use crate::api::refusal;
use crate::clock::{Clock, ClockReading, SleepOutcome};
use crate::progress::{Event, NoProgress, Progress};
use read_ahead::ReadAhead;
use shared_pacer::SharedPacer;
use std::sync::Arc;
use std::time::Duration;

/// Number of bytes of a body that may be in an error.
const MAX_SHOWN: usize = 1024;

/// Longer than any wait for the next window of the rate limit.
pub const LONG_PAUSE: Duration = Duration::from_secs(70);

/// After its conditions were checked, a write waits no longer than this for the requests of other
/// clients.
const MAX_WRITE_DELAY: Duration = Duration::from_secs(1);

/// Waits of at most this are not shown.
const UNSHOWN_WAIT: Duration = Duration::from_millis(100);

/// Counters of the requests so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounters {
    /// Requests that were sent, or may have been.
    pub requests: u64,
    /// Responses that reported an exceeded rate limit.
    pub throttled: u64,
    /// Time spent waiting for the rate limit and before retries.
    pub waited: Duration,
}

/// Sends requests to one account of one service.
pub struct Client {
    transport: RedactingTransport<Box<dyn Transport>>,
    clock: Arc<dyn Clock>,
    pacer: SharedPacer,
    key: Option<ApiKey>,
    retry: RetryPolicy,
    limits: ClientLimits,
    jitter: fastrand::Rng,
    progress: Arc<dyn Progress + Send + Sync>,
    counters: RequestCounters,
    started: Duration,
    /// When the last request was sent.
    last_sent: Option<ClockReading>,
    /// Requests without a response.
    failures: u64,
    /// Requests sent after a long pause.
    pauses: u64,
    ahead: ReadAhead,
}

impl Client {
    /// A client with this pacer, without a key, limits and progress.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, clock: Arc<dyn Clock>, pacer: Pacer) -> Self {
        let started = clock.monotonic();
        Self {
            transport: RedactingTransport { inner: transport, redactor: Redactor::default() },
            pacer: SharedPacer::new(pacer, Arc::clone(&clock)),
            clock,
            key: None,
            retry: RetryPolicy::default(),
            limits: ClientLimits::default(),
            jitter: fastrand::Rng::new(),
            progress: Arc::new(NoProgress),
            counters: RequestCounters::default(),
            started,
            last_sent: None,
            failures: 0,
            pauses: 0,
            ahead: ReadAhead::default(),
        }
    }

    /// Sends `key` with every request, and removes it from every response.
    #[must_use]
    pub fn with_key(self, key: ApiKey) -> Self {
        self.redact_secret(key.reveal());
        self.with_public_key(key)
    }

    /// Sends `key`, which is not secret, such as that of a sandbox in this process.
    #[must_use]
    pub fn with_public_key(self, key: ApiKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Removes the secrets of `redactor`, also those added later, from every response. Call it
    /// before [`Client::with_key`].
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        Self { transport: RedactingTransport { redactor, ..self.transport }, ..self }
    }

    /// Removes `secret` from every later response.
    pub fn redact_secret(&self, secret: &str) {
        self.transport.redactor.add(secret);
    }

    /// Retries reads by this policy.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// Stops at these limits, counted from the creation of the client.
    #[must_use]
    pub fn with_limits(self, limits: ClientLimits) -> Self {
        let lanes = limits.max_in_flight.min(self.transport.inner.lanes()).max(1);
        // With a limited number of requests, none is spent on a list that a later process has to
        // read again.
        let lanes = if limits.max_requests.is_some() { 1 } else { lanes };
        Self { limits, ahead: ReadAhead::new(lanes), ..self }
    }

    /// Makes the jitter of retry delays reproducible.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { jitter: fastrand::Rng::with_seed(seed), ..self }
    }

    /// Shares the pacer's state with other clients: calls `exchange` before each request and after
    /// each response.
    #[must_use]
    pub fn with_shared_pacer(self, exchange: ExchangePacerState) -> Self {
        Self { pacer: self.pacer.shared(exchange), ..self }
    }

    /// Reports waits and retries to `progress`.
    #[must_use]
    pub fn with_progress(self, progress: Arc<dyn Progress + Send + Sync>) -> Self {
        Self { progress, ..self }
    }

    /// Counters of the requests so far.
    #[must_use]
    pub fn counters(&self) -> RequestCounters {
        self.counters
    }

    /// The limits of this client.
    #[must_use]
    pub const fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// Estimated time of `requests` further requests at the present rate limit and reserve.
    #[must_use]
    pub fn estimate(&self, requests: u64) -> Duration {
        self.pacer.state().estimate(self.clock.monotonic(), requests)
    }

    /// The state of the rate limit, for another machine.
    #[must_use]
    pub fn pacer_state(&self) -> PacerState {
        self.pacer.state().save(self.clock.monotonic(), self.clock.now())
    }

    /// The rate limit per minute, by the service and the configuration; zero means none, `None` that
    /// it is not known.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.pacer.state().limit()
    }

    /// How much later a long series of requests ends if one of them is repeated. `None` if requests
    /// are scarce or the limit is not known.
    #[must_use]
    pub fn cost_of_repeat(&self) -> Option<Duration> {
        self.pacer.state().cost_of_repeat(self.clock.monotonic())
    }

    /// Time since the last request was sent.
    #[must_use]
    pub fn time_since_send(&self) -> Option<Duration> {
        Some(self.last_sent?.age(&*self.clock))
    }

    /// Number of requests without a complete response. Each of them closed its connection.
    #[must_use]
    pub const fn connection_failures(&self) -> u64 {
        self.failures
    }

    /// Number of requests sent more than [`LONG_PAUSE`] after the one before.
    #[must_use]
    pub const fn pauses(&self) -> u64 {
        self.pauses
    }

    /// Number of consecutive rate-limit refusals after which a read is given up.
    #[must_use]
    pub fn longest_wait(&self) -> u32 {
        self.retry.throttled
    }

    /// Waits until the next request may be sent, without sending one.
    ///
    /// # Errors
    /// [`ApiError`], with this method and path, if the request cannot be sent within the limits.
    pub fn wait_for_turn(&mut self, method: Method, path: &str) -> Result<(), ApiError> {
        // Before the conditions of a write are checked, not after.
        self.receive_all();
        self.pace().map_err(|kind| ApiError::new(kind, method, path))
    }

    /// Reads `path`, and retries where that can help. A returned response is a success by its
    /// envelope; the content is not checked.
    ///
    /// # Errors
    /// [`ApiError`] of the last attempt.
    pub fn get(&mut self, path: &str) -> Result<Response, ApiError> {
        self.get_with(path, &GetOptions::default())
    }

    /// Reads `path` with options for this read.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_with(&mut self, path: &str, options: &GetOptions) -> Result<Response, ApiError> {
        let mut delays = self.retry.delays(options.retries);
        let mut malformed_before = false;
        loop {
            let error = match self.read_until_not_throttled(path) {
                Ok(response) => return Ok(response),
                Err(error) => as_not_offered(error),
            };
            // A malformed response is retried once: it may be a temporary page of a proxy. With a
            // wrong address, more retries would not help.
            let once = error.is_malformed() && !std::mem::replace(&mut malformed_before, true);
            match delays.next() {
                Some(delay) if error.kind.is_transient() || once => self.back_off(delay, &error)?,
                _ => return Err(error),
            }
        }
    }

    /// Reads the account to check the key: here every refusal of access is about the key, whatever
    /// its wording. No other read is in flight meanwhile, so that what was read before and after it
    /// is certain.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_account(&mut self, path: &str, options: &GetOptions) -> Result<Response, ApiError> {
        self.receive_all();
        let announced = self.ahead.take_announced();
        let outcome = self.get_with(path, options);
        self.ahead.announce(announced);
        outcome.map_err(|error| {
            let (status, message) = match &error.kind {
                ApiErrorKind::NotOffered { status, message }
                    if matches!(status, 401 | 403)
                        || (*status != 404 && !refusal::mentions_absence(message)) =>
                {
                    (*status, message.clone())
                }
                ApiErrorKind::Malformed { status: status @ (401 | 403), excerpt, .. } => {
                    (*status, excerpt.clone())
                }
                ApiErrorKind::Refused { status, message } if mentions_authentication(message) => {
                    (*status, message.clone())
                }
                _ => return error,
            };
            ApiError { kind: ApiErrorKind::Unauthorised { status, message }, ..error }
        })
    }

    /// Sends a write once. A rate-limit refusal is not retried either, because the preconditions of
    /// a write must be checked again after the wait.
    ///
    /// # Errors
    /// [`ApiError`]. [`ApiError::has_unknown_outcome`] tells whether the service may have carried
    /// out the write.
    pub fn send_once(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response, ApiError> {
        let request = Request { method, path: path.to_owned(), key: self.key.clone(), body };
        self.receive_all();
        // What was read before a write tells nothing about its effect.
        self.ahead.discard_all();
        let outcome = self.pace().and_then(|()| self.attempt_write(&request));
        outcome.map_err(|kind| ApiError::new(kind, method, path))
    }

    /// The error for a successful response to a `GET` of `path` with unexpected content. `why`
    /// comes from [`envelope::page`] or [`envelope::single`].
    #[must_use]
    pub fn malformed_response(&self, path: &str, response: &Response, why: &str) -> ApiError {
        // From a successful response, short secrets are not removed yet.
        let redactor = &self.transport.redactor;
        let head = &response.body[..response.body.len().min(MAX_SHOWN)];
        let body = redactor.text(&String::from_utf8_lossy(head)).into_owned().into_bytes();
        let shortened =
            Response { body, status: response.status, headers: response.headers.clone() };
        let why = redactor.text(why).into_owned();
        ApiError::new(envelope::malformed_response(&shortened, why, false), Method::Get, path)
    }

    /// Reads until the response is not a rate-limit refusal, up to the limit.
    fn read_until_not_throttled(&mut self, path: &str) -> Result<Response, ApiError> {
        let request = self.read_request(path);
        let mut refusals = 0;
        loop {
            match self.read(&request) {
                Err(ApiErrorKind::Throttled(_)) if refusals < self.retry.throttled => refusals += 1,
                outcome => {
                    return outcome.map_err(|kind| ApiError::new(kind, Method::Get, path));
                }
            }
        }
    }

    /// Waits until the pacer allows the next request.
    fn pace(&mut self) -> Result<(), ApiErrorKind> {
        self.require_requests_left()?;
        loop {
            let wait = self.pacer.wait();
            if wait > self.retry.longest_wait {
                let text = format!("the service asks to wait {} s", wait.as_secs());
                return Err(ApiErrorKind::Throttled(text));
            }
            self.sleep(wait, "the limit")?;
            if wait.is_zero() {
                return Ok(());
            }
        }
    }

    /// Whether another request may be sent now, apart from the rate limit.
    fn require_within_limits(&self) -> Result<(), ApiErrorKind> {
        self.require_requests_left()?;
        self.require_time_left(Duration::ZERO, "the limit")
    }

    fn require_requests_left(&self) -> Result<(), ApiErrorKind> {
        if self.limits.max_requests.is_some_and(|max| self.counters.requests >= max) {
            return Err(ApiErrorKind::LimitReached(format!(
                "the limit of {} requests is reached",
                self.counters.requests
            )));
        }
        Ok(())
    }

    fn back_off(&mut self, delay: Duration, error: &ApiError) -> Result<(), ApiError> {
        // Adds up to 50 %, so that many clients do not retry at the same time.
        let delay = delay.mul_f64(1.0 + self.jitter.f64() / 2.0);
        let text = format!("{error}; trying again in {:.1} s", delay.as_secs_f64());
        tracing::debug!("{text}");
        self.progress.event(&Event::Warning { text: &text });
        self.sleep(delay, "a retry").map_err(|kind| ApiError::new(kind, error.method, &error.path))
    }

    /// Waits for `time`, or until an interrupt. A wait that would exceed the time limit is not
    /// started.
    fn sleep(&mut self, time: Duration, why: &str) -> Result<(), ApiErrorKind> {
        self.require_time_left(time, why)?;
        if time.is_zero() {
            return Ok(());
        }
        if time > UNSHOWN_WAIT {
            tracing::debug!("waiting {:.1} s for {why}", time.as_secs_f64());
            self.progress.event(&Event::Waiting { time, why });
        }
        self.transport.inner.pause(time);
        let before = self.clock.monotonic();
        let slept = self.clock.sleep(time);
        self.counters.waited += self.clock.monotonic().saturating_sub(before);
        match slept {
            SleepOutcome::Finished => Ok(()),
            SleepOutcome::Interrupted => Err(ApiErrorKind::Interrupted),
        }
    }

    fn require_not_interrupted(&self) -> Result<(), ApiErrorKind> {
        if self.clock.interrupted() { Err(ApiErrorKind::Interrupted) } else { Ok(()) }
    }

    /// Whether a wait of `time` for `why` may begin.
    fn require_time_left(&self, time: Duration, why: &str) -> Result<(), ApiErrorKind> {
        self.require_not_interrupted()?;
        let spent = self.clock.monotonic().saturating_sub(self.started);
        if let Some(max) = self.limits.max_duration
            && spent.saturating_add(time) >= max
        {
            return Err(ApiErrorKind::LimitReached(format!(
                "the limit of {} s would be reached while waiting {} s for {why}",
                max.as_secs(),
                time.as_secs()
            )));
        }
        Ok(())
    }

    /// Sends one request, as soon as other clients leave it a turn.
    fn attempt(&mut self, request: &Request) -> Result<Response, ApiErrorKind> {
        loop {
            match self.before_send(request) {
                Ok(sent) => return self.send(request, sent),
                Err(_) => self.pace()?,
            }
        }
    }

    /// As [`Self::attempt`], but refuses a long wait, after which the conditions of a write must be
    /// checked again.
    fn attempt_write(&mut self, request: &Request) -> Result<Response, ApiErrorKind> {
        let began = self.clock.monotonic();
        loop {
            match self.before_send(request) {
                Ok(sent) => return self.send(request, sent),
                Err(wait) => {
                    let delay = self.clock.monotonic().saturating_sub(began).saturating_add(wait);
                    if delay > MAX_WRITE_DELAY {
                        let text = "another process sent a request instead".to_owned();
                        return Err(ApiErrorKind::Throttled(text));
                    }
                    self.sleep(wait, "the limit")?;
                }
            }
        }
    }

    fn send(&mut self, request: &Request, sent: SentRequest) -> Result<Response, ApiErrorKind> {
        let start = self.clock.monotonic();
        let outcome = self.transport.send(request);
        let time = self.clock.monotonic().saturating_sub(start);
        self.after_send(request, sent, time, outcome)
    }

    /// Counts a request that will be sent now. The wait as an error, if it may not be sent now,
    /// because other clients have sent requests.
    fn before_send(&mut self, request: &Request) -> Result<SentRequest, Duration> {
        let sent = self.pacer.try_send()?;
        self.counters.requests += 1;
        self.pauses += u64::from(self.time_since_send().is_some_and(|idle| idle > LONG_PAUSE));
        self.last_sent = Some(ClockReading::now(&*self.clock));
        request_trace::request(request, &self.transport.redactor);
        Ok(sent)
    }

    /// Reports the result of a request, which came after `time`.
    fn after_send(
        &mut self,
        request: &Request,
        sent: SentRequest,
        time: Duration,
        outcome: Result<Response, TransportError>,
    ) -> Result<Response, ApiErrorKind> {
        let now = self.clock.monotonic();
        request_trace::outcome(request, &outcome, time);
        self.failures += u64::from(outcome.is_err());
        match outcome {
            Ok(response) => {
                self.ahead.received(response.body.len());
                let mut signals = RateLimitHeaders::read(&response);
                let classify =
                    if request.method == Method::Get { classify } else { classify_write };
                let outcome = match classify(&response).err() {
                    None => Ok(response),
                    Some(kind) => Err(kind),
                };
                signals.throttled |= matches!(outcome, Err(ApiErrorKind::Throttled(_)));
                self.counters.throttled += u64::from(signals.throttled);
                self.pacer.answered(sent, now, &signals);
                outcome
            }
            Err(TransportError::NotSent(why)) => {
                self.counters.requests -= 1;
                self.pacer.not_sent(sent);
                Err(ApiErrorKind::NotSent(why))
            }
            Err(TransportError::Untrusted(why)) => {
                self.counters.requests -= 1;
                self.pacer.not_sent(sent);
                Err(ApiErrorKind::Untrusted(why))
            }
            Err(TransportError::Unknown(why)) => {
                self.pacer.lost(sent, now);
                Err(ApiErrorKind::Unknown(why))
            }
            Err(TransportError::TooLarge(bytes)) => {
                self.pacer.lost(sent, now);
                Err(ApiErrorKind::TooLarge(bytes))
            }
        }
    }
}

/// Whether the message is about authentication.
fn mentions_authentication(message: &str) -> bool {
    let message = message.to_lowercase();
    ["token", "unauthenticated", "unauthorized", "unauthorised", "authentication", "credential"]
        .iter()
        .any(|word| message.contains(word))
}

/// A read that is refused with 403 or 404, or with such a message, is of a resource that is not
/// offered.
fn as_not_offered(error: ApiError) -> ApiError {
    match error.kind {
        ApiErrorKind::Refused { status, message }
            if matches!(status, 403 | 404)
                || (status < 500 && refusal::says_not_offered(&message)) =>
        {
            ApiError { kind: ApiErrorKind::NotOffered { status, message }, ..error }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
