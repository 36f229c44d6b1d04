//! What a plan costs at an account's limit, before anything is sent.

use std::collections::BTreeMap;

use super::plan::{Cost, Plan};
use super::staleness::Staleness;
use crate::model::{Resource, State};

/// The length of a limit's window, in seconds.
const WINDOW: u64 = 60;

/// What lists give on a page, where nothing else was learned.
const PAGE: u64 = 1000;

/// What a run without mishap needs: `before` requests to look, one for each step,
/// those that prove the account and read lists again on the way, and `after` requests to look at the end.
/// `limit` requests fit into a minute, of which `reserve` are left to others; a limit
/// of 0 is none.
#[must_use]
pub fn cost(
    plan: &Plan,
    (before, after): (u64, u64),
    limit: u64,
    reserve: u64,
    staleness: &Staleness,
) -> Cost {
    let steps = plan.steps.len() as u64;
    if steps == 0 {
        return Cost::default();
    }
    let (rereads, oldest) = staleness.rereads(plan, before);
    let requests = before.saturating_add(after).saturating_add(steps).saturating_add(rereads);
    let share = limit.saturating_sub(reserve).max(1);
    let windows = if limit == 0 { 1 } else { requests.div_ceil(share) };
    let waited = windows.saturating_sub(1).saturating_mul(WINDOW);
    Cost { requests, seconds: waited as f64, rereads, staleness: oldest.as_secs_f64() }
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

/// The requests that listing once each resource of `state` takes.
#[must_use]
pub fn lists(state: &State, sizes: &BTreeMap<Resource, u64>) -> BTreeMap<Resource, u64> {
    let counts: BTreeMap<_, _> =
        state.iter().map(|(resource, records)| (resource, records.len() as u64)).collect();
    let channels = counts.get(&Resource::Channels).copied().unwrap_or(0);
    counts.keys().map(|it| (*it, reading(&[*it], &counts, sizes, channels))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::tests::steps;
    use crate::change::staleness::DEFAULT;

    #[test]
    fn the_first_windows_share_goes_at_once_and_each_other_takes_a_minute() {
        let cost = |count, looks, limit, reserve| {
            let staleness = Staleness::new(DEFAULT, limit, reserve, BTreeMap::new());
            let cost = cost(&steps(count), (looks, looks), limit, reserve, &staleness);
            Cost { staleness: 0.0, ..cost }
        };
        let is = |requests, seconds| Cost { requests, seconds, ..Cost::default() };
        assert_eq!(cost(0, 5, 30, 5), Cost::default());
        assert_eq!(cost(23, 1, 30, 5), is(25, 0.0));
        assert_eq!(cost(24, 1, 30, 5), is(26, 60.0));
        assert_eq!(cost(25, 1, 30, 5), Cost { rereads: 1, ..is(28, 60.0) });
        assert_eq!(cost(100, 0, 0, 5), is(100, 0.0));
        // Before the second and the third write, it is asked whose account it is.
        assert_eq!(cost(3, 0, 5, 9), Cost { rereads: 2, ..is(5, 240.0) });
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
