//! Steps without a response, whose request may have taken effect. A listing shows their outcome, or
//! a person has to decide.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::error::{ApiError, ApiErrorKind};
use crate::api::http::Method;
use crate::apply::error::ApplyError;
use crate::apply::journal_step::StepRun;
use crate::apply::reconcile::{self, CreateOutcome, KnownIds};
use crate::apply::runner::PlanRunner;
use crate::apply::verify::{Verification, verify};
use crate::apply::{remember, stale, step_request};
use crate::change::plan::fingerprints::fingerprints;
use crate::change::plan::{CurrentState, PlanStep, fingerprint};
use crate::change::staleness::lists;
use crate::clock::SleepOutcome;
use crate::model::{Record, RecordKey, Resource, State, Verb};
use crate::vault::journal::{StepResult, StepState};

/// The message of a step without a response that sets the password.
pub(super) const MAY_BE_SET: &str = "the new password may have been set, and is stored nowhere; leave this \
                          step with `linkvault resolve`, then set it again";
/// The message of a create whose record may be another user's. The journal has no state for it.
pub(super) const MAY_BE_OF_OTHERS: &str = "no response has the id of the new record, and no list \
    shows whether this step or another user created the record";
/// How often a create is sent if no list shows its record.
const MAX_CREATE_TRIES: u32 = 3;
/// The wait before a second listing after an update, a delete or an assignment: a request without a
/// response may still be in flight.
const IN_FLIGHT_WAIT: Duration = Duration::from_secs(3);
/// The same after a create: a service may commit it long after a proxy gave up. A create that is
/// sent again too early makes a second record.
const LATE_COMMIT_WAIT: Duration = Duration::from_secs(10);

/// The outcome of an update, a delete or an assignment, according to a listing.
pub(super) enum ListingEvidence {
    Done,
    NotDone,
    /// Its record is neither as before nor as planned.
    Changed(String),
    /// No list shows the outcome.
    NotVisible(String),
}

pub(super) fn evidence_for(step: &PlanStep, params: &[String], state: &State) -> ListingEvidence {
    let record = || state.get(step.resource)?.get(&RecordKey::Id(step.id?));
    let unmoved = |record: &Record<'_>| {
        step.fingerprint.as_ref() == Some(&fingerprint(step.resource, record))
    };
    if step_request::sets_password(step) && step.after.as_ref().is_some_and(|it| it.len() == 1) {
        return ListingEvidence::NotVisible("no list shows a password".to_owned());
    }
    match verify(step, step.id, params, state).0 {
        // The new value differs from the old one only in its form, so the record does not show
        // whether the update was executed. Executing it again does no harm.
        Verification::AsAsked(Some(_))
            if step.verb == Verb::Update && record().is_some_and(unmoved) =>
        {
            ListingEvidence::NotDone
        }
        Verification::AsAsked(_) => ListingEvidence::Done,
        Verification::Hidden(why) => ListingEvidence::NotVisible(why),
        Verification::Differs(why) => match (&step.fingerprint, record()) {
            (Some(planned), Some(record))
                if step.verb == Verb::Update && fingerprint(step.resource, record) != *planned =>
            {
                ListingEvidence::Changed(format!("it is not what it was before: {why}"))
            }
            _ => ListingEvidence::NotDone,
        },
    }
}

