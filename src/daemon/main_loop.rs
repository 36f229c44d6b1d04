//! The main loop: starts due backups on threads, evaluates the accounts once a minute, and reloads
//! the configuration or stops on request.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{Clock, Timestamp, Waker};
use crate::daemon::state::{BackupJob, DaemonState};
use crate::escaped::Escaped;
use crate::health::account_status::AccountStatus;
use crate::health::attempt::{AttemptOutcome, BackupAttempt, FinishedBackup, VaultSummary};
use crate::health::pending_alerts::PendingAlerts;
use crate::health::persisted_state::PersistedState;
use crate::health::scheduled_account::ScheduledAccount;

/// The work of the loop that touches configuration, network and vaults.
pub trait Worker: Send + Sync + 'static {
    /// The accounts with a schedule, from a fresh reading of the configuration.
    ///
    /// # Errors
    /// The mistakes in the configuration, one per line.
    fn scheduled_accounts(&self) -> Result<Vec<ScheduledAccount>, Vec<String>>;
    /// The summary of an account's vault; `None` if the account is not configured.
    fn vault_summary(&self, account: &str) -> Option<VaultSummary>;
    /// The summary, if the vault may have changed since the last call of this function.
    fn vault_summary_if_changed(&self, account: &str) -> Option<VaultSummary>;
    /// Makes a backup. Ends early when the clock is interrupted.
    fn back_up(&self, account: &str) -> BackupAttempt;
    /// Does the work after a backup, such as retention. Returns its errors; `None` if nothing was
    /// to be done.
    fn post_backup(&self, account: &str, attempt: &BackupAttempt) -> Option<Vec<String>>;
    /// Stores the problems of `account_status` in `persisted` and queues its alerts. Called after
    /// a backup and once a minute. Does not deliver.
    fn evaluate(
        &self,
        account_status: &AccountStatus,
        ended: Option<FinishedBackup<'_>>,
        persisted: &mut PersistedState,
    );
    /// Delivers pending alerts and heartbeats. Those that remain in `pending` are retried later.
    fn deliver(&self, account: &str, pending: &mut PendingAlerts);
    /// The recorded state of an account, and a warning if it is broken.
    fn read_state(&self, scheduled: &ScheduledAccount) -> (PersistedState, Option<String>) {
        PersistedState::read(&scheduled.vault)
    }
    /// Writes the recorded state of an account, and merges what others have recorded.
    ///
    /// # Errors
    /// A message for the log, if it cannot be written.
    fn write_state(
        &self,
        scheduled: &ScheduledAccount,
        persisted: &mut PersistedState,
    ) -> Result<(), String> {
        write_local_state(scheduled, persisted)
    }
}

/// Writes the recorded state beside the vault.
pub(super) fn write_local_state(
    scheduled: &ScheduledAccount,
    persisted: &mut PersistedState,
) -> Result<(), String> {
    persisted.write(&scheduled.vault).map_err(|error| {
        let file = crate::health::persisted_state::file(&scheduled.vault);
        format!("cannot write {}: {error}", file.display())
    })
}

/// An event for the process that runs the loop, such as for the service manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonEvent {
    /// The loop accepts work.
    Ready,
    /// The configuration is being read again.
    Reloading,
    /// The loop has ended; running backups stop.
    Stopping,
    /// The loop is running; sent at least once per tick.
    Alive,
    /// A summary changed: accounts, running backups, next start.
    Status(String),
}

/// The wait while a due account cannot start.
const SHORT: Duration = Duration::from_millis(200);
/// How often the accounts are evaluated.
const EVALUATION_INTERVAL: Duration = Duration::from_secs(60);
/// Stack size of a thread; large data is on the heap.
const STACK: usize = 1 << 20;

/// The main loop with everything it needs.
#[derive(Clone)]
pub struct DaemonLoop {
    /// The state that all threads share.
    pub state: Arc<DaemonState>,
    /// Does the work for each account.
    pub worker: Arc<dyn Worker>,
    /// Source of time; its interrupt stops the loop.
    pub clock: Arc<dyn Clock>,
    /// Wakes the loop after a change that it should see.
    pub waker: Waker,
    /// Set to true to reload the configuration.
    pub reload: Arc<AtomicBool>,
    /// The maximum number of concurrent backups.
    pub workers: usize,
    /// The longest wait of the loop: the wall clock may have jumped meanwhile.
    pub tick: Duration,
    /// How long running backups may take to stop.
    pub shutdown_timeout: Duration,
}

