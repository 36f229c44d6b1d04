//! Executes each step of a run: marks it as sent in the journal, sends it, repeats it where that is
//! safe, and looks up outcomes.

use std::time::Duration;

use crate::api::error::{ApiError, ApiErrorKind};
use crate::api::http::Response;
use crate::apply::error::ApplyError;
use crate::apply::journal_step::{StepRun, step_title, unfinished_step_message};
use crate::apply::recovery::{MAY_BE_OF_OTHERS, MAY_BE_SET};
use crate::apply::response::{StepResponse, classify_response, says_absent, says_present};
use crate::apply::runner::PlanRunner;
use crate::apply::{remember, step_request};
use crate::backoff::doubling;
use crate::clock::SleepOutcome;
use crate::model::{Resource, Verb};
use crate::progress::Event;
use crate::vault::journal::{StepResult, StepState};

/// How often a request of unknown outcome is repeated.
const MAX_REPEATS: usize = 4;
/// The message of a refused step that the service never confirmed.
const NOT_DONE: &str = "the service did not confirm it, and the list shows that it was not done";
/// How many steps are marked as sent in one commit, if there is no rate limit, or in one put.
const SENT_BATCH: usize = 64;
/// After this many consecutive creates without a response, their list is read.
const MAX_UNANSWERED: u32 = 5;
/// The first pause before a repeat.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause before a repeat.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whether a step can be sent.
enum StepReadiness {
    Now,
    /// It must not be sent, for this reason.
    Skip(String),
    /// It waits for a step on which a person has to decide.
    Wait,
}

/// The message of a step that `fail_fast` leaves.
const AFTER_REFUSAL: &str = "a step before it was refused, and --fail-fast stops there";

