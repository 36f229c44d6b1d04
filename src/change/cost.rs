//! Estimates the requests and the time of a plan at an account's rate limit.

use super::plan::{Plan, PlanCost};
use super::staleness::{StalenessLimit, WINDOW};

/// The cost of a run without errors: `before` requests of the first crawl, one for each step, those
/// that check the account and read lists again meanwhile, and `after` requests of the last crawl.
/// `limit` is in requests per minute, 0 for no limit; `reserve` of them are left to others.
#[must_use]
pub fn cost(
    plan: &Plan,
    (before, after): (u64, u64),
    limit: u64,
    reserve: u64,
    staleness: &StalenessLimit,
) -> PlanCost {
    let steps = plan.steps.len() as u64;
    if steps == 0 {
        return PlanCost::default();
    }
    let again = staleness.rereads(plan, before);
    let requests = before.saturating_add(after).saturating_add(steps);
    let requests = requests.saturating_add(again.requests);
    let share = limit.saturating_sub(reserve).max(1);
    let windows = if limit == 0 { 1 } else { requests.div_ceil(share) };
    let waited = windows.saturating_sub(1).saturating_mul(WINDOW.as_secs());
    PlanCost {
        requests,
        seconds: waited as f64,
        rereads: again.requests,
        rereads_lists: again.lists,
        staleness: again.oldest.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::lists::Lists;
    use crate::change::plan::tests::steps;
    use crate::change::staleness::DEFAULT;

    #[test]
    fn the_first_window_takes_no_time_and_each_further_one_a_minute() {
        let cost = |count, looks, limit, reserve| {
            let staleness = StalenessLimit::new(DEFAULT, limit, reserve, Lists::default());
            let cost = cost(&steps(count), (looks, looks), limit, reserve, &staleness);
            PlanCost { staleness: 0.0, ..cost }
        };
        let is = |requests, seconds| PlanCost { requests, seconds, ..PlanCost::default() };
        assert_eq!(cost(0, 5, 30, 5), PlanCost::default());
        assert_eq!(cost(23, 1, 30, 5), is(25, 0.0));
        assert_eq!(cost(24, 1, 30, 5), is(26, 60.0));
        assert_eq!(cost(25, 1, 30, 5), PlanCost { rereads: 1, ..is(28, 60.0) });
        assert_eq!(cost(100, 0, 0, 5), is(100, 0.0));
        // The account is checked before the second and the third write.
        assert_eq!(cost(3, 0, 5, 9), PlanCost { rereads: 2, ..is(5, 240.0) });
    }
}
