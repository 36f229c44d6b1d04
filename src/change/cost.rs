//! What a plan costs at an account's limit, before anything is sent.

use std::collections::BTreeMap;

use super::plan::{Cost, Plan};
use crate::model::Resource;

/// The length of a limit's window, in seconds.
const WINDOW: u64 = 60;

/// What lists give on a page, where nothing else was learned.
const PAGE: u64 = 1000;

/// What a run without mishap needs: `before` requests to look, one for each step,
/// and `after` requests to look again. `limit` requests fit into a minute, of which `reserve` are left
/// to others; a limit of 0 is none.
#[must_use]
pub fn cost(plan: &Plan, (before, after): (u64, u64), limit: u64, reserve: u64) -> Cost {
    let steps = plan.steps.len() as u64;
    if steps == 0 {
        return Cost::default();
    }
    let requests = before.saturating_add(after).saturating_add(steps);
    let share = limit.saturating_sub(reserve).max(1);
    let windows = if limit == 0 { 1 } else { requests.div_ceil(share) };
    let waited = windows.saturating_sub(1).saturating_mul(WINDOW);
    Cost { requests, seconds: waited as f64 }
}

/// Requests to list once what a plan touches. `counts` are the records of each
/// resource, `sizes` the largest pages that each gives. A list of several pages
/// costs one more, as proof.
#[must_use]
pub fn reading(
    touched: &[Resource],
    counts: &BTreeMap<Resource, u64>,
    sizes: &BTreeMap<Resource, u64>,
    channels: u64,
) -> u64 {
    let list = |resource: &Resource| match resource {
        Resource::Account => 1,
        Resource::ChannelItems => channels,
        resource => {
            let size = sizes.get(resource).copied().unwrap_or(PAGE).max(1);
            let pages = counts.get(resource).copied().unwrap_or(0).div_ceil(size).max(1);
            pages.saturating_add(u64::from(pages > 1))
        }
    };
    touched.iter().map(list).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::Step;
    use crate::change::plan::tests::{campaigns, delete_all, planned};

    fn steps(count: usize) -> Plan {
        let state = campaigns(2);
        let one: Vec<Step> = planned(&delete_all(&state, 1), &state).steps;
        Plan { steps: vec![one[0].clone(); count], ..Plan::default() }
    }

    #[test]
    fn the_first_windows_share_goes_at_once_and_each_other_takes_a_minute() {
        let cost =
            |count, looks, limit, reserve| cost(&steps(count), (looks, looks), limit, reserve);
        assert_eq!(cost(0, 5, 30, 5), Cost::default());
        assert_eq!(cost(23, 1, 30, 5), Cost { requests: 25, seconds: 0.0 });
        assert_eq!(cost(24, 1, 30, 5), Cost { requests: 26, seconds: 60.0 });
        assert_eq!(cost(100, 0, 0, 5), Cost { requests: 100, seconds: 0.0 });
        assert_eq!(cost(3, 0, 5, 9), Cost { requests: 3, seconds: 120.0 });
    }

    #[test]
    fn a_list_of_several_pages_costs_one_request_more() {
        let counts = BTreeMap::from([(Resource::Campaigns, 1001), (Resource::Pixels, 1000)]);
        let sizes = BTreeMap::from([(Resource::QrCodes, 10)]);
        let of = |touched: &[Resource]| reading(touched, &counts, &sizes, 7);
        assert_eq!(of(&[Resource::Campaigns]), 3);
        assert_eq!(of(&[Resource::Pixels]), 1);
        assert_eq!(of(&[Resource::QrCodes]), 1);
        assert_eq!(of(&[Resource::Account, Resource::ChannelItems]), 8);
        assert_eq!(of(&[]), 0);
    }
}
