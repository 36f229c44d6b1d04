//! A pacer whose state clients with the same key share.

use crate::api::pacer::{Pacer, PacerState, SentRequest, StoreOutcome};
use crate::api::rate_limit_headers::RateLimitHeaders;
use crate::clock::{Clock, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Locks the shared state, calls the argument with it, and stores the state that it returns. If the
/// state cannot be locked, the argument is not called. The argument gets `None` if there is no
/// usable state.
pub type ExchangePacerState =
    Box<dyn FnMut(&mut dyn FnMut(Option<PacerState>) -> PacerState) -> StoreOutcome + Send>;

/// How often a client that sends requests stores its state at least, so that others see a
/// `Retry-After`.
const INTERVAL: Duration = Duration::from_millis(250);

/// The time after which a client that stored no state does not send requests any more.
const ALONE: Duration = Duration::from_secs(60);

/// The difference of wall clock and monotonic clock is measured again from this change on, in
/// milliseconds. So times are the same after each exchange, in spite of rounding.
const CLOCK_CHANGE: u64 = 5;

/// A measurement of both clocks takes no longer than this.
const EXACT: Duration = Duration::from_millis(2);

pub(super) struct SharedPacer {
    pacer: Pacer,
    clock: Arc<dyn Clock>,
    exchange: Option<ExchangePacerState>,
    /// The state that this client stored last.
    stored: Option<PacerState>,
    /// When it did.
    stored_at: Option<Duration>,
    /// When another client last stored a state, by the wall clock.
    other_stored_at: Option<Timestamp>,
    /// Wall clock minus monotonic clock, in milliseconds.
    offset: Option<i64>,
}

impl SharedPacer {
    pub fn new(pacer: Pacer, clock: Arc<dyn Clock>) -> Self {
        let (exchange, stored, stored_at) = (None, None, None);
        Self { pacer, clock, exchange, stored, stored_at, other_stored_at: None, offset: None }
    }

    pub fn shared(self, exchange: ExchangePacerState) -> Self {
        let pacer = self.pacer.of_client(fastrand::u64(1..));
        Self { pacer, exchange: Some(exchange), ..self }
    }

    /// The state as this client last saw it.
    pub fn state(&self) -> &Pacer {
        &self.pacer
    }

    /// The time that the next request has to wait.
    pub fn wait(&mut self) -> Duration {
        if self.pacer.wait(self.clock.monotonic()).is_zero() {
            // `try_send` looks whether others have sent requests since.
            return Duration::ZERO;
        }
        self.update(Pacer::queue)
    }

    /// Sends a request now, or returns the wait as an error.
    pub fn try_send(&mut self) -> Result<SentRequest, Duration> {
        self.update(Pacer::try_send)
    }

    pub fn not_sent(&mut self, request: SentRequest) {
        self.update(|pacer, _| pacer.not_sent(request));
    }

    pub fn lost(&mut self, request: SentRequest, now: Duration) {
        self.update(|pacer, _| pacer.lost(request, now));
    }

    /// Records a response. While this client is alone and many requests are left, it is stored
    /// together with the next request. Until then, others take its request for one in flight.
    pub fn answered(&mut self, request: SentRequest, now: Duration, signals: &RateLimitHeaders) {
        let wall = self.clock.now();
        let change = |pacer: &mut Pacer, _| pacer.answered(request, now, wall, signals);
        if !(self.is_recent() && self.is_alone(wall) && self.pacer.has_many(now)) {
            return self.update(change);
        }
        change(&mut self.pacer, now);
        if !self.pacer.has_many(now) {
            self.update_stored(|_, _| ());
        }
    }

    /// Whether no other client stored a state for so long that this one alone uses the limit.
    fn is_alone(&self, now: Timestamp) -> bool {
        self.other_stored_at.is_none_or(|at| now.since(at) >= ALONE)
    }

    /// Whether the state was stored a moment ago.
    fn is_recent(&self) -> bool {
        let now = self.clock.monotonic();
        self.stored_at.is_some_and(|at| now.saturating_sub(at) < INTERVAL)
    }

    /// Changes the shared state.
    fn update<T>(&mut self, mut change: impl FnMut(&mut Pacer, Duration) -> T) -> T {
        let now = self.clock.monotonic();
        if !(self.is_recent() && self.pacer.is_unlimited(now)) {
            return self.update_stored(change);
        }
        let result = change(&mut self.pacer, now);
        if !self.pacer.is_unlimited(now) {
            self.update_stored(|_, _| ());
        }
        result
    }

    fn update_stored<T>(&mut self, mut change: impl FnMut(&mut Pacer, Duration) -> T) -> T {
        let (mut result, mut new) = (None, None);
        let Self { pacer, clock, exchange, stored, other_stored_at, offset, .. } = self;
        let outcome = exchange.as_mut().map(|exchange| {
            exchange(&mut |found| {
                let now = clock.monotonic();
                let before = *offset;
                let wall = wall_time(now, &**clock, offset);
                // What this client knows does not depend on the wall clock.
                if let Some(found) = found.filter(|found| stored.as_ref() != Some(found)) {
                    *other_stored_at = Some(Timestamp(found.saved));
                    // If the wall clock was set forward since, its present time would make an older
                    // state too old, and the requests in it would be forgotten.
                    let earlier = before.map(|before| wall_at(now, before));
                    pacer.adopt(&found, now, earlier.map_or(wall, |earlier| wall.min(earlier)));
                }
                result = Some(change(pacer, now));
                let state = pacer.save(now, wall);
                new = Some(state.clone());
                state
            })
        });
        if let Some(outcome) = outcome {
            self.pacer.stored(outcome);
            if outcome == StoreOutcome::Stored {
                (self.stored, self.stored_at) = (new, Some(self.clock.monotonic()));
            }
        }
        result.unwrap_or_else(|| change(&mut self.pacer, self.clock.monotonic()))
    }
}

/// The wall clock at `now`, by a difference of the clocks that is measured rarely.
fn wall_time(now: Duration, clock: &dyn Clock, offset: &mut Option<i64>) -> Timestamp {
    let (wall, after) = (clock.now(), clock.monotonic());
    let measured = wall.0.saturating_sub(ms(now));
    // Not if the process was suspended between the two clocks.
    let is_exact = after.saturating_sub(now) <= EXACT;
    let offset = match *offset {
        Some(known) if !is_exact || measured.abs_diff(known) <= CLOCK_CHANGE => known,
        _ => *offset.insert(measured),
    };
    wall_at(now, offset)
}

fn wall_at(now: Duration, offset: i64) -> Timestamp {
    Timestamp(ms(now).saturating_add(offset))
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
