//! When the next request may be sent. A pure state machine without IO and clock; each call gets the
//! time.
//!
//! ```text
//!              sent()                      answered() with Remaining
//!   ┌───────┐ ───────▶ ┌───────────┐ ─────────────────────────────▶ ┌───────┐
//!   │ ready │          │ in flight │  lost(): counts as spent       │ known │
//!   └───────┘ ◀─────── └───────────┘ ─────────────────────────────▶ └───────┘
//!       ▲    not_sent():    │ no headers, nothing known       remaining │ > reserve: ready at once
//!       │    reverted       ▼                                           │ ≤ reserve: ready at `until`,
//!       │              ┌──────────┐   the limit of our own              │   for one request, whose
//!       └───────────── │ own pace │   requests in any 60 s              │   response tells the rest
//!       ▲              └──────────┘                                     │
//!       └───────────────────────────────────────────────────────────────┘
//!   throttled, or Retry-After: no request before that time. After a
//!   refusal, our own pace is also kept, whatever the headers say.
//! ```
//!
//! Why a service that only this client uses never refuses:
//!
//! * A response to a request that was alone in flight tells `Remaining` exactly. Of one that was
//!   not, the other requests in flight are subtracted, and within a window the result only ever
//!   lowers what is known. A request without a response counts as spent.
//! * Requests overlap only before the window's end. After it, the first request is alone again,
//!   and responses to requests of the window before tell nothing about the new one.
//! * `until` is an upper bound of the window's end. Times from the service are assumed to be
//!   truncated to the second, and its clock to be as slow as its `Date` headers allow.
//! * A reset that is implausible, or relative to an unknown clock, is replaced by our own bound:
//!   `limit - remaining` of our requests are in the window, so it began at the first of them
//!   at the latest.
//! * Our own pace, of any number of requests in any 60 s, counts requests in flight as if they
//!   arrived now.
//!
//! Clients that share a key share this state ([`PacerState`]): each reads it, decides, and stores
//! it with its request in flight before the next client reads it. So several clients are as one
//! client with overlapping requests. What is more:
//!
//! * A client waits up to 5 s for requests of others where requests do not overlap. Those of a
//!   process that ended without a response count as spent.
//! * A client that has to wait queues. One that came later lets it go first, for up to a second
//!   after it could be ready, and the others keep to its own pace if that is lower, so that none
//!   waits forever.
//! * A client that cannot reach the state keeps to a quarter of the limit.

mod estimate;
mod request_log;
mod state;

use crate::api::rate_limit_headers::{RateLimitHeaders, ResetTime};
use crate::clock::Timestamp;
use request_log::{MARGIN, Ms, RequestLog, WINDOW};
pub use state::{PacerState, StoreOutcome};
use std::time::Duration;

/// The window of the service's rate limit.
pub const WINDOW_TIME: Duration = Duration::from_millis(WINDOW.unsigned_abs());
/// Requests per window if the service does not tell the limit.
const DEFAULT_LIMIT: u64 = 30;
/// Maximum error of a time that is truncated to the second.
const SECOND: Ms = 1_000;
/// Maximum difference between the window's end by the service's headers and the true end: the
/// service's rounding up, and truncation of the time and of the clock.
const ROUNDING: Ms = 3 * SECOND + MARGIN;
/// Maximum wait; a longer `Retry-After` is reduced to it.
const MAX_WAIT: Ms = 366 * 24 * 3_600_000;
/// How long a request of another client delays others where requests do not overlap.
const PATIENCE: Ms = 5_000;
/// How long a client that queues goes before later ones, from when it could be ready.
const PRECEDENCE: Ms = 1_000;
/// The time until the shared state is read again, while others have requests in flight.
const POLL: Ms = 20;
/// A client that cannot reach the shared state keeps to this part of the limit.
const CUT_OFF_PART: u64 = 4;

/// The window by the last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    remaining: u64,
    /// `Remaining` as the service told it.
    told: u64,
    /// Upper bound of the window's end.
    until: Ms,
}

/// Identifies a request until its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentRequest(u64);

/// A request without a response yet.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    client: u64,
    request: SentRequest,
    sent: Ms,
    known_before: Option<Known>,
    /// No other request was in flight at any time since it was sent.
    alone: bool,
}

