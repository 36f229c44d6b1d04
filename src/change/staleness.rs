//! How old a list may be when a write that stands on it leaves, and what reading
//! it again costs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::cost::Lists;
use super::plan::{Plan, PlanStep};
use crate::change::plan::fingerprints::fingerprints;
use crate::model::{Resource, Verb};

/// The default of `--max-staleness`.
pub const DEFAULT: Duration = Duration::from_secs(5 * 60);
/// After this time without a look, it is not known which records without a key are new.
pub const FRESH: Duration = Duration::from_secs(3 * 60);
/// The length of a limit's window.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// A list is read again this long before it is too old: a write may have to wait for
/// its turn, and a plan knows the time of a request only by the window it falls into.
const LEEWAY: Duration = Duration::from_secs(15);
/// Reading lists again takes at most one request in this many.
const SHARE: u64 = 20;

/// How old lists may be, and what reading each of them costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StalenessLimit {
    max: Duration,
    /// Requests of each window that are ours; `None` where there is no limit.
    share: Option<u64>,
    /// The lists as they are before the first step.
    lists: Lists,
}

impl StalenessLimit {
    /// `max` is what was asked for; `limit` requests fit into a minute, of which
    /// `reserve` are left to others, and a limit of 0 is none.
    #[must_use]
    pub fn new(max: Duration, limit: u64, reserve: u64, lists: Lists) -> Self {
        let share = (limit > 0).then(|| limit.saturating_sub(reserve).max(1));
        Self { max, share, lists }
    }

    /// How old the list of `resource` may be: what was asked for, stretched where
    /// reading it that often would take more than a twentieth of the requests.
    #[must_use]
    pub fn of(&self, resource: Resource) -> Duration {
        let Some(share) = self.share else { return self.max };
        let requests = price(&self.lists, &[resource]).saturating_mul(SHARE);
        let stretched = WINDOW.as_secs().saturating_mul(requests).div_ceil(share);
        self.max.max(Duration::from_secs(stretched))
    }

    /// Whether the list of `resource` is to be read again at this age.
    #[must_use]
    pub fn is_due(&self, resource: Resource, age: Duration) -> bool {
        is_older(age, self.of(resource))
    }

    /// How often it is asked before one write whose account it is: once more where the
    /// answer came last in its window. Where a window has one request, that would go on
    /// for ever.
    #[must_use]
    pub fn proofs(&self) -> u32 {
        if self.share == Some(1) { 1 } else { 2 }
    }

    /// What `plan` reads again between its steps, when `before` requests were spent on the
    /// first look.
    #[must_use]
    pub fn rereads(&self, plan: &Plan, before: u64) -> Rereads {
        let all: BTreeSet<_> = plan.steps.iter().flat_map(lists).collect();
        let longest = all.iter().map(|it| self.of(*it)).max().unwrap_or_default();
        let none = Rereads { oldest: longest, ..Rereads::default() };
        let Some(share) = self.share else { return none };
        let age = |sent: u64, read: u64| {
            let windows = (sent / share).saturating_sub(read);
            WINDOW.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX))
        };
        let (mut sent, mut extra, mut now) = (before, 0, self.lists.clone());
        // The window in which each list was read last.
        let mut read: BTreeMap<Resource, u64> = BTreeMap::new();
        // The window in which its records without a key were known last.
        let mut known: BTreeMap<Resource, u64> = BTreeMap::new();
        for step in &plan.steps {
            let mut proofs = self.proofs();
            loop {
                let of = |resource: &Resource| read.get(resource).copied().unwrap_or(0);
                let mut due: Vec<_> =
                    lists(step).filter(|list| self.is_due(*list, age(sent, of(list)))).collect();
                let seen = known.get(&step.resource).copied().unwrap_or(0).max(of(&step.resource));
                if due.is_empty() && is_keyless(step) && !is_fresh(age(sent, seen)) {
                    due.push(step.resource);
                }
                if due.is_empty() {
                    if proofs == 0 || !is_account_due(age(sent, of(&Resource::Account))) {
                        break;
                    }
                    proofs -= 1;
                    due.push(Resource::Account);
                }
                let price = price(&now, &due);
                let window = sent / share;
                for list in due {
                    read.insert(list, window);
                    now.read(list);
                }
                // Each look asks first whose account it is.
                read.insert(Resource::Account, window);
                sent = sent.saturating_add(price);
                extra += price;
            }
            if is_keyless(step) {
                known.insert(step.resource, sent / share);
            }
            now.carry_out(step);
            sent = sent.saturating_add(1);
        }
        let lists = read.keys().any(|list| *list != Resource::Account);
        Rereads { requests: extra, lists, oldest: longest }
    }
}

