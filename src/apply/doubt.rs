//! Steps in doubt: whose request may have done its work though no answer came.
//! A listing tells what became of them, or a person has to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::error::ApplyError;
use super::run::LOOKS;
use super::settle::{self, Found, Seen};
use super::steps::{MAY_BE_SET, Runner, Work};
use super::verify::{Look, look};
use super::{before, keep, request};
use crate::api::error::{ApiError, ApiErrorKind};
use crate::api::http::Method;
use crate::change::plan::against::against;
use crate::change::plan::{Current, Step, fingerprint};
use crate::change::staleness::lists;
use crate::clock::Slept;
use crate::model::{Key, Record, Resource, State, Verb};
use crate::vault::journal::{Settled, StepState};

/// How often a create is sent whose record no list shows.
const ROUNDS: u32 = 3;
/// A request whose answer was lost may still be under way.
const UNDER_WAY: Duration = Duration::from_secs(3);

/// What a listing tells of an update, a delete or an assignment.
pub(super) enum Told {
    Done,
    NotDone,
    /// Its record is neither as it was nor as asked.
    Changed(String),
    /// No list shows it.
    Nothing(String),
}

pub(super) fn told(step: &Step, params: &[String], state: &State) -> Told {
    let record = || state.get(step.resource)?.get(&Key::Id(step.id?));
    let unmoved = |record: &Record<'_>| {
        step.fingerprint.as_ref() == Some(&fingerprint(step.resource, record))
    };
    if request::sets_password(step) && step.after.as_ref().is_some_and(|it| it.len() == 1) {
        return Told::Nothing("no list shows a password".to_owned());
    }
    match look(step, step.id, params, state).0 {
        // What was asked for differs from what was there in its form alone, so
        // it cannot be told whether it was done. To do it again does no harm.
        Look::AsAsked(Some(_)) if step.verb == Verb::Update && record().is_some_and(unmoved) => {
            Told::NotDone
        }
        Look::AsAsked(_) => Told::Done,
        Look::Hidden(why) => Told::Nothing(why),
        Look::Differs(why) => match (&step.fingerprint, record()) {
            (Some(planned), Some(record))
                if step.verb == Verb::Update && fingerprint(step.resource, record) != *planned =>
            {
                Told::Changed(format!("it is not what it was before: {why}"))
            }
            _ => Told::NotDone,
        },
    }
}

