//! What the daemon knows while it runs: the agenda, and of each account its
//! notes and what its vault holds. Threads share it; it does nothing by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::agenda::{Agenda, Ended, Past, Timetable};
use super::condition::{Condition, Due, age_from};
use super::facts::{Attempt, AttemptOutcome, Held};
use super::notes::Notes;
use super::outbox::Outgoing;
use super::problems::Threshold;
use crate::clock::{Clock, Timestamp};

/// A loop that did nothing for so long is not alive.
const ALIVE: Duration = Duration::from_secs(60);

/// An account that the daemon looks after.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    pub account: String,
    pub vault: PathBuf,
    /// The schedule as the configuration writes it.
    pub schedule: String,
    pub timetable: Timetable,
    /// The oldest that the newest complete backup may be; `None`: as old as the
    /// schedule lets it become.
    pub max_age: Option<Duration>,
    /// How many records may vanish between two backups.
    pub most_removed: Threshold,
}

impl Charge {
    /// From when a backup that was complete at `complete` is too old.
    #[must_use]
    pub fn old_from(&self, complete: Timestamp) -> Option<Timestamp> {
        match self.max_age {
            Some(age) => Some(complete.plus(age)),
            None => self.timetable.old_from(complete),
        }
    }

    /// By what its notes count: the schedule and the zone.
    #[must_use]
    pub fn counts_by(&self) -> String {
        format!("{} {}", self.schedule, self.timetable.zone)
    }
}

/// The state of the daemon.
pub struct Board {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Held while notes are written to the disk, so that the newest come last.
    pen: Mutex<()>,
}

#[derive(Default)]
struct State {
    agenda: Agenda,
    posts: BTreeMap<String, Post>,
    /// When the loop last looked.
    looked: Duration,
    /// Threads that make backups.
    working: usize,
    stopping: bool,
    given_up: bool,
    /// Who is still to be backed up where each is only once.
    once: Option<Vec<String>>,
}

struct Post {
    charge: Charge,
    notes: Notes,
    held: Held,
    /// Whether the notes say what their file does not, and no backup will tell soon.
    unkept: bool,
    /// Whether its messages are being delivered.
    posting: bool,
    running: Option<Timestamp>,
    /// Whether what came of the backup under way is in the notes: only the work
    /// after it is still to be done.
    noted: bool,
}

/// Who says in an account's notes what is wrong. It must be quick.
pub type Judge<'a> = &'a mut dyn FnMut(&Condition, &mut Notes);

/// What waits to be delivered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mail {
    pub outbox: Vec<Outgoing>,
    /// Whether the heartbeat is to be delivered.
    pub heartbeat: bool,
}

/// A backup to be made.
#[derive(Debug, Clone)]
pub struct Job {
    pub charge: Charge,
    pub started: Timestamp,
}

