//! The maximum age of the lists that a write depends on, and the cost of reading them again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lists::Lists;
use super::plan::{Plan, PlanStep, RequestRate};
use crate::change::plan::fingerprints::fingerprints;
use crate::model::{Resource, Verb};

/// The default of `--max-staleness`.
pub const DEFAULT: Duration = Duration::from_secs(5 * 60);
/// After this time without reading the list, created records without a visible key can no longer be
/// recognised.
pub const FRESH: Duration = Duration::from_secs(3 * 60);
/// The window of the rate limit.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// A list is read again this time before it is too old: a write may have to wait for its window,
/// and
/// a plan knows the time of a request only by its window.
const LEEWAY: Duration = Duration::from_secs(15);
/// After this many requests since the account was checked, the observation after a run checks it
/// again.
const MOST_REQUESTS: u64 = 10;
/// Reading lists again takes at most one in this number of requests.
const REREAD_SHARE: u64 = 20;

/// The maximum ages of lists, and the cost of reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StalenessLimit {
    max: Duration,
    /// The requests per window that linkvault may use; `None` for no limit.
    pub(super) share: Option<u64>,
    /// The lists before the first step.
    lists: Lists,
}

impl StalenessLimit {
    /// `max` is the requested maximum age.
    #[must_use]
    pub fn new(max: Duration, rate: RequestRate, lists: Lists) -> Self {
        let share = (rate.limit > 0).then(|| rate.limit.saturating_sub(rate.reserve).max(1));
        Self { max, share, lists }
    }

    /// The maximum age of the list of `resource`: the requested one, or longer if reading the list
    /// that often would take more than a twentieth of the requests.
    #[must_use]
    pub fn of(&self, resource: Resource) -> Duration {
        let Some(share) = self.share else { return self.max };
        let requests = price(&self.lists, &[resource]).saturating_mul(REREAD_SHARE);
        let stretched = WINDOW.as_secs().saturating_mul(requests).div_ceil(share);
        self.max.max(Duration::from_secs(stretched))
    }

    /// Whether the list of `resource` must be read again at this age.
    #[must_use]
    pub fn is_due(&self, resource: Resource, age: Duration) -> bool {
        is_older(age, self.of(resource))
    }

    /// The most account checks before one write: a second one if the response of the first came at
    /// the end of its window. With one request per window that would repeat forever, so then there
    /// is one.
    #[must_use]
    pub fn account_checks(&self) -> u32 {
        if self.share == Some(1) { 1 } else { 2 }
    }

    /// What a run of `plan` reads again between its steps, after `before` requests of the first
    /// crawl.
    #[must_use]
    pub fn rereads(&self, plan: &Plan, before: u64) -> Rereads {
        let all: BTreeSet<_> = plan.steps.iter().flat_map(lists).collect();
        let longest = all.iter().map(|it| self.of(*it)).max().unwrap_or_default();
        let reads_account = plan.touched().contains(&Resource::Account);
        let after = |age, requests| {
            let since = SinceAccountCheck { age, requests, ..SinceAccountCheck::default() };
            since.is_due_after_run(reads_account)
        };
        let Some(share) = self.share else {
            let sent = before.saturating_sub(1).saturating_add(plan.steps.len() as u64);
            let account = after(Duration::ZERO, sent);
            return Rereads { oldest: longest, account, ..Rereads::default() };
        };
        let age = |sent: u64, read: u64| {
            let windows = (sent / share).saturating_sub(read);
            WINDOW.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX))
        };
        let (mut sent, mut extra, mut now) = (before, 0, self.lists.clone());
        // The requests until the account was last checked.
        let mut checked = 1;
        // The window in which each list was last read.
        let mut read: BTreeMap<Resource, u64> = BTreeMap::new();
        // The window in which the records without a visible key were last known.
        let mut known: BTreeMap<Resource, u64> = BTreeMap::new();
        for step in &plan.steps {
            let mut proofs = self.account_checks();
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
                // Each crawl checks the account first.
                read.insert(Resource::Account, window);
                checked = sent.saturating_add(1);
                sent = sent.saturating_add(price);
                extra += price;
            }
            if is_keyless(step) {
                known.insert(step.resource, sent / share);
            }
            now.apply_step(step);
            sent = sent.saturating_add(1);
        }
        let lists = read.keys().any(|list| *list != Resource::Account);
        let proven = read.get(&Resource::Account).copied().unwrap_or(0);
        let account = after(age(sent, proven), sent.saturating_sub(checked));
        Rereads { requests: extra, lists, oldest: longest, account }
    }
}

