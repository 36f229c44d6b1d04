//! The loop: begins what is due on threads of its own, looks over the accounts
//! once a minute, reads the configuration again when told, and ends when told.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Timestamp, Waker};
use crate::daemon::state::{BackupJob, DaemonState, PendingAlerts};
use crate::escaped::Escaped;
use crate::health::account_status::AccountStatus;
use crate::health::attempt::{AttemptOutcome, BackupAttempt, VaultSummary};
use crate::health::persisted_state::PersistedState;
use crate::health::scheduled_account::ScheduledAccount;

/// What the loop has others do: it knows neither network nor vault.
pub trait Worker: Send + Sync + 'static {
    /// The accounts that have a schedule, by the configuration as it is now.
    ///
    /// # Errors
    /// Its mistakes, a line each.
    fn scheduled_accounts(&self) -> Result<Vec<ScheduledAccount>, Vec<String>>;
    /// What an account's vault holds; `None` where it cannot be read.
    fn look(&self, account: &str) -> Option<VaultSummary>;
    /// The same, if the vault may have changed since it was last asked for so.
    fn vault_summary_if_changed(&self, account: &str) -> Option<VaultSummary>;
    /// Makes a backup. It ends early when the clock is interrupted.
    fn back_up(&self, account: &str) -> BackupAttempt;
    /// Does what belongs after a backup. Returns what went wrong; `None` where
    /// nothing was to be done.
    fn post_backup(&self, account: &str, attempt: &BackupAttempt) -> Option<Vec<String>>;
    /// Says in `persisted` what is wrong now: after a backup, and about once a minute.
    /// It does not wait for deliveries.
    fn evaluate(
        &self,
        account_status: &AccountStatus,
        ended: Option<FinishedBackup<'_>>,
        persisted: &mut PersistedState,
    );
    /// Tries to deliver what waits; what is left waits on.
    fn deliver(&self, account: &str, pending: &mut PendingAlerts);
}

/// A backup that has just ended.
#[derive(Debug, Clone, Copy)]
pub struct FinishedBackup<'a> {
    pub attempt: &'a BackupAttempt,
    /// What went wrong in the work after it; `None` before that, or without any.
    pub after: Option<&'a [String]>,
}

/// What the loop tells the person who started the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonEvent {
    Ready,
    Reloading,
    Stopping,
    /// The loop lives.
    Alive,
    Status(String),
}

/// Where somebody is due but cannot begin yet.
const SHORT: Duration = Duration::from_millis(200);
/// How often accounts are looked over.
const JUDGED: Duration = Duration::from_secs(60);
/// A backup keeps its pages on the heap.
const STACK: usize = 1 << 20;

/// The daemon.
#[derive(Clone)]
pub struct DaemonLoop {
    pub state: Arc<DaemonState>,
    pub work: Arc<dyn Worker>,
    pub clock: Arc<dyn Clock>,
    /// Rung when something happened that the loop should see.
    pub waker: Waker,
    /// Set when the configuration is to be read again.
    pub reload: Arc<AtomicBool>,
    /// The most backups at once.
    pub workers: usize,
    /// The loop waits no longer before it looks at the clock, which may have jumped.
    pub tick: Duration,
    /// How long backups under way may take to stop.
    pub shutdown_timeout: Duration,
}

impl DaemonLoop {
    /// Reads the accounts of the configuration.
    ///
    /// # Errors
    /// The mistakes of the configuration; the accounts are then as they were.
    pub fn load(&self) -> Result<(), Vec<String>> {
        let all_scheduled = self.work.scheduled_accounts()?;
        let mut found = BTreeMap::new();
        for scheduled in self.state.new_accounts(&all_scheduled) {
            let (persisted, broken) = PersistedState::read(&scheduled.vault);
            if let Some(broken) = broken {
                tracing::warn!(account = scheduled.account, "{}", Escaped(broken));
            }
            let held = self.work.look(&scheduled.account).unwrap_or_default();
            found.insert(scheduled.account, (persisted, held));
        }
        for (account, what) in self.state.update_accounts(all_scheduled, found) {
            tracing::debug!(account, "the account {what}");
        }
        for account in self.state.dirty_accounts() {
            self.state.persist(&account, keep);
        }
        Ok(())
    }