impl Board {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), pen: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How each account fares, by name.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        let (state, now) = (self.state(), self.clock.now());
        state.posts.values().map(|post| post.condition(&state.agenda, now)).collect()
    }

    /// The vault of an account.
    #[must_use]
    pub fn vault(&self, account: &str) -> Option<PathBuf> {
        self.state().posts.get(account).map(|post| post.charge.vault.clone())
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
        let still = self.clock.monotonic().saturating_sub(state.looked);
        if still <= ALIVE {
            return Ok(());
        }
        Err(format!("nothing was scheduled for {} seconds", still.as_secs()))
    }

    /// The charges that are not on the board yet.
    #[must_use]
    pub fn new_among(&self, charges: &[Charge]) -> Vec<Charge> {
        let state = self.state();
        let same = |charge: &&Charge| {
            let post = state.posts.get(&charge.account);
            post.is_none_or(|post| post.charge.vault != charge.vault)
        };
        charges.iter().filter(same).cloned().collect()
    }

    /// Makes `charges` the accounts of the board; `found` has the notes and the
    /// vaults of the new ones. Says who came, who went and whose times changed.
    pub fn enter(
        &self,
        charges: Vec<Charge>,
        mut found: BTreeMap<String, (Notes, Held)>,
    ) -> Vec<(String, &'static str)> {
        let (mut state, now) = (self.state(), self.clock.now());
        let state = &mut *state;
        let mut news = Vec::new();
        let stays: BTreeSet<_> = charges.iter().map(|charge| charge.account.clone()).collect();
        for gone in state.posts.keys().filter(|account| !stays.contains(*account)) {
            news.push((gone.clone(), "is not scheduled any more"));
        }
        // An account that is being backed up goes when that is done.
        state.posts.retain(|account, post| stays.contains(account) || post.running.is_some());
        state.agenda.retain(|account| stays.contains(account));
        for charge in charges {
            let account = charge.account.clone();
            let timetable = charge.timetable.clone();
            let new = found.remove(&account);
            if let Some(post) = state.posts.get_mut(&account) {
                if post.charge.timetable != timetable {
                    news.push((account.clone(), "has a new schedule"));
                    post.notes.served = Some(now);
                    post.unkept = true;
                }
                if let Some((notes, held)) = new {
                    (post.notes, post.held) = (notes, held);
                }
                post.notes.schedule = Some(charge.counts_by());
                post.charge = charge;
                let past = Past { served: post.notes.served.or(Some(now)), ..Past::default() };
                state.agenda.enter(&account, timetable, past, now);
                continue;
            }
            let (mut notes, held) = new.unwrap_or_default();
            let past = notes.past(&charge.counts_by(), &held, now);
            let schedule = Some(charge.counts_by());
            // From when the new schedule counts must outlive this process.
            let unkept = notes.schedule.is_some() && notes.schedule != schedule;
            (notes.schedule, notes.served) = (schedule, past.served);
            state.agenda.enter(&account, timetable, past, now);
            state.posts.insert(account.clone(), Post::new(charge, notes, held, unkept));
            news.push((account, "is scheduled"));
        }
        news
    }

    /// From now on each account that is due at this moment has its turn once,
    /// and no other account has one.
    pub fn only_once(&self) {
        let (mut state, now) = (self.state(), self.clock.now());
        state.once = Some(state.agenda.due(now));
    }

    /// Notes that the loop is alive, and says when somebody is due next.
    pub fn look(&self) -> Option<Timestamp> {
        let mut state = self.state();
        state.looked = self.clock.monotonic();
        state.agenda.soonest()
    }

    /// How many more threads there is work for, `most` being there at once.
    /// They are counted as working until [`Board::take`] has nothing for them.
    pub fn hire(&self, most: usize) -> usize {
        let now = self.clock.now();
        let mut state = self.state();
        let waiting = state.waiting(now).len();
        let more = waiting.min(most.saturating_sub(state.working));
        state.working += more;
        more
    }

    /// Takes back that a thread was hired.
    pub fn dismiss(&self) {
        let mut state = self.state();
        state.working = state.working.saturating_sub(1);
    }

    /// The next backup, for a thread that was hired; with `None` it is dismissed.
    #[must_use]
    pub fn take(&self) -> Option<Job> {
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
        let post = state.posts.get_mut(&account)?;
        (post.running, post.noted) = (Some(now), false);
        Some(Job { charge: post.charge.clone(), started: now })
    }

    /// Notes what came of a backup, and what is wrong now by `judge`. Without
    /// `held`, what the vault held before is believed. Until [`Board::free`] the
    /// account has no other turn.
    pub fn done(&self, job: &Job, attempt: &Attempt, held: Option<Held>, judge: Judge<'_>) {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let account = &job.charge.account;
        // The result of one that was taken away is ignored.
        let post = state.posts.get_mut(account).filter(|post| post.running == Some(job.started));
        let Some(post) = post else { return };
        let ended = match attempt.outcome {
            AttemptOutcome::Complete | AttemptOutcome::Partial => Ended::Served,
            AttemptOutcome::Failed if attempt.key_refused => Ended::Hopeless,
            AttemptOutcome::Failed => Ended::Failed,
            AttemptOutcome::Stopped => Ended::Stopped,
            AttemptOutcome::Locked => Ended::Locked,
        };
        state.agenda.end(account, ended, now);
        post.noted = true;
        if post.charge.vault == job.charge.vault {
            post.notes.add(attempt);
            if let Some(held) = held {
                if !held.records.is_empty() {
                    post.notes.records.clone_from(&held.records);
                }
                post.held.renew(held);
            }
        }
        if let Some((served, tries)) = state.agenda.served(account) {
            (post.notes.served, post.notes.tries) = (Some(served), tries);
        }
        post.notes.schedule = Some(post.charge.counts_by());
        post.judge(&state.agenda, now, judge);
    }

    /// Ends the turn that [`Board::take`] gave, whatever became of it, and says
    /// by `judge` what is wrong now.
    pub fn free(&self, job: &Job, judge: Judge<'_>) {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let account = &job.charge.account;
        let post = state.posts.get_mut(account).filter(|post| post.running == Some(job.started));
        let Some(post) = post else { return };
        post.running = None;
        if !post.noted {
            state.agenda.end(account, Ended::Failed, now);
        }
        post.judge(&state.agenda, now, judge);
    }

    /// Forgets an account that left the configuration while it was backed up.
    pub fn forget_gone(&self, account: &str) {
        let mut state = self.state();
        let running = state.posts.get(account).is_some_and(|post| post.running.is_some());
        if state.agenda.served(account).is_none() && !running {
            state.posts.remove(account);
        }
    }

    /// Says by `judge` what is wrong with an account now, and whether that is news.
    pub fn judge(&self, account: &str, judge: Judge<'_>) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let Some(post) = state.posts.get_mut(account) else { return false };
        let before = post.notes.clone();
        post.judge(&state.agenda, now, judge);
        post.notes != before
    }

    /// Notes what the vault of an account holds.
    pub fn hold(&self, account: &str, held: Held) {
        if let Some(post) = self.state().posts.get_mut(account) {
            post.held.renew(held);
        }
    }

    /// Notes what went wrong in the work after a backup, before [`Board::free`].
    pub fn after(&self, job: &Job, failures: &[String]) {
        if let Some(post) = self.state().posts.get_mut(&job.charge.account) {
            post.notes.after = Some(failures.to_vec());
        }
    }

    /// Takes over what other processes have recorded, as `read` finds it.
    pub fn adopt(&self, account: &str, read: impl FnOnce(&Charge) -> Option<Notes>) {
        let _pen = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(charge) = self.state().posts.get(account).map(|post| post.charge.clone()) else {
            return;
        };
        let Some(found) = read(&charge) else { return };
        let mut state = self.state();
        let post = state.posts.get_mut(account).filter(|it| it.charge.vault == charge.vault);
        if let Some(post) = post {
            post.notes.take_record(&found);
        }
    }

    /// Whose notes say what their file does not.
    #[must_use]
    pub fn unkept(&self) -> Vec<String> {
        let state = self.state();
        let unkept = state.posts.iter().filter(|(_, post)| post.unkept);
        unkept.map(|(account, _)| account.clone()).collect()
    }

    /// Has `write` put the notes of an account onto the disk; one account at a time.
    /// It takes over what other processes have recorded there.
    pub fn keep(&self, account: &str, write: impl FnOnce(&Charge, &mut Notes)) {
        let _pen = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.state().posts.get_mut(account).map(|post| {
            post.unkept = false;
            let notes = post.notes.clone();
            post.notes.pending.clear();
            (post.charge.clone(), notes)
        });
        let Some((charge, mut notes)) = taken else { return };
        let pending = notes.pending.clone();
        write(&charge, &mut notes);
        let mut state = self.state();
        let Some(post) = state.posts.get_mut(account) else { return };
        if post.charge.vault != charge.vault {
            return;
        }
        if notes.pending.is_empty() {
            post.notes.take_record(&notes);
        } else {
            post.notes.pending.splice(0..0, pending);
        }
    }

    /// Lends what waits to be delivered; `None` where there is nothing, or where
    /// somebody has it already.
    #[must_use]
    pub fn lend(&self, account: &str) -> Option<Mail> {
        let mut state = self.state();
        let post = state.posts.get_mut(account).filter(|post| !post.posting)?;
        if post.notes.outbox.is_empty() && !post.notes.heartbeat {
            return None;
        }
        post.posting = true;
        Some(Mail { outbox: post.notes.outbox.clone(), heartbeat: post.notes.heartbeat })
    }

    /// Takes back what is `left` of it. What came meanwhile comes after that.
    pub fn give_back(&self, account: &str, lent: &Mail, left: Mail) {
        let mut state = self.state();
        let Some(post) = state.posts.get_mut(account) else { return };
        post.posting = false;
        let came = post.notes.outbox.drain(..).filter(|item| !lent.outbox.contains(item));
        let came: Vec<_> = came.collect();
        post.notes.outbox = left.outbox;
        post.notes.outbox.extend(came);
        post.notes.heartbeat &= left.heartbeat || !lent.heartbeat;
    }

    /// The accounts by name.
    #[must_use]
    pub fn accounts(&self) -> Vec<String> {
        self.state().posts.keys().cloned().collect()
    }

    /// Threads that make backups.
    #[must_use]
    pub fn working(&self) -> usize {
        self.state().working
    }

    /// Whether all who were to have their turn once had it.
    #[must_use]
    pub fn had_their_turn(&self) -> bool {
        let mut state = self.state();
        let State { posts, once, .. } = &mut *state;
        if let Some(once) = once {
            once.retain(|account| posts.contains_key(account));
        }
        state.working == 0 && state.once.as_ref().is_some_and(Vec::is_empty)
    }

    /// No account has a turn from now on.
    pub fn stop(&self) {
        self.state().stopping = true;
    }

    /// Takes away the backups that are still under way. Their results are ignored.
    #[must_use]
    pub fn give_up(&self) -> Vec<Job> {
        let mut state = self.state();
        state.given_up = true;
        let jobs = state.posts.values_mut().filter_map(|post| {
            let started = post.running.take()?;
            (!post.noted).then(|| Job { charge: post.charge.clone(), started })
        });
        jobs.collect()
    }

    /// Adds to the notes what became of one that was taken away.
    pub fn note(&self, job: &Job, attempt: &Attempt) {
        if let Some(post) = self.state().posts.get_mut(&job.charge.account) {
            post.notes.add(attempt);
        }
    }

    /// Whether the backups under way were taken away.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        self.state().given_up
    }
}