/// What a run reads again between its steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rereads {
    /// Requests that prove the account and read lists again.
    pub requests: u64,
    /// Whether there are lists among them.
    pub lists: bool,
    /// How old a list that any step stands on may be.
    pub oldest: Duration,
}

/// Requests that a look at `which` takes, with the one for the account.
fn price(lists: &Lists, which: &[Resource]) -> u64 {
    which.iter().map(|it| lists.requests(*it)).fold(1, u64::saturating_add)
}

/// Whether it is to be asked again whose account it is: a wait for the limit takes a
/// minute, or a little less by the time that the requests before it took.
#[must_use]
pub fn is_account_due(age: Duration) -> bool {
    is_older(age, WINDOW)
}

fn is_older(age: Duration, most: Duration) -> bool {
    age > most.saturating_sub(LEEWAY.min(most / 4))
}

/// The lists that `step` stands on.
pub fn lists(step: &PlanStep) -> impl Iterator<Item = Resource> {
    fingerprints(step).map(|it| it.resource)
}

/// Whether what was seen this long ago still tells which records are new.
#[must_use]
pub fn is_fresh(age: Duration) -> bool {
    age <= FRESH.saturating_sub(LEEWAY)
}

/// Whether a create makes a record whose list does not show by which key it is known.
fn is_keyless(step: &PlanStep) -> bool {
    step.verb == Verb::Create && !step.resource.spec().shows_key()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::tests::{campaigns, steps};
    use crate::model::paging::{Paging, Total};

    /// The list of campaigns takes `requests`, of which one is a proof.
    fn staleness(max: u64, limit: u64, requests: u64) -> StalenessLimit {
        let paging = Paging { size: 1, total: Total::OfList, last: true };
        let state = campaigns(requests.cast_signed() - 1);
        let lists = Lists::of(&state, BTreeMap::from([(Resource::Campaigns, paging)]));
        StalenessLimit::new(Duration::from_secs(max), limit, 0, lists)
    }

    #[test]
    fn a_list_is_read_again_every_five_minutes_of_a_long_run() {
        let rereads = |count| staleness(300, 30, 1).rereads(&steps(count), 2).requests;
        // 2 requests to look, 4 proofs in the minutes after it, and 144 steps fill five minutes.
        assert_eq!(rereads(144), 4);
        assert_eq!(rereads(145), 4 + 2);
        let lists = |count| staleness(300, 30, 1).rereads(&steps(count), 2).lists;
        assert_eq!([144, 145].map(lists), [false, true]);
        // Where the list is read, the account is proven with it.
        assert_eq!(rereads(3000), 20 * 2 + 84);
    }

    #[test]
    fn whose_account_it_is_is_asked_once_in_each_window_or_before_each_write() {
        let proofs = |limit, count| {
            let max = Duration::from_secs(100_000);
            StalenessLimit::new(max, limit, 0, Lists::default()).rereads(&steps(count), 2).requests
        };
        // 2 requests to look and 28 steps fill a minute; each further one has 29 steps.
        assert_eq!([28, 29, 57, 58].map(|count| proofs(30, count)), [0, 1, 1, 2]);
        assert_eq!(proofs(2, 10), 10);
        assert_eq!(proofs(1, 10), 10);
        assert_eq!(proofs(0, 10), 0);
    }

    #[test]
    fn what_costs_more_than_a_twentieth_is_read_less_often() {
        let of = |max, limit, pages| staleness(max, limit, pages).of(Resource::Campaigns);
        assert_eq!(of(300, 30, 1), Duration::from_secs(300));
        assert_eq!(of(1, 30, 1), Duration::from_secs(80));
        assert_eq!(of(300, 30, 19), Duration::from_secs(800));
        assert_eq!(of(0, 0, 19), Duration::ZERO);
        for pages in [1, 5, 19, 100] {
            let extra = staleness(0, 30, pages).rereads(&steps(5000), 2).requests;
            let windows = (5000 + extra) / 30 + 1;
            assert!(extra <= (5000 + extra) / 19 + windows, "{pages}: {extra}");
            assert!(extra > windows);
        }
    }

    #[test]
    fn without_a_limit_no_time_is_known() {
        let oldest =
            |seconds| Rereads { oldest: Duration::from_secs(seconds), ..Rereads::default() };
        assert_eq!(staleness(60, 0, 1).rereads(&steps(1000), 2), oldest(60));
        assert_eq!(staleness(60, 30, 1).rereads(&steps(0), 2), oldest(0));
    }

    #[test]
    fn a_list_is_due_a_little_before_it_is_too_old() {
        let due =
            |max, age| staleness(max, 0, 1).is_due(Resource::Campaigns, Duration::from_secs(age));
        assert!(!due(300, 240) && !due(300, 285) && due(300, 286));
        assert!(due(0, 1) && !due(0, 0));
    }
}
