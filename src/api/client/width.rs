//! How many reads may be in flight. Plain data; the caller tells what happened to each read.

use std::collections::BTreeMap;
use std::time::Duration;

/// How many reads may be in flight: half as many when the service fails, one less when it gets
/// slower, and one more after a number of good responses. The reads that were in flight together
/// reduce it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Width {
    most: usize,
    now: usize,
    /// Good responses since the last change.
    good: usize,
    /// For each read in flight, this number of good responses raises the width. It grows with each
    /// failure, so that a service that cannot handle one more is rarely asked to.
    required: usize,
    /// Number of the last read that was sent when the width was reduced.
    reduced_at: u64,
    times: ResponseTimes,
}

impl Default for Width {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Width {
    pub const fn new(most: usize) -> Self {
        let times = ResponseTimes(BTreeMap::new());
        Self { most, now: most, good: 0, required: 1, reduced_at: 0, times }
    }

    /// How many reads may be in flight now.
    pub const fn get(&self) -> usize {
        self.now
    }

    /// The highest width.
    pub const fn most(&self) -> usize {
        self.most
    }

    /// A response to read number `id`, of this path and number of bytes, came after `time`. `sent`
    /// is the number of the last read that was sent.
    pub fn good(&mut self, id: u64, sent: u64, (path, bytes): (&str, usize), time: Duration) {
        if self.times.is_slow(path, bytes, time) {
            self.reduce(id, sent, self.now.saturating_sub(1));
            return;
        }
        self.good += 1;
        if self.now < self.most && self.good >= self.now * self.required {
            self.now += 1;
            self.good = 0;
        }
    }

    /// The service failed on read number `id`, or did not respond.
    pub fn failed(&mut self, id: u64, sent: u64) {
        const MAX_REQUIRED: usize = 64;
        if self.reduce(id, sent, self.now / 2) {
            self.required = (self.required * 4).min(MAX_REQUIRED);
        }
    }

    /// Returns whether the width was not yet reduced since read `id` was sent.
    fn reduce(&mut self, id: u64, sent: u64, to: usize) -> bool {
        self.good = 0;
        let is_first = id > self.reduced_at;
        if is_first {
            self.now = to.max(1);
            self.reduced_at = sent;
        }
        is_first
    }
}

/// The shortest time of a response of each list and size: a larger page takes longer, and so may
/// another list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ResponseTimes(BTreeMap<(String, u32), Duration>);

impl ResponseTimes {
    /// Whether a response took much longer than one of the same list which was not smaller. Numbers
    /// in paths do not count, so the items of all channels are of one list.
    fn is_slow(&mut self, path: &str, bytes: usize, time: Duration) -> bool {
        /// Times below this are not slow, whatever the shortest one was.
        const NEVER_SLOW: Duration = Duration::from_millis(500);
        let path = path.split('?').next().unwrap_or_default();
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let name = |part| if is_number(part) { "" } else { part };
        let list = path.split('/').map(name).collect::<Vec<_>>().join("/");
        let size = bytes.checked_ilog2().unwrap_or(0);
        let known = self.0.range((list.clone(), size)..=(list.clone(), u32::MAX));
        let shortest = known.map(|(_, time)| *time).min();
        let entry = self.0.entry((list, size)).or_insert(time);
        *entry = time.min(*entry);
        time > NEVER_SLOW && shortest.is_some_and(|shortest| time > shortest * 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// A width, and reads that are sent one at a time.
    struct Reads(Width, u64);

    impl Reads {
        fn good(&mut self, path: &str, bytes: usize, time: u64) -> usize {
            self.1 += 1;
            self.0.good(self.1, self.1, (path, bytes), ms(time));
            self.0.get()
        }

        fn failed(&mut self) -> usize {
            self.1 += 1;
            self.0.failed(self.1, self.1);
            self.0.get()
        }
    }

    #[test]
    fn slow_responses_reduce_the_reads_in_flight_and_good_ones_raise_them() {
        let mut reads = Reads(Width::new(4), 0);
        assert_eq!(reads.good("/api/qr?page=1", 900, 200), 4);
        for expected in [3, 2, 1, 1] {
            assert_eq!(reads.good("/api/qr?page=2", 900, 700), expected);
        }
        for expected in [2, 2, 3, 3, 3, 4, 4] {
            assert_eq!(reads.good("/api/qr?page=3", 900, 599), expected);
        }
    }

    #[test]
    fn after_each_failure_more_good_responses_are_needed_to_raise_the_width() {
        let mut reads = Reads(Width::new(4), 0);
        let mut until_raised = || {
            assert_eq!(reads.failed(), 2);
            (1..).find(|_| reads.good("/api/qr", 900, 200) == 4).unwrap()
        };
        let found: Vec<u64> = (0..4).map(|_| until_raised()).collect();
        assert_eq!(found, [20, 80, 320, 320]);
    }

    #[test]
    fn reads_that_were_in_flight_together_reduce_the_width_once() {
        let mut width = Width::new(8);
        for id in 1..=8 {
            width.failed(id, 8);
            assert_eq!(width.get(), 4);
        }
        width.good(3, 8, ("/api/qr", 900), ms(100));
        for id in [4, 9, 10] {
            width.good(id, 10, ("/api/qr", 900), ms(900));
        }
        assert_eq!(width.get(), 3);
    }

    #[test]
    fn a_response_is_slow_by_comparison_with_the_same_list_and_no_smaller_response() {
        let mut times = ResponseTimes::default();
        for (path, bytes, time, expected) in [
            ("/api/account", 229, 100, false),
            ("/api/qr?limit=1000&page=1", 300_000, 800, false),
            ("/api/qr?limit=1000&page=9", 20_000, 100, false),
            ("/api/qr?limit=1000&page=2", 300_000, 900, false),
            ("/api/qr?limit=1000&page=9", 20_000, 510, true),
            ("/api/qr?limit=1000&page=3", 300_000, 2_500, true),
            ("/api/qr/17", 900, 600, false),
            ("/api/channel/2?page=1", 900, 100, false),
            ("/api/channel/3?page=1", 900, 600, true),
            ("/api/channels?page=1", 900, 600, false),
        ] {
            assert_eq!(times.is_slow(path, bytes, ms(time)), expected, "{path}");
        }
    }
}
