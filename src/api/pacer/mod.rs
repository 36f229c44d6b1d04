//! When the next request may leave. A pure state machine: no IO, no clock;
//! time comes in with every call.
//!
//! ```text
//!              sent()                      answered() with Remaining
//!   ┌───────┐ ───────▶ ┌───────────┐ ─────────────────────────────▶ ┌───────┐
//!   │ ready │          │ in flight │  lost(): counts as spent       │ known │
//!   └───────┘ ◀─────── └───────────┘ ─────────────────────────────▶ └───────┘
//!       ▲    not_sent():    │ no headers, nothing known       remaining │ > reserve: ready at once
//!       │    taken back     ▼                                           │ ≤ reserve: ready at `until`,
//!       │              ┌──────────┐   a window's worth of our own       │   for one request, whose
//!       └───────────── │ own pace │   requests in any 60 s              │   answer tells the rest
//!       ▲              └──────────┘                                     │
//!       └───────────────────────────────────────────────────────────────┘
//!   throttled, or Retry-After: nothing leaves before the time told; and after
//!   a refusal our own pace is kept as well, whatever the headers say.
//! ```
//!
//! Why this is never refused on a service that only we use:
//!
//! * Requests go one at a time, so `Remaining` is exact when the next leaves.
//!   A lost reply counts as spent.
//! * `until` is an upper bound of the window's end. Times from the service are
//!   taken as truncated to the second, and its clock as the slowest that its
//!   `Date` headers allow.
//! * A reset that cannot be true, or that stands on a clock we cannot read,
//!   is replaced by a bound of our own: `limit - remaining` requests of ours
//!   are in the window, so it began at the first of them at the latest.

mod request_log;

use crate::api::rate_limit_headers::{RateLimitHeaders, ResetTime};
use crate::clock::Timestamp;
use request_log::RequestLog;
use std::time::Duration;

/// Milliseconds on the monotonic clock. Signed, because what an earlier
/// process did lies before its zero.
type Ms = i64;

/// The window of the service's limit.
const WINDOW: Ms = 60_000;
/// Requests a window when the service does not say.
const DEFAULT_LIMIT: u64 = 30;
/// For timers and for clocks that run a little faster or slower than ours.
const MARGIN: Ms = 50;
/// What truncation to the second can hide.
const SECOND: Ms = 1_000;
/// How far a told end of a window may lie behind the true one, as we read it:
/// its rounding up, and what truncation may hide of it and of the clock.
const ROUNDING: Ms = 3 * SECOND + MARGIN;
/// The longest wait that is kept as told; a longer one is kept as this long.
const LONGEST_WAIT: Ms = 366 * 24 * 3_600_000;
/// The longest wait that outlives its process.
const LONGEST_KEPT: Ms = 3_600_000;

/// What the service last said about its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    remaining: u64,
    /// The window has ended by then.
    until: Ms,
}

/// A request whose answer has not come.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    sent: Ms,
    known_before: Option<Known>,
}

/// A lower bound of (service clock - monotonic clock), and when it was taken.
#[derive(Debug, Clone, Copy)]
struct Offset {
    low: i64,
    taken: Ms,
}

impl Offset {
    /// The bound at `now`, allowing for clocks that drift apart by 0.01 %.
    fn at(self, now: Ms) -> i64 {
        self.low.saturating_sub(now.saturating_sub(self.taken).max(0) / 10_000)
    }
}

/// Decides when requests leave.
#[derive(Debug, Clone)]
pub struct Pacer {
    reserve: u64,
    /// The limit to keep to while the service tells none.
    assumed: u64,
    limit: Option<u64>,
    known: Option<Known>,
    not_before: Ms,
    ledger: RequestLog,
    offset: Option<Offset>,
    in_flight: Option<InFlight>,
    /// Refused although the headers promised otherwise: they are not enough.
    wary: bool,
    /// `Remaining` was seen to be written before the request was counted.
    counts_late: bool,
}

/// What the next process has to know. Times are wall-clock milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PacerState {
    pub saved: i64,
    pub limit: Option<u64>,
    pub remaining: Option<u64>,
    pub until: i64,
    pub not_before: Option<i64>,
    /// (time, requests), oldest first.
    pub requests: Vec<(i64, u64)>,
    /// Whether the last of `requests` was still without an answer.
    pub in_flight: bool,
}