impl PlanRunner<'_> {
    /// Sends every step that can be sent, and reconciles creates without a response.
    pub fn run_steps(&mut self) -> Result<(), ApplyError> {
        self.reconcile(|resource| !resource.spec().shows_key())?;
        loop {
            for nth in 0..self.all.len() {
                self.run_step(nth)?;
                if self.options.fail_fast && self.all[nth].state == StepState::Refused {
                    self.reconcile(|_| true)?;
                    return self.skip_open_steps(AFTER_REFUSAL);
                }
            }
            self.reconcile(|_| true)?;
            if !self.has_sendable_steps() {
                return Ok(());
            }
        }
    }

    /// Whether any step is not sent and waits, directly or indirectly, for no step on which a
    /// person has to decide.
    fn has_sendable_steps(&self) -> bool {
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

    /// The indexes of the steps that the `nth` waits for. Later ones are ignored.
    fn waits_for(&self, nth: usize) -> impl Iterator<Item = usize> + use<> {
        let on = self.all[nth].step.waits_for.clone();
        on.into_iter().filter_map(|on| (on as usize).checked_sub(1)).filter(move |on| *on < nth)
    }

    fn run_step(&mut self, nth: usize) -> Result<(), ApplyError> {
        loop {
            let open = match self.all[nth].state {
                StepState::Planned => true,
                // A sent create waits to be reconciled, unless its request was never sent.
                StepState::Sent => {
                    self.all[nth].step.verb != Verb::Create || self.intended.contains(&nth)
                }
                _ => false,
            };
            if !open {
                return Ok(());
            }
            match self.readiness(nth)? {
                StepReadiness::Now => {}
                StepReadiness::Skip(why) => {
                    let skipped = StepResult::of(StepState::Skipped).with_message(why);
                    self.intended.remove(&nth);
                    return self.close(nth, &skipped);
                }
                StepReadiness::Wait => {
                    if self.intended.remove(&nth) {
                        self.set_planned(&[nth])?;
                    }
                    return Ok(());
                }
            }
            if !self.prepare(nth)? {
                return Ok(());
            }
            if self.mark_sent(nth)? && !self.prepare_stored(nth)? {
                if self.all[nth].is_open() {
                    continue;
                }
                return Ok(());
            }
            self.send(nth)?;
            let work = &self.all[nth];
            if work.state == StepState::Sent && !work.step.resource.spec().shows_key() {
                let resource = work.step.resource;
                self.reconcile(|it| it == resource)?;
            } else if self.unanswered >= MAX_UNANSWERED {
                self.unanswered = 0;
                self.reconcile(|_| true)?;
            } else {
                return Ok(());
            }
        }
    }

    fn readiness(&mut self, nth: usize) -> Result<StepReadiness, ApplyError> {
        for on in self.waits_for(nth) {
            loop {
                let (state, number) = (self.all[on].state, self.all[on].step.step);
                match state {
                    StepState::Done => break,
                    StepState::Refused => {
                        return Ok(StepReadiness::Skip(format!("step {number} was refused")));
                    }
                    StepState::Skipped => {
                        return Ok(StepReadiness::Skip(format!("step {number} was skipped")));
                    }
                    StepState::Stale => {
                        return Ok(StepReadiness::Skip(format!("step {number} is stale")));
                    }
                    StepState::Unknown => return Ok(StepReadiness::Wait),
                    // It was marked as sent together with another step.
                    StepState::Sent if self.intended.contains(&on) => self.run_step(on)?,
                    StepState::Sent => {
                        let resource = self.all[on].step.resource;
                        self.reconcile(|it| it == resource)?;
                    }
                    StepState::Planned => {
                        self.run_step(on)?;
                        // It waits for another step itself.
                        if self.all[on].state == StepState::Planned {
                            return Ok(StepReadiness::Wait);
                        }
                    }
                }
            }
        }
        Ok(StepReadiness::Now)
    }

    /// Marks a step as sent in the journal; if there is no rate limit, or the journal is put into a
    /// store, the next steps with it. Returns whether it was put.
    fn mark_sent(&mut self, nth: usize) -> Result<bool, ApplyError> {
        if self.all[nth].state != StepState::Planned {
            return Ok(false);
        }
        let stored = self.vault.has_checkpoints();
        let mut group = vec![nth];
        // No list shows whether it took effect, so it is marked only just before it is sent.
        let alone = |work: &StepRun| {
            let keyless = work.step.verb == Verb::Create && !work.step.resource.spec().shows_key();
            keyless || step_request::sets_password(&work.step)
        };
        if (stored || self.client.limit() == Some(0)) && !alone(&self.all[nth]) {
            let more = (nth + 1..self.all.len()).take(SENT_BATCH - 1);
            let more = more.take_while(|at| !alone(&self.all[*at]));
            group.extend(more.filter(|at| self.all[*at].state == StepState::Planned));
        }
        let numbers: Vec<_> = group.iter().map(|at| self.all[*at].step.step).collect();
        if std::mem::take(&mut self.seen) {
            self.vault.clear_after_snapshot(self.run)?;
        }
        let now = self.clock.now();
        self.vault.mark_sent(self.run, &numbers, now)?;
        for at in group {
            self.all[at].sent = Some(now);
            self.all[at].state = StepState::Sent;
            self.all[at].attempts += 1;
            self.all[at].repeated |= self.all[at].may_have_run;
            self.all[at].retried = false;
            self.intended.insert(at);
        }
        if stored {
            // The error that stopped it is returned, even if writing the journal fails too.
            self.put_journal().inspect_err(|_| drop(self.revert_to_planned()))?;
        }
        Ok(stored)
    }

    /// Sends a step's request until its outcome is known, as far as that is safe.
    fn send(&mut self, nth: usize) -> Result<(), ApplyError> {
        let ids = |number: u32| {
            let at = (number as usize).checked_sub(1)?;
            self.all.get(at)?.id
        };
        let ready = step_request::ready(&self.all[nth].step, ids, &self.options.secrets);
        let ready = match ready {
            Ok(ready) => ready,
            Err(why) => {
                self.intended.remove(&nth);
                let work = &self.all[nth];
                let result = if work.may_have_run && step_request::sets_password(&work.step) {
                    StepResult::of(StepState::Unknown).with_message(MAY_BE_SET)
                } else {
                    StepResult::of(StepState::Refused).with_message(why)
                };
                return self.close(nth, &result);
            }
        };
        let verb = self.all[nth].step.verb;
        let mut pauses = doubling(FIRST_PAUSE, LONGEST_PAUSE).take(MAX_REPEATS);
        let mut repeated = false;
        loop {
            let Some(outcome) = self.send_prepared(nth, &ready, repeated)? else { return Ok(()) };
            let fate = classify_response(verb, outcome);
            if !matches!(fate, StepResponse::Stop(_) | StepResponse::Unsent(_)) {
                self.intended.remove(&nth);
                self.wrote = true;
            }
            let unsent = matches!(fate, StepResponse::Unsent(_));
            let (error, refusal) = match fate {
                StepResponse::Done(id) if self.is_known_id(nth, id) => {
                    self.distrust_id(nth, id);
                    return Ok(());
                }
                StepResponse::Done(id) => return self.done(nth, id, &ready.params),
                StepResponse::Refused(why) => return self.refused(nth, why, &ready.params),
                StepResponse::Stop(error) => return self.stop(error),
                StepResponse::Unsent(error) => (Some(error), None),
                StepResponse::Unknown { why, failed, repeat, error } => {
                    let work = &mut self.all[nth];
                    work.may_have_run = true;
                    work.declined |= !repeat;
                    work.message = Some(why.clone());
                    if verb == Verb::Create {
                        self.unanswered += 1;
                        return Ok(());
                    }
                    if !repeat {
                        let refused = StepResult::of(StepState::Refused).with_message(why);
                        return self.look_up_outcome(nth, &ready.params, &refused);
                    }
                    (error, failed.then_some(why))
                }
            };
            let error = error.unwrap_or_else(|| {
                let kind = ApiErrorKind::Unknown("the response was empty".to_owned());
                ApiError::new(kind, ready.method, &ready.path)
            });
            let Some(pause) = pauses.next() else {
                let why = refusal.unwrap_or_else(|| NOT_DONE.to_owned());
                let refused = StepResult::of(StepState::Refused).with_message(why);
                return match unsent {
                    true => self.stop(error),
                    // It may have taken effect, though the service reports a failure.
                    false => self.look_up_outcome(nth, &ready.params, &refused),
                };
            };
            let text = format!("{error}; trying again");
            self.progress.event(&Event::Warning { text: &text });
            if self.pause(pause) == SleepOutcome::Interrupted {
                let error = ApiError::new(ApiErrorKind::Interrupted, ready.method, &ready.path);
                return self.stop(error);
            }
            repeated = true;
        }
    }

    /// Whether a record had the id in the response to a create before the create was sent.
    fn is_known_id(&self, nth: usize, id: Option<i64>) -> bool {
        let known = self.known.get(&self.all[nth].step.resource);
        id.zip(known).is_some_and(|(id, known)| known.contains(id))
    }

    /// Leaves it to the list which record the create made, since `id` was another one's before.
    fn distrust_id(&mut self, nth: usize, id: Option<i64>) {
        let work = &mut self.all[nth];
        work.may_have_run = true;
        work.declined = true;
        work.claimed = id;
        let id = id.unwrap_or_default();
        work.message =
            Some(format!("the response has the id {id}, which another record had before"));
    }

    /// Sends a request as soon as the rate limit allows. `None` if the step was closed before,
    /// because it must not be sent any more. `again`: time has passed since the last check, so
    /// check again.
    fn send_prepared(
        &mut self,
        nth: usize,
        ready: &step_request::Ready,
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
                    if refusals < self.client.longest_wait() =>
                {
                    refusals += 1;
                }
                _ => return Ok(Some(outcome)),
            }
        }
    }

    pub fn pause(&self, time: Duration) -> SleepOutcome {
        self.progress.event(&Event::Waiting { time, why: "a retry" });
        self.clock.sleep(time)
    }

    pub fn done(
        &mut self,
        nth: usize,
        id: Option<i64>,
        params: &[String],
    ) -> Result<(), ApplyError> {
        self.done_with(nth, id, params, None)
    }

    /// Closes a create as done whose record a list has shown. Where lists do not show the natural
    /// key, another user may have created the record while this step's response was lost.
    pub fn adopt(&mut self, nth: usize, id: i64) -> Result<(), ApplyError> {
        let work = &self.all[nth];
        let is_certain =
            work.step.resource.spec().shows_key() || work.confirmed || work.claimed == Some(id);
        let message = (!is_certain).then(|| MAY_BE_OF_OTHERS.to_owned());
        self.done_with(nth, Some(id), &[], message)
    }

    fn done_with(
        &mut self,
        nth: usize,
        id: Option<i64>,
        params: &[String],
        message: Option<String>,
    ) -> Result<(), ApplyError> {
        self.unanswered = 0;
        let work = &self.all[nth];
        let step = &work.step;
        if step.verb == Verb::Create
            && id.is_none()
            && (work.needed || !step.resource.spec().shows_key())
        {
            // It was created, but the response has no id: the list will show it.
            let work = &mut self.all[nth];
            (work.may_have_run, work.confirmed) = (true, true);
            return Ok(());
        }
        let remember = match (step.verb, id.or(step.id)) {
            (Verb::Assign, _) if step.resource == Resource::Campaigns => {
                remember::sent_values_of_link(self.vault, params)?
            }
            (Verb::Create | Verb::Update, Some(id)) => remember::changed_sent_values(
                self.vault,
                step,
                remember::sent_values_of_step(step, id),
            )?,
            _ => Vec::new(),
        };
        let maps = remember::id_mapping(step, id);
        let known = self.known.entry(step.resource).or_default();
        match (step.verb, step.id, id) {
            (Verb::Delete, Some(id), _) => known.remove_deleted(id),
            (.., Some(id)) => known.add_created(id, self.clock.now()),
            _ => {}
        }
        let done = StepResult::of(StepState::Done);
        self.close(nth, &StepResult { id, remember, maps, message, ..done })
    }

    fn refused(&mut self, nth: usize, why: String, params: &[String]) -> Result<(), ApplyError> {
        let work = &mut self.all[nth];
        // The refusal counts as success if an earlier try may have had the effect, or if a person
        // made the assignment and no list shows it.
        let twice = match work.step.verb {
            Verb::Delete => work.may_have_run && says_absent(&why),
            Verb::Assign => says_present(&why),
            _ => false,
        };
        if twice {
            return self.done(nth, None, params);
        }
        if work.may_have_run && work.step.verb == Verb::Create {
            // It may be refused because an earlier try created it: the list will show it.
            work.declined = true;
            work.message = Some(why);
            return Ok(());
        }
        self.unanswered = 0;
        let refused = StepResult::of(StepState::Refused).with_message(why);
        if work.may_have_run {
            // This try was refused; an earlier one may have taken effect.
            work.declined = true;
            return self.look_up_outcome(nth, params, &refused);
        }
        self.close(nth, &refused)
    }

    /// Stops the run: sets steps whose request was not sent back to planned, and returns the error.
    pub fn stop(&mut self, error: ApiError) -> Result<(), ApplyError> {
        self.revert_to_planned()?;
        Err(ApplyError::Stopped { run: self.run, source: error })
    }

    pub fn revert_to_planned(&mut self) -> Result<(), ApplyError> {
        // A step that an earlier try may have executed stays marked as sent.
        let mut unsent: Vec<_> = std::mem::take(&mut self.intended).into_iter().collect();
        unsent.retain(|at| !self.all[*at].may_have_run);
        self.set_planned(&unsent)
    }

    pub fn set_planned(&mut self, places: &[usize]) -> Result<(), ApplyError> {
        let numbers: Vec<_> = places.iter().map(|at| self.all[*at].step.step).collect();
        self.vault.revert_to_planned(self.run, &numbers, self.clock.now())?;
        for at in places {
            self.all[*at].state = StepState::Planned;
            self.all[*at].attempts = self.all[*at].attempts.saturating_sub(1);
        }
        Ok(())
    }

    /// Stores the result of a step, and reports the progress of the run.
    pub fn close(&mut self, nth: usize, what: &StepResult) -> Result<(), ApplyError> {
        let hold = self.client.limit() == Some(0);
        let work = &mut self.all[nth];
        let step = work.step.step;
        self.vault.record_result(self.run, step, what, self.clock.now(), hold)?;
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
            let what = unfinished_step_message(&step_title(&work.step), what.state, Some(why));
            self.progress.event(&Event::Warning { text: &what });
            self.told.insert(step);
        }
        let (total, left) = (self.all.len() as u64, self.open);
        let skipped = u64::from(!self.is_account_due_after(left));
        let requests = left + self.reading.saturating_sub(skipped);
        let time = self.client.estimate(requests);
        self.progress.event(&Event::Steps { done: total - left, total, requests, time });
        Ok(())
    }

    pub fn skip_open_steps(&mut self, why: &str) -> Result<(), ApplyError> {
        let skipped = StepResult::of(StepState::Skipped).with_message(why);
        for nth in 0..self.all.len() {
            if !self.all[nth].is_open() {
                continue;
            }
            let left = self.all[nth].state == StepState::Sent && !self.intended.contains(&nth);
            if left && self.all[nth].step.verb != Verb::Create {
                // It may have taken effect before the run stopped.
                let ids = |number: u32| self.all.get((number as usize).checked_sub(1)?)?.id;
                let step = &self.all[nth].step;
                let ready = step_request::ready(step, ids, &step_request::StepSecrets::default());
                let params = ready.map_or_else(|_| Vec::new(), |ready| ready.params);
                self.look_up_outcome(nth, &params, &skipped)?;
            } else {
                self.intended.remove(&nth);
                self.close(nth, &skipped)?;
            }
        }
        Ok(())
    }
}
