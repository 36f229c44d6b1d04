//! The state of the running daemon: the due queue, and for each account its persisted state and the
//! summary of its vault. Shared by all threads; has no threads of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::health::account_status::{AccountStatus, DueTimes, age_reference};
use crate::health::attempt::{AttemptOutcome, BackupAttempt, VaultSummary};
use crate::health::pending_alerts::PendingAlerts;
use crate::health::persisted_state::PersistedState;
use crate::health::scheduled_account::ScheduledAccount;
use crate::schedule::due_queue::{BackupEnd, DueQueue, QueueHistory};

/// The longest time between two ticks of a loop that counts as alive.
const ALIVE: Duration = Duration::from_secs(60);

/// The state of the daemon.
pub struct DaemonState {
    clock: Arc<dyn Clock>,
    state: Mutex<SharedState>,
}

#[derive(Default)]
struct SharedState {
    due_queue: DueQueue,
    accounts: BTreeMap<String, AccountState>,
    /// Monotonic time of the loop's last tick.
    last_tick: Duration,
    /// Number of reserved worker threads.
    working: usize,
    stopping: bool,
    abandoned: bool,
    /// With `--once`: the accounts that are still to be backed up.
    once: Option<Vec<String>>,
}

struct AccountState {
    scheduled: ScheduledAccount,
    persisted: PersistedState,
    vault_summary: VaultSummary,
    /// Whether the state file is out of date and no running backup will write it.
    dirty: bool,
    /// Held while the persisted state is written, so that the newest is written last.
    write_lock: Arc<Mutex<()>>,
    /// Whether a thread is delivering its alerts.
    delivering: bool,
    running: Option<Timestamp>,
    /// Whether the result of the running backup is in the persisted state, so that only the work
    /// after it is left.
    is_recorded: bool,
}

/// Stores the problems of an account in its persisted state. Called with the lock held, so it must
/// be quick.
pub type EvaluateFn<'a> = &'a mut dyn FnMut(&AccountStatus, &mut PersistedState);

/// A backup that a worker must make.
#[derive(Debug, Clone)]
pub struct BackupJob {
    /// The account to back up.
    pub scheduled: ScheduledAccount,
    /// When the job was taken.
    pub started: Timestamp,
}

impl DaemonState {
    /// A state without accounts.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status of every account, sorted by name.
    #[must_use]
    pub fn account_statuses(&self) -> Vec<AccountStatus> {
        let (state, now) = (self.state(), self.clock.now());
        state
            .accounts
            .values()
            .map(|account_state| account_state.account_status(&state.due_queue, now))
            .collect()
    }

    /// Path of an account's vault.
    #[must_use]
    pub fn vault(&self, account: &str) -> Option<PathBuf> {
        self.state()
            .accounts
            .get(account)
            .map(|account_state| account_state.scheduled.vault.clone())
    }

    /// Checks that due backups are started.
    ///
    /// # Errors
    /// A sentence with the reason, when the loop is stopping or has not ticked for a minute.
    pub fn alive(&self) -> Result<(), String> {
        let state = self.state();
        if state.stopping {
            return Err("the daemon is stopping".to_owned());
        }
        let idle = self.clock.monotonic().saturating_sub(state.last_tick);
        if idle <= ALIVE {
            return Ok(());
        }
        Err(format!("the scheduler has not run for {} seconds", idle.as_secs()))
    }

    /// The accounts of `all_scheduled` that are new or have another vault.
    #[must_use]
    pub fn new_accounts(&self, all_scheduled: &[ScheduledAccount]) -> Vec<ScheduledAccount> {
        let state = self.state();
        let is_new = |scheduled: &&ScheduledAccount| {
            let account_state = state.accounts.get(&scheduled.account);
            account_state
                .is_none_or(|account_state| account_state.scheduled.vault != scheduled.vault)
        };
        all_scheduled.iter().filter(is_new).cloned().collect()
    }