impl Runner<'_> {
    /// Looks, when a run is taken up again, whether what is still to be sent was
    /// planned for what is there now. What was not is stale.
    pub fn compare(&mut self) -> Result<(), ApplyError> {
        self.settle(|_| true)?;
        let by_key = |step: &Step| step.verb == Verb::Create && step.resource.spec().shows_key();
        let mut which = BTreeSet::new();
        let mut open = Vec::new();
        for (nth, work) in self.all.iter().enumerate().filter(|(_, work)| work.is_open()) {
            which.extend(lists(&work.step));
            which.extend(by_key(&work.step).then_some(work.step.resource));
            open.push(nth);
        }
        if which.is_empty() {
            return Ok(());
        }
        let known = self.known.clone();
        let mut state = self.look_afresh(&which.into_iter().collect::<Vec<_>>())?;
        for nth in open.iter().copied() {
            if self.all[nth].doubted && by_key(&self.all[nth].step) {
                self.compare_in_doubt(nth, &known, &state)?;
            }
        }
        self.close_overtaken(&state)?;
        let ours: Vec<_> = self.all.iter().filter(|work| !work.is_open()).collect();
        for work in &ours {
            let Some(id) = work.id.or(work.step.id) else { continue };
            if work.step.verb == Verb::Create {
                state.resource_mut(work.step.resource).remove(&Key::Id(id));
            }
        }
        // What this run has changed itself is not as the plan found it.
        let changed = self.ours();
        let is_ours =
            |step: &Step| against(step).any(|it| changed.contains_key(&(it.resource, it.id)));
        let steps = open.into_iter().filter(|nth| self.all[*nth].is_open());
        let steps = steps.map(|nth| self.all[nth].step.clone()).filter(|step| !is_ours(step));
        let steps: Vec<_> =
            steps.filter(|step| by_key(step) || step.fingerprint.is_some()).collect();
        let memory = keep::memory(self.vault)?;
        for stale in before::stale(&steps, Current { state: &state, memory: &memory }) {
            let nth = stale.step as usize - 1;
            let work = &self.all[nth];
            if !work.doubted || work.step.verb == Verb::Create {
                self.close(nth, &Settled::of(StepState::Stale).saying(stale.why))?;
            }
        }
        Ok(())
    }

    /// A create that may have been done before the run stopped.
    fn compare_in_doubt(
        &mut self,
        nth: usize,
        known: &BTreeMap<Resource, Seen>,
        state: &State,
    ) -> Result<(), ApplyError> {
        let Work { step, sent, .. } = &self.all[nth];
        let all = state.get(step.resource).zip(known.get(&step.resource));
        match all.map(|(records, seen)| settle::find(step, seen, *sent, records)) {
            Some(Found::One(id)) => self.done(nth, Some(id), &[]),
            Some(Found::Several(ids)) => self.doubt(nth, &ids),
            // This run did not make the record that has its key now.
            _ => Ok(()),
        }
    }

    fn doubt(&mut self, nth: usize, ids: &[i64]) -> Result<(), ApplyError> {
        self.close(nth, &Settled::of(StepState::Unknown).saying(settle::in_doubt(ids)))
    }

    /// A try may have worked though no answer said so: its list tells. Where it
    /// was not done, the step ends as `otherwise`.
    pub fn look_for(
        &mut self,
        nth: usize,
        params: &[String],
        otherwise: &Settled,
    ) -> Result<(), ApplyError> {
        let resource = self.all[nth].step.resource;
        for look in 0..2 {
            if look > 0 {
                self.wait_for_what_is_under_way(resource)?;
            }
            let state = match self.listing(resource) {
                Ok(state) => state,
                Err(error) => {
                    self.unsend()?;
                    return Err(error);
                }
            };
            match told(&self.all[nth].step, params, &state) {
                Told::Done => return self.done(nth, None, params),
                Told::NotDone => {}
                Told::Nothing(_) if request::sets_password(&self.all[nth].step) => {
                    let unknown = Settled::of(StepState::Unknown).saying(MAY_BE_SET);
                    return self.close(nth, &unknown);
                }
                Told::Nothing(why) | Told::Changed(why) => {
                    let why = format!("no answer came, and {why}");
                    return self.close(nth, &Settled::of(StepState::Unknown).saying(why));
                }
            }
        }
        self.close(nth, otherwise)
    }

    fn wait_for_what_is_under_way(&mut self, resource: Resource) -> Result<(), ApplyError> {
        if self.pause(UNDER_WAY) == Slept::Whole {
            return Ok(());
        }
        let path = resource.spec().endpoint(Verb::List).map_or("", |it| it.path);
        self.unsend()?;
        let source = ApiError::new(ApiErrorKind::Interrupted, Method::Get, path);
        Err(ApplyError::Stopped { run: self.run, source })
    }

    /// The creates without an answer, of the resources for which `which` holds.
    pub fn unsettled(&self, which: impl Fn(Resource) -> bool) -> Vec<usize> {
        let open = |(nth, work): &(usize, &Work)| {
            work.state == StepState::Sent
                && work.step.verb == Verb::Create
                && !self.intended.contains(nth)
                && which(work.step.resource)
        };
        self.all.iter().enumerate().filter(open).map(|(nth, _)| nth).collect()
    }

    /// Finds out what became of creates without an answer: adopts what they
    /// made, and plans anew those that made nothing.
    pub fn settle(&mut self, which: impl Fn(Resource) -> bool) -> Result<(), ApplyError> {
        let resources: BTreeSet<_> =
            self.unsettled(which).into_iter().map(|nth| self.all[nth].step.resource).collect();
        for resource in resources {
            self.settle_resource(resource)?;
        }
        Ok(())
    }

    fn settle_resource(&mut self, resource: Resource) -> Result<(), ApplyError> {
        let mut seen = None;
        for look in 0..2 {
            if look > 0 {
                self.wait_for_what_is_under_way(resource)?;
            }
            let began = self.clock.now();
            let state = self.listing(resource)?;
            let Some(records) = state.get(resource) else { continue };
            let ours = self.ours();
            let ours = ours.range((resource, i64::MIN)..=(resource, i64::MAX));
            let ours = ours.flat_map(|(_, places)| places).map(|at| &self.all[*at].step);
            self.known.entry(resource).or_default().changed_by(ours);
            for nth in self.unsettled(|it| it == resource) {
                let known = self.known.entry(resource).or_default();
                let work = &self.all[nth];
                match settle::find(&work.step, known, work.sent, records) {
                    Found::One(id) => self.done(nth, Some(id), &[])?,
                    Found::None => {}
                    Found::Several(ids) => self.doubt(nth, &ids)?,
                }
            }
            seen = Some((records.clone(), began));
            if self.unsettled(|it| it == resource).is_empty() {
                break;
            }
        }
        if let Some((records, began)) = seen {
            let known = self.known.entry(resource).or_default().clone();
            for nth in self.unsettled(|it| it == resource) {
                // The service may have given what it made another name.
                let work = &self.all[nth];
                let done = self.all.iter().filter(|it| it.state == StepState::Done);
                let made = (resource, done.map(|it| &it.step));
                let ids = settle::unexplained(made, &known, work.sent, &records);
                if !ids.is_empty() {
                    self.doubt(nth, &ids)?;
                }
            }
            self.known.entry(resource).or_default().listing(resource, &records, began);
        }
        for nth in self.unsettled(|it| it == resource) {
            let work = &self.all[nth];
            let why = work.message.clone().unwrap_or_else(|| "no answer came".to_owned());
            if work.declined || work.attempts >= ROUNDS {
                self.close(nth, &Settled::of(StepState::Refused).saying(why))?;
            } else {
                let again = Settled::of(StepState::Planned);
                self.vault.settle_step(
                    self.run,
                    work.step.step,
                    &again,
                    self.clock.now(),
                    false,
                )?;
                self.all[nth].state = StepState::Planned;
            }
        }
        Ok(())
    }

    /// The records of a resource, in a listing that is proven whole. Where a create is known
    /// only by being new, a process that takes up the run must know of the listing as well.
    fn listing(&mut self, resource: Resource) -> Result<State, ApplyError> {
        if !resource.spec().shows_key() {
            let (state, began, _) = self.look_whole(&[resource])?;
            self.proofs.account = Some(began);
            return Ok(state);
        }
        let mut why = String::new();
        for _ in 0..LOOKS {
            match self.look_aside(resource)? {
                Ok(state) => return Ok(state),
                Err(reason) => why = reason,
            }
        }
        Err(ApplyError::Unsettled { run: self.run, resource, why })
    }
}
