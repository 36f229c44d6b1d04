//! An account that is locked and ready to be written to.

use std::sync::Arc;
use std::time::Duration;

use super::Env;
use super::account_session::{AccountSession, SessionLimits, lock_command};
use super::observation::{Observation, observe_aside, observe_into};
use super::{NextStep, OpError, OpErrorKind};
use crate::clock::Clock;
use crate::config::AccountConfig;
use crate::model::Resource;
use crate::progress::{NoProgress, Progress};
use crate::vault::Vault;
use crate::vault::lock::{Lock, LockCommand};

/// One account, locked and ready to be written to.
pub struct WriteSession<'a> {
    pub env: &'a Env,
    pub account: &'a AccountConfig,
    pub session: AccountSession,
    pub vault: Vault,
    pub progress: Arc<dyn Progress + Send + Sync>,
    /// The clock that the run goes by.
    pub clock: Arc<dyn Clock>,
    /// `None` where the service is one of our own, and the vault a copy.
    writes: Option<WriteLock>,
}

/// Keeps other processes from writing to the account by another of its names, from when
/// the account's id is known.
struct WriteLock {
    held: Option<Lock>,
    command: LockCommand,
    patience: Duration,
}

impl WriteLock {
    fn take(&mut self, env: &Env, service: &str, id: i64) -> Result<(), OpError> {
        if self.held.is_none() {
            let file = env.home()?.writes_file(service, id);
            self.held = Some(Lock::take(&file, &self.command, self.patience, &*env.clock)?);
        }
        Ok(())
    }
}

impl<'a> WriteSession<'a> {
    /// Locks `account` for `command` and opens its vault.
    ///
    /// # Errors
    /// When it is locked, or its key or vault cannot be had.
    pub fn open(
        env: &'a Env,
        account: &'a AccountConfig,
        command: &str,
        bounds: &SessionLimits,
    ) -> Result<Self, OpError> {
        let progress = env.progress(&account.name);
        let words = lock_command(command, &account.name);
        let session = AccountSession::open(env, account, &words, bounds, Arc::clone(&progress))?;
        let vault = Vault::open_or_create(&account.vault)?;
        let clock = Arc::clone(&env.clock);
        let patience = bounds.lock_timeout.unwrap_or_default();
        let mut writes = WriteLock { held: None, command: words, patience };
        if let Some(identity) = vault.identity()? {
            writes.take(env, &session.service, identity.account)?;
        }
        Ok(Self { env, account, session, vault, progress, clock, writes: Some(writes) })
    }

    /// A copy of an account that is in no other process's reach: `session` reaches a
    /// service of our own, and `clock` is simulated.
    #[must_use]
    pub fn of_copy(
        env: &'a Env,
        account: &'a AccountConfig,
        session: AccountSession,
        vault: Vault,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let progress = Arc::new(NoProgress);
        Self { env, account, session, vault, progress, clock, writes: None }
    }

    /// Looks at what is there: by a snapshot that a run begins with, or without
    /// leaving a trace.
    ///
    /// # Errors
    /// When what is needed cannot be read whole.
    pub fn observe(&mut self, which: &[Resource], aside: bool) -> Result<Observation, OpError> {
        let looked = self.observe_unlocked(which, aside)?;
        if let (Some(id), Some(writes)) = (looked.account_id, &mut self.writes) {
            let taken = writes.take(self.env, &self.session.service, id);
            taken.map_err(|failure| self.discard_after(&looked, failure))?;
        }
        Ok(looked)
    }

    fn observe_unlocked(
        &mut self,
        which: &[Resource],
        aside: bool,
    ) -> Result<Observation, OpError> {
        let Self { account, session, vault, progress, clock, .. } = self;
        let looked = if aside {
            observe_aside(&**clock, account, session, Some(vault), &**progress, which)
        } else {
            observe_into(&**clock, account, session, vault, &**progress, which)
        };
        progress.pause();
        looked
    }

    /// Lets go of a look that no run came of: a snapshot that was not asked for
    /// would stand between the others.
    pub fn discard_observation(&mut self, looked: &Observation) -> Result<(), OpError> {
        if looked.kept {
            self.vault.forget(&[looked.snapshot], self.clock.now())?;
        }
        Ok(())
    }

    /// The same on the way out with `failure`, which outweighs others.
    #[must_use]
    pub fn discard_after(&mut self, looked: &Observation, failure: OpError) -> OpError {
        let _ = self.discard_observation(looked);
        failure
    }

    /// Refuses to begin a run while another one is not finished.
    ///
    /// # Errors
    /// With the run's number, and how to go on with it.
    pub fn require_no_open_run(&self) -> Result<(), OpError> {
        let Some(run) = self.vault.unfinished_run()? else { return Ok(()) };
        let name = &self.account.name;
        let message = format!("run {} of {name} is not finished", run.number);
        let next = NextStep::ResumeOrShowRun { account: name.clone(), run: run.number };
        Err(OpError::new(OpErrorKind::Failed, message).next(next))
    }
}
