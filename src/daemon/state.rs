//! What the daemon knows while it runs: what is due when, and of each account its
//! persisted state and what its vault holds. Threads share it; it does nothing by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::health::account_status::{AccountStatus, DueTimes, age_reference};
use crate::health::attempt::{AttemptOutcome, BackupAttempt, VaultSummary};
use crate::health::pending_alerts::PendingAlert;
use crate::health::persisted_state::PersistedState;
use crate::health::scheduled_account::ScheduledAccount;
use crate::schedule::due_queue::{BackupEnd, DueQueue, QueueHistory};

/// A loop that did nothing for so long is not alive.
const ALIVE: Duration = Duration::from_secs(60);

/// The state of the daemon.
pub struct DaemonState {
    clock: Arc<dyn Clock>,
    state: Mutex<SharedState>,
    /// Held while persisted states are written, so that the newest are written last.
    write_lock: Mutex<()>,
}

#[derive(Default)]
struct SharedState {
    agenda: DueQueue,
    accounts: BTreeMap<String, AccountState>,
    /// When the loop last looked.
    last_tick: Duration,
    /// Threads that make backups.
    working: usize,
    stopping: bool,
    given_up: bool,
    /// Who is still to be backed up where each is only once.
    once: Option<Vec<String>>,
}

struct AccountState {
    scheduled: ScheduledAccount,
    persisted: PersistedState,
    vault_summary: VaultSummary,
    /// Whether the file lacks something of the persisted state, and no backup writes it soon.
    dirty: bool,
    /// Whether its messages are being delivered.
    delivering: bool,
    running: Option<Timestamp>,
    /// Whether what came of the backup under way is in the persisted state: only the work
    /// after it is still to be done.
    is_recorded: bool,
}

/// Says in an account's persisted state what is wrong. It must be quick.
pub type EvaluateFn<'a> = &'a mut dyn FnMut(&AccountStatus, &mut PersistedState);

/// What waits to be delivered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PendingAlerts {
    pub outbox: Vec<PendingAlert>,
    /// Whether the heartbeat is to be delivered.
    pub heartbeat: bool,
}

/// A backup to be made.
#[derive(Debug, Clone)]
pub struct BackupJob {
    pub scheduled: ScheduledAccount,
    pub started: Timestamp,
}

