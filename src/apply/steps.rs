//! Each step of a run with its journal: when its intent is written, what is
//! repeated, and what has to be looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answer::{Fate, fate, says_absent, says_present};
use super::error::ApplyError;
use super::prepare::Proofs;
use super::settle::Seen;
use super::{Options, keep, request};
use crate::api::client::Client;
use crate::api::error::{ApiError, ApiErrorKind};
use crate::api::http::Response;
use crate::change::plan::Step;
use crate::clock::{Clock, Slept, Timestamp};
use crate::model::{Resource, Verb};
use crate::progress::{Event, Progress};
use crate::vault::Vault;
use crate::vault::journal::{Settled, StepState};

/// How often a request is tried whose outcome is not known.
const TRIES: u32 = 5;
/// Why a step failed whose every answer was lost.
const NOT_DONE: &str = "no answer came, and the list shows that it was not done";
/// Of a password whose answer was lost, and which is stored nowhere.
pub(super) const MAY_BE_SET: &str = "the new password may have been set, and is stored nowhere; leave this \
                          step with `linkvault resolve`, then set it again";
/// How many intents share a commit where the service has no limit.
const GROUP: usize = 32;
/// After this many creates in a row without an answer, their list is read.
const MANY_UNANSWERED: u32 = 5;
/// The first pause before a repeat; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A step, and what is known of it.
#[derive(Debug)]
pub(super) struct Work {
    pub step: Step,
    pub state: StepState,
    pub id: Option<i64>,
    /// Tries of this process. Of those before, some may never have left: a group
    /// of intents is written down at once.
    pub attempts: u32,
    /// When it was last about to leave.
    pub sent: Option<Timestamp>,
    /// An earlier try may have worked.
    pub doubted: bool,
    /// The service declined to do it again.
    pub declined: bool,
    /// The last thing that was said of it.
    pub message: Option<String>,
    /// Whether other steps need its record.
    pub needed: bool,
}

impl Work {
    /// No outcome is known yet.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, StepState::Planned | StepState::Sent)
    }
}

/// A run under way.
pub(super) struct Runner<'a> {
    pub client: &'a mut Client,
    pub vault: &'a mut Vault,
    pub clock: &'a dyn Clock,
    pub progress: &'a dyn Progress,
    pub options: &'a Options,
    pub run: i64,
    pub all: Vec<Work>,
    /// How many of them have no outcome yet.
    pub open: u64,
    /// What was seen before the next create is sent.
    pub known: BTreeMap<Resource, Seen>,
    /// What was proven of the account before the next write is sent.
    pub proofs: Proofs,
    /// Steps whose intent is written and whose request has not left.
    pub intended: BTreeSet<usize>,
    /// Creates without an answer in a row.
    pub unanswered: u32,
    /// Requests that reading everything once more will take.
    pub reading: u64,
    /// Whether this process sent anything.
    pub wrote: bool,
    /// Whether an earlier process looked at what the run left.
    pub seen: bool,
    /// Steps whose end progress has told in words.
    pub told: BTreeSet<u32>,
}

/// Whether a step can be sent.
enum Ready {
    Now,
    /// It makes no sense any more, for this reason.
    Skip(String),
    /// What it waits for needs a person.
    Wait,
}

