//! When changes that are committed together must be committed.

use std::time::Duration;

use crate::clock::Timestamp;

/// Age of a batch, and cost of its requests, at which it is committed.
const MAX: Duration = Duration::from_millis(100);

/// Changes that are committed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    /// When it began.
    pub begun: Timestamp,
    /// How much later the crawl would end if its requests were repeated after a crash.
    pub cost: Duration,
}

impl Batch {
    /// A batch of changes that cost no requests.
    pub const fn free(begun: Timestamp) -> Self {
        Self { begun, cost: Duration::ZERO }
    }

    /// This batch with the changes of a later one.
    pub const fn plus(self, later: Self) -> Self {
        Self { cost: self.cost.saturating_add(later.cost), ..self }
    }

    /// Whether it must be committed at `now`, also if the clock was set back.
    pub fn is_due(self, now: Timestamp) -> bool {
        let age = u64::try_from(now.0.saturating_sub(self.begun.0)).map(Duration::from_millis);
        age.map_or(true, |age| age >= MAX) || self.cost >= MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_committed_at_an_age_at_a_cost_and_when_the_clock_was_set_back() {
        let cost = Duration::from_millis(60);
        let batch = Batch { begun: Timestamp(1000), cost };
        for (now, is_due) in [(999, true), (1000, false), (1099, false), (1100, true)] {
            assert_eq!(batch.is_due(Timestamp(now)), is_due, "{now}");
        }
        let free = Batch::free(Timestamp(1050));
        assert_eq!(batch.plus(free), batch);
        let two = free.plus(batch).plus(batch);
        assert_eq!(two.begun, Timestamp(1050));
        assert!(two.is_due(Timestamp(1050)));
    }
}
