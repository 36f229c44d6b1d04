//! The rate limit as a state machine. The caller passes the time.

use std::collections::VecDeque;
use std::time::Duration;

use super::behaviour::{Behaviour, Reset, Window};
use super::wire::http_date;
use crate::clock::Timestamp;
use crate::sandbox::behaviour_values::RateLimit;

/// The state of the current window.
#[derive(Debug, Clone, Default)]
pub struct Limiter {
    opened: Option<Timestamp>,
    used: u64,
    /// Requests within the sliding window, oldest first.
    recent: VecDeque<Timestamp>,
}

/// The decision about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitDecision {
    pub allowed: bool,
    pub limit: u64,
    pub remaining: u64,
    /// When the next request is allowed, or the next window begins.
    pub reset: Timestamp,
}

/// A limit that no client reaches.
const UNLIMITED: u64 = 1_000_000;

impl Limiter {
    /// Counts one request at `now`. A refused request is not counted.
    pub fn admit(&mut self, now: Timestamp, behaviour: &Behaviour) -> LimitDecision {
        let window = Duration::from_secs(behaviour.rate_window);
        let (limit, remaining) = match behaviour.rate_limit {
            RateLimit::Per(limit) => return self.count(now, limit, window, behaviour.window),
            RateLimit::Zero => (0, 0),
            RateLimit::Unlimited => (UNLIMITED, UNLIMITED - 1),
        };
        LimitDecision { allowed: true, limit, remaining, reset: now.plus(window) }
    }

    fn count(
        &mut self,
        now: Timestamp,
        limit: u64,
        window: Duration,
        kind: Window,
    ) -> LimitDecision {
        let (used, reset) = match kind {
            Window::Sliding => self.slide(now, window),
            Window::Fixed => self.open(now, window, now),
            Window::Aligned => self.open(now, window, aligned(now, window)),
        };
        let allowed = used < limit;
        if allowed {
            self.used += 1;
            self.recent.push_back(now);
        }
        let remaining = limit.saturating_sub(used + u64::from(allowed));
        LimitDecision { allowed, limit, remaining, reset }
    }

    /// The number of requests in the current window, and its end. A new window starts at `start`.
    fn open(&mut self, now: Timestamp, window: Duration, start: Timestamp) -> (u64, Timestamp) {
        let running = self.opened.filter(|opened| now >= *opened && now < opened.plus(window));
        let opened = running.unwrap_or_else(|| {
            self.used = 0;
            self.recent.clear();
            start
        });
        self.opened = Some(opened);
        (self.used, opened.plus(window))
    }

    fn slide(&mut self, now: Timestamp, window: Duration) -> (u64, Timestamp) {
        while self.recent.front().is_some_and(|oldest| now >= oldest.plus(window)) {
            self.recent.pop_front();
        }
        let oldest = self.recent.front().copied().unwrap_or(now);
        (self.recent.len() as u64, oldest.plus(window))
    }
}

fn aligned(now: Timestamp, window: Duration) -> Timestamp {
    let length = i64::try_from(window.as_millis()).unwrap_or(i64::MAX).max(1);
    Timestamp(now.0 - now.0.rem_euclid(length))
}

/// The value of `X-RateLimit-Reset`. Whole seconds are rounded up, so that a client which waits
/// until
/// then has waited long enough.
#[must_use]
pub fn reset_text(reset: Timestamp, now: Timestamp, form: Reset) -> String {
    let seconds = ceil_seconds(reset.0);
    let whole = Timestamp(seconds.saturating_mul(1000));
    let format = |form: &str| whole.utc().map_or_else(String::new, |t| t.format(form).to_string());
    match form {
        Reset::EpochSeconds => seconds.to_string(),
        Reset::EpochMs => reset.0.to_string(),
        Reset::RelativeSeconds => wait_seconds(reset, now).to_string(),
        Reset::HttpDate => http_date(whole),
        Reset::Iso => format("%Y-%m-%dT%H:%M:%SZ"),
        Reset::SqlDatetime => format("%Y-%m-%d %H:%M:%S"),
        Reset::Past => (ceil_seconds(now.0) - 3600).to_string(),
        Reset::FarFuture => (ceil_seconds(now.0) + 86_400).to_string(),
    }
}

/// Whole seconds from `now` until `reset`, at least one.
#[must_use]
pub fn wait_seconds(reset: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(reset.since(now).as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

fn ceil_seconds(ms: i64) -> i64 {
    ms.div_euclid(1000) + i64::from(ms.rem_euclid(1000) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the requests at `times`, in seconds, are allowed.
    fn allowed(behaviour: &str, times: &[i64]) -> Vec<bool> {
        let behaviour = Behaviour::parse(behaviour).unwrap();
        let mut limiter = Limiter::default();
        times.iter().map(|s| limiter.admit(Timestamp(s * 1000), &behaviour).allowed).collect()
    }

    #[test]
    fn a_fixed_window_runs_from_its_first_request() {
        let got = allowed("rate-limit=2", &[50, 80, 109, 110, 111, 112]);
        assert_eq!(got, [true, true, false, true, true, false]);
    }

    #[test]
    fn an_aligned_window_ends_at_a_multiple_of_its_length() {
        let got = allowed("rate-limit=2,window=aligned", &[50, 58, 59, 60]);
        assert_eq!(got, [true, true, false, true]);
    }

    #[test]
    fn a_sliding_window_frees_one_request_at_a_time() {
        let got = allowed("rate-limit=2,window=sliding", &[0, 30, 59, 60, 61, 90, 91]);
        assert_eq!(got, [true, true, false, true, false, true, false]);
    }

    #[test]
    fn no_limit_never_refuses() {
        assert!(allowed("rate-limit=zero", &[1; 500]).into_iter().all(|ok| ok));
        assert!(allowed("rate-limit=none", &[1; 500]).into_iter().all(|ok| ok));
        let decision =
            Limiter::default().admit(Timestamp(0), &Behaviour::parse("rate-limit=0").unwrap());
        assert_eq!((decision.limit, decision.remaining), (0, 0));
    }

    #[test]
    fn a_client_that_waits_until_the_reset_is_allowed() {
        for window in ["fixed", "aligned", "sliding"] {
            let behaviour = Behaviour::parse(&format!("rate-limit=3,window={window}")).unwrap();
            let mut limiter = Limiter::default();
            let mut now = Timestamp(1_700_000_000_123);
            for _ in 0..20 {
                let mut decision = limiter.admit(now, &behaviour);
                if decision.remaining == 0 {
                    now = decision.reset;
                    decision = limiter.admit(now, &behaviour);
                }
                assert!(decision.allowed, "{window}");
            }
        }
    }

    #[test]
    fn the_reset_has_the_chosen_form() {
        let (now, reset) = (Timestamp(1_700_000_000_500), Timestamp(1_700_000_030_100));
        let text = |form| reset_text(reset, now, form);
        assert_eq!(text(Reset::EpochSeconds), "1700000031");
        assert_eq!(text(Reset::EpochMs), "1700000030100");
        assert_eq!(text(Reset::RelativeSeconds), "30");
        assert_eq!(text(Reset::HttpDate), "Tue, 14 Nov 2023 22:13:51 GMT");
        assert_eq!(text(Reset::Iso), "2023-11-14T22:13:51Z");
        assert_eq!(text(Reset::SqlDatetime), "2023-11-14 22:13:51");
    }
}
