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
//!   not, the other requests in flight are subtracted, and the result only ever lowers what is
//!   known. A request without a response counts as spent.
//! * Requests overlap only before the window's end. After it, the first request is alone again.
//! * `until` is an upper bound of the window's end. Times from the service are assumed to be
//!   truncated to the second, and its clock to be as slow as its `Date` headers allow.
//! * A reset that is implausible, or relative to an unknown clock, is replaced by our own bound:
//!   `limit - remaining` of our requests are in the window, so it began at the first of them
//!   at the latest.

mod request_log;

use crate::api::rate_limit_headers::{RateLimitHeaders, ResetTime};
use crate::clock::Timestamp;
use request_log::{MARGIN, Ms, RequestLog, WINDOW};
use std::time::Duration;

/// Requests per window if the service does not tell the limit.
const DEFAULT_LIMIT: u64 = 30;
/// Maximum error of a time that is truncated to the second.
const SECOND: Ms = 1_000;
/// Maximum difference between the window's end by the service's headers and the true end: the
/// service's rounding up, and truncation of the time and of the clock.
const ROUNDING: Ms = 3 * SECOND + MARGIN;
/// Maximum wait; a longer `Retry-After` is reduced to it.
const MAX_WAIT: Ms = 366 * 24 * 3_600_000;
/// Maximum wait that the next process still respects.
const MAX_RESTORED_WAIT: Ms = 3_600_000;

/// The window by the last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    remaining: u64,
    /// Upper bound of the window's end.
    until: Ms,
}

/// Identifies a request until its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentRequest(u64);

/// A request without a response yet.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    request: SentRequest,
    sent: Ms,
    known_before: Option<Known>,
    /// No other request was in flight at any time since it was sent.
    alone: bool,
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
    reserve: u64,
    /// The user's limit for any window, whatever the service tells.
    cap: Option<u64>,
    limit: Option<u64>,
    known: Option<Known>,
    not_before: Ms,
    log: RequestLog,
    offset: Option<Offset>,
    in_flight: Vec<InFlight>,
    last_request: u64,
    /// A request was refused although the headers allowed it, so they are not sufficient.
    distrusts_headers: bool,
    /// The service writes `Remaining` before it counts the request.
    counts_late: bool,
}