    /// Runs until the clock is interrupted; with `once`, until everybody who is
    /// due now had a turn.
    pub fn run(&self, once: bool, tell: &dyn Fn(DaemonEvent)) {
        if once {
            self.state.only_once();
        }
        let judging = Arc::new(AtomicBool::new(false));
        let mut judged = None;
        let mut status = String::new();
        tell(DaemonEvent::Ready);
        while !self.clock.interrupted() {
            if self.reload.swap(false, Ordering::SeqCst) && !once {
                tell(DaemonEvent::Reloading);
                self.reload();
                tell(DaemonEvent::Ready);
            }
            let soonest = self.state.tick();
            for _ in 0..self.state.reserve_workers(self.workers) {
                self.spawn_worker();
            }
            if once && self.state.is_once_done() {
                break;
            }
            let monotonic = self.clock.monotonic();
            if !once && judged.is_none_or(|judged| monotonic >= judged + JUDGED) {
                judged = Some(monotonic);
                self.spawn_evaluation(&judging);
            }
            tell(DaemonEvent::Alive);
            let now_status = self.status(soonest);
            if now_status != status {
                tell(DaemonEvent::Status(now_status.clone()));
                status = now_status;
            }
            self.waker.wait(self.rest(soonest));
        }
        if once && !self.clock.interrupted() {
            // Also those that were not due may have become too old.
            self.evaluate_all();
        }
        tell(DaemonEvent::Stopping);
        self.shut_down();
    }

    /// How long the loop may wait, where somebody is due at `soonest`.
    fn rest(&self, soonest: Option<Timestamp>) -> Duration {
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
        format!("{accounts} accounts, {working} backups under way, the next at {next}")
    }

    fn reload(&self) {
        match self.load() {
            Ok(()) => {
                let accounts = self.state.accounts().len();
                tracing::info!(accounts, "the configuration was read again");
            }
            Err(mistakes) => {
                for mistake in mistakes {
                    tracing::error!("{}", Escaped(mistake));
                }
                tracing::error!("the configuration is wrong; the old one is kept");
            }
        }
    }

