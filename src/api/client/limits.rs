//! How often, how long and how far: the numbers that bound a client.

use std::time::Duration;

use crate::backoff::doubling;

/// How reads are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a read is repeated after the first try.
    pub retries: usize,
    /// The first delay; each further one is twice as long.
    pub first_delay: Duration,
    /// No delay is longer, jitter aside.
    pub longest_delay: Duration,
    /// How many refusals for the limit in a row are waited out.
    pub throttled: u32,
    /// A service that asks for a longer wait is given up.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 4,
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(30),
            throttled: 5,
            longest_wait: Duration::from_secs(3600),
        }
    }
}

impl RetryPolicy {
    /// The delays before each repeat, without jitter.
    pub(super) fn delays(&self, retries: Option<usize>) -> impl Iterator<Item = Duration> + use<> {
        doubling(self.first_delay, self.longest_delay).take(retries.unwrap_or(self.retries))
    }
}

/// The bounds of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Time from the client's making. No wait that would end later is begun.
    pub max_duration: Option<Duration>,
    /// Requests that may leave.
    pub max_requests: Option<u64>,
    /// Records of one list, for those who read lists.
    pub max_records: Option<u64>,
    /// Bytes of one list.
    pub max_bytes: Option<u64>,
}

/// What one read may do differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// How often this read is repeated; `None` leaves it to the policy.
    pub retries: Option<usize>,
}
