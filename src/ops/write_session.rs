//! The session of a writing command: a locked account with client and vault.

use std::sync::Arc;
use std::time::Duration;

use super::Env;
use super::account_session::{AccountSession, SessionLimits, lock_command};
use super::error_sources::lock_timeout_error;
use super::observation::{Observation, observe_aside, observe_into};
use super::{NextStep, OpError, OpErrorKind};
use crate::clock::Clock;
use crate::config::AccountConfig;
use crate::model::Resource;
use crate::progress::{NoProgress, Progress};
use crate::vault::Vault;
use crate::vault::lock::{Lock, LockCommand, LockPurpose};

/// A locked account, with everything needed to write to it.
pub struct WriteSession<'a> {
    /// The environment of the operation.
    pub env: &'a Env,
    /// The account to change.
    pub account: &'a AccountConfig,
    /// The client of the account, with its lock.
    pub session: AccountSession,
    /// The vault of the account, or in a rehearsal a copy of it.
    pub vault: Vault,
    /// Receives the progress of the run.
    pub progress: Arc<dyn Progress + Send + Sync>,
    /// The clock of the run; simulated in a rehearsal.
    pub clock: Arc<dyn Clock>,
    /// `None` in a rehearsal, which writes to a sandbox and a copy of the vault.
    writes: Option<WriteLock>,
}

/// A lock by service and account id. It prevents other processes from writing to the same account
/// under another configured name. Taken when the account's id is known.
struct WriteLock {
    held: Option<Lock>,
    command: LockCommand,
    timeout: Duration,
}

impl WriteLock {
    fn take(&mut self, env: &Env, service: &str, id: i64) -> Result<(), OpError> {
        if self.held.is_none() {
            let file = env.home()?.writes_file(service, id);
            let lock = Lock::take(&file, &self.command, self.timeout, &*env.clock);
            self.held = Some(lock.map_err(lock_timeout_error)?);
        }
        Ok(())
    }
}

impl<'a> WriteSession<'a> {
    /// Locks `account` for `command` and opens its vault.
    ///
    /// # Errors
    /// If another process holds the lock, the key cannot be read, or the URL is not allowed.
    pub fn open(
        env: &'a Env,
        account: &'a AccountConfig,
        command: &str,
        bounds: &SessionLimits,
    ) -> Result<Self, OpError> {
        let progress = env.progress(&account.name);
        let words =
            LockCommand { purpose: LockPurpose::Run, ..lock_command(command, &account.name) };
        let session = AccountSession::open(env, account, &words, bounds, Arc::clone(&progress))?;
        let vault = env.open_vault(account)?;
        let clock = Arc::clone(&env.clock);
        let timeout = bounds.lock_timeout.unwrap_or_default();
        let mut writes = WriteLock { held: None, command: words, timeout };
        if let Some(identity) = vault.identity()? {
            writes.take(env, &session.service, identity.account)?;
        }
        Ok(Self { env, account, session, vault, progress, clock, writes: Some(writes) })
    }

    /// A session for a rehearsal, without locks: `session` leads to a sandbox, `vault` is a copy,
    /// and `clock` is simulated.
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

    /// Reads the resources `which` into a new snapshot, with which a run can begin; with `aside`,
    /// without storing anything in the vault.
    ///
    /// # Errors
    /// If a resource cannot be read completely, the vault belongs to another account, or another
    /// process writes to the account under another name.
    pub fn observe(&mut self, which: &[Resource], aside: bool) -> Result<Observation, OpError> {
        let observation = self.observe_unlocked(which, aside)?;
        if let (Some(id), Some(writes)) = (observation.account_id, &mut self.writes) {
            let taken = writes.take(self.env, &self.session.service, id);
            taken.map_err(|failure| self.discard_after(&observation, failure))?;
        }
        Ok(observation)
    }

    fn observe_unlocked(
        &mut self,
        which: &[Resource],
        aside: bool,
    ) -> Result<Observation, OpError> {
        let Self { account, session, vault, progress, clock, .. } = self;
        let observation = if aside {
            observe_aside(&**clock, account, session, Some(vault), &**progress, which)
        } else {
            observe_into(&**clock, account, session, vault, &**progress, which)
        };
        progress.pause();
        observation
    }

    /// Forgets the snapshot of an observation without a run, so that the list of snapshots has only
    /// requested ones.
    pub fn discard_observation(&mut self, observation: &Observation) -> Result<(), OpError> {
        if observation.kept {
            self.vault.forget(&[observation.snapshot], self.clock.now())?;
        }
        Ok(())
    }

    /// Like [`Self::discard_observation`] after a failure. Returns `failure`, even if discarding
    /// fails too.
    #[must_use]
    pub fn discard_after(&mut self, observation: &Observation, failure: OpError) -> OpError {
        let _ = self.discard_observation(observation);
        failure
    }

    /// Refuses to begin a run while another one is not finished.
    ///
    /// # Errors
    /// If a run is not finished; with its number, and a hint how to resume it.
    pub fn require_no_open_run(&self) -> Result<(), OpError> {
        let Some(run) = self.vault.unfinished_run()? else { return Ok(()) };
        let name = &self.account.name;
        let message = format!("run {} of {name} is not finished", run.number);
        let next = NextStep::ResumeOrShowRun { account: name.clone(), run: run.number };
        Err(OpError::new(OpErrorKind::Failed, message).next(next))
    }
}