impl PlanRunner<'_> {
    /// When a run is resumed, closes the open steps as stale whose records are not those that they
    /// were planned for.
    pub fn check_open_steps(&mut self) -> Result<(), ApplyError> {
        self.reconcile(|_| true)?;
        let by_key =
            |step: &PlanStep| step.verb == Verb::Create && step.resource.spec().shows_key();
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
        let mut state = self.observe_into_vault(&which.into_iter().collect::<Vec<_>>())?;
        for nth in open.iter().copied() {
            if self.all[nth].may_have_run && by_key(&self.all[nth].step) {
                self.check_unknown_create(nth, &known, &state)?;
            }
        }
        self.close_steps_changed_by_others(&state)?;
        // What this run has created is not what an open create was planned against.
        let created = |work: &&StepRun| {
            let is_read = state.get(work.step.resource).is_some();
            work.state == StepState::Done && work.step.verb == Verb::Create && is_read
        };
        let created: Vec<_> = self.all.iter().filter(created).collect();
        for work in created {
            if let Some(id) = work.id.or_else(|| remember::created_record(&work.step, &state)) {
                state.resource_mut(work.step.resource).remove(&RecordKey::Id(id));
            }
        }
        // Records that this run has changed differ from the plan's fingerprints.
        let changed = self.own_updates();
        let is_ours = |step: &PlanStep| {
            fingerprints(step).any(|it| changed.contains_key(&(it.resource, it.id)))
        };
        // All open steps: each may give up the natural key of a later create.
        let steps = open.into_iter().filter(|nth| self.all[*nth].is_open());
        let steps: Vec<_> = steps.map(|nth| self.all[nth].step.clone()).collect();
        let memory = remember::memory_for_steps(self.vault, &steps)?;
        let current = CurrentState { state: &state, memory: &memory };
        for stale in stale::stale_steps(&steps, current) {
            let nth = stale.step as usize - 1;
            let work = &self.all[nth];
            let is_comparable = by_key(&work.step) || work.step.fingerprint.is_some();
            if !is_comparable || is_ours(&work.step) {
                continue;
            }
            if !work.may_have_run || work.step.verb == Verb::Create {
                self.close(nth, &StepResult::of(StepState::Stale).with_message(stale.why))?;
            }
        }
        Ok(())
    }

    /// Checks a create that may have taken effect before the run stopped.
    fn check_unknown_create(
        &mut self,
        nth: usize,
        known: &BTreeMap<Resource, KnownIds>,
        state: &State,
    ) -> Result<(), ApplyError> {
        let StepRun { step, sent, .. } = &self.all[nth];
        let all = state.get(step.resource).zip(known.get(&step.resource));
        match all.map(|(records, seen)| reconcile::reconcile_create(step, seen, *sent, records)) {
            Some(CreateOutcome::Created(id)) => self.adopt(nth, id),
            Some(CreateOutcome::Ambiguous(ids)) => self.mark_ambiguous(nth, &ids),
            // This run did not create the record that has its key now.
            _ => Ok(()),
        }
    }

    fn mark_ambiguous(&mut self, nth: usize, ids: &[i64]) -> Result<(), ApplyError> {
        self.close(
            nth,
            &StepResult::of(StepState::Unknown)
                .with_message(reconcile::ambiguous_create_message(ids)),
        )
    }

    /// Looks up in the list whether a try without a response took effect. If not, closes the step
    /// as `otherwise`.
    pub fn look_up_outcome(
        &mut self,
        nth: usize,
        params: &[String],
        otherwise: &StepResult,
    ) -> Result<(), ApplyError> {
        let resource = self.all[nth].step.resource;
        for look in 0..2 {
            if look > 0 {
                self.wait_for_requests_in_flight(resource, IN_FLIGHT_WAIT)?;
            }
            let state = match self.listing(resource) {
                Ok(state) => state,
                Err(error) => {
                    self.revert_to_planned()?;
                    return Err(error);
                }
            };
            match evidence_for(&self.all[nth].step, params, &state) {
                ListingEvidence::Done => return self.done(nth, None, params),
                ListingEvidence::NotDone => {}
                ListingEvidence::NotVisible(_)
                    if step_request::sets_password(&self.all[nth].step) =>
                {
                    let unknown = StepResult::of(StepState::Unknown).with_message(MAY_BE_SET);
                    return self.close(nth, &unknown);
                }
                ListingEvidence::NotVisible(why) | ListingEvidence::Changed(why) => {
                    return self.close_as_unknown(nth, &why);
                }
            }
        }
        self.close(nth, otherwise)
    }

    fn wait_for_requests_in_flight(
        &mut self,
        resource: Resource,
        wait: Duration,
    ) -> Result<(), ApplyError> {
        if self.pause(wait) == SleepOutcome::Finished {
            return Ok(());
        }
        let path = resource.spec().endpoint(Verb::List).map_or("", |it| it.path);
        self.revert_to_planned()?;
        let source = ApiError::new(ApiErrorKind::Interrupted, Method::Get, path);
        Err(ApplyError::Stopped { run: self.run, source })
    }

    /// The indexes of the creates without a response, of the resources for which `which` is true.
    pub fn is_unresolved(&self, which: impl Fn(Resource) -> bool) -> Vec<usize> {
        let open = |(nth, work): &(usize, &StepRun)| {
            work.state == StepState::Sent
                && work.step.verb == Verb::Create
                && !self.intended.contains(nth)
                && which(work.step.resource)
        };
        self.all.iter().enumerate().filter(open).map(|(nth, _)| nth).collect()
    }

    /// Finds out whether creates without a response took effect: adopts the records that they
    /// created, and sets the others back to planned.
    pub fn reconcile(&mut self, which: impl Fn(Resource) -> bool) -> Result<(), ApplyError> {
        let resources: BTreeSet<_> =
            self.is_unresolved(which).into_iter().map(|nth| self.all[nth].step.resource).collect();
        for resource in resources {
            self.reconcile_resource(resource)?;
        }
        Ok(())
    }

    fn reconcile_resource(&mut self, resource: Resource) -> Result<(), ApplyError> {
        let mut seen = None;
        for look in 0..2 {
            if look > 0 {
                self.wait_for_requests_in_flight(resource, LATE_COMMIT_WAIT)?;
            }
            let began = self.clock.now();
            let state = self.listing(resource)?;
            let Some(records) = state.get(resource) else { continue };
            let ours = self.own_updates();
            let ours = ours.range((resource, i64::MIN)..=(resource, i64::MAX));
            let ours = ours.flat_map(|(_, places)| places).map(|at| &self.all[*at].step);
            self.known.entry(resource).or_default().changed_by(ours);
            for nth in self.is_unresolved(|it| it == resource) {
                let known = self.known.entry(resource).or_default();
                let work = &self.all[nth];
                match reconcile::reconcile_create(&work.step, known, work.sent, records) {
                    CreateOutcome::Created(id) => self.adopt(nth, id)?,
                    // The service gave the id of a deleted record again.
                    CreateOutcome::Ambiguous(ids) if work.claimed.is_some_and(|id| ids == [id]) => {
                        self.done(nth, work.claimed, &[])?;
                    }
                    CreateOutcome::NotCreated => {}
                    CreateOutcome::Ambiguous(ids) => self.mark_ambiguous(nth, &ids)?,
                }
            }
            seen = Some((records.clone(), began));
            if self.is_unresolved(|it| it == resource).is_empty() {
                break;
            }
        }
        if let Some((records, began)) = seen {
            let known = self.known.entry(resource).or_default().clone();
            for nth in self.is_unresolved(|it| it == resource) {
                // The service may have stored the new record under another name.
                let work = &self.all[nth];
                let done = self.all.iter().filter(|it| it.state == StepState::Done);
                let made = (resource, done.map(|it| &it.step));
                let ids = reconcile::unexplained_ids(made, &known, work.sent, &records);
                if !ids.is_empty() {
                    self.mark_ambiguous(nth, &ids)?;
                }
            }
            self.known.entry(resource).or_default().add_listing(resource, &records, began);
        }
        for nth in self.is_unresolved(|it| it == resource) {
            let work = &self.all[nth];
            let why = work.message.clone().unwrap_or_else(|| "no list shows it".to_owned());
            if work.declined || work.attempts >= MAX_CREATE_TRIES {
                self.close(nth, &StepResult::of(StepState::Refused).with_message(why))?;
            } else {
                let again = StepResult::of(StepState::Planned);
                self.vault.record_result(
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

    /// The records of a resource, from a complete listing. If lists do not show its natural key,
    /// the listing is stored in the vault: a process that resumes the run needs the ids to
    /// recognise new records.
    fn listing(&mut self, resource: Resource) -> Result<State, ApplyError> {
        let aside = resource.spec().shows_key();
        let (state, began, _) = self.observe_whole(&[resource], aside)?;
        self.proofs.account = Some(began);
        Ok(state)
    }
}
