//! Values that are read from other machines on threads of their own: a page waits for them only for a
//! limited time, and one thread at a time reads each of them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, ClockReading};

/// A value that is read again when it is asked for and is too old.
pub struct Refreshed<T> {
    clock: Arc<dyn Clock>,
    state: Mutex<RefreshState<T>>,
    ended: Condvar,
}

struct RefreshState<T> {
    /// When the reading under way began.
    begun: Option<ClockReading>,
    /// When the last reading ended, and its value.
    last: Option<(ClockReading, Arc<T>)>,
}

/// What is known of a value.
pub struct RefreshedValue<T> {
    /// The value that was read last.
    pub last: Option<Arc<T>>,
    /// For how long a newer one has been read by now.
    pub under_way: Option<Duration>,
}

/// How a value is read again.
#[derive(Debug, Clone, Copy)]
pub struct RefreshRule {
    /// A value of this age is read again.
    pub fresh: Duration,
    /// How long a reading is waited for, from its beginning.
    pub wait: Duration,
}

impl<T: Send + Sync + 'static> Refreshed<T> {
    /// A value that was read now, or was not read yet.
    pub fn new(clock: Arc<dyn Clock>, value: Option<T>) -> Arc<Self> {
        let last = value.map(|value| (ClockReading::now(&*clock), Arc::new(value)));
        let state = Mutex::new(RefreshState { begun: None, last });
        Arc::new(Self { clock, state, ended: Condvar::new() })
    }

    /// The value, if it is not older than `fresh`.
    pub fn fresh(&self, fresh: Duration) -> Option<Arc<T>> {
        let state = self.state();
        let last = state.last.as_ref().filter(|(ended, _)| ended.age(&*self.clock) < fresh);
        last.map(|(_, value)| Arc::clone(value))
    }

    /// The value that was read last.
    pub fn last(&self) -> Option<Arc<T>> {
        value_of(&self.state())
    }

    /// The value. If it is too old and no thread reads it, a new thread calls `read` with the last one.
    pub fn get(
        self: &Arc<Self>,
        rule: RefreshRule,
        read: impl FnOnce(Option<Arc<T>>) -> T + Send + 'static,
    ) -> RefreshedValue<T> {
        let is_fresh = self.fresh(rule.fresh).is_some();
        let mut state = self.state();
        if state.begun.is_none() && !is_fresh {
            self.start(&mut state, read);
        }
        let begun = state.begun.map_or(Duration::ZERO, |begun| begun.age(&*self.clock));
        let wait = rule.wait.saturating_sub(begun);
        let waited = self.ended.wait_timeout_while(state, wait, |it| it.begun.is_some());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        RefreshedValue {
            last: value_of(&state),
            under_way: state.begun.map(|begun| begun.age(&*self.clock)),
        }
    }

    fn start(
        self: &Arc<Self>,
        state: &mut RefreshState<T>,
        read: impl FnOnce(Option<Arc<T>>) -> T + Send + 'static,
    ) {
        let last = value_of(state);
        let reading = Reading(Arc::clone(self));
        let thread = std::thread::Builder::new().name("refresh".to_owned());
        state.begun = Some(ClockReading::now(&*self.clock));
        let started = thread.spawn(move || {
            let reading = reading;
            let value = Arc::new(read(last));
            let ended = ClockReading::now(&*reading.0.clock);
            reading.0.state().last = Some((ended, value));
        });
        if started.is_err() {
            state.begun = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, RefreshState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn value_of<T>(state: &RefreshState<T>) -> Option<Arc<T>> {
    state.last.as_ref().map(|(_, value)| Arc::clone(value))
}

/// A reading under way. It ends when it is dropped, also if the thread panics.
struct Reading<T: Send + Sync + 'static>(Arc<Refreshed<T>>);

impl<T: Send + Sync + 'static> Drop for Reading<T> {
    fn drop(&mut self) {
        self.0.state().begun = None;
        self.0.ended.notify_all();
    }
}

/// A bound on the threads that work at the same time.
pub struct WorkSlots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A slot of [`WorkSlots`], which is free again when it is dropped.
pub struct WorkSlot(Arc<WorkSlots>);

impl WorkSlots {
    /// This number of slots.
    pub fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(slots), freed: Condvar::new() })
    }

    /// Takes a slot. `None` if none becomes free within `wait`.
    pub fn take(self: &Arc<Self>, wait: Duration) -> Option<WorkSlot> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_timeout_while(free, wait, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(WorkSlot(Arc::clone(self)))
    }
}

