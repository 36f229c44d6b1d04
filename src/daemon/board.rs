//! What the daemon knows while it runs: the agenda, and of each account its
//! notes and what its vault holds. Threads share it; it does nothing by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::agenda::{Agenda, Ended, Past, Timetable};
use super::condition::{Attempt, AttemptOutcome, Condition, Due, Held};
use super::notes::Notes;
use crate::clock::{Clock, Timestamp};

/// A loop that did nothing for so long is not alive.
const ALIVE: Duration = Duration::from_secs(60);

/// An account that the daemon looks after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    pub account: String,
    pub vault: PathBuf,
    /// The schedule as the configuration writes it.
    pub schedule: String,
    pub timetable: Timetable,
    /// The oldest that the newest complete backup may be; `None`: as old as the
    /// schedule lets it become.
    pub max_age: Option<Duration>,
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
    once: Option<BTreeSet<String>>,
}

struct Post {
    charge: Charge,
    notes: Notes,
    held: Held,
    /// Whether its notes are in somebody's hands.
    busy: bool,
    running: Option<Timestamp>,
}

/// A backup to be made.
#[derive(Debug, Clone)]
pub struct Job {
    pub charge: Charge,
    pub notes: Notes,
    pub started: Timestamp,
}

impl Board {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
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
        // Whoever is being backed up goes when that is done.
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
                }
                post.notes.schedule = Some(charge.counts_by());
                if let Some((notes, held)) = new {
                    (post.notes, post.held) = (notes, held);
                }
                post.charge = charge;
                let past = Past { served: post.notes.served.or(Some(now)), ..Past::default() };
                state.agenda.enter(&account, timetable, past, now);
                continue;
            }
            let (mut notes, held) = new.unwrap_or_default();
            let past = notes.past(&charge.counts_by(), &held, now);
            notes.schedule = Some(charge.counts_by());
            notes.served = past.served;
            state.agenda.enter(&account, timetable, past, now);
            let post = Post { charge, notes, held, busy: false, running: None };
            state.posts.insert(account.clone(), post);
            news.push((account, "is scheduled"));
        }
        news
    }

    /// From now on each account that is due at this moment has its turn once,
    /// and nobody else has one.
    pub fn only_once(&self) {
        let (mut state, now) = (self.state(), self.clock.now());
        let due = state.agenda.due(now).into_iter().collect();
        state.once = Some(due);
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
            once.remove(&account);
        }
        state.agenda.begin(&account, now);
        let post = state.posts.get_mut(&account)?;
        (post.busy, post.running) = (true, Some(now));
        Some(Job { charge: post.charge.clone(), notes: post.notes.clone(), started: now })
    }

    /// Puts back what came of a backup, and gives the notes to be kept.
    pub fn done(&self, job: &Job, attempt: &Attempt, mut notes: Notes, held: Held) -> Notes {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let account = &job.charge.account;
        let ended = match attempt.outcome {
            AttemptOutcome::Complete | AttemptOutcome::Partial => Ended::Served,
            AttemptOutcome::Failed if attempt.key_refused => Ended::Hopeless,
            AttemptOutcome::Failed => Ended::Failed,
            AttemptOutcome::Stopped => Ended::Stopped,
        };
        let Some(post) = state.posts.get_mut(account) else { return notes };
        state.agenda.end(account, ended, now);
        (post.busy, post.running) = (false, None);
        if let Some((served, tries)) = state.agenda.served(account) {
            (notes.served, notes.tries) = (Some(served), tries);
        }
        notes.schedule = Some(post.charge.counts_by());
        if post.charge.vault == job.charge.vault {
            (post.notes, post.held) = (notes.clone(), held);
        }
        if state.agenda.served(account).is_none() {
            state.posts.remove(account);
        }
        notes
    }

    /// Lends the notes of an account that nobody works on.
    #[must_use]
    pub fn lend(&self, account: &str) -> Option<(Charge, Notes, Condition)> {
        let now = self.clock.now();
        let mut state = self.state();
        let state = &mut *state;
        let post = state.posts.get_mut(account).filter(|post| !post.busy)?;
        post.busy = true;
        let condition = post.condition(&state.agenda, now);
        Some((post.charge.clone(), post.notes.clone(), condition))
    }

    /// Takes them back.
    pub fn give_back(&self, account: &str, notes: &Notes) {
        if let Some(post) = self.state().posts.get_mut(account) {
            post.busy = false;
            // The schedule may have changed meanwhile; the rest is what was lent.
            post.notes.problems.clone_from(&notes.problems);
            post.notes.outbox.clone_from(&notes.outbox);
            post.notes.watched = notes.watched;
            post.notes.heartbeat = notes.heartbeat;
        }
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
        let state = self.state();
        state.working == 0 && state.once.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Nobody has a turn any more.
    pub fn stop(&self) {
        self.state().stopping = true;
    }

    /// Takes away the backups that are still under way. What comes of them is
    /// nobody's concern any more.
    #[must_use]
    pub fn give_up(&self) -> Vec<Job> {
        let mut state = self.state();
        state.given_up = true;
        let jobs = state.posts.values_mut().filter_map(|post| {
            let started = post.running.take()?;
            Some(Job { charge: post.charge.clone(), notes: post.notes.clone(), started })
        });
        jobs.collect()
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
        let (posts, once) = (&self.posts, &self.once);
        let mut due = self.agenda.due(now);
        due.retain(|account| {
            let free = posts.get(account).is_some_and(|post| !post.busy);
            free && once.as_ref().is_none_or(|once| once.contains(account))
        });
        due
    }
}

impl Post {
    fn condition(&self, agenda: &Agenda, now: Timestamp) -> Condition {
        let account = &self.charge.account;
        let complete = self.notes.last_complete.max(self.held.last_complete);
        let due = Due {
            schedule: Some(self.charge.schedule.clone()),
            next: agenda.next(account),
            running: self.running,
            old_from: complete.and_then(|complete| self.charge.old_from(complete)),
        };
        Condition::of(account, &self.notes, &self.held, due, now)
    }
}
