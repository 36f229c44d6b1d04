//! The program's only source of time. Code that reads the time or waits takes a
//! [`Clock`]; nothing else in the program may read the time or sleep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z by the machine's wall clock.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The same instant as a calendar date in UTC; `None` outside chrono's range.
    #[must_use]
    pub fn utc(self) -> Option<chrono::DateTime<chrono::Utc>> {
        chrono::DateTime::from_timestamp_millis(self.0)
    }

    /// `2026-11-20T12:31:25Z`, to the second.
    #[must_use]
    pub fn iso(self) -> String {
        self.utc().map_or_else(
            || format!("{} ms", self.0),
            |time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
        )
    }

    /// This instant moved forward by `by`.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The time from `earlier` until this instant; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A moment by both clocks. The monotonic clock may stop while the machine sleeps; the wall
/// clock may be set back.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    steady: Duration,
    wall: Timestamp,
}

impl ClockReading {
    /// This moment by both clocks.
    #[must_use]
    pub fn now(clock: &dyn Clock) -> Self {
        Self { steady: clock.monotonic(), wall: clock.now() }
    }

    /// The moment at which the wall clock showed `wall`.
    #[must_use]
    pub fn at(clock: &dyn Clock, wall: Timestamp) -> Self {
        let age = clock.now().since(wall);
        Self { steady: clock.monotonic().saturating_sub(age), wall }
    }

    /// The time since this moment, by the clock that shows the longer time.
    #[must_use]
    pub fn age(self, clock: &dyn Clock) -> Duration {
        let steady = clock.monotonic().saturating_sub(self.steady);
        steady.max(clock.now().since(self.wall))
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepOutcome {
    /// The whole time passed.
    Finished,
    /// The program was asked to stop; the wait ended early.
    Interrupted,
}

/// The program's only source of time.
pub trait Clock: Send + Sync {
    /// The wall clock. It may jump.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment. It never goes back.
    fn monotonic(&self) -> Duration;
    /// Waits for `time`, or until [`Clock::interrupted`] turns true.
    fn sleep(&self, time: Duration) -> SleepOutcome;
    /// Whether Ctrl-C or SIGTERM asked the program to stop.
    fn interrupted(&self) -> bool;
}

/// A request to stop, shared between the signal handler and the clock.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<(AtomicBool, Mutex<()>, Condvar)>);

impl Interrupt {
    /// Ends every wait on this interrupt.
    pub fn raise(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        let _guard = self.0.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.0.2.notify_all();
    }

    /// Whether [`Interrupt::raise`] was called.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }
}

/// Wakes a waiting thread, from any thread. If no thread waits, the next wait ends at once.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<(Mutex<bool>, Condvar)>);

impl Waker {
    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        *self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Waits for [`Waker::wake`], for at most `time`.
    pub fn wait(&self, time: Duration) {
        let (woken, condvar) = &*self.0;
        let guard = woken.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let waited = condvar.wait_timeout_while(guard, time, |woken| !*woken);
        *waited.unwrap_or_else(std::sync::PoisonError::into_inner).0 = false;
    }
}

/// The machine's own clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    interrupt: Interrupt,
}

#[allow(clippy::disallowed_methods)] // the only place that may
impl SystemClock {
    /// A clock whose waits end when `interrupt` is raised.
    #[must_use]
    pub fn new(interrupt: Interrupt) -> Self {
        Self { started: Instant::now(), interrupt }
    }
}

#[allow(clippy::disallowed_methods)] // the only place that may
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::default().plus(since)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, time: Duration) -> SleepOutcome {
        let (_, mutex, condvar) = &*self.interrupt.0;
        let guard = mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ended = condvar
            .wait_timeout_while(guard, time, |()| !self.interrupt.raised())
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.interrupt.raised() { SleepOutcome::Interrupted } else { SleepOutcome::Finished }
    }

    fn interrupted(&self) -> bool {
        self.interrupt.raised()
    }
}

/// Time that advances only in `sleep`, which returns at once. Months of simulated backups take
/// seconds, and so does the rehearsal of a long run.
#[derive(Debug)]
pub struct SimulatedClock {
    begin: Timestamp,
    passed: Mutex<Duration>,
}

impl SimulatedClock {
    /// A clock that shows `begin` until the first `sleep`.
    #[must_use]
    pub const fn new(begin: Timestamp) -> Self {
        Self { begin, passed: Mutex::new(Duration::ZERO) }
    }

    fn passed(&self) -> std::sync::MutexGuard<'_, Duration> {
        self.passed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        self.begin.plus(self.monotonic())
    }

    /// The sum of all sleeps.
    fn monotonic(&self) -> Duration {
        *self.passed()
    }

    fn sleep(&self, time: Duration) -> SleepOutcome {
        let mut passed = self.passed();
        *passed = passed.saturating_add(time);
        SleepOutcome::Finished
    }

    /// Always false: simulated waits take no time.
    fn interrupted(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_passes_only_by_sleeping() {
        let clock = SimulatedClock::new(Timestamp(5));
        assert_eq!((clock.now(), clock.monotonic()), (Timestamp(5), Duration::ZERO));
        assert_eq!(clock.sleep(Duration::from_secs(3600)), SleepOutcome::Finished);
        assert_eq!(clock.sleep(Duration::from_millis(1)), SleepOutcome::Finished);
        let passed = Duration::from_millis(3_600_001);
        assert_eq!((clock.now(), clock.monotonic()), (Timestamp(3_600_006), passed));
        assert!(!clock.interrupted());
        clock.sleep(Duration::MAX);
        assert_eq!(clock.monotonic(), Duration::MAX);
        assert_eq!(clock.now(), Timestamp(i64::MAX));
    }
}
