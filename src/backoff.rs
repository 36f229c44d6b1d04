//! Delays between repeats: each is twice as long as the one before.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

/// Delays without end: `first`, then each twice as long, up to `longest`.
pub fn doubling(first: Duration, longest: Duration) -> impl Iterator<Item = Duration> + use<> {
    let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest);
    delays.without_max_times().build()
}
