//! Estimates the requests and the time of a plan at an account's rate limit.

use std::time::Duration;

use super::plan::{Plan, PlanCost};
use super::staleness::{StalenessLimit, WINDOW};

/// The requests of the crawls around a run.
#[derive(Debug, Clone, Copy)]
pub struct CrawlRequests {
    /// Of the crawl before the first step, with the one for the account.
    pub before: u64,
    /// Of the crawl after the last step, without the one for the account.
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
    let requests = requests.saturating_add(again.requests + u64::from(again.account));
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
    use crate::model::Resource;

    #[test]
    fn few_requests_take_one_account_check_at_both_ends() {
        let requests = |steps_of: &Plan, before, limit| {
            let rate = RequestRate { limit, reserve: 0 };
            let staleness = StalenessLimit::new(DEFAULT, rate, Lists::default());
            cost(steps_of, CrawlRequests { before, after: 1 }, &staleness).requests
        };
        for limit in [0, 30] {
            // At most ten requests between the check and the lists after the run.
            assert_eq!(requests(&steps(1), 2, limit), 2 + 1 + 1);
            assert_eq!(requests(&steps(9), 2, limit), 2 + 9 + 1);
            assert_eq!(requests(&steps(10), 2, limit), 2 + 10 + 2);
            assert_eq!(requests(&steps(1), 10, limit), 10 + 1 + 1);
            assert_eq!(requests(&steps(1), 11, limit), 11 + 1 + 2);
            let mut password = steps(1);
            password.steps[0].resource = Resource::Account;
            assert_eq!(requests(&password, 2, limit), 2 + 1 + 2);
        }
        // After a wait for the limit, the check is too old.
        assert_eq!(requests(&steps(1), 2, 3), 2 + 1 + 2);
        assert_eq!(requests(&steps(1), 2, 4), 2 + 1 + 1);
        // A check during the run counts.
        assert_eq!(requests(&steps(30), 2, 30), 2 + 30 + 1 + 1);
        assert_eq!(requests(&steps(39), 2, 30), 2 + 39 + 1 + 2);
    }

    #[test]
    fn the_first_window_takes_no_time_and_each_further_one_a_minute() {
        let cost = |count, looks, limit, reserve| {
            let rate = RequestRate { limit, reserve };
            let staleness = StalenessLimit::new(DEFAULT, rate, Lists::default());
            let crawls = CrawlRequests { before: looks + 1, after: looks };
            let cost = cost(&steps(count), crawls, &staleness);
            PlanCost { staleness: 0.0, ..cost }
        };
        let is = |requests, seconds| PlanCost { requests, seconds, ..PlanCost::default() };
        assert_eq!(cost(0, 5, 30, 5), PlanCost::default());
        // The account, the list, the steps, and the account and the list again.
        assert_eq!(cost(21, 1, 30, 5), is(25, 0.0));
        assert_eq!(cost(22, 1, 30, 5), is(26, 60.0));
        assert_eq!(cost(24, 1, 30, 5), PlanCost { rereads: 1, ..is(28, 60.0) });
        assert_eq!(cost(98, 0, 0, 5), is(100, 0.0));
        // Without waits for the limit, the responses take the time.
        assert_eq!(cost(496, 1, 3000, 5), is(500, 100.0));
        assert_eq!(cost(296, 0, 3000, 5), is(298, 0.0));
        // The account is checked before each write and after the last.
        assert_eq!(cost(3, 0, 5, 9), PlanCost { rereads: 3, ..is(8, 420.0) });
    }
}
