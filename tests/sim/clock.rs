//! Time that passes only when somebody waits.

use std::sync::Mutex;
use std::time::Duration;

use linkvault::clock::{Clock, Slept, Timestamp};

/// 2026-11-01T00:00:00Z.
pub const BEGIN: i64 = 1_793_491_200_000;

/// Stands still unless it is slept on.
#[derive(Default)]
pub struct SimClock(Mutex<Duration>);

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp(BEGIN).plus(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, time: Duration) -> Slept {
        *self.0.lock().unwrap() += time;
        Slept::Whole
    }

    fn interrupted(&self) -> bool {
        false
    }
}