impl State {
    fn waiting(&mut self, now: Timestamp) -> Vec<String> {
        if self.stopping {
            return Vec::new();
        }
        let mut due = match &self.once {
            // Whatever the clock does meanwhile.
            Some(once) => once.clone(),
            None => self.agenda.due(now),
        };
        due.retain(|account| self.posts.get(account).is_some_and(|post| post.running.is_none()));
        due
    }
}

impl Post {
    fn new(charge: Charge, notes: Notes, held: Held, unkept: bool) -> Self {
        Self { charge, notes, held, unkept, posting: false, running: None, noted: false }
    }

    fn judge(&mut self, agenda: &Agenda, now: Timestamp, judge: Judge<'_>) {
        let condition = self.condition(agenda, now);
        judge(&condition, &mut self.notes);
    }

    fn condition(&self, agenda: &Agenda, now: Timestamp) -> Condition {
        let account = &self.charge.account;
        let from = age_from(&self.notes, &self.held, now);
        let due = Due {
            schedule: Some(self.charge.schedule.clone()),
            next: agenda.next(account),
            running: self.running,
            old_from: from.and_then(|from| self.charge.old_from(from)),
        };
        let most_removed = self.charge.most_removed;
        Condition::of(account, &self.notes, &self.held, due, most_removed, now)
    }
}

#[cfg(test)]
mod tests;
