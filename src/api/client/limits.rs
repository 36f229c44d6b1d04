//! The limits of a client: retries, waits, time, requests.

use std::time::Duration;

use crate::backoff::doubling;

/// How reads are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Number of retries of a read after the first attempt.
    pub retries: usize,
    /// The delay before the first retry; each further one is twice as long.
    pub first_delay: Duration,
    /// Maximum delay, without jitter.
    pub longest_delay: Duration,
    /// Number of consecutive rate-limit refusals after which a read is given up.
    pub throttled: u32,
    /// If the service asks for a longer wait, the request is given up.
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
    /// The delays before each retry, without jitter.
    pub(super) fn delays(&self, retries: Option<usize>) -> impl Iterator<Item = Duration> + use<> {
        doubling(self.first_delay, self.longest_delay).take(retries.unwrap_or(self.retries))
    }
}

/// The limits of one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Time since the creation of the client. A wait that would end later is not started.
    pub max_duration: Option<Duration>,
    /// Number of requests.
    pub max_requests: Option<u64>,
    /// Number of records of one list; checked by the crawler.
    pub max_records: Option<u64>,
    /// Size of one list in bytes; checked by the crawler.
    pub max_bytes: Option<u64>,
    /// Number of reads that may overlap; 0 or 1 for one at a time.
    pub max_in_flight: usize,
}

/// Options of one read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Number of retries of this read; `None` for that of the [`RetryPolicy`].
    pub retries: Option<usize>,
}
