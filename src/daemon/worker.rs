//! The work of the daemon for an account: a backup without a terminal, the work after it, and its
//! alerts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::main_loop::write_local_state;
use super::{AccountStatus, FinishedBackup, PendingAlerts, Worker};
use crate::config::{AccountConfig, Config, DaemonSettings, key_variables};
use crate::escaped::Escaped;
use crate::files::{FileStamp, beside};
use crate::health::attempt::{AttemptOutcome, BackupAttempt, VaultSummary};
use crate::health::pending_alerts::CircuitBreaker;
use crate::health::persisted_state::PersistedState;
use crate::health::scheduled_account::ScheduledAccount;
use crate::ops::account_session::SessionLimits;
use crate::ops::account_state::{apply_status, deliver_shared, write_state};
use crate::ops::alert_delivery::deliver_pending;
use crate::ops::backup::{BackupRequest, attempt_backup};
use crate::ops::backup_attempts::attempt_of_error;
use crate::ops::log_progress::LogProgress;
use crate::ops::post_backup::post_backup;
use crate::ops::status::scheduled_accounts;
use crate::ops::vault_summary::vault_summary;
use crate::ops::{Env, OpError, OpErrorKind};
use crate::vault::snapshot::RequestUsage;

/// With `--once`: how long to wait for the lock of an account.
const ONCE_LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// Without `--once`: shorter, since the account is tried again soon.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The [`Worker`] of the real daemon.
pub struct DaemonWorker {
    env: Arc<Env>,
    /// The configuration as it was last read.
    config: RwLock<Option<Arc<Config>>>,
    /// Whether backups start exactly at their slot: for `--once`, which an external scheduler
    /// starts.
    punctual: bool,
    /// Distinct results of backups and the work after them: whether complete, or the error.
    results: Mutex<Vec<Result<bool, OpErrorKind>>>,
    breaker: CircuitBreaker,
    /// Stamps of the vaults at the last [`Worker::vault_summary_if_changed`].
    seen: Mutex<BTreeMap<String, [Option<FileStamp>; 2]>>,
}

impl DaemonWorker {
    /// `punctual` starts each backup exactly at its slot.
    #[must_use]
    pub fn new(env: &Arc<Env>, punctual: bool) -> Self {
        let (config, results) = (RwLock::default(), Mutex::default());
        let (breaker, seen) = (CircuitBreaker::default(), Mutex::default());
        Self { env: Arc::clone(env), config, punctual, results, breaker, seen }
    }

    /// The distinct results so far of backups and the work after them: whether all was done, or
    /// why it failed.
    #[must_use]
    pub fn results(&self) -> Vec<Result<bool, OpErrorKind>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add_result(&self, result: Result<bool, OpErrorKind>) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if !results.contains(&result) {
            results.push(result);
        }
    }

    fn config(&self) -> RwLockReadGuard<'_, Option<Arc<Config>>> {
        self.config.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn account(&self, name: &str) -> Option<AccountConfig> {
        self.config().as_ref()?.account(name).ok()
    }

    /// The account, if its vault lives in a store.
    fn stored_account(&self, scheduled: &ScheduledAccount) -> Option<AccountConfig> {
        let account = self.account(&scheduled.account)?;
        Some(account).filter(|it| it.store.is_some() && it.vault == scheduled.vault)
    }

    /// The daemon's own settings in the configuration that was last read.
    #[must_use]
    pub fn settings(&self) -> DaemonSettings {
        self.config().as_ref().map_or_else(DaemonSettings::default, |it| it.daemon.clone())
    }

    /// Reads the configuration, keeps it for later calls, and returns its scheduled accounts.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn load(&self) -> Result<Vec<ScheduledAccount>, OpError> {
        let config = self.env.read_config()?;
        let mut found = scheduled_accounts(&self.env, config.accounts())?;
        if self.punctual {
            found.iter_mut().for_each(|scheduled| scheduled.timetable.offset = Duration::ZERO);
        }
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Some(config);
        // The summaries depend on the settings.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(found)
    }
}

impl Worker for DaemonWorker {
    fn scheduled_accounts(&self) -> Result<Vec<ScheduledAccount>, Vec<String>> {
        self.load().map_err(|failure| {
            let mut lines = vec![failure.message];
            lines.extend(failure.details.lines);
            lines
        })
    }

    fn vault_summary_if_changed(&self, account: &str) -> Option<VaultSummary> {
        let vault = self.account(account)?.vault;
        let stamps = stamps(&vault);
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen().get(account) == Some(&stamps) {
            return None;
        }
        seen().insert(account.to_owned(), stamps);
        self.vault_summary(account)
    }