/// The pacer's state for the next process. Times are milliseconds since 1970 by the wall clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PacerState {
    /// When the state was saved.
    pub saved: i64,
    /// The service's rate limit per minute; zero means none.
    pub limit: Option<u64>,
    /// Requests left in the window.
    pub remaining: Option<u64>,
    /// Upper bound of the window's end.
    pub until: i64,
    /// No request before this time, by `Retry-After` or a refusal.
    pub not_before: Option<i64>,
    /// Time and number of the latest requests, oldest first.
    pub requests: Vec<(i64, u64)>,
    /// Whether the last of `requests` had no response yet.
    pub in_flight: bool,
    /// The number of requests without a response, if there are several.
    #[serde(skip_serializing_if = "is_zero")]
    pub overlapping: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Pacer {
    /// A pacer without any information, which leaves `reserve` requests of each window to other
    /// programs.
    #[must_use]
    pub fn new(reserve: u64) -> Self {
        Self {
            reserve,
            cap: None,
            limit: None,
            known: None,
            not_before: Ms::MIN,
            log: RequestLog::default(),
            offset: None,
            in_flight: Vec::new(),
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

    /// The time that the next request has to wait; zero if it may be sent now.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        let now = ms(now);
        Duration::from_millis(u64::try_from(self.ready_at(now).saturating_sub(now)).unwrap_or(0))
    }

    /// The rate limit per minute, by the service and the cap; zero means none, `None` that it is not
    /// known.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        effective_limit(self.limit, self.cap)
    }

    /// Whether a request may be sent now although others are in flight: only if a request remains
    /// above the reserve whatever their responses tell. That is too low by up to the number of the
    /// others, and the last requests of a window are sent one at a time to learn the exact number.
    #[must_use]
    pub fn may_overlap(&self, now: Duration) -> bool {
        let now = ms(now);
        let margin = self.in_flight.len() as u64 + 1;
        let has_room = |known: Known| {
            now < known.until && known.remaining > self.reserve.saturating_add(margin)
        };
        now >= self.not_before
            && !self.distrusts_headers
            && (self.limit == Some(0) || self.known.is_some_and(has_room))
            && self.ready_by_cap(now) <= now
    }

    /// How much later the last of many requests is sent if one of them is repeated. `None` if the
    /// limit is not known, or few requests are left in the window.
    #[must_use]
    pub fn cost_of_repeat(&self, now: Duration) -> Option<Duration> {
        /// Fewer than this part of a window are few.
        const FEW: u64 = 10;
        match (self.limit?, self.known) {
            (0, _) => Some(Duration::ZERO),
            (_, Some(known)) if self.ready_at(ms(now)) <= ms(now) && !self.distrusts_headers => {
                let left = known.remaining.saturating_sub(self.reserve);
                let share = self.share();
                let cost = WINDOW.unsigned_abs().div_ceil(share);
                (left >= share.div_ceil(FEW)).then_some(Duration::from_millis(cost))
            }
            _ => None,
        }
    }

    /// Records that a request is sent now. It counts as spent until its response tells otherwise.
    pub fn sent(&mut self, now: Duration) -> SentRequest {
        let now = ms(now);
        self.last_request += 1;
        let request = SentRequest(self.last_request);
        self.in_flight.iter_mut().for_each(|other| other.alone = false);
        let alone = self.in_flight.is_empty();
        let flight = InFlight { request, sent: now, known_before: self.known, alone };
        self.in_flight.push(flight);
        self.known = match self.known {
            Some(known) if known.remaining > self.reserve || now < known.until => {
                Some(Known { remaining: known.remaining.saturating_sub(1), ..known })
            }
            // The window has ended, and the response to this request will tell about the next.
            _ => None,
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
            self.log.push(ms(now));
        }
    }

    fn take(&mut self, request: SentRequest) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|flight| flight.request == request)?;
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
        self.log.push(now);
        self.limit = signals.limit.or(self.limit);
        self.learn_clock(sent, now, signals.date);
        if let Some(remaining) = signals.remaining {
            let learned = self.learn_window(now, remaining, signals);
            self.known = match self.known {
                Some(known) if !alone => {
                    let others = self.in_flight.len() as u64;
                    let remaining = known.remaining.min(learned.remaining.saturating_sub(others));
                    Some(Known { remaining, ..known })
                }
                _ => Some(learned),
            };
        }
        if let Some(bound) = signals.retry_after.and_then(|at| self.retry_bound(at, now, wall)) {
            self.not_before = bound;
            if signals.throttled {
                self.known = Some(Known { remaining: 0, until: bound });
            }
        } else if signals.throttled {
            let until = self.trusted_reset(now, signals).unwrap_or(now + WINDOW + MARGIN);
            self.known = Some(Known { remaining: 0, until });
            self.not_before = until;
        }
        self.distrusts_headers |= signals.throttled;
    }

    /// Estimated time of `requests` further requests from `now` on.
    #[must_use]
    pub fn estimate(&self, now: Duration, requests: u64) -> Duration {
        let now = ms(now);
        let first = self.ready_at(now).saturating_sub(now).max(0);
        let by_own_pace = self.share().saturating_sub(self.log.live(now));
        let at_once = match self.known {
            _ if first > 0 => self.share(),
            _ if self.limit == Some(0) => by_own_pace,
            Some(known) if known.remaining > self.reserve => {
                let left = known.remaining - self.reserve;
                if self.cap.is_some() { left.min(by_own_pace) } else { left }
            }
            Some(_) => self.share(),
            None => by_own_pace,
        };
        let Some(later) = requests.checked_sub(at_once).filter(|&later| later > 0) else {
            return millis(if requests == 0 { 0 } else { first });
        };
        let full = i64::try_from((later - 1) / self.share()).unwrap_or(i64::MAX);
        let window_end = match self.known {
            Some(known) if first == 0 && known.until > now => known.until - now,
            _ => first.saturating_add(WINDOW),
        };
        millis(window_end.saturating_add(full.saturating_mul(WINDOW)))
    }

    /// The state for the next process. Must be saved before each request and after its response.
    #[must_use]
    pub fn save(&self, now: Duration, wall: Timestamp) -> PacerState {
        let to_wall = |at: Ms| at.saturating_sub(ms(now)).saturating_add(wall.0);
        let in_flight = self.in_flight.iter().map(|flight| (to_wall(flight.sent), 1));
        let answered = self.log.entries().map(|(at, count)| (to_wall(at), count));
        PacerState {
            saved: wall.0,
            limit: self.limit,
            remaining: self.known.map(|known| known.remaining),
            until: self.known.map_or(0, |known| to_wall(known.until)),
            not_before: (self.not_before > ms(now)).then(|| to_wall(self.not_before)),
            requests: answered.chain(in_flight).collect(),
            in_flight: !self.in_flight.is_empty(),
            overlapping: match self.in_flight.len() as u64 {
                0 | 1 => 0,
                several => several,
            },
        }
    }

    /// Continues from the state of an earlier process. A state from the future, because the wall
    /// clock was set back, is treated as saved just now.
    #[must_use]
    pub fn restore(reserve: u64, state: &PacerState, now: Duration, wall: Timestamp) -> Self {
        /// Time after saving in which a request in flight may still arrive.
        const IN_FLIGHT: Ms = 2_000;
        let ahead = state.saved.saturating_sub(wall.0).max(0);
        let to_mono =
            |at: i64| at.saturating_sub(ahead).saturating_sub(wall.0).saturating_add(ms(now));
        // Nothing was sent after saving, nor after now.
        let past = |at: i64| to_mono(at.min(state.saved)).min(ms(now));
        let mut requests: Vec<_> =
            state.requests.iter().map(|&(at, count)| (past(at), count)).collect();
        let in_flight = usize::from(state.in_flight)
            .max(usize::try_from(state.overlapping).unwrap_or(usize::MAX));
        for (at, _) in requests.iter_mut().rev().take(in_flight) {
            *at = at.saturating_add(IN_FLIGHT).min(ms(now));
        }
        let latest = |bound: Ms| ms(now).saturating_add(bound);
        let until = to_mono(state.until);
        let known = state
            .remaining
            .filter(|_| until <= latest(2 * WINDOW + 2 * SECOND))
            .map(|remaining| Known { remaining, until });
        // After a very long `Retry-After`, the next process asks again: one wrong response must not
        // block an account permanently.
        let bound = if ahead > 0 { 2 * WINDOW } else { MAX_RESTORED_WAIT };
        let not_before = state.not_before.map(to_mono).filter(|at| *at <= latest(bound));
        let not_before = not_before.unwrap_or(Ms::MIN);
        let log = RequestLog::from_entries(requests);
        Self { limit: state.limit, known, not_before, log, ..Self::new(reserve) }
    }

    fn ready_at(&self, now: Ms) -> Ms {
        let earliest = now.max(self.not_before).max(self.ready_by_cap(now));
        if self.limit == Some(0) {
            return earliest;
        }
        let by_headers = match self.known {
            Some(known) if known.remaining > self.reserve => now,
            Some(known) => known.until,
            None => self.ready_without_headers(now),
        };
        let by_own_pace =
            if self.distrusts_headers { self.ready_without_headers(now) } else { now };
        earliest.max(by_headers).max(by_own_pace)
    }

    /// The time at which one more request does not exceed the cap.
    fn ready_by_cap(&self, now: Ms) -> Ms {
        if self.cap.is_some() { self.ready_without_headers(now) } else { now }
    }

    /// The time at which a service without headers certainly accepts one more request.
    fn ready_without_headers(&self, now: Ms) -> Ms {
        // Each request in flight may arrive at any time.
        let allowed = self.share().saturating_sub(self.in_flight.len() as u64);
        self.log.free_at(allowed, now).unwrap_or(now)
    }

    /// Number of requests of a window that this client may send; at least one, to make progress.
    fn share(&self) -> u64 {
        match self.limit() {
            Some(0) => u64::MAX,
            limit => limit.unwrap_or(DEFAULT_LIMIT).saturating_sub(self.reserve).max(1),
        }
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

    fn learn_window(&mut self, now: Ms, remaining: u64, signals: &RateLimitHeaders) -> Known {
        if self.limit.is_some_and(|limit| limit > 0 && remaining >= limit) {
            // The full limit remains although a request was just spent.
            self.counts_late = true;
        } else if remaining == 0 && !signals.throttled {
            self.counts_late = false;
        }
        let remaining = remaining.saturating_sub(u64::from(self.counts_late));
        let limit = self.limit.or(self.cap).unwrap_or(DEFAULT_LIMIT);
        let used = limit.saturating_sub(remaining).max(1);
        let our_end = self.log.window_end(used, now);
        let until = match self.trusted_reset(now, signals) {
            None => our_end.max(now + SECOND),
            // Both mean the same end, and ours is not rounded.
            Some(service_end) if our_end < service_end && service_end - our_end <= ROUNDING => {
                our_end.max(now)
            }
            Some(service_end) => service_end,
        };
        Known { remaining, until }
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
mod tests;