    /// Replaces the accounts of the daemon by `all_scheduled`. `found` has the persisted states
    /// and vault summaries of the new ones. Returns the changes as account and predicate.
    pub fn update_accounts(
        &self,
        all_scheduled: Vec<ScheduledAccount>,
        mut found: BTreeMap<String, (PersistedState, VaultSummary)>,
    ) -> Vec<(String, &'static str)> {
        let (mut state, now) = (self.state(), self.clock.now());
        let state = &mut *state;
        let mut changes = Vec::new();
        let stays: BTreeSet<_> =
            all_scheduled.iter().map(|scheduled| scheduled.account.clone()).collect();
        for gone in state.accounts.keys().filter(|account| !stays.contains(*account)) {
            changes.push((gone.clone(), "is no longer scheduled"));
        }
        // An account with a running backup is removed when the backup ends.
        state.accounts.retain(|account, account_state| {
            stays.contains(account) || account_state.running.is_some()
        });
        state.due_queue.retain(|account| stays.contains(account));
        for scheduled in all_scheduled {
            let account = scheduled.account.clone();
            let timetable = scheduled.timetable.clone();
            let new = found.remove(&account);
            if let Some(account_state) = state.accounts.get_mut(&account) {
                if account_state.scheduled.timetable != timetable {
                    changes.push((account.clone(), "has a new schedule"));
                    account_state.persisted.served = Some(now);
                    account_state.dirty = true;
                }
                if let Some((persisted, summary)) = new {
                    (account_state.persisted, account_state.vault_summary) = (persisted, summary);
                }
                account_state.persisted.schedule = Some(scheduled.schedule_id());
                account_state.scheduled = scheduled;
                let past = QueueHistory {
                    served: account_state.persisted.served.or(Some(now)),
                    ..QueueHistory::default()
                };
                state.due_queue.insert(&account, timetable, past, now);
                continue;
            }
            let (mut persisted, summary) = new.unwrap_or_default();
            let past = persisted.past(&scheduled.schedule_id(), &summary, now);
            let schedule = Some(scheduled.schedule_id());
            // The start of the new schedule must be persisted.
            let dirty = persisted.schedule.is_some() && persisted.schedule != schedule;
            (persisted.schedule, persisted.served) = (schedule, past.served);
            state.due_queue.insert(&account, timetable, past, now);
            state
                .accounts
                .insert(account.clone(), AccountState::new(scheduled, persisted, summary, dirty));
            changes.push((account, "is scheduled"));
        }
        changes
    }

    /// Limits the daemon to one backup of each account that is due now.
    pub fn only_once(&self) {
        let (mut state, now) = (self.state(), self.clock.now());
        state.once = Some(state.due_queue.due(now));
    }

    /// Records that the loop is alive. Returns when the first account is due.
    pub fn tick(&self) -> Option<Timestamp> {
        let mut state = self.state();
        state.last_tick = self.clock.monotonic();
        state.due_queue.next_due()
    }

    /// Reserves workers for due accounts, at most `most` in total, and returns how many are new.
    /// Each counts as working until [`DaemonState::take`] returns `None` to it.
    pub fn reserve_workers(&self, most: usize) -> usize {
        let now = self.clock.now();
        let mut state = self.state();
        let waiting = state.waiting(now).len();
        let more = waiting.min(most.saturating_sub(state.working));
        state.working += more;
        more
    }

    /// Releases a reserved worker whose thread could not be started.
    pub fn release_worker(&self) {
        let mut state = self.state();
        state.working = state.working.saturating_sub(1);
    }

    /// The next job for a reserved worker. `None` releases the worker.
    #[must_use]
    pub fn take(&self) -> Option<BackupJob> {
        let now = self.clock.now();
        let mut state = self.state();
        // The loop may not have noticed the interrupt yet.
        state.stopping |= self.clock.interrupted();
        let Some(account) = state.waiting(now).into_iter().next() else {
            state.working = state.working.saturating_sub(1);
            return None;
        };
        let state = &mut *state;
        if let Some(once) = &mut state.once {
            once.retain(|it| *it != account);
        }
        state.due_queue.begin(&account, now);
        let account_state = state.accounts.get_mut(&account)?;
        (account_state.running, account_state.is_recorded) = (Some(now), false);
        Some(BackupJob { scheduled: account_state.scheduled.clone(), started: now })
    }

    /// Records the result of a backup and evaluates the account. Without a `summary` the last one
    /// stays. The account is not due again before [`DaemonState::finish_job`].
    pub fn record_attempt(
        &self,
        job: &BackupJob,
        attempt: &BackupAttempt,
        summary: Option<VaultSummary>,
        evaluate: EvaluateFn<'_>,
    ) {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let account = &job.scheduled.account;
        // The result of an abandoned backup is ignored.
        let account_state = state
            .accounts
            .get_mut(account)
            .filter(|account_state| account_state.running == Some(job.started));
        let Some(account_state) = account_state else { return };
        let ended = match attempt.outcome {
            AttemptOutcome::Complete | AttemptOutcome::Partial => BackupEnd::Finished,
            AttemptOutcome::Failed if attempt.key_refused => BackupEnd::FailedForGood,
            AttemptOutcome::Failed => BackupEnd::Failed,
            AttemptOutcome::Stopped => BackupEnd::Stopped,
            AttemptOutcome::Locked => BackupEnd::Locked,
        };
        state.due_queue.end(account, ended, now);
        account_state.is_recorded = true;
        if account_state.scheduled.vault == job.scheduled.vault {
            account_state.persisted.add(attempt);
            if let Some(summary) = summary {
                if !summary.records.is_empty() {
                    account_state.persisted.records.clone_from(&summary.records);
                }
                account_state.vault_summary.update(summary);
            }
        }
        if let Some((served, tries)) = state.due_queue.served(account) {
            (account_state.persisted.served, account_state.persisted.tries) = (Some(served), tries);
        }
        account_state.persisted.schedule = Some(account_state.scheduled.schedule_id());
        account_state.evaluate(&state.due_queue, now, evaluate);
    }