/// What a run reads again between its steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rereads {
    /// Requests that prove the account and read lists again.
    pub requests: u64,
    /// Whether lists are read again.
    pub lists: bool,
    /// The largest maximum age of the lists that the steps depend on.
    pub oldest: Duration,
    /// Whether the observation after the run checks the account. `requests` does not include it.
    pub account: bool,
}

/// The requests of a crawl of `which`, with the one for the account.
fn price(lists: &Lists, which: &[Resource]) -> u64 {
    which.iter().map(|it| lists.requests(*it)).fold(1, u64::saturating_add)
}

/// What happened since the account was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinceAccountCheck {
    /// The time.
    pub age: Duration,
    /// The requests that were sent.
    pub requests: u64,
    /// Whether a request failed because there was no connection.
    pub has_failed: bool,
    /// Whether no request was sent for long.
    pub is_paused: bool,
}

impl SinceAccountCheck {
    /// Whether the account must be checked again before a write.
    #[must_use]
    pub fn is_due_before_write(&self) -> bool {
        self.has_failed || self.is_paused || is_account_due(self.age)
    }

    /// Whether the observation after a run must begin with another check. `reads_account`: it reads
    /// the record of the account.
    ///
    /// Without it, records of another account are stored only if the service switches to that
    /// account after a check that is good enough for writes: a moment earlier, the switch would have
    /// sent a write there. A crawl cannot notice a switch just after its first request either; in
    /// both cases it confirms the account before it closes records, and after a pause. The number of
    /// requests limits how much a run of fast writes leaves to one check.
    #[must_use]
    pub fn is_due_after_run(&self, reads_account: bool) -> bool {
        reads_account || self.requests > MOST_REQUESTS || self.is_due_before_write()
    }
}

/// Whether the account must be checked again: a wait for the rate limit takes a minute, or less by
/// the duration of the requests before it.
#[must_use]
pub fn is_account_due(age: Duration) -> bool {
    is_older(age, WINDOW)
}

fn is_older(age: Duration, most: Duration) -> bool {
    age > most.saturating_sub(LEEWAY.min(most / 4))
}

/// The lists that `step` depends on.
pub fn lists(step: &PlanStep) -> impl Iterator<Item = Resource> {
    fingerprints(step).map(|it| it.resource)
}

/// Whether a list read this long ago can still be used to recognise created records.
#[must_use]
pub fn is_fresh(age: Duration) -> bool {
    age <= FRESH.saturating_sub(LEEWAY)
}

