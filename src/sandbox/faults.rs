//! Fault injection: which fault happens to which request, by chance or by script. `exchange`,
//! `transport` and `serve` carry the faults out; `faults_text` parses them.

use std::time::Duration;

use crate::api::http::{Method, Request};

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The response takes this time.
    Latency(Duration),
    /// Refused because of the rate limit, although it is not reached; not executed.
    Throttled,
    /// 503 with a JSON body; not executed.
    ServerError,
    /// Executed, and answered as if it had failed.
    FailedReply(FailedReply),
    /// 502 with an HTML body; not executed.
    ServerErrorHtml,
    /// 200 with an HTML page, like a captive portal; not executed.
    HtmlPage,
    /// 302 to another host; not executed.
    Redirect,
    /// The connection is refused: certainly not executed.
    NoConnection,
    /// The request is lost: not executed, no response.
    LostRequest,
    /// Executed, and the response is lost.
    LostReply,
    /// No response, and executed only after this time.
    LateCommit(Duration),
    /// Executed, and the connection ends after this number of bytes of the body.
    CutBody(usize),
    /// Not executed; the connection is reset.
    Reset,
    /// Executed, and the body is replaced.
    Garbage(Garbage),
    /// Executed, and the body takes this time to arrive.
    SlowBody(Duration),
}

/// The response to a request that was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedReply {
    /// 503 with a JSON body.
    Unavailable,
    /// 302 to another host.
    Redirect,
    /// 500 with a message that names the API key.
    KeyWords,
    /// 503 with a JSON body that asks to wait, like one for an exceeded rate limit.
    ThrottleWords,
    /// 502 with an HTML page.
    Html,
    /// 404 with an HTML page.
    NotFound,
}

/// The replacement of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// Bytes that are not valid UTF-8.
    NotUtf8,
    /// Thousands of nested arrays.
    Deep,
    /// JSON with the documented keys and values of wrong types.
    WrongTypes,
    /// Ids and counts far beyond 64 bits.
    HugeNumbers,
    /// The first half of the real body, with a matching length header.
    Truncated,
    /// No bytes.
    Empty,
    /// The JSON value `null`.
    Null,
}

/// When a fault happens.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultTrigger {
    /// With this probability at each request.
    Chance(f64),
    /// At the n-th request only, from 1.
    Nth(u64),
    /// At requests with this method and path.
    Path {
        /// The method; `None` for any.
        method: Option<Method>,
        /// The beginning of the path.
        path: String,
        /// Only the n-th of these requests, from 1; `None` for all.
        nth: Option<u64>,
    },
}

#[derive(Debug, Clone)]
struct Rule {
    fault: Fault,
    when: FaultTrigger,
    /// How often a [`FaultTrigger::Path`] matched.
    matched: u64,
}

/// The faults of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InjectedFaults {
    /// Sum of all latencies.
    pub latency: Duration,
    /// A fault other than a latency.
    pub fault: Option<Fault>,
}

/// Decides the faults of each request in turn.
#[derive(Debug, Clone)]
pub struct Faults {
    rules: Vec<Rule>,
    rng: fastrand::Rng,
    requests: u64,
    /// Injected faults, without latencies.
    injected: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Faults {
    /// No rules yet; chances are drawn from `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { rules: Vec::new(), rng: fastrand::Rng::with_seed(seed), requests: 0, injected: 0 }
    }

    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a rule. If several match a request, latencies add up and the first other fault
    /// happens.
    #[must_use]
    pub fn with(mut self, fault: Fault, when: FaultTrigger) -> Self {
        self.push(fault, when);
        self
    }

    /// Adds a rule, as [`Faults::with`].
    pub fn push(&mut self, fault: Fault, when: FaultTrigger) {
        self.rules.push(Rule { fault, when, matched: 0 });
    }

    /// Removes all rules. The counts continue.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) const fn reseed(&mut self, seed: u64) {
        self.rng = fastrand::Rng::with_seed(seed);
    }

    /// The number of requests so far.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// The number of requests with a fault other than a latency.
    #[must_use]
    pub const fn injected(&self) -> u64 {
        self.injected
    }

    /// The faults of the next request.
    pub fn next(&mut self, request: &Request) -> InjectedFaults {
        self.requests += 1;
        let mut injected = InjectedFaults::default();
        for rule in &mut self.rules {
            // Draws every chance each time, so that rules do not influence each other's sequence.
            if !rule.holds(&mut self.rng, self.requests, request) {
                continue;
            }
            match &rule.fault {
                Fault::Latency(time) => injected.latency += *time,
                _ if injected.fault.is_some() => {}
                other => injected.fault = Some(other.clone()),
            }
        }
        self.injected += u64::from(injected.fault.is_some());
        injected
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
    fn a_scripted_fault_affects_its_request() {
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
        let injected = faults.next(&Request::get("/api/qr"));
        assert_eq!(injected.latency, Duration::from_secs(2));
        assert_eq!(injected.fault, Some(Fault::Reset));
        assert_eq!((faults.requests(), faults.injected()), (1, 1));
    }
}