impl DaemonLoop {
    /// Loads the accounts from the configuration, with their state files and vaults.
    ///
    /// # Errors
    /// The mistakes in the configuration; the accounts are then unchanged.
    pub fn load(&self) -> Result<(), Vec<String>> {
        let all_scheduled = self.worker.scheduled_accounts()?;
        let mut found = BTreeMap::new();
        for scheduled in self.state.new_accounts(&all_scheduled) {
            let (persisted, broken) = self.worker.read_state(&scheduled);
            if let Some(broken) = broken {
                tracing::warn!(account = scheduled.account, "{}", Escaped(broken));
            }
            let summary = self.worker.vault_summary(&scheduled.account).unwrap_or_default();
            found.insert(scheduled.account, (persisted, summary));
        }
        for (account, what) in self.state.update_accounts(all_scheduled, found) {
            tracing::debug!(account, "the account {what}");
        }
        for account in self.state.dirty_accounts() {
            self.persist(&account);
        }
        Ok(())
    }

    /// Runs until the clock is interrupted. With `once`, runs until every account that is due now
    /// was backed up once.
    pub fn run(&self, once: bool, tell: &dyn Fn(DaemonEvent)) {
        if once {
            self.state.only_once();
        }
        let evaluating = Arc::new(AtomicBool::new(false));
        let mut last_evaluation = None;
        let mut status = String::new();
        let mut reloading: Option<JoinHandle<()>> = None;
        tell(DaemonEvent::Ready);
        while !self.clock.interrupted() {
            if reloading.take_if(|thread| thread.is_finished()).is_some() {
                tell(DaemonEvent::Ready);
            }
            if reloading.is_none() && self.reload.swap(false, Ordering::SeqCst) && !once {
                tell(DaemonEvent::Reloading);
                reloading = self.spawn_reload();
                if reloading.is_none() {
                    tell(DaemonEvent::Ready);
                }
            }
            let soonest = self.state.tick();
            for _ in 0..self.state.reserve_workers(self.workers) {
                self.spawn_worker();
            }
            if once && self.state.is_once_done() {
                break;
            }
            let monotonic = self.clock.monotonic();
            if !once
                && last_evaluation.is_none_or(|last_evaluation| {
                    monotonic >= last_evaluation + EVALUATION_INTERVAL
                })
            {
                last_evaluation = Some(monotonic);
                self.spawn_evaluation(&evaluating);
            }
            tell(DaemonEvent::Alive);
            let now_status = self.status(soonest);
            if now_status != status {
                tell(DaemonEvent::Status(now_status.clone()));
                status = now_status;
            }
            self.waker.wait(self.wait_time(soonest));
        }
        if once && !self.clock.interrupted() {
            // Backups of accounts that were not due may have become too old.
            self.evaluate_all();
        }
        tell(DaemonEvent::Stopping);
        self.shut_down();
    }

    /// How long the loop may wait, if the next account is due at `soonest`.
    fn wait_time(&self, soonest: Option<Timestamp>) -> Duration {
        let full = self.state.working() >= self.workers;
        match soonest.map(|soonest| soonest.since(self.clock.now())) {
            Some(left) if left.is_zero() && !full => SHORT,
            Some(left) if !left.is_zero() => left.min(self.tick),
            _ => self.tick,
        }
    }

    fn status(&self, soonest: Option<Timestamp>) -> String {
        let (working, accounts) = (self.state.working(), self.state.accounts().len());
        let next = soonest.map_or("never".to_owned(), Timestamp::iso);
        format!("{accounts} accounts, {working} running backups, next at {next}")
    }

