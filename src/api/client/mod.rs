//! One request at a time, with all that stands around it: the pacer's waits,
//! repeats where they are safe, and the bounds on time and requests. It knows
//! envelopes, and nothing of resources.

mod limits;
mod request_trace;

pub use limits::{ClientLimits, GetOptions, RetryPolicy};

use super::envelope::{self, classify, classify_write};
use super::error::{ApiError, ApiErrorKind};
use super::http::{ApiKey, Method, Request, Response, Transport, TransportError};
use super::pacer::{Pacer, PacerState};
use super::redact::{RedactingTransport, Redactor};
use crate::api::rate_limit_headers::RateLimitHeaders;
use crate::api::refusal;
use crate::clock::{Clock, ClockReading, SleepOutcome};
use crate::progress::{Event, NoProgress, Progress};
use std::sync::Arc;
use std::time::Duration;

/// An error shows less than this of a body, in bytes.
const MOST_SHOWN: usize = 1024;

/// No wait for the next window of the limit is as long.
pub const LONG_PAUSE: Duration = Duration::from_secs(70);

/// The log's name for requests and answers.
pub const WIRE: &str = "requests";

/// Where the pacer's state is kept for the next process.
pub type SavePacerState = Box<dyn FnMut(&PacerState) + Send>;

/// What the requests so far came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounters {
    /// Requests that left, or may have left.
    pub requests: u64,
    /// Answers that refused for the limit.
    pub throttled: u64,
    /// Time spent waiting for the limit and before repeats.
    pub waited: Duration,
}

/// Speaks to one account of one service.
pub struct Client {
    transport: RedactingTransport<Box<dyn Transport>>,
    clock: Arc<dyn Clock>,
    pacer: Pacer,
    key: Option<ApiKey>,
    retry: RetryPolicy,
    limits: ClientLimits,
    jitter: fastrand::Rng,
    keep: Option<SavePacerState>,
    progress: Arc<dyn Progress + Send + Sync>,
    counters: RequestCounters,
    started: Duration,
    /// When the last request left.
    left: Option<ClockReading>,
    /// Requests that got no answer.
    broken: u64,
    /// Requests that left after a long pause.
    pauses: u64,
}

