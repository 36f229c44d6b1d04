//! Upper bounds of the times when our latest requests reached the service: data that does not
//! depend on the service's headers.

use std::collections::VecDeque;

/// Milliseconds on the monotonic clock. Signed, because requests of an earlier process are before
/// its zero.
pub(super) type Ms = i64;

/// The window of the service's rate limit.
pub(super) const WINDOW: Ms = 60_000;

/// Tolerance for timers and for clocks that run at slightly different speeds.
pub(super) const MARGIN: Ms = 50;

/// From this number of entries on, two that are close in time are merged, with the later time. So a
/// large limit costs a second or two of precision, but no memory.
const MAX_ENTRIES: usize = 64;

/// Entries, oldest first: the latest possible time of arrival, and the number of requests.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestLog {
    entries: VecDeque<(Ms, u64)>,
}

impl RequestLog {
    pub fn from_entries(entries: impl IntoIterator<Item = (Ms, u64)>) -> Self {
        let mut log = Self::default();
        entries.into_iter().for_each(|(at, count)| log.add(at, count));
        log
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds `count` requests that arrived by `at`, also before others.
    pub fn add(&mut self, at: Ms, count: u64) {
        let later = self.entries.iter().rev().take_while(|&&(other, _)| other > at).count();
        self.entries.insert(self.entries.len() - later, (at, count));
        self.merge_closest();
    }

    pub fn entries(&self) -> impl Iterator<Item = (Ms, u64)> + '_ {
        self.entries.iter().copied()
    }

    /// Adds a request that had its response, or was given up, at `now`. Drops those that no present
    /// window can contain.
    pub fn push(&mut self, now: Ms) {
        while self.entries.front().is_some_and(|&(at, _)| after_window(at) <= now) {
            self.entries.pop_front();
        }
        self.add(now, 1);
    }

    /// The time at which the window that ends then has fewer than `allowed` requests; `None` if
    /// that is already so at `now`. With none allowed, a window after `now`.
    pub fn free_at(&self, allowed: u64, now: Ms) -> Option<Ms> {
        if allowed == 0 {
            return Some(after_window(now));
        }
        let at = after_window(self.nth_latest(allowed)?);
        (at > now).then_some(at)
    }

    /// Maximum number of requests in a window that ends at `now`.
    pub fn live(&self, now: Ms) -> u64 {
        let live = self.entries.iter().filter(|&&(at, _)| after_window(at) > now);
        live.fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// The time at which the window with our latest `used` requests has certainly ended. If fewer
    /// are known, that of the oldest known one, which is later.
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

    fn merge_closest(&mut self) {
        if self.entries.len() < MAX_ENTRIES {
            return;
        }
        // The requests of an entry arrived after the entry before it.
        let times = self.entries.iter().map(|&(at, _)| at);
        let spans = times.clone().skip(2).zip(times).map(|(end, start)| end.saturating_sub(start));
        let closest = spans.enumerate().min_by_key(|&(_, span)| span).map(|(first, _)| first + 1);
        if let Some((_, count)) = closest.and_then(|first| self.entries.remove(first))
            && let Some(later) = closest.and_then(|first| self.entries.get_mut(first))
        {
            later.1 = later.1.saturating_add(count);
        }
    }
}

fn after_window(at: Ms) -> Ms {
    at.saturating_add(WINDOW + MARGIN)
}
