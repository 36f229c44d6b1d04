//! A small model of a service, with a clock, headers and a window of its own.

use crate::api::http::Response;
use crate::api::pacer::SentRequest;
use crate::api::pacer::request_log::WINDOW;
use crate::clock::Timestamp;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::api) enum Window {
    /// Fixed windows of 60 s; the first began this many milliseconds before zero.
    Fixed(i64),
    /// A window of 60 s begins with the first request after the last window ended.
    FromFirst,
    /// A sliding window of 60 s; the reset tells when one request is free.
    Sliding,
    /// A sliding window of 60 s; the reset tells when all requests are free.
    SlidingFull,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::api) enum Form {
    Relative,
    Epoch,
    EpochMs,
    Http,
    Iso,
    Plain,
    PlainHoursOff,
    Past,
    Present,
    FarFuture,
    Nonsense,
    NoReset,
    NoDate,
    OnlyLimit,
    Nothing,
}

impl Form {
    /// Whether the headers tell when the window ends.
    pub fn tells(self) -> bool {
        use Form::{Epoch, EpochMs, Http, Iso, Plain, Relative};
        matches!(self, Relative | Epoch | EpochMs | Http | Iso | Plain)
    }
}

#[derive(Debug, Clone)]
pub(in crate::api) struct Service {
    pub window: Window,
    pub limit: u64,
    pub form: Form,
    /// Service clock minus true time, in milliseconds.
    pub skew: i64,
    /// Whether whole seconds of a reset are rounded up.
    pub up: bool,
    pub hits: VecDeque<i64>,
    pub refused: u64,
    /// Whether `all` is kept.
    pub keeps_all: bool,
    /// The times of all accepted requests.
    pub all: VecDeque<i64>,
}

impl Service {
    pub fn new(window: Window, limit: u64, form: Form, skew: i64) -> Self {
        Self {
            window,
            limit,
            form,
            skew,
            up: false,
            hits: VecDeque::new(),
            refused: 0,
            keeps_all: false,
            all: VecDeque::new(),
        }
    }

    /// Drops requests that are not in the window at `t`.
    pub fn turn(&mut self, t: i64) {
        let begin = match self.window {
            Window::Fixed(phase) => t - (t + phase).rem_euclid(WINDOW),
            Window::Sliding | Window::SlidingFull => t - WINDOW + 1,
            Window::FromFirst => {
                if self.hits.front().is_some_and(|&first| t >= first + WINDOW) {
                    self.hits.clear();
                }
                return;
            }
        };
        while self.hits.front().is_some_and(|&hit| hit < begin) {
            self.hits.pop_front();
        }
    }

    pub fn has_room(&mut self, t: i64, share: u64) -> bool {
        self.turn(t);
        (self.hits.len() as u64) < share
    }

    pub fn end(&self, t: i64) -> i64 {
        let first = self.hits.front().copied().unwrap_or(t);
        match self.window {
            Window::Fixed(phase) => t - (t + phase).rem_euclid(WINDOW) + WINDOW,
            Window::FromFirst | Window::Sliding => first + WINDOW,
            Window::SlidingFull => t + WINDOW,
        }
    }

    pub fn handle(&mut self, t: i64) -> Response {
        let accepted = self.has_room(t, self.limit);
        if accepted {
            self.hits.push_back(t);
            self.all.extend(self.keeps_all.then_some(t));
        } else {
            self.refused += 1;
        }
        let status = if accepted { 200 } else { 429 };
        Response { status, headers: self.headers(t), body: b"{\"error\":0,\"data\":{}}".to_vec() }
    }

