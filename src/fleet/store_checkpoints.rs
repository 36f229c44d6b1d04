//! Puts a vault into its store while this process has it open and locked.

use std::sync::Arc;
use std::time::Duration;

use super::error::{StoreError, StoreErrorKind};
use super::vault_store::VaultStore;
use crate::clock::{Clock, ClockReading};
use crate::vault::checkpoints::{CheckpointError, Checkpoints};

/// Puts take at most one in this number of parts of the time.
const PUT_SHARE: u32 = 10;

/// For this time, what the store had is taken for what it has.
const CONFIRMED: Duration = Duration::from_secs(10);

/// What the checkpoints of one vault report.
pub trait CheckpointEvents: Send {
    /// The text of an error of the store.
    fn text(&self, error: &StoreError) -> String;

    /// A checkpoint failed, and the work goes on.
    fn postponed(&self, text: &str);
}

/// Checkpoints of a vault in its store.
pub struct StoreCheckpoints {
    store: VaultStore,
    clock: Arc<dyn Clock>,
    every: Duration,
    events: Box<dyn CheckpointEvents>,
    /// When the last one began.
    last: ClockReading,
    /// How long it took.
    took: Duration,
    /// When the store was last asked for its newest vault.
    confirmed: ClockReading,
}

impl StoreCheckpoints {
    /// Checkpoints in `store`, which was just fetched from, `every` so often. If a put takes longer
    /// than a tenth of that, they are less frequent.
    #[must_use]
    pub fn new(
        store: VaultStore,
        clock: Arc<dyn Clock>,
        every: Duration,
        events: Box<dyn CheckpointEvents>,
    ) -> Self {
        let last = ClockReading::now(&*clock);
        Self { store, clock, every, events, last, took: Duration::ZERO, confirmed: last }
    }

    fn explain(&self, error: &StoreError) -> CheckpointError {
        let is_lost = error.kind == StoreErrorKind::Lost;
        CheckpointError { is_lost, what: self.events.text(error) }
    }
}

impl Checkpoints for StoreCheckpoints {
    fn is_due(&self) -> bool {
        if self.clock.interrupted() {
            // The work ends. The vault is put after it, if this process may still do so.
            return false;
        }
        let every = self.every.max(self.took.saturating_mul(PUT_SHARE));
        self.last.age(&*self.clock) >= every
    }

    fn put(&mut self) -> Result<(), CheckpointError> {
        self.last = ClockReading::now(&*self.clock);
        let put = self.store.put_open();
        self.took = self.last.age(&*self.clock);
        put.map_err(|error| self.explain(&error))?;
        self.confirmed = self.last;
        Ok(())
    }

    fn is_unconfirmed(&self) -> bool {
        self.confirmed.age(&*self.clock) > CONFIRMED
    }

    fn confirm(&mut self) -> Result<(), CheckpointError> {
        let asked = ClockReading::now(&*self.clock);
        self.store.confirm().map_err(|error| self.explain(&error))?;
        self.confirmed = asked;
        Ok(())
    }

    fn postpone(&mut self, error: &CheckpointError) {
        self.events.postponed(&error.what);
    }
}