/// A client that has to wait.
#[derive(Debug, Clone, Copy)]
struct Queued {
    client: u64,
    since: Ms,
    /// When it could be ready, if no requests of others were in flight.
    ready: Ms,
    /// Its own pace: requests of all clients in 60 s.
    pace: u64,
    /// Whether that counts even if the service's headers tell more.
    keeps_pace: bool,
}

impl Queued {
    /// Whether others let it go first, or will.
    fn counts(&self, now: Ms) -> bool {
        now < self.ready.saturating_add(PRECEDENCE)
    }
}

/// A lower bound of (service clock - monotonic clock), and when it was determined.
#[derive(Debug, Clone, Copy)]
struct Offset {
    low: i64,
    taken: Ms,
}

impl Offset {
    /// The bound at `now`, if the clocks drift apart by up to 0.01 %.
    fn at(self, now: Ms) -> i64 {
        self.low.saturating_sub(now.saturating_sub(self.taken).max(0) / 10_000)
    }
}

/// Decides when requests may be sent.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// Identifies this client among those that share the state.
    client: u64,
    reserve: u64,
    /// The user's limit for any window, whatever the service tells.
    cap: Option<u64>,
    limit: Option<u64>,
    known: Option<Known>,
    /// When the first request after the end of a known window was sent.
    turned: Ms,
    not_before: Ms,
    log: RequestLog,
    /// Requests of this client since its state was last stored.
    unstored: RequestLog,
    offset: Option<Offset>,
    in_flight: Vec<InFlight>,
    queue: Vec<Queued>,
    /// The shared state cannot be reached.
    is_cut_off: bool,
    last_request: u64,
    /// A request was refused although the headers allowed it, so they are not sufficient.
    distrusts_headers: bool,
    /// The service writes `Remaining` before it counts the request.
    counts_late: bool,
}

impl Pacer {
    /// A pacer without any information, which leaves `reserve` requests of each window to other
    /// programs.
    #[must_use]
    pub fn new(reserve: u64) -> Self {
        Self {
            client: 0,
            reserve,
            cap: None,
            limit: None,
            known: None,
            turned: Ms::MIN,
            not_before: Ms::MIN,
            log: RequestLog::default(),
            unstored: RequestLog::default(),
            offset: None,
            in_flight: Vec::new(),
            queue: Vec::new(),
            is_cut_off: false,
            last_request: 0,
            distrusts_headers: false,
            counts_late: false,
        }
    }

    /// Sends at most `cap` requests in any 60 s, also if the service allows more or tells no limit.
    #[must_use]
    pub fn capped(self, cap: Option<u64>) -> Self {
        Self { cap, ..self }
    }

    /// Identifies this client among those that share the state.
    #[must_use]
    pub fn of_client(self, client: u64) -> Self {
        Self { client, ..self }
    }