impl Pacer {
    /// A pacer that knows nothing yet and leaves `reserve` requests of each
    /// window to others.
    #[must_use]
    pub fn new(reserve: u64) -> Self {
        Self {
            reserve,
            assumed: DEFAULT_LIMIT,
            limit: None,
            known: None,
            not_before: Ms::MIN,
            ledger: RequestLog::default(),
            offset: None,
            in_flight: None,
            wary: false,
            counts_late: false,
        }
    }

    /// Keeps to `limit` requests a minute while the service tells no limit.
    #[must_use]
    pub fn assuming(self, limit: Option<u64>) -> Self {
        Self { assumed: limit.unwrap_or(DEFAULT_LIMIT), ..self }
    }

    /// How long the next request has to wait; zero when it may leave.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        let now = ms(now);
        Duration::from_millis(u64::try_from(self.due(now).saturating_sub(now)).unwrap_or(0))
    }

    /// The service's limit per minute, if it told one; zero means none.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// A request leaves now. It counts as spent until its answer says otherwise.
    pub fn sent(&mut self, now: Duration) {
        let now = ms(now);
        self.in_flight = Some(InFlight { sent: now, known_before: self.known });
        self.ledger.push(now);
        self.known = match self.known {
            Some(known) if known.remaining > self.reserve || now < known.until => {
                Some(Known { remaining: known.remaining.saturating_sub(1), ..known })
            }
            // The window ended and this request asks what the next one holds.
            _ => None,
        };
    }

    /// The request did not leave after all.
    pub fn not_sent(&mut self) {
        if let Some(flight) = self.in_flight.take() {
            self.known = flight.known_before;
            self.ledger.remove_last();
        }
    }

    /// No answer came. The request may have arrived, and stays spent.
    pub fn lost(&mut self, now: Duration) {
        self.in_flight = None;
        self.ledger.mark_answered(ms(now));
    }

    /// An answer arrived at `now`, which is `wall` on the wall clock.
    pub fn answered(&mut self, now: Duration, wall: Timestamp, signals: &RateLimitHeaders) {
        let now = ms(now);
        let sent = self.in_flight.take().map_or(now, |flight| flight.sent);
        self.ledger.mark_answered(now);
        self.limit = signals.limit.or(self.limit);
        self.learn_clock(sent, now, signals.date);
        if let Some(remaining) = signals.remaining {
            self.known = Some(self.learn_window(now, remaining, signals));
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
        self.wary |= signals.throttled;
    }

    /// How long `requests` more will take, from `now`.
    #[must_use]
    pub fn estimate(&self, now: Duration, requests: u64) -> Duration {
        let now = ms(now);
        let first = self.due(now).saturating_sub(now).max(0);
        let at_once = match self.known {
            _ if first > 0 || self.limit == Some(0) => self.share(),
            Some(known) if known.remaining > self.reserve => known.remaining - self.reserve,
            Some(_) => self.share(),
            None => self.share().saturating_sub(self.ledger.live(now)),
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

    /// What the next process has to know, as of now. To be kept both before a
    /// request leaves and after its answer.
    #[must_use]
    pub fn save(&self, now: Duration, wall: Timestamp) -> PacerState {
        let to_wall = |at: Ms| at.saturating_sub(ms(now)).saturating_add(wall.0);
        PacerState {
            saved: wall.0,
            limit: self.limit,
            remaining: self.known.map(|known| known.remaining),
            until: self.known.map_or(0, |known| to_wall(known.until)),
            not_before: (self.not_before > ms(now)).then(|| to_wall(self.not_before)),
            requests: self.ledger.entries().map(|(at, count)| (to_wall(at), count)).collect(),
            in_flight: self.in_flight.is_some(),
        }
    }

    /// Goes on from what an earlier process saved. A state from the future
    /// (the wall clock was set back) is taken as saved just now.
    #[must_use]
    pub fn restore(reserve: u64, state: &PacerState, now: Duration, wall: Timestamp) -> Self {
        /// How long after the save a request in flight may still arrive.
        const FLIGHT: Ms = 2_000;
        let ahead = state.saved.saturating_sub(wall.0).max(0);
        let to_mono =
            |at: i64| at.saturating_sub(ahead).saturating_sub(wall.0).saturating_add(ms(now));
        // Nothing was sent after the save, nor after now.
        let past = |at: i64| to_mono(at.min(state.saved)).min(ms(now));
        let mut requests: Vec<_> =
            state.requests.iter().map(|&(at, count)| (past(at), count)).collect();
        if let Some((at, _)) = requests.last_mut().filter(|_| state.in_flight) {
            *at = at.saturating_add(FLIGHT).min(ms(now));
        }
        let furthest = |bound: Ms| ms(now).saturating_add(bound);
        let until = to_mono(state.until);
        let known = state
            .remaining
            .filter(|_| until <= furthest(2 * WINDOW + 2 * SECOND))
            .map(|remaining| Known { remaining, until });
        // A service that asks for a very long wait is asked again by the next process:
        // one mistaken answer must not lock an account for good.
        let bound = if ahead > 0 { 2 * WINDOW } else { LONGEST_KEPT };
        let not_before = state.not_before.map(to_mono).filter(|at| *at <= furthest(bound));
        let not_before = not_before.unwrap_or(Ms::MIN);
        let ledger = RequestLog::from_entries(requests);
        Self { limit: state.limit, known, not_before, ledger, ..Self::new(reserve) }
    }

    fn due(&self, now: Ms) -> Ms {
        let earliest = now.max(self.not_before);
        if self.limit == Some(0) {
            return earliest;
        }
        let by_headers = match self.known {
            Some(known) if known.remaining > self.reserve => now,
            Some(known) => known.until,
            None => self.own_pace(now),
        };
        let by_caution = if self.wary { self.own_pace(now) } else { now };
        earliest.max(by_headers).max(by_caution)
    }

    /// When a service that tells nothing would surely accept one more.
    fn own_pace(&self, now: Ms) -> Ms {
        self.ledger.free_at(self.share(), now).unwrap_or(now)
    }

    /// How many requests of a window are ours: at least one, or nothing would ever move.
    fn share(&self) -> u64 {
        match self.limit {
            Some(0) => u64::MAX,
            limit => limit.unwrap_or(self.assumed).saturating_sub(self.reserve).max(1),
        }
    }

    /// Narrows the bound on the service's clock. `Date` is truncated, and was
    /// written between `sent` and `now`.
    fn learn_clock(&mut self, sent: Ms, now: Ms, date: Option<i64>) {
        let Some(date) = date else { return };
        let low = date.saturating_sub(now);
        let high = date.saturating_add(SECOND).saturating_sub(sent);
        let better = self.offset.is_none_or(|offset| {
            let held = offset.at(now);
            // Above the upper bound: the service's clock was set back.
            low >= held || held > high
        });
        if better {
            self.offset = Some(Offset { low, taken: now });
        }
    }

    fn learn_window(&mut self, now: Ms, remaining: u64, signals: &RateLimitHeaders) -> Known {
        if self.limit.is_some_and(|limit| limit > 0 && remaining >= limit) {
            // All left although one was just spent.
            self.counts_late = true;
        } else if remaining == 0 && !signals.throttled {
            self.counts_late = false;
        }
        let remaining = remaining.saturating_sub(u64::from(self.counts_late));
        let limit = self.limit.unwrap_or(self.assumed);
        let used = limit.saturating_sub(remaining).max(1);
        let own = self.ledger.window_end(used, now);
        let until = match self.trusted_reset(now, signals) {
            None => own.max(now + SECOND),
            // Both name the same end, and ours is not rounded.
            Some(told) if own < told && told - own <= ROUNDING => own.max(now),
            Some(told) => told,
        };
        Known { remaining, until }
    }

    /// The window's end as the service tells it, at the latest, unless that
    /// cannot be true or cannot be read.
    fn trusted_reset(&self, now: Ms, signals: &RateLimitHeaders) -> Option<Ms> {
        let bound = match signals.reset? {
            // "Now" says nothing: some services always send the present time.
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
        (bound > now).then_some(bound.min(now.saturating_add(LONGEST_WAIT)))
    }

    /// The latest moment that `at` on the service's clock can be on ours.
    fn on_our_clock(&self, at: i64, now: Ms) -> Option<Ms> {
        let offset = self.offset?.at(now);
        Some(at.saturating_add(hidden(at)).saturating_sub(offset).saturating_add(MARGIN))
    }
}

/// The latest moment that "`wait` from now" can mean.
fn after(now: Ms, wait: u64) -> Ms {
    let wait = i64::try_from(wait).unwrap_or(i64::MAX);
    now.saturating_add(wait).saturating_add(hidden(wait) + MARGIN)
}

/// What truncation may hide from a time: a whole number of seconds looks truncated.
fn hidden(time: i64) -> Ms {
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
