//! The loop: begins what is due on threads of its own, looks over the accounts
//! once a minute, reads the configuration again when told, and ends when told.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::board::{Board, Charge, Job, Mail};
use super::condition::Condition;
use super::facts::{Attempt, AttemptOutcome, Held};
use super::notes::Notes;
use crate::clock::{Bell, Clock, Timestamp};
use crate::shown::Shown;

/// What the loop has others do: it knows neither network nor vault.
pub trait Work: Send + Sync + 'static {
    /// The accounts that have a schedule, by the configuration as it is now.
    ///
    /// # Errors
    /// Its mistakes, a line each.
    fn charges(&self) -> Result<Vec<Charge>, Vec<String>>;
    /// What an account's vault holds; `None` where it cannot be read.
    fn look(&self, account: &str) -> Option<Held>;
    /// The same, if the vault may have changed since it was last asked for so.
    fn look_again(&self, account: &str) -> Option<Held>;
    /// Makes a backup. It ends early when the clock is interrupted.
    fn back_up(&self, account: &str) -> Attempt;
    /// Does what belongs after a backup. Returns what went wrong; `None` where
    /// nothing was to be done.
    fn after(&self, account: &str, attempt: &Attempt) -> Option<Vec<String>>;
    /// Says in `notes` what is wrong now: after a backup, and about once a minute.
    /// It does not wait for deliveries.
    fn judge(&self, condition: &Condition, ended: Option<Finished<'_>>, notes: &mut Notes);
    /// Tries to deliver what waits; what is left waits on.
    fn deliver(&self, account: &str, mail: &mut Mail);
}

/// A backup that has just ended.
#[derive(Debug, Clone, Copy)]
pub struct Finished<'a> {
    pub attempt: &'a Attempt,
    /// What went wrong in the work after it; `None` before that, or without any.
    pub after: Option<&'a [String]>,
}

/// What the loop tells the person who started the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
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
pub struct Service {
    pub board: Arc<Board>,
    pub work: Arc<dyn Work>,
    pub clock: Arc<dyn Clock>,
    /// Rung when something happened that the loop should see.
    pub bell: Bell,
    /// Set when the configuration is to be read again.
    pub reload: Arc<AtomicBool>,
    /// The most backups at once.
    pub workers: usize,
    /// The loop waits no longer before it looks at the clock, which may have jumped.
    pub beat: Duration,
    /// How long backups under way may take to stop.
    pub patience: Duration,
}

impl Service {
    /// Puts the accounts on the board.
    ///
    /// # Errors
    /// The mistakes of the configuration; the board is then as it was.
    pub fn load(&self) -> Result<(), Vec<String>> {
        let charges = self.work.charges()?;
        let mut found = BTreeMap::new();
        for charge in self.board.new_among(&charges) {
            let (notes, broken) = Notes::read(&charge.vault);
            if let Some(broken) = broken {
                tracing::warn!(account = charge.account, "{}", Shown(broken));
            }
            let held = self.work.look(&charge.account).unwrap_or_default();
            found.insert(charge.account, (notes, held));
        }
        for (account, what) in self.board.enter(charges, found) {
            tracing::debug!(account, "the account {what}");
        }
        for account in self.board.unkept() {
            self.board.keep(&account, keep);
        }
        Ok(())
    }

    /// Runs until the clock is interrupted; with `once`, until everybody who is
    /// due now had a turn.
    pub fn run(&self, once: bool, tell: &dyn Fn(News)) {
        if once {
            self.board.only_once();
        }
        let judging = Arc::new(AtomicBool::new(false));
        let mut judged = None;
        let mut status = String::new();
        tell(News::Ready);
        while !self.clock.interrupted() {
            if self.reload.swap(false, Ordering::SeqCst) && !once {
                tell(News::Reloading);
                self.reload();
                tell(News::Ready);
            }
            let soonest = self.board.look();
            for _ in 0..self.board.hire(self.workers) {
                self.hire();
            }
            if once && self.board.had_their_turn() {
                break;
            }
            let monotonic = self.clock.monotonic();
            if !once && judged.is_none_or(|judged| monotonic >= judged + JUDGED) {
                judged = Some(monotonic);
                self.judge_all(&judging);
            }
            tell(News::Alive);
            let now_status = self.status(soonest);
            if now_status != status {
                tell(News::Status(now_status.clone()));
                status = now_status;
            }
            self.bell.wait(self.rest(soonest));
        }
        if once && !self.clock.interrupted() {
            // Also those that were not due may have become too old.
            self.look_over();
        }
        tell(News::Stopping);
        self.end();
    }

