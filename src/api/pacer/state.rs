//! The pacer's state for other processes.

use super::request_log::{Ms, RequestLog, WINDOW};
use super::{InFlight, Known, Pacer, Queued, SECOND, SentRequest, ms};
use crate::clock::Timestamp;
use std::time::Duration;

/// Maximum wait that the next process still respects.
const MAX_RESTORED_WAIT: Ms = 3_600_000;
/// The time after which a request that another client sent has arrived, if it ever does.
const LATEST_ARRIVAL: Ms = 10_000;
/// The most clients that are known to wait.
const MAX_QUEUED: usize = 64;
/// A state that is further ahead was saved before the wall clock was set back. Up to this, two
/// processes may read the clocks differently.
const AHEAD: i64 = 1_000;

/// The state of a [`Pacer`] that clients with the same key share. Times are milliseconds since 1970
/// by the wall clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PacerState {
    /// When the state was saved.
    pub saved: i64,
    /// The service's rate limit per minute; zero means none.
    pub limit: Option<u64>,
    /// Requests left in the window.
    pub remaining: Option<u64>,
    /// The same as the service told it last.
    pub told: Option<u64>,
    /// Upper bound of the window's end.
    pub until: i64,
    /// When the first request after the end of a known window was sent.
    pub turned: Option<i64>,
    /// No request before this time, by `Retry-After` or a refusal.
    pub not_before: Option<i64>,
    /// Whether the service writes `Remaining` before it counts the request.
    pub counts_late: bool,
    /// Time and number of the latest requests with a response, oldest first.
    pub requests: Vec<(i64, u64)>,
    /// The requests without a response.
    pub in_flight: Vec<StoredFlight>,
    /// The clients that have to wait.
    pub queue: Vec<StoredTurn>,
}

/// A request without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StoredFlight {
    client: u64,
    request: u64,
    sent: i64,
    alone: bool,
}

/// A client that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StoredTurn {
    client: u64,
    since: i64,
    ready: i64,
    pace: u64,
    keeps_pace: bool,
}

impl PacerState {
    /// The state with all times later by `by` milliseconds.
    #[must_use]
    pub fn moved(&self, by: i64) -> Self {
        let later = |at: i64| at.saturating_add(by);
        let flight = |it: &StoredFlight| StoredFlight { sent: later(it.sent), ..*it };
        let turn =
            |it: &StoredTurn| StoredTurn { since: later(it.since), ready: later(it.ready), ..*it };
        Self {
            saved: later(self.saved),
            until: later(self.until),
            turned: self.turned.map(later),
            not_before: self.not_before.map(later),
            requests: self.requests.iter().map(|&(at, count)| (later(at), count)).collect(),
            in_flight: self.in_flight.iter().map(flight).collect(),
            queue: self.queue.iter().map(turn).collect(),
            ..self.clone()
        }
    }
}

impl Pacer {
    /// The state for other clients. Must be stored before each request and after its response.
    #[must_use]
    pub fn save(&self, now: Duration, wall: Timestamp) -> PacerState {
        let to_wall = |at: Ms| at.saturating_sub(ms(now)).saturating_add(wall.0);
        let flight = |it: &InFlight| StoredFlight {
            client: it.client,
            request: it.request.0,
            sent: to_wall(it.sent),
            alone: it.alone,
        };
        let turn = |it: &Queued| StoredTurn {
            client: it.client,
            since: to_wall(it.since),
            ready: to_wall(it.ready),
            pace: it.pace,
            keeps_pace: it.keeps_pace,
        };
        PacerState {
            saved: wall.0,
            limit: self.limit,
            remaining: self.known.map(|known| known.remaining),
            told: self.known.map(|known| known.told),
            until: self.known.map_or(0, |known| to_wall(known.until)),
            turned: (self.turned > Ms::MIN).then(|| to_wall(self.turned)),
            not_before: (self.not_before > ms(now)).then(|| to_wall(self.not_before)),
            counts_late: self.counts_late,
            requests: self.log.entries().map(|(at, count)| (to_wall(at), count)).collect(),
            in_flight: self.in_flight.iter().map(flight).collect(),
            queue: self.queue.iter().map(turn).collect(),
        }
    }