impl Client {
    /// A client that paces by `pacer` and has no key, no bounds and no watcher yet.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, clock: Arc<dyn Clock>, pacer: Pacer) -> Self {
        let started = clock.monotonic();
        Self {
            transport: RedactingTransport { inner: transport, redactor: Redactor::default() },
            clock,
            pacer,
            key: None,
            retry: RetryPolicy::default(),
            limits: ClientLimits::default(),
            jitter: fastrand::Rng::new(),
            keep: None,
            progress: Arc::new(NoProgress),
            counters: RequestCounters::default(),
            started,
            left: None,
            broken: 0,
            pauses: 0,
        }
    }

    /// Sends `key` with every request, and removes it from every answer.
    #[must_use]
    pub fn with_key(self, key: ApiKey) -> Self {
        self.redact_secret(key.reveal());
        self.with_public_key(key)
    }

    /// Sends `key`, which is no secret: that of a service in this process.
    #[must_use]
    pub fn with_public_key(self, key: ApiKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Removes the secrets that `redactor` knows, or will know, from every answer. Call it
    /// before [`Client::with_key`].
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        Self { transport: RedactingTransport { redactor, ..self.transport }, ..self }
    }

    /// From now on `secret` is removed from every answer.
    pub fn redact_secret(&self, secret: &str) {
        self.transport.redactor.add(secret);
    }

    /// Repeats reads by `retry`.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// Stops at `limits`, counted from the client's making.
    #[must_use]
    pub fn with_limits(self, limits: ClientLimits) -> Self {
        Self { limits, ..self }
    }

    /// Draws the jitter of back-offs from `seed`, so that a run can be repeated.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { jitter: fastrand::Rng::with_seed(seed), ..self }
    }

    /// Hands the pacer's state to `keep` before each request and after each answer.
    #[must_use]
    pub fn with_pacer_saver(self, keep: SavePacerState) -> Self {
        Self { keep: Some(keep), ..self }
    }

    /// Tells `progress` of waits and repeats.
    #[must_use]
    pub fn with_progress(self, progress: Arc<dyn Progress + Send + Sync>) -> Self {
        Self { progress, ..self }
    }

    /// What the requests so far came to.
    #[must_use]
    pub fn counters(&self) -> RequestCounters {
        self.counters
    }

    /// What bounds this client.
    #[must_use]
    pub const fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// How long `requests` more will take at this limit and reserve.
    #[must_use]
    pub fn estimate(&self, requests: u64) -> Duration {
        self.pacer.estimate(self.clock.monotonic(), requests)
    }

    /// The service's limit per minute, once it has told one; zero means none.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.pacer.limit()
    }

    /// How long ago the last request of this client left.
    #[must_use]
    pub fn idle(&self) -> Option<Duration> {
        Some(self.left?.age(&*self.clock))
    }

    /// How many requests got no answer, or none that could be read to its end: the
    /// connection of the next one is another.
    #[must_use]
    pub const fn connection_failures(&self) -> u64 {
        self.broken
    }

    /// How many requests left more than [`LONG_PAUSE`] after the one before them.
    #[must_use]
    pub const fn pauses(&self) -> u64 {
        self.pauses
    }

    /// How many refusals for the limit in a row are waited out.
    #[must_use]
    pub fn longest_wait(&self) -> u32 {
        self.retry.throttled
    }

    /// Waits until the next request may leave, and sends none.
    ///
    /// # Errors
    /// [`ApiError`], for the request of `method` and `path`, when it must not leave
    /// within the bounds.
    pub fn wait_for_turn(&mut self, method: Method, path: &str) -> Result<(), ApiError> {
        self.pace().map_err(|kind| ApiError::new(kind, method, path))
    }

    /// Reads `path`, repeating what may be repeated.
    ///
    /// # Errors
    /// [`ApiError`] when no good answer came within the bounds. A body that is
    /// returned says success; what is inside it is not yet looked at.
    pub fn get(&mut self, path: &str) -> Result<Response, ApiError> {
        self.get_with(path, &GetOptions::default())
    }

    /// Reads `path` with the caller's own bound on repeats.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_with(&mut self, path: &str, options: &GetOptions) -> Result<Response, ApiError> {
        let mut delays = self.retry.delays(options.retries);
        let mut strange = false;
        loop {
            let error = match self.unthrottled(Method::Get, path, None) {
                Ok(response) => return Ok(response),
                Err(error) => absent(error),
            };
            // What is not of the API may be a proxy's passing page, or a wrong
            // address, which asking often does not mend.
            let once = error.is_malformed() && !std::mem::replace(&mut strange, true);
            match delays.next() {
                Some(delay) if error.is_transient() || once => self.back_off(delay, &error)?,
                _ => return Err(error),
            }
        }
    }

    /// Reads the account, by which the key is tried: here every refusal of
    /// access speaks of the key, in whatever words.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_account(&mut self, path: &str, options: &GetOptions) -> Result<Response, ApiError> {
        self.get_with(path, options).map_err(|error| {
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
                ApiErrorKind::Refused { status, message } if names_access(message) => {
                    (*status, message.clone())
                }
                _ => return error,
            };
            ApiError { kind: ApiErrorKind::Unauthorised { status, message }, ..error }
        })
    }

    /// Sends one write, once. A refusal for the limit is not repeated either: what
    /// must be so before the write leaves has to be checked again after its wait.
    ///
    /// # Errors
    /// [`ApiError`]; [`ApiError::has_unknown_outcome`] tells whether the service
    /// may have done the work all the same.
    pub fn send_once(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response, ApiError> {
        let request = Request { method, path: path.to_owned(), key: self.key.clone(), body };
        let outcome = self.pace().and_then(|()| self.attempt(&request));
        outcome.map_err(|kind| ApiError::new(kind, method, path))
    }

    /// The error for a good answer to a `GET` of `path` whose content is not what
    /// was asked for: `why` comes from [`envelope::page`] or [`envelope::single`].
    #[must_use]
    pub fn malformed_response(&self, path: &str, response: &Response, why: &str) -> ApiError {
        // Its envelope may say success, so that short secrets are still in it.
        let redactor = &self.transport.redactor;
        let head = &response.body[..response.body.len().min(MOST_SHOWN)];
        let body = redactor.text(&String::from_utf8_lossy(head)).into_owned().into_bytes();
        let shown = Response { body, status: response.status, headers: response.headers.clone() };
        let why = redactor.text(why).into_owned();
        ApiError::new(envelope::malformed_response(&shown, why, false), Method::Get, path)
    }

    /// Sends until the answer is not a refusal for the limit, within the bound.
    fn unthrottled(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response, ApiError> {
        let request = Request { method, path: path.to_owned(), key: self.key.clone(), body };
        let mut refusals = 0;
        loop {
            let outcome = self.pace().and_then(|()| self.attempt(&request));
            match outcome {
                Err(ApiErrorKind::Throttled(_)) if refusals < self.retry.throttled => refusals += 1,
                Err(kind) => return Err(ApiError::new(kind, method, path)),
                Ok(response) => return Ok(response),
            }
        }
    }

    /// Waits until the pacer lets the next request leave.
    fn pace(&mut self) -> Result<(), ApiErrorKind> {
        if self.limits.max_requests.is_some_and(|most| self.counters.requests >= most) {
            return Err(ApiErrorKind::LimitReached(format!(
                "the bound of {} requests is reached",
                self.counters.requests
            )));
        }
        loop {
            let wait = self.pacer.wait(self.clock.monotonic());
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

    fn back_off(&mut self, delay: Duration, error: &ApiError) -> Result<(), ApiError> {
        // Up to half as much again, so that many clients do not return together.
        let delay = delay.mul_f64(1.0 + self.jitter.f64() / 2.0);
        let text = format!("{error}; trying again in {:.1} s", delay.as_secs_f64());
        tracing::debug!("{text}");
        self.progress.event(&Event::Warning { text: &text });
        self.sleep(delay, "a retry").map_err(|kind| ApiError::new(kind, error.method, &error.path))
    }

    /// Waits `time`, unless the run's end or an interrupt comes first: a wait
    /// that would end too late is not begun.
    fn sleep(&mut self, time: Duration, why: &str) -> Result<(), ApiErrorKind> {
        if self.clock.interrupted() {
            return Err(ApiErrorKind::Interrupted);
        }
        let spent = self.clock.monotonic().saturating_sub(self.started);
        if let Some(most) = self.limits.max_duration
            && spent.saturating_add(time) >= most
        {
            return Err(ApiErrorKind::LimitReached(format!(
                "the bound of {} s would be reached while waiting {} s for {why}",
                most.as_secs(),
                time.as_secs()
            )));
        }
        if time.is_zero() {
            return Ok(());
        }
        tracing::debug!("waiting {:.1} s for {why}", time.as_secs_f64());
        self.progress.event(&Event::Waiting { time, why });
        let before = self.clock.monotonic();
        let slept = self.clock.sleep(time);
        self.counters.waited += self.clock.monotonic().saturating_sub(before);
        match slept {
            SleepOutcome::Finished => Ok(()),
            SleepOutcome::Interrupted => Err(ApiErrorKind::Interrupted),
        }
    }

    /// Sends one request and tells the pacer what came of it.
    fn attempt(&mut self, request: &Request) -> Result<Response, ApiErrorKind> {
        self.counters.requests += 1;
        let begun = self.clock.monotonic();
        self.pauses += u64::from(self.idle().is_some_and(|idle| idle > LONG_PAUSE));
        self.left = Some(ClockReading::now(&*self.clock));
        self.pacer.sent(begun);
        self.save();
        request_trace::request(request, &self.transport.redactor);
        let outcome = self.transport.send(request);
        let now = self.clock.monotonic();
        request_trace::outcome(request, &outcome, now.saturating_sub(begun));
        self.broken += u64::from(outcome.is_err());
        let outcome = match outcome {
            Ok(response) => {
                let mut signals = RateLimitHeaders::read(&response);
                let classify =
                    if request.method == Method::Get { classify } else { classify_write };
                let outcome = match classify(&response).err() {
                    None => Ok(response),
                    Some(kind) => Err(kind),
                };
                signals.throttled |= matches!(outcome, Err(ApiErrorKind::Throttled(_)));
                self.counters.throttled += u64::from(signals.throttled);
                self.pacer.answered(now, self.clock.now(), &signals);
                outcome
            }
            Err(TransportError::NotSent(why)) => {
                self.counters.requests -= 1;
                self.pacer.not_sent();
                Err(ApiErrorKind::NotSent(why))
            }
            Err(TransportError::Untrusted(why)) => {
                self.counters.requests -= 1;
                self.pacer.not_sent();
                Err(ApiErrorKind::Untrusted(why))
            }
            Err(TransportError::Unknown(why)) => {
                self.pacer.lost(now);
                Err(ApiErrorKind::Unknown(why))
            }
            Err(TransportError::TooLarge(bytes)) => {
                self.pacer.lost(now);
                Err(ApiErrorKind::TooLarge(bytes))
            }
        };
        self.save();
        outcome
    }

    fn save(&mut self) {
        if let Some(keep) = &mut self.keep {
            keep(&self.pacer.save(self.clock.monotonic(), self.clock.now()));
        }
    }
}

/// Whether a refusal is one of access.
fn names_access(message: &str) -> bool {
    let message = message.to_lowercase();
    ["token", "unauthenticated", "unauthorized", "unauthorised", "authentication", "credential"]
        .iter()
        .any(|word| message.contains(word))
}

/// A read that is refused with 403 or 404, or in words that say so, is a
/// resource that is not there.
fn absent(error: ApiError) -> ApiError {
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