    /// Ends a job, whatever its result, and evaluates the account.
    pub fn finish_job(&self, job: &BackupJob, evaluate: EvaluateFn<'_>) {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let account = &job.scheduled.account;
        let account_state = state
            .accounts
            .get_mut(account)
            .filter(|account_state| account_state.running == Some(job.started));
        let Some(account_state) = account_state else { return };
        account_state.running = None;
        if !account_state.is_recorded {
            state.due_queue.end(account, BackupEnd::Failed, now);
        }
        account_state.evaluate(&state.due_queue, now, evaluate);
    }

    /// Removes an account that left the configuration during its backup.
    pub fn remove_unconfigured(&self, account: &str) {
        let mut state = self.state();
        let running = state
            .accounts
            .get(account)
            .is_some_and(|account_state| account_state.running.is_some());
        if state.due_queue.served(account).is_none() && !running {
            state.accounts.remove(account);
        }
    }

    /// Evaluates an account. Returns whether its persisted state changed.
    pub fn evaluate(&self, account: &str, evaluate: EvaluateFn<'_>) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let Some(account_state) = state.accounts.get_mut(account) else { return false };
        let before = account_state.persisted.clone();
        account_state.evaluate(&state.due_queue, now, evaluate);
        account_state.persisted != before
    }

    /// Replaces the vault summary of an account.
    pub fn set_vault_summary(&self, account: &str, summary: VaultSummary) {
        if let Some(account_state) = self.state().accounts.get_mut(account) {
            account_state.vault_summary.update(summary);
        }
    }

    /// Records the errors of the work after a backup. Call it before [`DaemonState::finish_job`].
    pub fn record_post_backup(&self, job: &BackupJob, failures: &[String]) {
        if let Some(account_state) = self.state().accounts.get_mut(&job.scheduled.account) {
            account_state.persisted.after = Some(failures.to_vec());
        }
    }

    /// Merges what other processes have recorded, as read by `read`.
    pub fn merge_persisted(
        &self,
        account: &str,
        read: impl FnOnce(&ScheduledAccount) -> Option<PersistedState>,
    ) {
        let Some((lock, scheduled)) = self.write_lock(account) else { return };
        let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = read(&scheduled) else { return };
        let mut state = self.state();
        let account_state =
            state.accounts.get_mut(account).filter(|it| it.scheduled.vault == scheduled.vault);
        if let Some(account_state) = account_state {
            account_state.persisted.take_found(found);
        }
    }

    /// The lock that is held while the persisted state of an account is written.
    fn write_lock(&self, account: &str) -> Option<(Arc<Mutex<()>>, ScheduledAccount)> {
        let state = self.state();
        let found = state.accounts.get(account)?;
        Some((Arc::clone(&found.write_lock), found.scheduled.clone()))
    }

    /// The accounts whose state file is out of date.
    #[must_use]
    pub fn dirty_accounts(&self) -> Vec<String> {
        let state = self.state();
        let dirty = state.accounts.iter().filter(|(_, account_state)| account_state.dirty);
        dirty.map(|(account, _)| account.clone()).collect()
    }

    /// Writes the persisted state of an account with `write`, one thread at a time, and merges what
    /// other processes have recorded in the file.
    pub fn persist(
        &self,
        account: &str,
        write: impl FnOnce(&ScheduledAccount, &mut PersistedState),
    ) {
        let Some((lock, _)) = self.write_lock(account) else { return };
        let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.state().accounts.get_mut(account).map(|account_state| {
            account_state.dirty = false;
            let persisted = account_state.persisted.clone();
            account_state.persisted.pending.clear();
            (account_state.scheduled.clone(), persisted)
        });
        let Some((scheduled, mut persisted)) = taken else { return };
        let sent = persisted.clone();
        write(&scheduled, &mut persisted);
        let mut state = self.state();
        let Some(account_state) = state.accounts.get_mut(account) else { return };
        if account_state.scheduled.vault != scheduled.vault {
            return;
        }
        if !persisted.pending.is_empty() {
            account_state.persisted.pending.splice(0..0, sent.pending);
        } else if persisted.base.is_some() {
            account_state.persisted.rebase(&sent, &persisted);
            account_state.persisted.base = persisted.base;
        } else {
            account_state.persisted.take_record(&persisted);
        }
    }