impl Runner<'_> {
    /// Sends every step that can be sent, and settles what has no answer.
    pub fn work(&mut self) -> Result<(), ApplyError> {
        self.settle(|resource| !resource.spec().shows_key())?;
        loop {
            for nth in 0..self.all.len() {
                self.one(nth)?;
                if self.options.fail_fast && self.all[nth].state == StepState::Refused {
                    self.settle(|_| true)?;
                    return self.skip_the_rest();
                }
            }
            self.settle(|_| true)?;
            if !self.is_any_due() {
                return Ok(());
            }
        }
    }

    /// Whether any step is not sent, and does not wait for what needs a person,
    /// or for what waits for that.
    fn is_any_due(&self) -> bool {
        let mut waits = vec![false; self.all.len()];
        for (nth, work) in self.all.iter().enumerate() {
            waits[nth] =
                work.state == StepState::Unknown || self.waits_for(nth).any(|on| waits[on]);
            let open = work.state == StepState::Planned || self.intended.contains(&nth);
            if open && !waits[nth] {
                return true;
            }
        }
        false
    }

    /// The places of the steps that the `nth` waits for; only earlier ones count.
    fn waits_for(&self, nth: usize) -> impl Iterator<Item = usize> + use<> {
        let on = self.all[nth].step.waits_for.clone();
        on.into_iter().filter_map(|on| (on as usize).checked_sub(1)).filter(move |on| *on < nth)
    }

    fn one(&mut self, nth: usize) -> Result<(), ApplyError> {
        loop {
            let open = match self.all[nth].state {
                StepState::Planned => true,
                // A create waits to be settled, unless its request never left.
                StepState::Sent => {
                    self.all[nth].step.verb != Verb::Create || self.intended.contains(&nth)
                }
                _ => false,
            };
            if !open {
                return Ok(());
            }
            match self.readiness(nth)? {
                Ready::Now => {}
                Ready::Skip(why) => {
                    let skipped = Settled::of(StepState::Skipped).saying(why);
                    self.intended.remove(&nth);
                    return self.close(nth, &skipped);
                }
                Ready::Wait => {
                    if self.intended.remove(&nth) {
                        self.take_back(&[nth])?;
                    }
                    return Ok(());
                }
            }
            if !self.prepare(nth)? {
                return Ok(());
            }
            self.intend(nth)?;
            self.send(nth)?;
            let work = &self.all[nth];
            if work.state == StepState::Sent && !work.step.resource.spec().shows_key() {
                let resource = work.step.resource;
                self.settle(|it| it == resource)?;
            } else if self.unanswered >= MANY_UNANSWERED {
                self.unanswered = 0;
                self.settle(|_| true)?;
            } else {
                return Ok(());
            }
        }
    }

    fn readiness(&mut self, nth: usize) -> Result<Ready, ApplyError> {
        for on in self.waits_for(nth) {
            loop {
                let (state, number) = (self.all[on].state, self.all[on].step.step);
                match state {
                    StepState::Done => break,
                    StepState::Refused => {
                        return Ok(Ready::Skip(format!("step {number} was refused")));
                    }
                    StepState::Skipped => {
                        return Ok(Ready::Skip(format!("step {number} was skipped")));
                    }
                    StepState::Stale => {
                        return Ok(Ready::Skip(format!("step {number} is stale")));
                    }
                    StepState::Unknown => return Ok(Ready::Wait),
                    // Its intent was written with another's.
                    StepState::Sent if self.intended.contains(&on) => self.one(on)?,
                    StepState::Sent => {
                        let resource = self.all[on].step.resource;
                        self.settle(|it| it == resource)?;
                    }
                    StepState::Planned => {
                        self.one(on)?;
                        // It waits for something itself.
                        if self.all[on].state == StepState::Planned {
                            return Ok(Ready::Wait);
                        }
                    }
                }
            }
        }
        Ok(Ready::Now)
    }

    /// Writes the intent of a step; where the service has no limit, those of the
    /// steps that follow with it.
    fn intend(&mut self, nth: usize) -> Result<(), ApplyError> {
        if self.all[nth].state != StepState::Planned {
            return Ok(());
        }
        let mut group = vec![nth];
        let alone =
            |work: &Work| work.step.verb == Verb::Create && !work.step.resource.spec().shows_key();
        if self.client.limit() == Some(0) && !alone(&self.all[nth]) {
            let more = (nth + 1..self.all.len()).take(GROUP - 1);
            let more = more.take_while(|at| !alone(&self.all[*at]));
            group.extend(more.filter(|at| self.all[*at].state == StepState::Planned));
        }
        let numbers: Vec<_> = group.iter().map(|at| self.all[*at].step.step).collect();
        if std::mem::take(&mut self.seen) {
            self.vault.unsee_run(self.run)?;
        }
        let now = self.clock.now();
        self.vault.intend(self.run, &numbers, now)?;
        for at in group {
            self.all[at].sent = Some(now);
            self.all[at].state = StepState::Sent;
            self.all[at].attempts += 1;
            self.intended.insert(at);
        }
        Ok(())
    }

    /// Sends a step's request until its outcome is known, as far as that is safe.
    fn send(&mut self, nth: usize) -> Result<(), ApplyError> {
        let ids = |number: u32| {
            let at = (number as usize).checked_sub(1)?;
            self.all.get(at)?.id
        };
        let ready = request::ready(&self.all[nth].step, ids, &self.options.secrets);
        let ready = match ready {
            Ok(ready) => ready,
            Err(why) => {
                self.intended.remove(&nth);
                let work = &self.all[nth];
                let settled = if work.doubted && request::sets_password(&work.step) {
                    Settled::of(StepState::Unknown).saying(MAY_BE_SET)
                } else {
                    Settled::of(StepState::Refused).saying(why)
                };
                return self.close(nth, &settled);
            }
        };
        let verb = self.all[nth].step.verb;
        for tries in 1.. {
            let Some(outcome) = self.send_prepared(nth, &ready, tries > 1)? else { return Ok(()) };
            let fate = fate(verb, outcome);
            if !matches!(fate, Fate::Stop(_) | Fate::Unsent(_)) {
                self.intended.remove(&nth);
                self.wrote = true;
            }
            let unsent = matches!(fate, Fate::Unsent(_));
            let (error, refusal) = match fate {
                Fate::Done(id) => return self.done(nth, id, &ready.params),
                Fate::Refused(why) => return self.refused(nth, why, &ready.params),
                Fate::Stop(error) => return self.stop(error),
                Fate::Unsent(error) => (Some(error), None),
                Fate::Unknown { why, failed, error } => {
                    self.all[nth].doubted = true;
                    self.all[nth].message = Some(why.clone());
                    if verb == Verb::Create {
                        self.unanswered += 1;
                        return Ok(());
                    }
                    (error, failed.then_some(why))
                }
            };
            let error = error.unwrap_or_else(|| {
                let kind = ApiErrorKind::Unknown("the answer was empty".to_owned());
                ApiError::new(kind, ready.method, &ready.path)
            });
            if tries >= TRIES {
                let why = refusal.unwrap_or_else(|| NOT_DONE.to_owned());
                let refused = Settled::of(StepState::Refused).saying(why);
                return match unsent {
                    true => self.stop(error),
                    // It may have worked, though the service says that it failed.
                    false => self.look_for(nth, &ready.params, &refused),
                };
            }
            let text = format!("{error}; trying again");
            self.progress.event(&Event::Warning { text: &text });
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(tries - 1);
            if self.pause(pause) == Slept::Interrupted {
                let error = ApiError::new(ApiErrorKind::Interrupted, ready.method, &ready.path);
                return self.stop(error);
            }
        }
        Ok(())
    }

    /// Sends a request, as soon as it may leave. `None` when the step was closed
    /// before, since it should not be sent any more. `again`: some time has passed
    /// since that was made sure of.
    fn send_prepared(
        &mut self,
        nth: usize,
        ready: &request::Ready,
        mut again: bool,
    ) -> Result<Option<Result<Response, ApiError>>, ApplyError> {
        let mut refusals = 0;
        loop {
            if again && !self.prepare(nth)? {
                return Ok(None);
            }
            again = true;
            let outcome = self.client.send_once(ready.method, &ready.path, ready.body.clone());
            match &outcome {
                // It was not executed.
                Err(ApiError { kind: ApiErrorKind::Throttled(_), .. })
                    if refusals < self.client.patience() =>
                {
                    refusals += 1;
                }
                _ => return Ok(Some(outcome)),
            }
        }
    }

    pub fn pause(&self, time: Duration) -> Slept {
        self.progress.event(&Event::Waiting { time, why: "a retry" });
        self.clock.sleep(time)
    }

    pub fn done(
        &mut self,
        nth: usize,
        id: Option<i64>,
        params: &[String],
    ) -> Result<(), ApplyError> {
        self.unanswered = 0;
        let work = &self.all[nth];
        let step = &work.step;
        if step.verb == Verb::Create
            && id.is_none()
            && (work.needed || !step.resource.spec().shows_key())
        {
            // It was made, but the answer has no id: its list will tell.
            self.all[nth].doubted = true;
            return Ok(());
        }
        let remember = match (step.verb, id.or(step.id)) {
            (Verb::Assign, _) if step.resource == Resource::Campaigns => {
                keep::of_link(self.vault, params)?
            }
            (Verb::Create | Verb::Update, Some(id)) => {
                keep::what_is_new(self.vault, step, keep::of_step(step, id))?
            }
            _ => Vec::new(),
        };
        let maps = keep::maps(step, id);
        let known = self.known.entry(step.resource).or_default();
        match (step.verb, step.id, id) {
            (Verb::Delete, Some(id), _) => known.gone(id),
            (.., Some(id)) => known.made(id, self.clock.now()),
            _ => {}
        }
        self.close(nth, &Settled { id, remember, maps, ..Settled::of(StepState::Done) })
    }

    fn refused(&mut self, nth: usize, why: String, params: &[String]) -> Result<(), ApplyError> {
        let work = &mut self.all[nth];
        // What the try before may have done needs no doing again, nor what a person
        // has assigned where no list shows it.
        let twice = match work.step.verb {
            Verb::Delete => work.doubted && says_absent(&why),
            Verb::Assign => says_present(&why),
            _ => false,
        };
        if twice {
            return self.done(nth, None, params);
        }
        if work.doubted && work.step.verb == Verb::Create {
            // It may be refused because it is there: the list tells.
            work.declined = true;
            work.message = Some(why);
            return Ok(());
        }
        self.unanswered = 0;
        let refused = Settled::of(StepState::Refused).saying(why);
        if work.doubted {
            // This try was refused; one before it may have worked.
            work.declined = true;
            return self.look_for(nth, params, &refused);
        }
        self.close(nth, &refused)
    }

    /// Nothing more can be sent now: what never left is planned again.
    pub fn stop(&mut self, error: ApiError) -> Result<(), ApplyError> {
        self.unsend()?;
        Err(ApplyError::Stopped { run: self.run, source: error })
    }

    pub fn unsend(&mut self) -> Result<(), ApplyError> {
        // A step that is in doubt stays so, whatever became of this try.
        let mut unsent: Vec<_> = std::mem::take(&mut self.intended).into_iter().collect();
        unsent.retain(|at| !self.all[*at].doubted);
        self.take_back(&unsent)
    }

    fn take_back(&mut self, places: &[usize]) -> Result<(), ApplyError> {
        let numbers: Vec<_> = places.iter().map(|at| self.all[*at].step.step).collect();
        self.vault.take_back(self.run, &numbers, self.clock.now())?;
        for at in places {
            self.all[*at].state = StepState::Planned;
            self.all[*at].attempts = self.all[*at].attempts.saturating_sub(1);
        }
        Ok(())
    }

    /// Notes the end of a step, and tells how far the run is.
    pub fn close(&mut self, nth: usize, what: &Settled) -> Result<(), ApplyError> {
        let hold = self.client.limit() == Some(0);
        let work = &mut self.all[nth];
        let step = work.step.step;
        self.vault.settle_step(self.run, step, what, self.clock.now(), hold)?;
        let was_open = work.is_open();
        work.state = what.state;
        match (was_open, work.is_open()) {
            (true, false) => self.open -= 1,
            (false, true) => self.open += 1,
            _ => {}
        }
        work.id = what.id;
        work.message.clone_from(&what.message);
        if let Some(why) = &what.message {
            let what = not_done(&titled(&work.step), what.state, Some(why));
            self.progress.event(&Event::Warning { text: &what });
            self.told.insert(step);
        }
        let (total, left) = (self.all.len() as u64, self.open);
        let requests = left + self.reading;
        let time = self.client.estimate(requests);
        self.progress.event(&Event::Steps { done: total - left, total, requests, time });
        Ok(())
    }

    pub fn skip_the_rest(&mut self) -> Result<(), ApplyError> {
        let why = "a step before it was refused, and --fail-fast stops there";
        let skipped = Settled::of(StepState::Skipped).saying(why);
        for nth in 0..self.all.len() {
            if !self.all[nth].is_open() {
                continue;
            }
            let left = self.all[nth].state == StepState::Sent && !self.intended.contains(&nth);
            if left && self.all[nth].step.verb != Verb::Create {
                // It may have been done before the run stopped.
                let ids = |number: u32| self.all.get((number as usize).checked_sub(1)?)?.id;
                let step = &self.all[nth].step;
                let ready = request::ready(step, ids, &request::Secrets::default());
                let params = ready.map_or_else(|_| Vec::new(), |ready| ready.params);
                self.look_for(nth, &params, &skipped)?;
            } else {
                self.intended.remove(&nth);
                self.close(nth, &skipped)?;
            }
        }
        Ok(())
    }
}

/// `step 3 (create campaign Winter)`.
pub(super) fn titled(step: &Step) -> String {
    let (verb, title) = (step.verb.name(), step.resource.spec().title);
    format!("step {} ({verb} {title} {})", step.step, step.key)
}

pub(super) fn not_done(name: &str, state: StepState, message: Option<&str>) -> String {
    format!("{name} {}: {}", state.name(), message.unwrap_or("not sent"))
}