    pub fn headers(&self, t: i64) -> Vec<(String, String)> {
        let clock = t + self.skew;
        let (end, left) = (self.end(t) + self.skew, self.limit - self.hits.len() as u64);
        let mut headers = Vec::new();
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        let date = |ms: i64, form: &str| {
            let time = Timestamp(ms).utc().expect("in range");
            time.format(form).to_string()
        };
        if self.form != Form::NoDate {
            add("date", date(clock, "%a, %d %b %Y %H:%M:%S GMT"));
        }
        if self.form == Form::Nothing {
            return headers;
        }
        add("x-ratelimit-limit", self.limit.to_string());
        if self.form == Form::OnlyLimit {
            return headers;
        }
        add("x-ratelimit-remaining", left.to_string());
        let rounded = if self.up && self.form != Form::EpochMs { 999 } else { 0 };
        let end = end + rounded;
        let reset = match self.form {
            Form::Relative => ((end - clock) / 1000).to_string(),
            Form::Epoch | Form::NoDate => (end / 1000).to_string(),
            Form::EpochMs => end.to_string(),
            Form::Http => date(end, "%a, %d %b %Y %H:%M:%S GMT"),
            Form::Iso => date(end, "%Y-%m-%dT%H:%M:%SZ"),
            Form::Plain => date(end, "%Y-%m-%d %H:%M:%S"),
            Form::PlainHoursOff => date(end + 7_200_000, "%Y-%m-%d %H:%M:%S"),
            Form::Past => (clock / 1000 - 5).to_string(),
            Form::Present => (clock / 1000).to_string(),
            Form::FarFuture => (clock / 1000 + 500).to_string(),
            Form::Nonsense => "soon".to_owned(),
            Form::NoReset | Form::OnlyLimit | Form::Nothing => return headers,
        };
        add("x-ratelimit-reset", reset);
        headers
    }
}

pub(in crate::api) const WALL: i64 = 1_795_177_885_437;

pub(in crate::api) fn wall(t: i64) -> Timestamp {
    Timestamp(WALL + t)
}

pub(in crate::api) fn mono(t: i64) -> Duration {
    Duration::from_millis(u64::try_from(t).expect("positive"))
}

pub(in crate::api) fn forms() -> impl Strategy<Value = Form> {
    prop::sample::select(vec![
        Form::Relative,
        Form::Epoch,
        Form::EpochMs,
        Form::Http,
        Form::Iso,
        Form::Plain,
        Form::PlainHoursOff,
        Form::Past,
        Form::Present,
        Form::FarFuture,
        Form::Nonsense,
        Form::NoReset,
        Form::NoDate,
        Form::OnlyLimit,
        Form::Nothing,
    ])
}

pub(in crate::api) fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        (0..WINDOW).prop_map(Window::Fixed),
        Just(Window::FromFirst),
        Just(Window::Sliding),
        Just(Window::SlidingFull),
    ]
}

pub(in crate::api) fn skews() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0i64), -2_000i64..2_000, -20_000_000i64..20_000_000]
}

/// A request without a response yet.
pub(in crate::api) struct Flight {
    pub sent: SentRequest,
    pub arrives: i64,
    pub answers: i64,
    pub lost: bool,
    pub response: Option<Response>,
}

/// A request with its faults.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) struct Trip {
    pub up: i64,
    pub down: i64,
    /// The response is lost.
    pub lost: bool,
    /// The process is killed: 1 with the request in flight, 2 after its answer, or before it is sent
    /// and after it was stored for others.
    pub killed: u8,
    /// Time before the next request.
    pub pause: i64,
}

/// Trips of this latency without faults.
pub(in crate::api) fn even(n: usize, latency: i64) -> Vec<Trip> {
    vec![Trip { up: latency / 2, down: latency / 2, lost: false, killed: 0, pause: 0 }; n]
}

/// Up to `most` trips; `faults` is the percentage of each fault.
pub(in crate::api) fn trips(most: usize, faults: u32) -> impl Strategy<Value = Vec<Trip>> {
    let trip = (0i64..1_500, 0i64..1_500, 0u32..100, 0u32..100, 0i64..40_000, 0u32..100).prop_map(
        move |(up, down, lost, killed, pause, paused)| Trip {
            up,
            down,
            lost: lost < faults,
            killed: if killed < faults { 1 + (killed % 2) as u8 } else { 0 },
            pause: if paused < faults { pause } else { 0 },
        },
    );
    let quick =
        trip.clone().prop_map(|trip| Trip { up: trip.up / 20, down: trip.down / 20, ..trip });
    let trips =
        prop_oneof![prop::collection::vec(trip, 1..most), prop::collection::vec(quick, 1..most)];
    trips.prop_map(|mut trips| {
        // Before the first response, a limit below the default is unknown.
        trips[0] = Trip { lost: false, killed: 0, ..trips[0] };
        trips
    })
}

/// The limit of a service that a client knows: without headers, the one that a pacer assumes.
pub(in crate::api) fn known(limit: u64, form: Form) -> u64 {
    if form == Form::Nothing { 30 } else { limit }
}