    /// A thread that makes backups until there is none to be made.
    fn spawn_worker(&self) {
        let service = self.clone();
        let thread = std::thread::Builder::new().name("backup".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            while let Some(job) = service.state.take() {
                let made = catch_unwind(AssertUnwindSafe(|| service.run_job(&job)));
                if let Err(panic) = made {
                    let account = job.scheduled.account.as_str();
                    tracing::error!(account, "a defect: {}", panic_message(&*panic));
                    // The account has its next turn all the same.
                    service.state.finish_job(&job, &mut |_, _| {});
                }
                service.state.forget_gone(&job.scheduled.account);
            }
            service.waker.wake();
        });
        if let Err(error) = started {
            self.state.release_worker();
            tracing::error!("a backup cannot begin: {error}");
        }
    }

    fn run_job(&self, job: &BackupJob) {
        let account = job.scheduled.account.as_str();
        let work = &self.work;
        let attempt = catch_unwind(AssertUnwindSafe(|| work.back_up(account)))
            .unwrap_or_else(|panic| panicked_attempt(job, self.clock.now(), &*panic));
        if self.state.has_given_up() {
            return;
        }
        report(account, &attempt);
        let guarded = |what: &str, panic: Box<dyn Any + Send>| {
            let text = format!("{what} broke off: {}", panic_message(&*panic));
            tracing::error!(account, "{text}");
            text
        };
        let held = catch_unwind(AssertUnwindSafe(|| work.look(account)));
        let held = held.map_err(|panic| guarded("the look at the vault", panic)).ok().flatten();
        let judge = |after: Option<&[String]>,
                     account_status: &AccountStatus,
                     persisted: &mut PersistedState| {
            self.evaluate_guarded(
                account_status,
                Some(FinishedBackup { attempt: &attempt, after }),
                persisted,
            );
        };
        self.state
            .record_attempt(job, &attempt, held, &mut |it, persisted| judge(None, it, persisted));
        // What is known by now is not lost, however long the rest takes.
        self.state.persist(account, keep);
        let after = catch_unwind(AssertUnwindSafe(|| work.post_backup(account, &attempt)));
        let after = after.unwrap_or_else(|it| Some(vec![guarded("the work after the backup", it)]));
        let after = after.as_deref();
        if let Some(failures) = after {
            self.state.record_post_backup(job, failures);
        }
        self.state.finish_job(job, &mut |it, persisted| judge(after, it, persisted));
        self.state.persist(account, keep);
        self.waker.wake();
        self.deliver(account);
    }

    /// Looks every account over on a thread of its own, since the receiver of an alert may
    /// be slow.
    fn spawn_evaluation(&self, judging: &Arc<AtomicBool>) {
        if judging.swap(true, Ordering::SeqCst) {
            return;
        }
        let (service, running) = (self.clone(), Arc::clone(judging));
        let thread = std::thread::Builder::new().name("judge".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| service.evaluate_all())) {
                tracing::error!("looking the accounts over broke off: {}", panic_message(&*panic));
            }
            running.store(false, Ordering::SeqCst);
        });
        if let Err(error) = started {
            judging.store(false, Ordering::SeqCst);
            tracing::error!("the accounts cannot be looked over: {error}");
        }
    }

    /// Finds out what is wrong with each account, and only then tells of it.
    fn evaluate_all(&self) {
        let accounts = self.state.accounts();
        for account in &accounts {
            // Somebody may work on it by hand.
            let held =
                catch_unwind(AssertUnwindSafe(|| self.work.vault_summary_if_changed(account)));
            if let Some(held) = held.ok().flatten() {
                self.state.set_vault_summary(account, held);
            }
            self.state
                .merge_persisted(account, |scheduled| PersistedState::known(&scheduled.vault));
            if self
                .state
                .evaluate(account, &mut |it, persisted| self.evaluate_guarded(it, None, persisted))
            {
                self.state.persist(account, keep);
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
        let judge = AssertUnwindSafe(|| self.work.evaluate(account_status, ended, persisted));
        if let Err(panic) = catch_unwind(judge) {
            let account = account_status.account.as_str();
            tracing::error!(
                account,
                "looking the account over broke off: {}",
                panic_message(&*panic)
            );
        }
    }

    fn deliver(&self, account: &str) {
        let Some(lent) = self.state.take_pending(account) else { return };
        let mut left = lent.clone();
        let delivered = catch_unwind(AssertUnwindSafe(|| self.work.deliver(account, &mut left)));
        if let Err(panic) = delivered {
            tracing::error!(account, "the delivery broke off: {}", panic_message(&*panic));
        }
        let new_alerts = left != lent;
        self.state.restore_pending(account, &lent, left);
        if new_alerts {
            self.state.persist(account, keep);
        }
    }

    /// Waits for the backups under way, which stop after their request, and
    /// persisted state of those that do not that they were stopped.
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
        for job in self.state.give_up() {
            let message = "the program ended while the service was being asked";
            let attempt = BackupAttempt {
                outcome: AttemptOutcome::Stopped,
                ..failed_attempt(&job, self.clock.now(), message.to_owned())
            };
            report(&job.scheduled.account, &attempt);
            self.state.record_stopped(&job, &attempt);
            self.state.persist(&job.scheduled.account, keep);
        }
    }
}

fn keep(scheduled: &ScheduledAccount, persisted: &mut PersistedState) {
    if let Err(error) = persisted.write(&scheduled.vault) {
        let file = crate::health::persisted_state::file(&scheduled.vault);
        let (account, file) = (scheduled.account.as_str(), file.display());
        tracing::error!(account, "{file} cannot be written: {error}");
    }
}

/// The line of the log that tells of a backup.
fn report(account: &str, attempt: &BackupAttempt) {
    let BackupAttempt { snapshot: run, requests, added, changed, removed, .. } = attempt;
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
        AttemptOutcome::Locked => tracing::warn!(account, "put off: {}", Escaped(message)),
        AttemptOutcome::Failed => {
            tracing::error!(account, run, requests, seconds, "failed: {}", Escaped(message));
        }
        AttemptOutcome::Stopped => {
            tracing::info!(
                account,
                run,
                requests,
                seconds,
                "stopped; the next one goes on with it"
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
    failed_attempt(job, ended, format!("the program has a defect: {}", panic_message(panic)))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Escaped(text.unwrap_or_else(|| "it did not say which".to_owned())).to_string()
}

#[cfg(test)]
mod tests;