    fn vault_summary(&self, account: &str) -> Option<VaultSummary> {
        let account = self.account(account)?;
        let failure = match vault_summary(&account) {
            Ok(summary) => return Some(summary),
            Err(failure) => failure,
        };
        tracing::error!(
            account = account.name,
            "cannot read the vault: {}",
            Escaped(&failure.message)
        );
        Some(VaultSummary { unreadable: Some(failure.message), ..VaultSummary::default() })
    }

    fn back_up(&self, account: &str) -> BackupAttempt {
        let log = Arc::new(LogProgress::new(account));
        let (attempt, failure) = match self.account(account) {
            Some(account) => {
                let wait = if self.punctual { ONCE_LOCK_TIMEOUT } else { LOCK_TIMEOUT };
                let limits = SessionLimits { lock_timeout: Some(wait), ..SessionLimits::default() };
                let request = BackupRequest { limits, ..BackupRequest::new("daemon", &account) };
                attempt_backup(&self.env, &request, &(Arc::clone(&log) as _))
            }
            None => {
                let what = "the account is no longer configured";
                let failure = OpError::new(OpErrorKind::Account, what);
                let (now, spent) = (self.env.clock.now(), RequestUsage::default());
                let attempt = attempt_of_error(&failure, self.env.events(), now, now, spent);
                (attempt, Some(failure))
            }
        };
        let Some(failure) = failure else {
            self.add_result(Ok(attempt.outcome == AttemptOutcome::Complete));
            return attempt;
        };
        self.add_result(Err(failure.kind));
        BackupAttempt { snapshot: log.snapshot(), ..attempt }
    }

    fn post_backup(&self, account: &str, attempt: &BackupAttempt) -> Option<Vec<String>> {
        if attempt.outcome == AttemptOutcome::Failed {
            // Includes a backup that panicked, which added no result itself.
            self.add_result(Err(OpErrorKind::Failed));
        }
        if !matches!(attempt.outcome, AttemptOutcome::Complete | AttemptOutcome::Partial) {
            return None;
        }
        let account = self.account(account)?;
        let failures: Vec<_> =
            post_backup(&self.env, &account).into_iter().map(|it| it.message).collect();
        for failure in &failures {
            tracing::error!(account = account.name, "{}", Escaped(failure));
            self.add_result(Ok(false));
        }
        Some(failures)
    }

    fn evaluate(
        &self,
        account_status: &AccountStatus,
        ended: Option<FinishedBackup<'_>>,
        persisted: &mut PersistedState,
    ) {
        let Some(account) = self.account(&account_status.account) else { return };
        apply_status(&account, account_status, ended, persisted, self.env.clock.now());
    }

    fn deliver(&self, account: &str, pending: &mut PendingAlerts) {
        let Some(account) = self.account(account) else { return };
        let hidden = key_variables(self.config().iter().flat_map(|it| it.accounts()));
        if account.store.is_none() {
            return deliver_pending(&self.env, &account, &hidden, &self.breaker, pending);
        }
        match deliver_shared(&self.env, &account, &hidden, &self.breaker) {
            Ok(state) => pending.leave(&state),
            Err(failure) => {
                tracing::error!(account = account.name, "{}", Escaped(failure.message));
            }
        }
    }

    fn read_state(&self, scheduled: &ScheduledAccount) -> (PersistedState, Option<String>) {
        let (mut persisted, warning) = PersistedState::read(&scheduled.vault);
        if self.stored_account(scheduled).is_some() {
            persisted.base = Some(Box::new(persisted.clone()));
        }
        (persisted, warning)
    }

    fn write_state(
        &self,
        scheduled: &ScheduledAccount,
        persisted: &mut PersistedState,
    ) -> Result<(), String> {
        let Some(account) = self.stored_account(scheduled) else {
            return write_local_state(scheduled, persisted);
        };
        match write_state(&self.env, &account, persisted) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => {
                let account = account.name;
                tracing::warn!(account, "recorded on this machine only: {}", Escaped(why));
                Ok(())
            }
            Err(failure) => Err(failure.message),
        }
    }
}

/// Stamps of the vault and its WAL. A write to the vault changes one of them.
fn stamps(vault: &Path) -> [Option<FileStamp>; 2] {
    [FileStamp::of(vault), FileStamp::of(&beside(vault, "-wal"))]
}
