//! The journal of a vault that lives in an object store. The store has each step marked as sent before
//! its request is sent, together with the steps after it. So on another machine the steps that the
//! lost one may have sent are those that its process may have sent after `kill -9`: they are looked up
//! in the same way.

use crate::api::error::{ApiError, ApiErrorKind};
use crate::api::http::Method;
use crate::apply::error::ApplyError;
use crate::apply::journal_step::StepRun;
use crate::apply::runner::{MAX_READS, PlanRunner};
use crate::apply::step_run::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::backoff::doubling;
use crate::clock::SleepOutcome;
use crate::model::Verb;
use crate::progress::Event;
use crate::vault::checkpoints::CheckpointError;
use crate::vault::journal::StepState;
use crate::vault::{Vault, VaultError};

/// How often a put that failed is repeated.
const MAX_REPEATS: usize = 4;

impl PlanRunner<'_> {
    /// Whether the journal must be put before the marked `nth` step is sent: this process has not put
    /// it, or a checkpoint is due.
    pub fn is_journal_due(&self, nth: usize) -> bool {
        self.vault.has_checkpoints()
            && self.all[nth].state == StepState::Sent
            && (!self.stored || self.vault.is_checkpoint_due())
    }

    /// Puts the vault with the journal into its store.
    ///
    /// # Errors
    /// [`ApplyError::NotStored`]: nothing may be sent.
    pub fn put_journal(&mut self) -> Result<(), ApplyError> {
        self.ask_store(Vault::make_checkpoint)?;
        self.stored = true;
        Ok(())
    }

    /// Asks the store whether another machine works on the account.
    ///
    /// # Errors
    /// As [`Self::put_journal`].
    pub fn confirm_newest(&mut self) -> Result<(), ApplyError> {
        self.ask_store(Vault::confirm_newest)
    }

    fn ask_store(
        &mut self,
        ask: impl Fn(&mut Vault) -> Result<(), VaultError>,
    ) -> Result<(), ApplyError> {
        let mut pauses = doubling(FIRST_PAUSE, LONGEST_PAUSE).take(MAX_REPEATS);
        loop {
            let error = match ask(self.vault) {
                Err(VaultError::Checkpoint(error)) => error,
                done => return Ok(done?),
            };
            let Some(pause) = pauses.next().filter(|_| !error.is_lost) else {
                return Err(self.not_stored(error));
            };
            let text = format!("{error}; trying again");
            self.progress.event(&Event::Warning { text: &text });
            if self.pause(pause) == SleepOutcome::Interrupted {
                let source = ApiError::new(ApiErrorKind::Interrupted, Method::Put, "");
                return Err(ApplyError::Stopped { run: self.run, source });
            }
        }
    }

    /// The error for a store that does not have the journal.
    pub fn not_stored(&self, source: CheckpointError) -> ApplyError {
        let may_be_sent = |work: &StepRun| work.may_have_run || work.state == StepState::Done;
        let wrote = self.wrote || self.all.iter().any(may_be_sent);
        ApplyError::NotStored { run: self.run, wrote, source }
    }

    /// Checks again after a put, which took time, whether the `nth` step can be sent. If it cannot, it
    /// is closed, or planned again.
    pub fn prepare_stored(&mut self, nth: usize) -> Result<bool, ApplyError> {
        if !self.prepare(nth)? {
            return Ok(false);
        }
        let StepRun { step, sent, .. } = &self.all[nth];
        if step.verb != Verb::Create || step.resource.spec().shows_key() {
            return Ok(true);
        }
        let (resource, now) = (step.resource, self.clock.now());
        let is_known = self.known.get(&resource).is_some_and(|known| {
            known.is_fresh(now) && sent.is_some_and(|sent| known.is_fresh(sent))
        });
        if !is_known {
            self.intended.remove(&nth);
            self.set_planned(&[nth])?;
            self.slow_puts += 1;
            if self.slow_puts >= MAX_READS {
                let why = "its vault takes too long to put into the store".to_owned();
                return Err(ApplyError::OutcomeUnreadable { run: self.run, resource, why });
            }
        } else {
            self.slow_puts = 0;
        }
        Ok(is_known)
    }
}
