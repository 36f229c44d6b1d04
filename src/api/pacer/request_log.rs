//! When our own latest requests reached the service, at the latest: the
//! ground truth that does not depend on what the service says.

use crate::api::pacer::{MARGIN, Ms, WINDOW};
use std::collections::VecDeque;

/// More entries than this are merged pairwise, each pair taking its later
/// time, so that a large limit costs some precision and never memory.
const MOST_ENTRIES: usize = 64;

/// Requests by time, oldest first: (the latest they can have arrived, how many).
#[derive(Debug, Clone, Default)]
pub(super) struct RequestLog {
    entries: VecDeque<(Ms, u64)>,
}

impl RequestLog {
    pub fn from_entries(entries: impl IntoIterator<Item = (Ms, u64)>) -> Self {
        let mut ledger = Self::default();
        for (at, count) in entries {
            let at = ledger.entries.back().map_or(at, |&(last, _)| at.max(last));
            ledger.entries.push_back((at, count));
            ledger.shrink();
        }
        ledger
    }

    pub fn entries(&self) -> impl Iterator<Item = (Ms, u64)> + '_ {
        self.entries.iter().copied()
    }

    /// Notes a request that leaves at `now`, and forgets those that no window
    /// can hold any more.
    pub fn push(&mut self, now: Ms) {
        while self.entries.front().is_some_and(|&(at, _)| after_window(at) <= now) {
            self.entries.pop_front();
        }
        // Shrinking first keeps the new entry on its own, to be settled.
        self.shrink();
        self.entries.push_back((now, 1));
    }

    /// The request noted last was answered, or given up, at `now`.
    pub fn mark_answered(&mut self, now: Ms) {
        if let Some((at, _)) = self.entries.back_mut() {
            *at = now.max(*at);
        }
    }

    /// The request noted last never left.
    pub fn remove_last(&mut self) {
        self.entries.pop_back();
    }

    /// When fewer than `allowed` requests lie in the window that ends there;
    /// `None` when that is so already at `now`.
    pub fn free_at(&self, allowed: u64, now: Ms) -> Option<Ms> {
        let at = after_window(self.nth_latest(allowed)?);
        (at > now).then_some(at)
    }

    /// How many requests a window that ends at `now` may hold.
    pub fn live(&self, now: Ms) -> u64 {
        let live = self.entries.iter().filter(|&&(at, _)| after_window(at) > now);
        live.fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// When the window that holds our latest `used` requests has surely ended.
    /// Where fewer are known, the oldest known counts: it is later.
    pub fn window_end(&self, used: u64, now: Ms) -> Ms {
        let live = self.entries.iter().find(|&&(at, _)| after_window(at) > now);
        let oldest_live = live.map_or(now, |&(at, _)| at);
        after_window(self.nth_latest(used).unwrap_or(oldest_live).max(oldest_live))
    }

    /// The time of the `n`-th latest request, counting from one.
    fn nth_latest(&self, n: u64) -> Option<Ms> {
        let mut sum = 0u64;
        self.entries.iter().rev().find_map(|&(at, count)| {
            sum = sum.saturating_add(count);
            (sum >= n).then_some(at)
        })
    }

    fn shrink(&mut self) {
        if self.entries.len() < MOST_ENTRIES {
            return;
        }
        let old: Vec<_> = self.entries.drain(..).collect();
        self.entries = old
            .chunks(2)
            .filter_map(|pair| {
                let count = pair.iter().fold(0u64, |sum, &(_, count)| sum.saturating_add(count));
                pair.last().map(|&(at, _)| (at, count))
            })
            .collect();
    }
}

fn after_window(at: Ms) -> Ms {
    at.saturating_add(WINDOW + MARGIN)
}
