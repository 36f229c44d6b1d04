//! What goes wrong on the way, and when: a pure plan, drawn from a seed or
//! fixed by a script. How a fault is acted out is in `exchange`, `transport`
//! and `serve`; how it is written on the command line is in `faults_text`.

use std::time::Duration;

use crate::api::http::{Method, Request};

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The answer takes that long.
    Latency(Duration),
    /// Refused for the limit although there was room; not executed.
    Throttled,
    /// 503 with a JSON body; not executed.
    ServerError,
    /// Executed, and answered with 503 all the same.
    FailedReply,
    /// 502 with an HTML body; not executed.
    ServerErrorHtml,
    /// 200 with an HTML page, as a captive portal answers; not executed.
    HtmlPage,
    /// 302 to another host; not executed.
    Redirect,
    /// No connection: not executed, and known to be so.
    NoConnection,
    /// The request gets lost on the way: not executed, no answer.
    LostRequest,
    /// Executed, and the answer gets lost.
    LostReply,
    /// Executed, and the connection ends after that many bytes of the body.
    CutBody(usize),
    /// Not executed; the connection is reset.
    Reset,
    /// Executed, and the body is replaced by something else.
    Garbage(Garbage),
    /// Executed, and the body takes that long to arrive.
    SlowBody(Duration),
}

/// What a body is replaced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// Bytes that are no UTF-8.
    NotUtf8,
    /// Arrays within arrays, thousands deep.
    Deep,
    /// JSON of the right shape with values of other types.
    WrongTypes,
    /// Ids and counts far beyond 64 bits.
    HugeNumbers,
    /// The first half of the true body, announced as the whole.
    Truncated,
    /// Nothing.
    Empty,
    /// The JSON value `null`.
    Null,
}

/// When a fault happens.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultTrigger {
    /// Each request, with this probability.
    Chance(f64),
    /// The n-th request alone, from 1.
    Nth(u64),
    /// Requests of this method (any when `None`) whose path begins so: each of
    /// them, or the n-th of them alone.
    Path { method: Option<Method>, path: String, nth: Option<u64> },
}

#[derive(Debug, Clone)]
struct Rule {
    fault: Fault,
    when: FaultTrigger,
    /// How often a `FaultTrigger::Path` matched.
    matched: u64,
}

/// What goes wrong with one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mishap {
    pub latency: Duration,
    /// Anything but a latency.
    pub fault: Option<Fault>,
}

/// The source of mishaps: told of each request in turn.
#[derive(Debug, Clone)]
pub struct Faults {
    rules: Vec<Rule>,
    rng: fastrand::Rng,
    requests: u64,
    /// Faults that came true, latencies aside.
    injected: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Faults {
    /// No faults yet; chances will be drawn from `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { rules: Vec::new(), rng: fastrand::Rng::with_seed(seed), requests: 0, injected: 0 }
    }

    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a rule. Where several hold for a request, latencies add up and the
    /// first other fault happens.
    #[must_use]
    pub fn with(mut self, fault: Fault, when: FaultTrigger) -> Self {
        self.push(fault, when);
        self
    }

    /// Adds a rule, as [`Faults::with`].
    pub fn push(&mut self, fault: Fault, when: FaultTrigger) {
        self.rules.push(Rule { fault, when, matched: 0 });
    }

    /// Forgets all rules; counting goes on.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) const fn reseed(&mut self, seed: u64) {
        self.rng = fastrand::Rng::with_seed(seed);
    }

    /// How many requests were told of.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// How many of them met a fault, latencies aside.
    #[must_use]
    pub const fn injected(&self) -> u64 {
        self.injected
    }

    /// What goes wrong with the next request.
    pub fn next(&mut self, request: &Request) -> Mishap {
        self.requests += 1;
        let mut mishap = Mishap::default();
        for rule in &mut self.rules {
            // Every chance is drawn each time, so that one rule's luck never
            // moves another's.
            if !rule.holds(&mut self.rng, self.requests, request) {
                continue;
            }
            match &rule.fault {
                Fault::Latency(time) => mishap.latency += *time,
                _ if mishap.fault.is_some() => {}
                other => mishap.fault = Some(other.clone()),
            }
        }
        self.injected += u64::from(mishap.fault.is_some());
        mishap
    }
}

impl Rule {
    fn holds(&mut self, rng: &mut fastrand::Rng, number: u64, request: &Request) -> bool {
        match &self.when {
            FaultTrigger::Chance(chance) => rng.f64() < *chance,
            FaultTrigger::Nth(nth) => number == *nth,
            FaultTrigger::Path { method, path, nth } => {
                let matches = method.is_none_or(|method| method == request.method)
                    && request.path.starts_with(path.as_str());
                self.matched += u64::from(matches);
                matches && nth.is_none_or(|nth| nth == self.matched)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mut faults: Faults, requests: u64) -> Vec<Option<Fault>> {
        (0..requests).map(|_| faults.next(&Request::get("/api/qr")).fault).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        let faults = |seed| Faults::seeded(seed).with(Fault::LostReply, FaultTrigger::Chance(0.3));
        let one = drawn(faults(7), 200);
        assert_eq!(one, drawn(faults(7), 200));
        assert_ne!(one, drawn(faults(8), 200));
        let hits = one.iter().flatten().count();
        assert!((30..90).contains(&hits), "{hits}");
    }

    #[test]
    fn a_script_hits_the_request_it_names() {
        let faults = Faults::none().with(Fault::Reset, FaultTrigger::Nth(2));
        assert_eq!(drawn(faults, 3), [None, Some(Fault::Reset), None]);
        let path = FaultTrigger::Path {
            method: Some(Method::Get),
            path: "/api/q".to_owned(),
            nth: Some(3),
        };
        let faults = Faults::none().with(Fault::Throttled, path);
        assert_eq!(drawn(faults, 4), [None, None, Some(Fault::Throttled), None]);
    }

    #[test]
    fn latencies_add_up_beside_one_fault() {
        let second = Fault::Latency(Duration::from_secs(1));
        let mut faults = Faults::none()
            .with(second.clone(), FaultTrigger::Chance(1.0))
            .with(second, FaultTrigger::Nth(1))
            .with(Fault::Reset, FaultTrigger::Nth(1))
            .with(Fault::LostReply, FaultTrigger::Nth(1));
        let mishap = faults.next(&Request::get("/api/qr"));
        assert_eq!(mishap.latency, Duration::from_secs(2));
        assert_eq!(mishap.fault, Some(Fault::Reset));
        assert_eq!((faults.requests(), faults.injected()), (1, 1));
    }
}
