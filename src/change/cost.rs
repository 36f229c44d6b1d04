//! Estimates the requests and the time of a plan at an account's rate limit.

use std::time::Duration;

use super::plan::{Plan, PlanCost};
use super::staleness::{StalenessLimit, WINDOW};

/// The requests of the crawls around a run.
#[derive(Debug, Clone, Copy)]
pub struct CrawlRequests {
    /// Of the crawl before the first step.
    pub before: u64,
    /// Of the crawl after the last step.
    pub after: u64,
}

/// The time of a response in estimates and rehearsals.
pub const RESPONSE_TIME: Duration = Duration::from_millis(200);

/// The cost of a run without errors: the requests of both crawls, one for each step, and those that
/// check the account and read lists again meanwhile.
#[must_use]
pub fn cost(plan: &Plan, crawls: CrawlRequests, staleness: &StalenessLimit) -> PlanCost {
    let steps = plan.steps.len() as u64;
    if steps == 0 {
        return PlanCost::default();
    }
    let again = staleness.rereads(plan, crawls.before);
    let requests = crawls.before.saturating_add(crawls.after).saturating_add(steps);
    let requests = requests.saturating_add(again.requests);
    let windows = staleness.share.map_or(1, |share| requests.div_ceil(share));
    let waited = WINDOW.as_secs_f64() * windows.saturating_sub(1) as f64;
    // A limit that allows thousands of requests leaves their responses as the only wait.
    let responses = RESPONSE_TIME.as_secs_f64() * requests as f64;
    let seconds = if responses >= WINDOW.as_secs_f64() { waited.max(responses) } else { waited };
    PlanCost {
        requests,
        seconds,
        rereads: again.requests,
        rereads_lists: again.lists,
        staleness: again.oldest.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::lists::Lists;
    use crate::change::plan::RequestRate;
    use crate::change::plan::tests::steps;
    use crate::change::staleness::DEFAULT;

    #[test]
    fn the_first_window_takes_no_time_and_each_further_one_a_minute() {
        let cost = |count, looks, limit, reserve| {
            let rate = RequestRate { limit, reserve };
            let staleness = StalenessLimit::new(DEFAULT, rate, Lists::default());
            let crawls = CrawlRequests { before: looks, after: looks };
            let cost = cost(&steps(count), crawls, &staleness);
            PlanCost { staleness: 0.0, ..cost }
        };
        let is = |requests, seconds| PlanCost { requests, seconds, ..PlanCost::default() };
        assert_eq!(cost(0, 5, 30, 5), PlanCost::default());
        assert_eq!(cost(23, 1, 30, 5), is(25, 0.0));
        assert_eq!(cost(24, 1, 30, 5), is(26, 60.0));
        assert_eq!(cost(25, 1, 30, 5), PlanCost { rereads: 1, ..is(28, 60.0) });
        assert_eq!(cost(100, 0, 0, 5), is(100, 0.0));
        // Without waits for the limit, the responses take the time.
        assert_eq!(cost(498, 1, 3000, 5), is(500, 100.0));
        assert_eq!(cost(298, 0, 3000, 5), is(298, 0.0));
        // The account is checked before the second and the third write.
        assert_eq!(cost(3, 0, 5, 9), PlanCost { rereads: 2, ..is(5, 240.0) });
    }
}