impl Drop for WorkSlot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;

    use super::*;
    use crate::clock::{SleepOutcome, Timestamp};

    /// A clock that tests move.
    #[derive(Default)]
    struct MovedClock(AtomicU64);

    impl MovedClock {
        fn pass(&self, seconds: u64) {
            self.0.fetch_add(seconds, Ordering::SeqCst);
        }
    }

    impl Clock for MovedClock {
        fn now(&self) -> Timestamp {
            Timestamp::default().plus(self.monotonic())
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::SeqCst))
        }

        fn sleep(&self, _time: Duration) -> SleepOutcome {
            SleepOutcome::Finished
        }

        fn interrupted(&self) -> bool {
            false
        }
    }

    const LONG: Duration = Duration::from_secs(3600);
    const RULE: RefreshRule = RefreshRule { fresh: Duration::from_secs(10), wait: LONG };
    const NO_WAIT: RefreshRule = RefreshRule { wait: Duration::ZERO, ..RULE };

    #[test]
    fn a_value_is_read_again_when_it_is_too_old() {
        let clock = Arc::new(MovedClock::default());
        let value = Refreshed::new(Arc::clone(&clock) as _, None);
        let next = |last: Option<Arc<u32>>| last.map_or(1, |last| *last + 1);
        let get = || *value.get(RULE, next).last.unwrap();
        assert_eq!((get(), get()), (1, 1));
        clock.pass(9);
        assert_eq!(get(), 1);
        clock.pass(1);
        assert!(value.fresh(RULE.fresh).is_none());
        assert_eq!((get(), get()), (2, 2));
        assert_eq!(value.fresh(RULE.fresh).as_deref(), Some(&2));
    }

    #[test]
    fn the_last_value_is_there_while_one_thread_reads_a_newer_one() {
        let clock = Arc::new(MovedClock::default());
        let value = Refreshed::new(Arc::clone(&clock) as _, Some(1));
        clock.pass(10);
        let (go_on, wait) = channel();
        let shown = value.get(NO_WAIT, move |_| wait.recv().unwrap());
        assert_eq!((shown.last.as_deref(), shown.under_way), (Some(&1), Some(Duration::ZERO)));
        clock.pass(3600);
        // No second thread reads it, and the time to wait counts from the beginning.
        let shown = value.get(RULE, |_| 99);
        assert_eq!((shown.last.as_deref(), shown.under_way), (Some(&1), Some(LONG)));
        go_on.send(2).unwrap();
        let longer = RefreshRule { wait: 2 * LONG, ..RULE };
        assert_eq!(value.get(longer, |_| 99).last.as_deref(), Some(&2));
    }

    #[test]
    fn a_reading_that_panics_ends() {
        let clock: Arc<dyn Clock> = Arc::new(MovedClock::default());
        let value = Refreshed::<u32>::new(clock, None);
        let shown = value.get(RULE, |_| panic!("a defect"));
        assert!(shown.last.is_none() && shown.under_way.is_none());
        assert_eq!(value.get(RULE, |_| 3).last.as_deref(), Some(&3));
    }

    #[test]
    fn slots_are_free_again_when_they_are_dropped() {
        let slots = WorkSlots::new(2);
        let taken = [slots.take(Duration::ZERO), slots.take(Duration::ZERO)];
        assert!(taken.iter().all(Option::is_some) && slots.take(Duration::ZERO).is_none());
        drop(taken);
        assert!(slots.take(Duration::ZERO).is_some());
    }
}