    /// Reads the configuration on a thread, since that takes seconds if it is long. Meanwhile the
    /// old one is in effect.
    fn spawn_reload(&self) -> Option<JoinHandle<()>> {
        let daemon = self.clone();
        let thread = std::thread::Builder::new().name("reload".to_owned());
        let started = thread.spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| daemon.reload())) {
                tracing::error!("reloading panicked: {}", panic_message(&*panic));
            }
            daemon.waker.wake();
        });
        started.map_err(|error| tracing::error!("cannot start a thread to reload: {error}")).ok()
    }

    fn reload(&self) {
        match self.load() {
            Ok(()) => {
                let accounts = self.state.accounts().len();
                tracing::info!(accounts, "the configuration was reloaded");
            }
            Err(mistakes) => {
                for mistake in mistakes {
                    tracing::error!("{}", Escaped(mistake));
                }
                tracing::error!("cannot reload the configuration; the old one stays in effect");
            }
        }
    }

    /// Starts a thread that makes backups until no account is due.
    fn spawn_worker(&self) {
        let daemon = self.clone();
        let thread = std::thread::Builder::new().name("backup".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            while let Some(job) = daemon.state.take() {
                let made = catch_unwind(AssertUnwindSafe(|| daemon.run_job(&job)));
                if let Err(panic) = made {
                    let account = job.scheduled.account.as_str();
                    tracing::error!(account, "internal error: {}", panic_message(&*panic));
                    // The account must be scheduled again.
                    daemon.state.finish_job(&job, &mut |_, _| {});
                }
                daemon.state.remove_unconfigured(&job.scheduled.account);
            }
            daemon.waker.wake();
        });
        if let Err(error) = started {
            self.state.release_worker();
            tracing::error!("cannot start a backup thread: {error}");
        }
    }

    fn run_job(&self, job: &BackupJob) {
        let account = job.scheduled.account.as_str();
        let worker = &self.worker;
        let attempt = catch_unwind(AssertUnwindSafe(|| worker.back_up(account)))
            .unwrap_or_else(|panic| panicked_attempt(job, self.clock.now(), &*panic));
        if self.state.has_abandoned() {
            return;
        }
        report(account, &attempt);
        let guarded = |what: &str, panic: Box<dyn Any + Send>| {
            let text = format!("{what} panicked: {}", panic_message(&*panic));
            tracing::error!(account, "{text}");
            text
        };
        let summary = catch_unwind(AssertUnwindSafe(|| worker.vault_summary(account)));
        let summary = summary.map_err(|panic| guarded("reading the vault", panic)).ok().flatten();
        let evaluate = |after: Option<&[String]>,
                        account_status: &AccountStatus,
                        persisted: &mut PersistedState| {
            self.evaluate_guarded(
                account_status,
                Some(FinishedBackup { attempt: &attempt, after }),
                persisted,
            );
        };
        self.merge_persisted(account);
        self.state.record_attempt(job, &attempt, summary, &mut |it, persisted| {
            evaluate(None, it, persisted)
        });
        // Recorded before the work after the backup, which may take long.
        self.persist(account);
        let after = catch_unwind(AssertUnwindSafe(|| worker.post_backup(account, &attempt)));
        let after = after.unwrap_or_else(|it| Some(vec![guarded("the work after the backup", it)]));
        let after = after.as_deref();
        if let Some(failures) = after {
            self.state.record_post_backup(job, failures);
        }
        self.state.finish_job(job, &mut |it, persisted| evaluate(after, it, persisted));
        self.persist(account);
        self.waker.wake();
        self.deliver(account);
    }

    /// Evaluates all accounts on a thread, since the receiver of an alert may be slow.
    fn spawn_evaluation(&self, evaluating: &Arc<AtomicBool>) {
        if evaluating.swap(true, Ordering::SeqCst) {
            return;
        }
        let (daemon, running) = (self.clone(), Arc::clone(evaluating));
        let thread = std::thread::Builder::new().name("evaluation".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| daemon.evaluate_all())) {
                tracing::error!("evaluating the accounts panicked: {}", panic_message(&*panic));
            }
            running.store(false, Ordering::SeqCst);
        });
        if let Err(error) = started {
            evaluating.store(false, Ordering::SeqCst);
            tracing::error!("cannot start a thread to evaluate the accounts: {error}");
        }
    }

    /// Evaluates every account, then delivers the alerts.
    fn evaluate_all(&self) {
        let accounts = self.state.accounts();
        for account in &accounts {
            // Other commands may have changed the vault.
            let summary =
                catch_unwind(AssertUnwindSafe(|| self.worker.vault_summary_if_changed(account)));
            if let Some(summary) = summary.ok().flatten() {
                self.state.set_vault_summary(account, summary);
            }
            self.merge_persisted(account);
            if self
                .state
                .evaluate(account, &mut |it, persisted| self.evaluate_guarded(it, None, persisted))
            {
                self.persist(account);
            }
        }
        for account in &accounts {
            self.deliver(account);
        }
    }

    fn evaluate_guarded(
        &self,
        account_status: &AccountStatus,
        ended: Option<FinishedBackup<'_>>,
        persisted: &mut PersistedState,
    ) {
        let evaluate = AssertUnwindSafe(|| self.worker.evaluate(account_status, ended, persisted));
        if let Err(panic) = catch_unwind(evaluate) {
            let account = account_status.account.as_str();
            tracing::error!(account, "evaluating the account panicked: {}", panic_message(&*panic));
        }
    }

    /// Merges what other processes, and other machines, have recorded.
    fn merge_persisted(&self, account: &str) {
        self.state.merge_persisted(account, |scheduled| PersistedState::known(&scheduled.vault));
    }

    fn persist(&self, account: &str) {
        self.state.persist(account, |scheduled, persisted| {
            if let Err(why) = self.worker.write_state(scheduled, persisted) {
                tracing::error!(account, "{}", Escaped(why));
            }
        });
    }

    fn deliver(&self, account: &str) {
        let Some(taken) = self.state.take_pending(account) else { return };
        let mut left = taken.clone();
        let delivered = catch_unwind(AssertUnwindSafe(|| self.worker.deliver(account, &mut left)));
        if let Err(panic) = delivered {
            tracing::error!(account, "the delivery panicked: {}", panic_message(&*panic));
        }
        let changed = left != taken;
        self.state.restore_pending(account, &taken, &left);
        if changed {
            self.persist(account);
        }
    }

    /// Waits for the running backups, which stop after their current request. Records those that do
    /// not stop in time as stopped.
    fn shut_down(&self) {
        self.state.stop();
        let until = self.clock.monotonic() + self.shutdown_timeout;
        loop {
            let left = until.saturating_sub(self.clock.monotonic());
            if self.state.working() == 0 || left.is_zero() {
                break;
            }
            self.waker.wait(left.min(SHORT));
        }
        for job in self.state.abandon_running() {
            let message = "the program ended during a request";
            let attempt = BackupAttempt {
                outcome: AttemptOutcome::Stopped,
                ..failed_attempt(&job, self.clock.now(), message.to_owned())
            };
            report(&job.scheduled.account, &attempt);
            self.state.record_stopped(&job, &attempt);
            self.persist(&job.scheduled.account);
        }
    }
}