impl DaemonState {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), write_lock: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How each account fares, by name.
    #[must_use]
    pub fn account_statuses(&self) -> Vec<AccountStatus> {
        let (state, now) = (self.state(), self.clock.now());
        state.accounts.values().map(|post| post.account_status(&state.agenda, now)).collect()
    }

    /// The vault of an account.
    #[must_use]
    pub fn vault(&self, account: &str) -> Option<PathBuf> {
        self.state().accounts.get(account).map(|post| post.scheduled.vault.clone())
    }

    /// Whether backups are begun when they are due.
    ///
    /// # Errors
    /// Since when they are not, as a sentence.
    pub fn alive(&self) -> Result<(), String> {
        let state = self.state();
        if state.stopping {
            return Err("the daemon is about to end".to_owned());
        }
        let still = self.clock.monotonic().saturating_sub(state.last_tick);
        if still <= ALIVE {
            return Ok(());
        }
        Err(format!("nothing was scheduled for {} seconds", still.as_secs()))
    }

    /// Those of `all_scheduled` that are not known yet.
    #[must_use]
    pub fn new_accounts(&self, all_scheduled: &[ScheduledAccount]) -> Vec<ScheduledAccount> {
        let state = self.state();
        let same = |scheduled: &&ScheduledAccount| {
            let post = state.accounts.get(&scheduled.account);
            post.is_none_or(|post| post.scheduled.vault != scheduled.vault)
        };
        all_scheduled.iter().filter(same).cloned().collect()
    }

    /// Makes `all_scheduled` the accounts of the daemon; `found` has the persisted states and the
    /// vaults of the new ones. Says who came, who went and whose times changed.
    pub fn update_accounts(
        &self,
        all_scheduled: Vec<ScheduledAccount>,
        mut found: BTreeMap<String, (PersistedState, VaultSummary)>,
    ) -> Vec<(String, &'static str)> {
        let (mut state, now) = (self.state(), self.clock.now());
        let state = &mut *state;
        let mut new_alerts = Vec::new();
        let stays: BTreeSet<_> =
            all_scheduled.iter().map(|scheduled| scheduled.account.clone()).collect();
        for gone in state.accounts.keys().filter(|account| !stays.contains(*account)) {
            new_alerts.push((gone.clone(), "is not scheduled any more"));
        }
        // An account that is being backed up goes when that is done.
        state.accounts.retain(|account, post| stays.contains(account) || post.running.is_some());
        state.agenda.retain(|account| stays.contains(account));
        for scheduled in all_scheduled {
            let account = scheduled.account.clone();
            let timetable = scheduled.timetable.clone();
            let new = found.remove(&account);
            if let Some(post) = state.accounts.get_mut(&account) {
                if post.scheduled.timetable != timetable {
                    new_alerts.push((account.clone(), "has a new schedule"));
                    post.persisted.served = Some(now);
                    post.dirty = true;
                }
                if let Some((persisted, held)) = new {
                    (post.persisted, post.vault_summary) = (persisted, held);
                }
                post.persisted.schedule = Some(scheduled.schedule_id());
                post.scheduled = scheduled;
                let past = QueueHistory {
                    served: post.persisted.served.or(Some(now)),
                    ..QueueHistory::default()
                };
                state.agenda.insert(&account, timetable, past, now);
                continue;
            }
            let (mut persisted, held) = new.unwrap_or_default();
            let past = persisted.past(&scheduled.schedule_id(), &held, now);
            let schedule = Some(scheduled.schedule_id());
            // From when the new schedule counts must outlive this process.
            let unkept = persisted.schedule.is_some() && persisted.schedule != schedule;
            (persisted.schedule, persisted.served) = (schedule, past.served);
            state.agenda.insert(&account, timetable, past, now);
            state
                .accounts
                .insert(account.clone(), AccountState::new(scheduled, persisted, held, unkept));
            new_alerts.push((account, "is scheduled"));
        }
        new_alerts
    }

    /// From now on each account that is due at this moment has its turn once,
    /// and no other account has one.
    pub fn only_once(&self) {
        let (mut state, now) = (self.state(), self.clock.now());
        state.once = Some(state.agenda.due(now));
    }

    /// Notes that the loop is alive, and says when somebody is due next.
    pub fn tick(&self) -> Option<Timestamp> {
        let mut state = self.state();
        state.last_tick = self.clock.monotonic();
        state.agenda.next_due()
    }

    /// How many more threads there is work for, `most` being there at once.
    /// They are counted as working until [`DaemonState::take`] has nothing for them.
    pub fn reserve_workers(&self, most: usize) -> usize {
        let now = self.clock.now();
        let mut state = self.state();
        let waiting = state.waiting(now).len();
        let more = waiting.min(most.saturating_sub(state.working));
        state.working += more;
        more
    }

    /// Takes back that a thread was hired.
    pub fn release_worker(&self) {
        let mut state = self.state();
        state.working = state.working.saturating_sub(1);
    }

    /// The next backup, for a thread that was hired; with `None` it is dismissed.
    #[must_use]
    pub fn take(&self) -> Option<BackupJob> {
        let now = self.clock.now();
        let mut state = self.state();
        let Some(account) = state.waiting(now).into_iter().next() else {
            state.working = state.working.saturating_sub(1);
            return None;
        };
        let state = &mut *state;
        if let Some(once) = &mut state.once {
            once.retain(|it| *it != account);
        }
        state.agenda.begin(&account, now);
        let post = state.accounts.get_mut(&account)?;
        (post.running, post.is_recorded) = (Some(now), false);
        Some(BackupJob { scheduled: post.scheduled.clone(), started: now })
    }

    /// Notes what came of a backup, and what is wrong now by `judge`. Without
    /// `held`, what the vault held before is believed. Until [`DaemonState::finish_job`] the
    /// account has no other turn.
    pub fn record_attempt(
        &self,
        job: &BackupJob,
        attempt: &BackupAttempt,
        held: Option<VaultSummary>,
        judge: EvaluateFn<'_>,
    ) {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let account = &job.scheduled.account;
        // The result of one that was taken away is ignored.
        let post = state.accounts.get_mut(account).filter(|post| post.running == Some(job.started));
        let Some(post) = post else { return };
        let ended = match attempt.outcome {
            AttemptOutcome::Complete | AttemptOutcome::Partial => BackupEnd::Finished,
            AttemptOutcome::Failed if attempt.key_refused => BackupEnd::FailedForGood,
            AttemptOutcome::Failed => BackupEnd::Failed,
            AttemptOutcome::Stopped => BackupEnd::Stopped,
            AttemptOutcome::Locked => BackupEnd::Locked,
        };
        state.agenda.end(account, ended, now);
        post.is_recorded = true;
        if post.scheduled.vault == job.scheduled.vault {
            post.persisted.add(attempt);
            if let Some(held) = held {
                if !held.records.is_empty() {
                    post.persisted.records.clone_from(&held.records);
                }
                post.vault_summary.update(held);
            }
        }
        if let Some((served, tries)) = state.agenda.served(account) {
            (post.persisted.served, post.persisted.tries) = (Some(served), tries);
        }
        post.persisted.schedule = Some(post.scheduled.schedule_id());
        post.evaluate(&state.agenda, now, judge);
    }

    /// Ends the turn that [`DaemonState::take`] gave, whatever became of it, and says
    /// by `judge` what is wrong now.
    pub fn finish_job(&self, job: &BackupJob, judge: EvaluateFn<'_>) {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let account = &job.scheduled.account;
        let post = state.accounts.get_mut(account).filter(|post| post.running == Some(job.started));
        let Some(post) = post else { return };
        post.running = None;
        if !post.is_recorded {
            state.agenda.end(account, BackupEnd::Failed, now);
        }
        post.evaluate(&state.agenda, now, judge);
    }

    /// Forgets an account that left the configuration while it was backed up.
    pub fn forget_gone(&self, account: &str) {
        let mut state = self.state();
        let running = state.accounts.get(account).is_some_and(|post| post.running.is_some());
        if state.agenda.served(account).is_none() && !running {
            state.accounts.remove(account);
        }
    }

    /// Says by `judge` what is wrong with an account now, and whether that changed.
    pub fn evaluate(&self, account: &str, judge: EvaluateFn<'_>) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let Some(post) = state.accounts.get_mut(account) else { return false };
        let before = post.persisted.clone();
        post.evaluate(&state.agenda, now, judge);
        post.persisted != before
    }

    /// Notes what the vault of an account holds.
    pub fn set_vault_summary(&self, account: &str, held: VaultSummary) {
        if let Some(post) = self.state().accounts.get_mut(account) {
            post.vault_summary.update(held);
        }
    }

    /// Notes what went wrong in the work after a backup, before [`DaemonState::finish_job`].
    pub fn record_post_backup(&self, job: &BackupJob, failures: &[String]) {
        if let Some(post) = self.state().accounts.get_mut(&job.scheduled.account) {
            post.persisted.after = Some(failures.to_vec());
        }
    }

    /// Takes over what other processes have recorded, as `read` finds it.
    pub fn merge_persisted(
        &self,
        account: &str,
        read: impl FnOnce(&ScheduledAccount) -> Option<PersistedState>,
    ) {
        let _pen = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(scheduled) = self.state().accounts.get(account).map(|post| post.scheduled.clone())
        else {
            return;
        };
        let Some(found) = read(&scheduled) else { return };
        let mut state = self.state();
        let post =
            state.accounts.get_mut(account).filter(|it| it.scheduled.vault == scheduled.vault);
        if let Some(post) = post {
            post.persisted.take_record(&found);
        }
    }

    /// The accounts whose file lacks something of the persisted state.
    #[must_use]
    pub fn dirty_accounts(&self) -> Vec<String> {
        let state = self.state();
        let unkept = state.accounts.iter().filter(|(_, post)| post.dirty);
        unkept.map(|(account, _)| account.clone()).collect()
    }

    /// Has `write` write the persisted state of an account; one account at a time.
    /// It takes over what other processes have recorded there.
    pub fn persist(
        &self,
        account: &str,
        write: impl FnOnce(&ScheduledAccount, &mut PersistedState),
    ) {
        let _pen = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.state().accounts.get_mut(account).map(|post| {
            post.dirty = false;
            let persisted = post.persisted.clone();
            post.persisted.pending.clear();
            (post.scheduled.clone(), persisted)
        });
        let Some((scheduled, mut persisted)) = taken else { return };
        let pending = persisted.pending.clone();
        write(&scheduled, &mut persisted);
        let mut state = self.state();
        let Some(post) = state.accounts.get_mut(account) else { return };
        if post.scheduled.vault != scheduled.vault {
            return;
        }
        if persisted.pending.is_empty() {
            post.persisted.take_record(&persisted);
        } else {
            post.persisted.pending.splice(0..0, pending);
        }
    }

    /// Lends what waits to be delivered; `None` where there is nothing, or where
    /// somebody has it already.
    #[must_use]
    pub fn take_pending(&self, account: &str) -> Option<PendingAlerts> {
        let mut state = self.state();
        let post = state.accounts.get_mut(account).filter(|post| !post.delivering)?;
        if post.persisted.outbox.is_empty() && !post.persisted.heartbeat {
            return None;
        }
        post.delivering = true;
        Some(PendingAlerts {
            outbox: post.persisted.outbox.clone(),
            heartbeat: post.persisted.heartbeat,
        })
    }

    /// Takes back what is `left` of it. What came meanwhile comes after that.
    pub fn restore_pending(&self, account: &str, lent: &PendingAlerts, left: PendingAlerts) {
        let mut state = self.state();
        let Some(post) = state.accounts.get_mut(account) else { return };
        post.delivering = false;
        let came = post.persisted.outbox.drain(..).filter(|item| !lent.outbox.contains(item));
        let came: Vec<_> = came.collect();
        post.persisted.outbox = left.outbox;
        post.persisted.outbox.extend(came);
        post.persisted.heartbeat &= left.heartbeat || !lent.heartbeat;
    }

    /// The accounts by name.
    #[must_use]
    pub fn accounts(&self) -> Vec<String> {
        self.state().accounts.keys().cloned().collect()
    }

    /// Threads that make backups.
    #[must_use]
    pub fn working(&self) -> usize {
        self.state().working
    }

    /// Whether all who were to have their turn once had it.
    #[must_use]
    pub fn is_once_done(&self) -> bool {
        let mut state = self.state();
        let SharedState { accounts, once, .. } = &mut *state;
        if let Some(once) = once {
            once.retain(|account| accounts.contains_key(account));
        }
        state.working == 0 && state.once.as_ref().is_some_and(Vec::is_empty)
    }

    /// No account has a turn from now on.
    pub fn stop(&self) {
        self.state().stopping = true;
    }

    /// Takes away the backups that are still under way. Their results are ignored.
    #[must_use]
    pub fn give_up(&self) -> Vec<BackupJob> {
        let mut state = self.state();
        state.given_up = true;
        let jobs = state.accounts.values_mut().filter_map(|post| {
            let started = post.running.take()?;
            (!post.is_recorded).then(|| BackupJob { scheduled: post.scheduled.clone(), started })
        });
        jobs.collect()
    }

    /// Adds to the persisted state how a backup ended that was taken away.
    pub fn record_stopped(&self, job: &BackupJob, attempt: &BackupAttempt) {
        if let Some(post) = self.state().accounts.get_mut(&job.scheduled.account) {
            post.persisted.add(attempt);
        }
    }

    /// Whether the backups under way were taken away.
    #[must_use]
    pub fn has_given_up(&self) -> bool {
        self.state().given_up
    }
}