    /// The time that the next request has to wait, if this client has none in flight; zero if it
    /// may be sent now. In between, requests of others may end or begin.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        let now = ms(now);
        let ready = self.ready_at(now);
        // A response to a request of others may tell more than our own pace.
        let polls = match self.waits_for_others(now) {
            true => ready <= now || self.known.is_none(),
            false => ready <= now && self.is_behind(now),
        };
        let at = if polls { now.saturating_add(POLL) } else { ready };
        millis(at.saturating_sub(now))
    }

    /// As [`Pacer::wait`]. If there is a wait, this client queues.
    pub fn queue(&mut self, now: Duration) -> Duration {
        self.expire(ms(now));
        let wait = self.wait(now);
        if wait > Duration::ZERO {
            let client = self.client;
            let known = self.queue.iter().position(|it| it.client == client);
            let since = known.map_or(ms(now), |at| self.queue.remove(at).since);
            let (ready, pace) = (self.ready_at(ms(now)), self.share());
            let keeps_pace = self.cap.is_some() || self.distrusts_headers || self.is_cut_off;
            self.queue.push(Queued { client, since, ready, pace, keeps_pace });
        }
        wait
    }

    /// Sends a request now, if that is allowed; else returns the wait and queues. While this client
    /// has others in flight, the wait is not known.
    ///
    /// # Errors
    /// The wait.
    pub fn try_send(&mut self, now: Duration) -> Result<SentRequest, Duration> {
        if self.in_flight.iter().any(|flight| flight.client == self.client) {
            if self.may_overlap(now) { Ok(self.sent(now)) } else { Err(Duration::ZERO) }
        } else {
            let wait = self.queue(now);
            if wait.is_zero() { Ok(self.sent(now)) } else { Err(wait) }
        }
    }

    /// The rate limit per minute, by the service and the cap; zero means none, `None` that it is not
    /// known.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        effective_limit(self.limit, self.cap)
    }

    /// Whether neither the service nor the user limits the rate at present, so that the state need
    /// not be shared.
    #[must_use]
    pub fn is_unlimited(&self, now: Duration) -> bool {
        self.limit() == Some(0)
            && self.not_before <= ms(now)
            && self.ready_by_others(ms(now)) <= ms(now)
    }

    /// Whether a request may be sent now although others are in flight: only if a request remains
    /// above the reserve whatever their responses tell. That is too low by up to the number of the
    /// others, and the last requests of a window are sent one at a time to learn the exact number.
    #[must_use]
    pub fn may_overlap(&self, now: Duration) -> bool {
        let now = ms(now);
        now >= self.not_before
            && !self.distrusts_headers
            && !self.is_cut_off
            && (self.limit == Some(0) || self.known.is_some_and(|known| self.has_room(known, now)))
            && self.ready_by_cap(now) <= now
            && self.ready_by_others(now) <= now
            && !self.is_behind(now)
    }

    fn has_room(&self, known: Known, now: Ms) -> bool {
        let margin = self.in_flight.len() as u64 + 1;
        now < known.until && known.remaining > self.reserve.saturating_add(margin)
    }

    /// Whether requests of other clients have to end first.
    fn waits_for_others(&self, now: Ms) -> bool {
        let delays = |flight: &InFlight| {
            flight.client != self.client && flight.sent.saturating_add(PATIENCE) > now
        };
        self.limit != Some(0)
            && self.in_flight.iter().any(delays)
            && match self.known {
                Some(known) => !self.has_room(known, now),
                // The response to the first request of a window, or of all, tells more.
                None => self.turned > Ms::MIN || self.log.is_empty(),
            }
    }

    /// Whether a client that could be ready queued before this one.
    fn is_behind(&self, now: Ms) -> bool {
        let own = self.queue.iter().find(|it| it.client == self.client);
        let own = own.map_or((now, self.client), |it| (it.since, it.client));
        let is_before = |it: &Queued| {
            it.client != self.client
                && (it.since, it.client) < own
                && it.ready <= now
                && it.counts(now)
        };
        self.limit() != Some(0) && self.queue.iter().any(is_before)
    }

    /// Records that a request is sent now. It counts as spent until its response tells otherwise.
    pub fn sent(&mut self, now: Duration) -> SentRequest {
        let now = ms(now);
        self.last_request += 1;
        let request = SentRequest(self.last_request);
        self.in_flight.iter_mut().for_each(|other| other.alone = false);
        let alone = self.in_flight.is_empty();
        let (client, known_before) = (self.client, self.known);
        self.in_flight.push(InFlight { client, request, sent: now, known_before, alone });
        self.queue.retain(|it| it.client != client);
        self.known = match self.known {
            Some(known) if known.remaining > self.reserve || now < known.until => {
                Some(Known { remaining: known.remaining.saturating_sub(1), ..known })
            }
            // The window has ended, and the response to this request will tell about the next.
            Some(_) => {
                self.turned = now;
                None
            }
            None => None,
        };
        request
    }

    /// Reverts [`Pacer::sent`]: the request was not sent. What overlapping requests spent stays
    /// spent.
    pub fn not_sent(&mut self, request: SentRequest) {
        if let Some(flight) = self.take(request).filter(|flight| flight.alone) {
            self.known = flight.known_before;
        }
    }

    /// Records that there is no response. The request may have arrived and remains spent.
    pub fn lost(&mut self, request: SentRequest, now: Duration) {
        if self.take(request).is_some() {
            self.log_request(ms(now));
        }
    }

    fn log_request(&mut self, now: Ms) {
        self.log.push(now);
        self.unstored.push(now);
    }

    fn take(&mut self, request: SentRequest) -> Option<InFlight> {
        let is_it = |it: &InFlight| (it.client, it.request) == (self.client, request);
        let at = self.in_flight.iter().position(is_it)?;
        Some(self.in_flight.remove(at))
    }

    /// Records a response, which arrived at `now` on the monotonic clock and `wall` on the wall
    /// clock.
    pub fn answered(
        &mut self,
        request: SentRequest,
        now: Duration,
        wall: Timestamp,
        signals: &RateLimitHeaders,
    ) {
        let now = ms(now);
        let flight = self.take(request);
        let (sent, alone) = flight.map_or((now, true), |flight| (flight.sent, flight.alone));
        self.log_request(now);
        self.limit = signals.limit.or(self.limit);
        self.learn_clock(sent, now, signals.date);
        if let Some(remaining) = signals.remaining.filter(|_| sent >= self.turned) {
            let others = self.in_flight.len() as u64;
            let learned = self.learn_window(now, remaining, alone, signals);
            let left = learned.remaining.saturating_sub(others);
            self.known = Some(match self.known {
                Some(known) if !alone && sent < known.until => {
                    Known { remaining: known.remaining.min(left), ..known }
                }
                Some(known) if self.repeats(known, learned, sent, now) => Known {
                    remaining: known.remaining.min(left),
                    until: known.until.min(learned.until),
                    ..learned
                },
                _ => Known { remaining: left, ..learned },
            });
        }
        if let Some(bound) = signals.retry_after.and_then(|at| self.retry_bound(at, now, wall)) {
            self.not_before = bound;
            if signals.throttled {
                self.known = Some(Known { remaining: 0, told: 0, until: bound });
            }
        } else if signals.throttled {
            let until = self.trusted_reset(now, signals).unwrap_or(now + WINDOW + MARGIN);
            self.known = Some(Known { remaining: 0, told: 0, until });
            self.not_before = until;
        }
        self.distrusts_headers |= signals.throttled;
    }

    /// Whether the service told the same `Remaining` as before although a request was spent in
    /// between, and it cannot be true by the requests that were sent. Then it does not count them,
    /// and our own count goes on.
    fn repeats(&self, known: Known, learned: Known, sent: Ms, now: Ms) -> bool {
        let limit = self.limit.or(self.cap).unwrap_or(DEFAULT_LIMIT);
        sent < known.until
            && limit > 0
            && learned.told == known.told
            && learned.told.saturating_add(self.log.live(now)) > limit
    }

    fn ready_at(&self, now: Ms) -> Ms {
        let by_paces = self.ready_by_cap(now).max(self.ready_by_others(now));
        let earliest = now.max(self.not_before).max(by_paces);
        if self.limit == Some(0) {
            return earliest;
        }
        let by_headers = match self.known {
            Some(known) if known.remaining > self.reserve => now,
            Some(known) => known.until,
            None => self.ready_without_headers(now),
        };
        let by_own_pace = if self.distrusts_headers || self.is_cut_off {
            self.ready_without_headers(now)
        } else {
            now
        };
        earliest.max(by_headers).max(by_own_pace)
    }

    /// The time at which one more request does not exceed the cap.
    fn ready_by_cap(&self, now: Ms) -> Ms {
        if self.cap.is_some() { self.ready_without_headers(now) } else { now }
    }

    /// The time at which one more request does not delay a client that keeps to a lower pace, and
    /// would otherwise never be ready.
    fn ready_by_others(&self, now: Ms) -> Ms {
        let others = self.queue.iter().filter(|it| {
            it.client != self.client
                && it.counts(now)
                && (it.keeps_pace || self.known.is_none())
                && it.pace < u64::MAX
        });
        let lowest = others.map(|it| it.pace).min();
        lowest.map_or(now, |pace| self.ready_at_pace(pace, now))
    }

    /// The time at which a service without headers certainly accepts one more request.
    fn ready_without_headers(&self, now: Ms) -> Ms {
        self.ready_at_pace(self.share(), now)
    }

    fn ready_at_pace(&self, pace: u64, now: Ms) -> Ms {
        // Each request in flight may arrive at any time.
        let allowed = pace.saturating_sub(self.in_flight.len() as u64);
        self.log.free_at(allowed, now).unwrap_or(now)
    }

    /// Number of requests of a window that this client may send; at least one, to make progress.
    fn share(&self) -> u64 {
        let share = match self.limit() {
            Some(0) => return u64::MAX,
            limit => limit.unwrap_or(DEFAULT_LIMIT).saturating_sub(self.reserve),
        };
        if self.is_cut_off { share / CUT_OFF_PART } else { share }.max(1)
    }

    /// Improves the bound on the service's clock. `Date` is truncated, and was written between
    /// `sent` and `now`.
    fn learn_clock(&mut self, sent: Ms, now: Ms, date: Option<i64>) {
        let Some(date) = date else { return };
        let low = date.saturating_sub(now);
        let high = date.saturating_add(SECOND).saturating_sub(sent);
        let better = self.offset.is_none_or(|offset| {
            let known = offset.at(now);
            // Above the upper bound, the service's clock was set back.
            low >= known || known > high
        });
        if better {
            self.offset = Some(Offset { low, taken: now });
        }
    }

    fn learn_window(
        &mut self,
        now: Ms,
        remaining: u64,
        alone: bool,
        signals: &RateLimitHeaders,
    ) -> Known {
        if self.limit.is_some_and(|limit| limit > 0 && remaining >= limit) {
            // The full limit remains although a request was just spent.
            self.counts_late = true;
        } else if remaining == 0 && !signals.throttled {
            self.counts_late = false;
        }
        let remaining = remaining.saturating_sub(u64::from(self.counts_late));
        let limit = self.limit.or(self.cap).unwrap_or(DEFAULT_LIMIT);
        let used = limit.saturating_sub(remaining).max(1);
        // The log lacks requests in flight.
        let our_end = if alone { self.log.window_end(used, now) } else { now + WINDOW + MARGIN };
        let until = match self.trusted_reset(now, signals) {
            None => our_end.max(now + SECOND),
            // Both mean the same end, and ours is not rounded.
            Some(service_end) if our_end < service_end && service_end - our_end <= ROUNDING => {
                our_end.max(now)
            }
            Some(service_end) => service_end,
        };
        Known { remaining, told: remaining, until }
    }

    /// Upper bound of the window's end by the service's headers; `None` if it is implausible or
    /// cannot be determined.
    fn trusted_reset(&self, now: Ms, signals: &RateLimitHeaders) -> Option<Ms> {
        let bound = match signals.reset? {
            // Ignored: some services always send the present time.
            ResetTime::Relative(wait) if wait < 1 => return None,
            ResetTime::Relative(wait) => after(now, wait),
            ResetTime::Absolute(at) => {
                if at <= signals.date? {
                    return None;
                }
                self.on_our_clock(at, now)?
            }
        };
        (now..=now + 2 * WINDOW + 2 * SECOND).contains(&bound).then_some(bound)
    }

    fn retry_bound(&self, at: ResetTime, now: Ms, wall: Timestamp) -> Option<Ms> {
        let bound = match at {
            ResetTime::Relative(wait) => after(now, wait),
            ResetTime::Absolute(at) => self.on_our_clock(at, now).unwrap_or_else(|| {
                at.saturating_sub(wall.0).saturating_add(now).saturating_add(SECOND + MARGIN)
            }),
        };
        (bound > now).then_some(bound.min(now.saturating_add(MAX_WAIT)))
    }

    /// The latest time on our clock of `at` on the service's clock.
    fn on_our_clock(&self, at: i64, now: Ms) -> Option<Ms> {
        let offset = self.offset?.at(now);
        Some(at.saturating_add(truncation(at)).saturating_sub(offset).saturating_add(MARGIN))
    }
}

/// The limit to respect: the service's, or `cap` if that is smaller or the only one. Zero means none.
#[must_use]
pub fn effective_limit(told: Option<u64>, cap: Option<u64>) -> Option<u64> {
    match (told.filter(|&limit| limit > 0), cap) {
        (Some(limit), Some(cap)) => Some(limit.min(cap)),
        (limit, cap) => limit.or(cap).or(told),
    }
}

/// The latest time that "`wait` from now" can mean.
fn after(now: Ms, wait: u64) -> Ms {
    let wait = i64::try_from(wait).unwrap_or(i64::MAX);
    now.saturating_add(wait).saturating_add(truncation(wait) + MARGIN)
}

/// The error that truncation may have caused: only a whole number of seconds can be truncated.
fn truncation(time: i64) -> Ms {
    if time % SECOND == 0 { SECOND } else { 0 }
}

fn ms(time: Duration) -> Ms {
    Ms::try_from(time.as_millis()).unwrap_or(Ms::MAX)
}

fn millis(time: Ms) -> Duration {
    Duration::from_millis(u64::try_from(time).unwrap_or(0))
}

#[cfg(test)]
pub(crate) mod tests;