    /// Continues from the state of other clients. A state from the future, because the wall clock
    /// was set back, is treated as saved just now.
    #[must_use]
    pub fn restore(reserve: u64, state: &PacerState, now: Duration, wall: Timestamp) -> Self {
        let ahead = state.saved.saturating_sub(wall.0);
        let ahead = if ahead > AHEAD { ahead } else { 0 };
        let to_mono =
            |at: i64| at.saturating_sub(ahead).saturating_sub(wall.0).saturating_add(ms(now));
        // Nothing was sent after now.
        let past = |at: i64| to_mono(at).min(ms(now));
        let latest = |bound: Ms| ms(now).saturating_add(bound);
        let until = to_mono(state.until);
        let known = state
            .remaining
            .filter(|_| until <= latest(2 * WINDOW + 2 * SECOND))
            .map(|remaining| Known { remaining, told: state.told.unwrap_or(remaining), until });
        // After a very long `Retry-After`, the next process asks again: one wrong response must not
        // block an account permanently.
        let bound = if ahead > 0 { 2 * WINDOW } else { MAX_RESTORED_WAIT };
        let not_before = state.not_before.map(to_mono).filter(|at| *at <= latest(bound));
        let flight = |it: &StoredFlight| InFlight {
            client: it.client,
            request: SentRequest(it.request),
            sent: past(it.sent),
            known_before: None,
            alone: it.alone,
        };
        let turn = |it: &StoredTurn| Queued {
            client: it.client,
            since: past(it.since),
            ready: to_mono(it.ready),
            pace: it.pace.max(1),
            keeps_pace: it.keeps_pace,
        };
        // No client waits longer.
        let is_plausible = |it: &Queued| it.ready <= latest(MAX_RESTORED_WAIT);
        let requests = state.requests.iter().map(|&(at, count)| (past(at), count));
        let others = state.in_flight.iter().map(|it| it.client);
        let mut pacer = Self {
            client: others.max().map_or(0, |last| last.wrapping_add(1)),
            limit: state.limit,
            known,
            turned: state.turned.map_or(Ms::MIN, past),
            not_before: not_before.unwrap_or(Ms::MIN),
            log: RequestLog::from_entries(requests),
            counts_late: state.counts_late,
            in_flight: state.in_flight.iter().map(flight).collect(),
            queue: state.queue.iter().take(MAX_QUEUED).map(turn).filter(is_plausible).collect(),
            ..Self::new(reserve)
        };
        pacer.expire(ms(now));
        pacer
    }

    /// Takes over the state that other clients stored, and adds what this one has sent and received
    /// since it stored its own.
    pub fn adopt(&mut self, state: &PacerState, now: Duration, wall: Timestamp) {
        let mut shared = Self::restore(self.reserve, state, now, wall);
        let (own, _) = self.split_flights();
        let (stored, mut in_flight) = {
            shared.client = self.client;
            shared.split_flights()
        };
        let mut missing = 0;
        for flight in own {
            let found = stored.iter().find(|it| it.request == flight.request);
            missing += u64::from(found.is_none());
            in_flight.push(match found {
                Some(found) => InFlight { known_before: flight.known_before, ..*found },
                None => InFlight { alone: false, ..flight },
            });
        }
        if missing > 0 {
            in_flight.iter_mut().for_each(|flight| flight.alone = false);
        }
        let mut unstored = 0u64;
        for (at, count) in self.unstored.entries() {
            shared.log.add(at, count);
            unstored = unstored.saturating_add(count);
        }
        self.known = match (shared.known, self.known) {
            (Some(theirs), ours) => {
                let spent = missing.saturating_add(unstored);
                let remaining = theirs.remaining.saturating_sub(spent);
                let theirs = Known { remaining, ..theirs };
                Some(ours.filter(|_| unstored > 0).map_or(theirs, |ours| Known {
                    remaining: remaining.min(ours.remaining),
                    told: ours.told,
                    until: theirs.until.max(ours.until),
                }))
            }
            (None, ours) => ours.filter(|_| unstored > 0),
        };
        self.limit = match unstored {
            0 => shared.limit.or(self.limit),
            _ => self.limit.or(shared.limit),
        };
        // Compared with the times of requests in flight, which are the stored ones too.
        if shared.turned > Ms::MIN {
            self.turned = shared.turned;
        }
        self.not_before = shared.not_before.max(self.not_before);
        self.counts_late = shared.counts_late;
        (self.log, self.in_flight, self.queue) = (shared.log, in_flight, shared.queue);
    }

    /// The requests in flight of this client and of others.
    fn split_flights(&mut self) -> (Vec<InFlight>, Vec<InFlight>) {
        let flights = std::mem::take(&mut self.in_flight);
        flights.into_iter().partition(|flight| flight.client == self.client)
    }

    /// Forgets clients that did not take their turn, and requests of others that had no response for
    /// longer than a window. They may have arrived.
    pub(super) fn expire(&mut self, now: Ms) {
        self.queue.retain(|it| it.ready.saturating_add(WINDOW) > now);
        let (client, log) = (self.client, &mut self.log);
        self.in_flight.retain(|it| {
            let lasts = it.client == client || it.sent.saturating_add(WINDOW) > now;
            if !lasts {
                log.add(it.sent.saturating_add(LATEST_ARRIVAL), 1);
            }
            lasts
        });
    }

    /// Records whether this client's state was stored for the others, or cannot be now.
    pub fn stored(&mut self, outcome: StoreOutcome) {
        match outcome {
            StoreOutcome::Stored => self.unstored = RequestLog::default(),
            StoreOutcome::Alone | StoreOutcome::CutOff => {}
        }
        self.is_cut_off = outcome == StoreOutcome::CutOff;
    }
}

/// Whether a state was stored where other clients read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It was.
    Stored,
    /// There is no place where other clients read it, so that no client shares it.
    Alone,
    /// There is one, but another client has it locked and does not continue, or it cannot be written.
    CutOff,
}
