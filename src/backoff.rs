//! Exponential back-off.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

/// Endless delays: `first`, then each twice the one before, at most `longest`.
pub fn doubling(first: Duration, longest: Duration) -> impl Iterator<Item = Duration> + use<> {
    let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest);
    delays.without_max_times().build()
}
