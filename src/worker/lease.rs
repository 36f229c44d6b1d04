//! The time for which a worker may go on with an activity: until Temporal would give it to another
//! worker. After that no further request is sent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, ClockReading, SleepOutcome, Timestamp};

/// Waits are divided into parts of this length, so that they end soon after the lease.
const PART: Duration = Duration::from_secs(1);

/// Why an activity must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// Temporal confirmed no heartbeat within the time-out, and may give the activity to another
    /// worker.
    Expired,
    /// Temporal has given the activity to another worker, or does not know it because its database
    /// was lost.
    Withdrawn,
    /// A person cancelled the backup.
    Cancelled,
}

impl LeaseEnd {
    /// Whether another worker may have the account now, so that this one puts nothing more.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::Expired | Self::Withdrawn)
    }
}

/// The lease of one activity.
pub struct Lease {
    clock: Arc<dyn Clock>,
    /// How long Temporal waits for a heartbeat.
    timeout: Duration,
    state: Mutex<State>,
}

struct State {
    /// When the newest heartbeat that Temporal confirmed was sent.
    renewed: ClockReading,
    ended: Option<LeaseEnd>,
}

impl Lease {
    /// A lease that begins now and lasts for `timeout` after each renewal.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        let state = State { renewed: ClockReading::now(&*clock), ended: None };
        Self { clock, timeout, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that Temporal confirmed a heartbeat that was sent at `sent`. A lease that has ended
    /// stays so.
    pub fn renew(&self, sent: ClockReading) {
        if self.end().is_none() {
            self.state().renewed = sent;
        }
    }

    /// Ends the lease.
    pub fn stop(&self, why: LeaseEnd) {
        self.state().ended.get_or_insert(why);
    }

    /// Why the lease has ended; `None` while it lasts.
    #[must_use]
    pub fn end(&self) -> Option<LeaseEnd> {
        let mut state = self.state();
        if state.ended.is_none() && state.renewed.age(&*self.clock) >= self.timeout {
            state.ended = Some(LeaseEnd::Expired);
        }
        state.ended
    }
}

/// A clock that is interrupted when the lease ends, too.
pub struct LeasedClock {
    clock: Arc<dyn Clock>,
    lease: Arc<Lease>,
}

impl LeasedClock {
    /// The clock of the activity with this lease.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, lease: Arc<Lease>) -> Self {
        Self { clock, lease }
    }
}

impl Clock for LeasedClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn sleep(&self, time: Duration) -> SleepOutcome {
        let mut left = time;
        while !self.interrupted() {
            if left.is_zero() {
                return SleepOutcome::Finished;
            }
            let part = left.min(PART);
            if self.clock.sleep(part) == SleepOutcome::Interrupted {
                return SleepOutcome::Interrupted;
            }
            left -= part;
        }
        SleepOutcome::Interrupted
    }

    fn interrupted(&self) -> bool {
        self.clock.interrupted() || self.lease.end().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimulatedClock;

    const MINUTE: Duration = Duration::from_secs(60);

    fn leased() -> (Arc<SimulatedClock>, Arc<Lease>, LeasedClock) {
        let clock = Arc::new(SimulatedClock::new(Timestamp(0)));
        let lease = Arc::new(Lease::new(Arc::clone(&clock) as _, MINUTE));
        let leased = LeasedClock::new(Arc::clone(&clock) as _, Arc::clone(&lease));
        (clock, lease, leased)
    }

    #[test]
    fn a_worker_that_was_stopped_for_longer_than_the_timeout_sends_nothing_more() {
        let (clock, lease, leased) = leased();
        assert!(!leased.interrupted());
        clock.sleep(MINUTE);
        assert!(leased.interrupted());
        // A late confirmation does not bring the lease back.
        lease.renew(ClockReading::now(&*clock));
        assert_eq!(lease.end(), Some(LeaseEnd::Expired));
    }

    #[test]
    fn a_lease_counts_from_the_sending_of_the_heartbeat() {
        let (clock, lease, leased) = leased();
        let sent = ClockReading::now(&*clock);
        clock.sleep(MINUTE / 2);
        lease.renew(sent);
        clock.sleep(MINUTE / 2);
        assert!(leased.interrupted());
    }

    #[test]
    fn a_long_wait_ends_with_the_lease() {
        let (clock, _, leased) = leased();
        assert_eq!(leased.sleep(10 * MINUTE), SleepOutcome::Interrupted);
        assert_eq!(clock.monotonic(), MINUTE);
    }

    #[test]
    fn a_renewed_lease_lets_a_wait_finish() {
        let (clock, lease, leased) = leased();
        assert_eq!(leased.sleep(MINUTE / 2), SleepOutcome::Finished);
        lease.renew(ClockReading::now(&*clock));
        assert_eq!(leased.sleep(MINUTE / 2), SleepOutcome::Finished);
        assert!(!leased.interrupted());
    }

    #[test]
    fn the_first_reason_counts() {
        let (_, lease, leased) = leased();
        lease.stop(LeaseEnd::Cancelled);
        lease.stop(LeaseEnd::Withdrawn);
        assert_eq!(lease.end(), Some(LeaseEnd::Cancelled));
        assert!(leased.interrupted());
    }
}