impl SharedState {
    fn waiting(&mut self, now: Timestamp) -> Vec<String> {
        if self.stopping {
            return Vec::new();
        }
        let mut due = match &self.once {
            // Whatever the clock does meanwhile.
            Some(once) => once.clone(),
            None => self.agenda.due(now),
        };
        due.retain(|account| self.accounts.get(account).is_some_and(|post| post.running.is_none()));
        due
    }
}

impl AccountState {
    fn new(
        scheduled: ScheduledAccount,
        persisted: PersistedState,
        held: VaultSummary,
        unkept: bool,
    ) -> Self {
        Self {
            scheduled,
            persisted,
            vault_summary: held,
            dirty: unkept,
            delivering: false,
            running: None,
            is_recorded: false,
        }
    }

    fn evaluate(&mut self, agenda: &DueQueue, now: Timestamp, judge: EvaluateFn<'_>) {
        let account_status = self.account_status(agenda, now);
        judge(&account_status, &mut self.persisted);
    }

    fn account_status(&self, agenda: &DueQueue, now: Timestamp) -> AccountStatus {
        let account = &self.scheduled.account;
        let from = age_reference(&self.persisted, &self.vault_summary, now);
        let due = DueTimes {
            schedule: Some(self.scheduled.schedule.clone()),
            next: agenda.next(account),
            running: self.running,
            old_from: from.and_then(|from| self.scheduled.too_old_at(from)),
        };
        let most_removed = self.scheduled.most_removed;
        AccountStatus::evaluate(
            account,
            &self.persisted,
            &self.vault_summary,
            due,
            most_removed,
            now,
        )
    }
}

#[cfg(test)]
mod tests;