/// Whether the step creates a record whose list does not show its natural key.
fn is_keyless(step: &PlanStep) -> bool {
    step.verb == Verb::Create && !step.resource.spec().shows_key()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::tests::{campaigns, steps};
    use crate::model::paging::{Paging, Total};

    /// Reading the list of campaigns takes `requests`, including one account check.
    fn staleness(max: u64, limit: u64, requests: u64) -> StalenessLimit {
        let paging = Paging { size: 1, total: Total::OfList, last: true };
        let state = campaigns(requests.cast_signed() - 1);
        let lists = Lists::of(&state, BTreeMap::from([(Resource::Campaigns, paging)]));
        StalenessLimit::new(Duration::from_secs(max), RequestRate { limit, reserve: 0 }, lists)
    }

    #[test]
    fn a_list_is_read_again_every_five_minutes_of_a_long_run() {
        let rereads = |count| staleness(300, 30, 1).rereads(&steps(count), 2).requests;
        // 2 requests of the crawl, 4 account checks and 144 steps fill five minutes.
        assert_eq!(rereads(144), 4);
        assert_eq!(rereads(145), 4 + 2);
        let lists = |count| staleness(300, 30, 1).rereads(&steps(count), 2).lists;
        assert_eq!([144, 145].map(lists), [false, true]);
        // Reading the list checks the account too.
        assert_eq!(rereads(3000), 20 * 2 + 84);
    }

    #[test]
    fn the_account_is_checked_once_per_window_or_before_each_write() {
        let account_checks = |limit, count| {
            let (max, rate) = (Duration::from_secs(100_000), RequestRate { limit, reserve: 0 });
            StalenessLimit::new(max, rate, Lists::default()).rereads(&steps(count), 2).requests
        };
        // 2 requests of the crawl and 28 steps fill a minute; each further minute has 29 steps.
        assert_eq!([28, 29, 57, 58].map(|count| account_checks(30, count)), [0, 1, 1, 2]);
        assert_eq!(account_checks(2, 10), 10);
        assert_eq!(account_checks(1, 10), 10);
        assert_eq!(account_checks(0, 10), 0);
    }

    #[test]
    fn an_expensive_list_is_read_less_often() {
        let of = |max, limit, pages| staleness(max, limit, pages).of(Resource::Campaigns);
        assert_eq!(of(300, 30, 1), Duration::from_secs(300));
        assert_eq!(of(1, 30, 1), Duration::from_secs(80));
        assert_eq!(of(300, 30, 19), Duration::from_secs(840));
        assert_eq!(of(0, 0, 19), Duration::ZERO);
        for pages in [1, 5, 19, 100] {
            let extra = staleness(0, 30, pages).rereads(&steps(5000), 2).requests;
            let windows = (5000 + extra) / 30 + 1;
            assert!(extra <= (5000 + extra) / 19 + windows, "{pages}: {extra}");
            assert!(extra > windows);
        }
    }

    #[test]
    fn without_a_limit_nothing_is_read_again() {
        let oldest =
            |seconds| Rereads { oldest: Duration::from_secs(seconds), ..Rereads::default() };
        let checked = Rereads { account: true, ..oldest(60) };
        assert_eq!(staleness(60, 0, 1).rereads(&steps(1000), 2), checked);
        assert_eq!(staleness(60, 30, 1).rereads(&steps(0), 2), oldest(0));
    }

    #[test]
    fn the_observation_after_a_run_checks_the_account_when_a_write_would_and_after_ten_requests() {
        let fresh = SinceAccountCheck {
            age: Duration::from_secs(45),
            requests: 10,
            ..SinceAccountCheck::default()
        };
        assert!(!fresh.is_due_before_write() && !fresh.is_due_after_run(false));
        assert!(fresh.is_due_after_run(true));
        let eleven = SinceAccountCheck { requests: 11, ..fresh };
        assert!(!eleven.is_due_before_write() && eleven.is_due_after_run(false));
        for due in [
            SinceAccountCheck { age: Duration::from_millis(45_001), ..fresh },
            SinceAccountCheck { has_failed: true, ..fresh },
            SinceAccountCheck { is_paused: true, ..fresh },
        ] {
            assert!(due.is_due_before_write() && due.is_due_after_run(false), "{due:?}");
        }
    }

    #[test]
    fn a_list_is_due_shortly_before_its_maximum_age() {
        let due =
            |max, age| staleness(max, 0, 1).is_due(Resource::Campaigns, Duration::from_secs(age));
        assert!(!due(300, 240) && !due(300, 285) && due(300, 286));
        assert!(due(0, 1) && !due(0, 0));
    }
}