    /// Takes the pending alerts for delivery; `None` if there are none, or if another thread is
    /// delivering.
    #[must_use]
    pub fn take_pending(&self, account: &str) -> Option<PendingAlerts> {
        let mut state = self.state();
        let account_state =
            state.accounts.get_mut(account).filter(|account_state| !account_state.delivering)?;
        let pending = account_state.persisted.pending_alerts()?;
        account_state.delivering = true;
        Some(pending)
    }

    /// Removes the alerts that were `taken` for delivery and are not `left`.
    pub fn restore_pending(&self, account: &str, taken: &PendingAlerts, left: &PendingAlerts) {
        let mut state = self.state();
        let Some(account_state) = state.accounts.get_mut(account) else { return };
        account_state.delivering = false;
        account_state.persisted.restore_pending(taken, left);
    }

    /// Names of all accounts, sorted.
    #[must_use]
    pub fn accounts(&self) -> Vec<String> {
        self.state().accounts.keys().cloned().collect()
    }

    /// Number of reserved worker threads.
    #[must_use]
    pub fn working(&self) -> usize {
        self.state().working
    }

    /// Whether all accounts of [`DaemonState::only_once`] were backed up.
    #[must_use]
    pub fn is_once_done(&self) -> bool {
        let mut state = self.state();
        let SharedState { accounts, once, .. } = &mut *state;
        if let Some(once) = once {
            once.retain(|account| accounts.contains_key(account));
        }
        state.working == 0 && state.once.as_ref().is_some_and(Vec::is_empty)
    }

    /// Starts no more backups.
    pub fn stop(&self) {
        self.state().stopping = true;
    }

    /// Abandons the running backups and returns them. Their results will be ignored.
    #[must_use]
    pub fn abandon_running(&self) -> Vec<BackupJob> {
        let mut state = self.state();
        state.abandoned = true;
        let jobs = state.accounts.values_mut().filter_map(|account_state| {
            let started = account_state.running.take()?;
            (!account_state.is_recorded)
                .then(|| BackupJob { scheduled: account_state.scheduled.clone(), started })
        });
        jobs.collect()
    }

    /// Records the end of an abandoned backup.
    pub fn record_stopped(&self, job: &BackupJob, attempt: &BackupAttempt) {
        if let Some(account_state) = self.state().accounts.get_mut(&job.scheduled.account) {
            account_state.persisted.add(attempt);
        }
    }

    /// Whether running backups were abandoned.
    #[must_use]
    pub fn has_abandoned(&self) -> bool {
        self.state().abandoned
    }
}

impl SharedState {
    fn waiting(&mut self, now: Timestamp) -> Vec<String> {
        if self.stopping {
            return Vec::new();
        }
        let mut due = match &self.once {
            // Independent of the clock.
            Some(once) => once.clone(),
            None => self.due_queue.due(now),
        };
        due.retain(|account| {
            self.accounts.get(account).is_some_and(|account_state| account_state.running.is_none())
        });
        due
    }
}

impl AccountState {
    fn new(
        scheduled: ScheduledAccount,
        persisted: PersistedState,
        summary: VaultSummary,
        dirty: bool,
    ) -> Self {
        Self {
            scheduled,
            persisted,
            vault_summary: summary,
            dirty,
            write_lock: Arc::default(),
            delivering: false,
            running: None,
            is_recorded: false,
        }
    }

    fn evaluate(&mut self, due_queue: &DueQueue, now: Timestamp, evaluate: EvaluateFn<'_>) {
        let account_status = self.account_status(due_queue, now);
        evaluate(&account_status, &mut self.persisted);
    }

    fn account_status(&self, due_queue: &DueQueue, now: Timestamp) -> AccountStatus {
        let account = &self.scheduled.account;
        let from = age_reference(&self.persisted, &self.vault_summary, now);
        let due = DueTimes {
            schedule: Some(self.scheduled.schedule.clone()),
            next: due_queue.next(account),
            running: self.running,
            old_from: from.and_then(|from| self.scheduled.too_old_at(from)),
        };
        AccountStatus::evaluate(account, &self.persisted, &self.vault_summary, due, now)
    }
}

#[cfg(test)]
mod tests;