/// Logs the result of a backup.
fn report(account: &str, attempt: &BackupAttempt) {
    let BackupAttempt { requests, added, changed, removed, .. } = attempt;
    let run = attempt.snapshot.map(|number| number.0);
    let millis = attempt.ended.since(attempt.started).as_millis();
    let seconds = f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0;
    let message = attempt.message.as_deref().unwrap_or_default();
    match attempt.outcome {
        AttemptOutcome::Complete => {
            tracing::info!(account, run, requests, added, changed, removed, seconds, "complete");
        }
        AttemptOutcome::Partial => tracing::warn!(
            account,
            run,
            requests,
            added,
            changed,
            removed,
            seconds,
            "partial: {}",
            Escaped(message)
        ),
        AttemptOutcome::Locked => tracing::warn!(account, "postponed: {}", Escaped(message)),
        AttemptOutcome::Failed => {
            tracing::error!(account, run, requests, seconds, "failed: {}", Escaped(message));
        }
        AttemptOutcome::Stopped => {
            tracing::info!(
                account,
                run,
                requests,
                seconds,
                "stopped; the next backup continues it"
            );
        }
    }
}

fn failed_attempt(job: &BackupJob, ended: Timestamp, message: String) -> BackupAttempt {
    BackupAttempt {
        message: Some(message),
        ..BackupAttempt::new(job.started, ended, AttemptOutcome::Failed)
    }
}

fn panicked_attempt(job: &BackupJob, ended: Timestamp, panic: &(dyn Any + Send)) -> BackupAttempt {
    failed_attempt(job, ended, format!("internal error: {}", panic_message(panic)))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Escaped(text.unwrap_or_else(|| "unknown panic".to_owned())).to_string()
}

#[cfg(test)]
mod tests;