    /// How long the loop may wait, where somebody is due at `soonest`.
    fn rest(&self, soonest: Option<Timestamp>) -> Duration {
        let full = self.board.working() >= self.workers;
        match soonest.map(|soonest| soonest.since(self.clock.now())) {
            Some(left) if left.is_zero() && !full => SHORT,
            Some(left) if !left.is_zero() => left.min(self.beat),
            _ => self.beat,
        }
    }

    fn status(&self, soonest: Option<Timestamp>) -> String {
        let (working, accounts) = (self.board.working(), self.board.accounts().len());
        let next = soonest.map_or("never".to_owned(), Timestamp::iso);
        format!("{accounts} accounts, {working} backups under way, the next at {next}")
    }

    fn reload(&self) {
        match self.load() {
            Ok(()) => {
                let accounts = self.board.accounts().len();
                tracing::info!(accounts, "the configuration was read again");
            }
            Err(mistakes) => {
                for mistake in mistakes {
                    tracing::error!("{}", Shown(mistake));
                }
                tracing::error!("the configuration is wrong; the old one is kept");
            }
        }
    }

    /// A thread that makes backups until there is none to be made.
    fn hire(&self) {
        let service = self.clone();
        let thread = std::thread::Builder::new().name("backup".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            while let Some(job) = service.board.take() {
                let made = catch_unwind(AssertUnwindSafe(|| service.make(&job)));
                if let Err(panic) = made {
                    let account = job.charge.account.as_str();
                    tracing::error!(account, "a defect: {}", said(&*panic));
                    // The account has its next turn all the same.
                    service.board.free(&job, &mut |_, _| {});
                }
                service.board.forget_gone(&job.charge.account);
            }
            service.bell.ring();
        });
        if let Err(error) = started {
            self.board.dismiss();
            tracing::error!("a backup cannot begin: {error}");
        }
    }

    fn make(&self, job: &Job) {
        let account = job.charge.account.as_str();
        let work = &self.work;
        let attempt = catch_unwind(AssertUnwindSafe(|| work.back_up(account)))
            .unwrap_or_else(|panic| broken_off(job, self.clock.now(), &*panic));
        if self.board.gave_up() {
            return;
        }
        report(account, &attempt);
        let guarded = |what: &str, panic: Box<dyn Any + Send>| {
            let text = format!("{what} broke off: {}", said(&*panic));
            tracing::error!(account, "{text}");
            text
        };
        let held = catch_unwind(AssertUnwindSafe(|| work.look(account)));
        let held = held.map_err(|panic| guarded("the look at the vault", panic)).ok().flatten();
        let judge = |after: Option<&[String]>, condition: &Condition, notes: &mut Notes| {
            self.judged(condition, Some(Finished { attempt: &attempt, after }), notes);
        };
        self.board.done(job, &attempt, held, &mut |it, notes| judge(None, it, notes));
        // What is known by now is not lost, however long the rest takes.
        self.board.keep(account, keep);
        let after = catch_unwind(AssertUnwindSafe(|| work.after(account, &attempt)));
        let after = after.unwrap_or_else(|it| Some(vec![guarded("the work after the backup", it)]));
        let after = after.as_deref();
        if let Some(failures) = after {
            self.board.after(job, failures);
        }
        self.board.free(job, &mut |it, notes| judge(after, it, notes));
        self.board.keep(account, keep);
        self.bell.ring();
        self.deliver(account);
    }

    /// Looks every account over on a thread of its own, since the receiver of an alert may
    /// be slow.
    fn judge_all(&self, judging: &Arc<AtomicBool>) {
        if judging.swap(true, Ordering::SeqCst) {
            return;
        }
        let (service, running) = (self.clone(), Arc::clone(judging));
        let thread = std::thread::Builder::new().name("judge".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| service.look_over())) {
                tracing::error!("looking the accounts over broke off: {}", said(&*panic));
            }
            running.store(false, Ordering::SeqCst);
        });
        if let Err(error) = started {
            judging.store(false, Ordering::SeqCst);
            tracing::error!("the accounts cannot be looked over: {error}");
        }
    }

    /// Finds out what is wrong with each account, and only then tells of it.
    fn look_over(&self) {
        let accounts = self.board.accounts();
        for account in &accounts {
            // Somebody may work on it by hand.
            let held = catch_unwind(AssertUnwindSafe(|| self.work.look_again(account)));
            if let Some(held) = held.ok().flatten() {
                self.board.hold(account, held);
            }
            self.board.adopt(account, |charge| Notes::known(&charge.vault));
            if self.board.judge(account, &mut |it, notes| self.judged(it, None, notes)) {
                self.board.keep(account, keep);
            }
        }
        for account in &accounts {
            self.deliver(account);
        }
    }

    fn judged(&self, condition: &Condition, ended: Option<Finished<'_>>, notes: &mut Notes) {
        let judge = AssertUnwindSafe(|| self.work.judge(condition, ended, notes));
        if let Err(panic) = catch_unwind(judge) {
            let account = condition.account.as_str();
            tracing::error!(account, "looking the account over broke off: {}", said(&*panic));
        }
    }

    fn deliver(&self, account: &str) {
        let Some(lent) = self.board.lend(account) else { return };
        let mut left = lent.clone();
        let delivered = catch_unwind(AssertUnwindSafe(|| self.work.deliver(account, &mut left)));
        if let Err(panic) = delivered {
            tracing::error!(account, "the delivery broke off: {}", said(&*panic));
        }
        let news = left != lent;
        self.board.give_back(account, &lent, left);
        if news {
            self.board.keep(account, keep);
        }
    }

    /// Waits for the backups under way, which stop after their request, and
    /// notes of those that do not that they were stopped.
    fn end(&self) {
        self.board.stop();
        let until = self.clock.monotonic() + self.patience;
        loop {
            let left = until.saturating_sub(self.clock.monotonic());
            if self.board.working() == 0 || left.is_zero() {
                break;
            }
            self.bell.wait(left.min(SHORT));
        }
        for job in self.board.give_up() {
            let message = "the program ended while the service was being asked";
            let attempt = Attempt {
                outcome: AttemptOutcome::Stopped,
                ..unmade(&job, self.clock.now(), message.to_owned())
            };
            report(&job.charge.account, &attempt);
            self.board.note(&job, &attempt);
            self.board.keep(&job.charge.account, keep);
        }
    }
}

fn keep(charge: &Charge, notes: &mut Notes) {
    if let Err(error) = notes.write(&charge.vault) {
        let file = super::notes::file(&charge.vault);
        let (account, file) = (charge.account.as_str(), file.display());
        tracing::error!(account, "{file} cannot be written: {error}");
    }
}

/// The line of the log that tells of a backup.
fn report(account: &str, attempt: &Attempt) {
    let Attempt { snapshot: run, requests, added, changed, removed, .. } = attempt;
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
            Shown(message)
        ),
        AttemptOutcome::Locked => tracing::warn!(account, "put off: {}", Shown(message)),
        AttemptOutcome::Failed => {
            tracing::error!(account, run, requests, seconds, "failed: {}", Shown(message));
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

fn unmade(job: &Job, ended: Timestamp, message: String) -> Attempt {
    Attempt { message: Some(message), ..Attempt::new(job.started, ended, AttemptOutcome::Failed) }
}

fn broken_off(job: &Job, ended: Timestamp, panic: &(dyn Any + Send)) -> Attempt {
    unmade(job, ended, format!("the program has a defect: {}", said(panic)))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Shown(text.unwrap_or_else(|| "it did not say which".to_owned())).to_string()
}

#[cfg(test)]
mod tests;
