//! The order of work: crawl, compare, write, crawl again, verify.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ApplyError;
use super::verify::{Verification, verify};
use crate::api::client::Client;
use crate::apply::journal_step::{
    LEFT_BY_DECISION, StepRun, load_step_runs, parse_step, step_title, unfinished_step_message,
};
use crate::apply::known_ids::known_ids_of;
use crate::apply::reconcile::KnownIds;
use crate::apply::runner::{Freshness, MAX_READS, PlanRunner};
use crate::apply::twins::{self, Twin};
use crate::apply::{ApplyOptions, RunReport, remember, stale, step_request};
use crate::change::plan::{CurrentState, Plan, PlanStep};
use crate::clock::{Clock, Timestamp};
use crate::crawl::{
    self, AccountCheck, CrawlError, CrawlReport, ObservationScope, ServiceLink, Unread,
};
use crate::model::{Resource, RunId, SnapshotId, State, Verb};
use crate::progress::{NoProgress, Progress};
use crate::vault::journal::{
    JournalStep, NewRun, Run, RunStatus, StepResult, StepState, StepVerification, VerifiedState,
};
use crate::vault::{Vault, VaultError};

/// Applies `plan`: reads the resources that it touches, refuses a stale plan, sends each step,
/// reads the resources again and verifies the result.
///
/// # Errors
/// The variant of [`ApplyError`] tells whether anything was written, and whether the run can be
/// resumed.
pub fn apply(
    client: &mut Client,
    vault: &mut Vault,
    clock: &dyn Clock,
    progress: &dyn Progress,
    options: &ApplyOptions,
    plan: &Plan,
) -> Result<RunReport, ApplyError> {
    if let Some(run) = vault.run_of_plan(&options.plan_id)? {
        return Err(ApplyError::Used(run));
    }
    check(&plan.steps)?;
    let mut spent = client.counters().requests;
    let touched = plan.touched();
    let reads = crawl::with_parents(&plan.reads());
    let snapshot = match options.snapshot_before {
        Some(number) => {
            let looked = vault.snapshot(number)?;
            // The requests of the first snapshot count for the run, even if the caller made it.
            spent = spent.saturating_sub(looked.usage.requests);
            looked
        }
        None => {
            let link = ServiceLink { client, clock, progress, service: &options.service };
            crawl::observe(link, ObservationScope::before_run(&reads), vault)?.snapshot
        }
    };
    crawl::require_complete(&snapshot, &reads)?;
    let state = vault.state(snapshot.number, &reads)?;
    let memory = remember::memory_for_steps(vault, &plan.steps)?;
    let stale = stale::stale_steps(&plan.steps, CurrentState { state: &state, memory: &memory });
    if !stale.is_empty() {
        return Err(ApplyError::Stale(stale));
    }
    let new = NewRun {
        command: options.command,
        input: options.input.clone(),
        plan_id: options.plan_id.clone(),
        plan: options.plan.clone(),
        touched,
        before: snapshot.number,
        steps: plan.steps.iter().map(step_json).collect(),
    };
    let number = vault.begin_run(&new, clock.now())?;
    let run = vault.run(number)?;
    let link = RunLink { client, vault, clock, progress };
    run_open_steps(link, options, &run, spent, RunMode::Begin)
}

/// Continues a run that was stopped, or for whose unknown steps a person has decided. Returns the
/// report of a finished run.
///
/// # Errors
/// As [`apply`].
pub fn resume(
    client: &mut Client,
    vault: &mut Vault,
    clock: &dyn Clock,
    progress: &dyn Progress,
    options: &ApplyOptions,
    run: RunId,
) -> Result<RunReport, ApplyError> {
    if vault.run(run)?.finished.is_some() {
        let problems = problems_of(vault, run)?;
        return run_report(vault, run, problems.into_iter().map(RunProblem::Unreported).collect());
    }
    let run = vault.resume_run(run)?;
    let spent = client.counters().requests;
    let link = RunLink { client, vault, clock, progress };
    run_open_steps(link, options, &run, spent, RunMode::Resume)
}

/// Ends a run that was stopped: looks up the outcome of its requests without a response, and leaves
/// its remaining steps undone. If an outcome stays unknown, the run is not finished.
///
/// # Errors
/// As [`apply`]; [`ApplyError::Finished`] if the run is finished.
pub fn end(
    client: &mut Client,
    vault: &mut Vault,
    clock: &dyn Clock,
    progress: &dyn Progress,
    options: &ApplyOptions,
    run: RunId,
) -> Result<RunReport, ApplyError> {
    if vault.run(run)?.finished.is_some() {
        return Err(ApplyError::Finished(run));
    }
    let run = vault.resume_run(run)?;
    let spent = client.counters().requests;
    let link = RunLink { client, vault, clock, progress };
    run_open_steps(link, options, &run, spent, RunMode::End)
}

/// What a process does with the open steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunMode {
    /// Sends them; the run has just begun.
    Begin,
    /// Sends them, after looking up those that an earlier process may have sent.
    Resume,
    /// Looks up those that an earlier process may have sent, and leaves the others undone.
    End,
}

/// What a run works with.
struct RunLink<'a> {
    client: &'a mut Client,
    vault: &'a mut Vault,
    clock: &'a dyn Clock,
    progress: &'a dyn Progress,
}

fn run_open_steps(
    link: RunLink<'_>,
    options: &ApplyOptions,
    run: &Run,
    spent: u64,
    mode: RunMode,
) -> Result<RunReport, ApplyError> {
    let RunLink { client, vault, clock, progress } = link;
    if let Some(password) = &options.secrets.password {
        client.redact_secret(password);
    }
    let all = load_step_runs(vault, run)?;
    let (known, reading) = known_ids_before(vault, run, &all)?;
    let fresh = (mode == RunMode::Begin).then_some(spent);
    let proofs = Freshness::new(vault, clock, client, options, run, fresh)?;
    let open = all.iter().filter(|work| work.is_open()).count() as u64;
    let runner = &mut PlanRunner {
        client,
        vault,
        clock,
        progress,
        options,
        run: run.number,
        all,
        open,
        known,
        proofs,
        intended: BTreeSet::new(),
        unanswered: 0,
        reading,
        touched: &run.touched,
        wrote: false,
        stored: false,
        slow_puts: 0,
        seen: run.after.is_some(),
        told: BTreeSet::new(),
    };
    let worked = match mode {
        RunMode::Begin => runner.run_steps(),
        RunMode::Resume => runner.check_open_steps().and_then(|()| runner.run_steps()),
        RunMode::End => {
            runner.check_open_steps().and_then(|()| runner.skip_open_steps(LEFT_BY_DECISION))
        }
    };
    let mut twins = Vec::new();
    let ended = worked.and_then(|()| runner.observe_after_run(run, &mut twins));
    // Results that are not committed yet are stored, even if the run stopped with an error.
    runner.vault.flush()?;
    let (status, after) = match &ended {
        Ok((_, after)) => (runner.status()?, Some(*after)),
        Err(_) => (RunStatus::Running, None),
    };
    let requests = runner.client.counters().requests.saturating_sub(spent);
    runner.vault.suspend_run(run.number, status, after, requests, clock.now())?;
    let (problems, _) = ended?;
    Ok(RunReport { twins, ..run_report(vault, run.number, problems)? })
}

/// Refuses steps that the API does not have, before anything is sent.
fn check(steps: &[PlanStep]) -> Result<(), ApplyError> {
    let any = step_request::StepSecrets { password: Some(String::new()) };
    for (nth, step) in (1..).zip(steps) {
        let fault = |why| ApplyError::Step { step: step.step, why };
        if step.step != nth {
            return Err(fault(format!("it should be step {nth}")));
        }
        if step.waits_for.iter().any(|on| *on == 0 || *on >= nth) {
            return Err(fault("it waits for a step that does not come before it".to_owned()));
        }
        let earlier = |on: u32| step.waits_for.contains(&on).then_some(1);
        step_request::ready(step, earlier, &any).map_err(fault)?;
    }
    Ok(())
}

fn step_json(step: &PlanStep) -> String {
    serde_json::to_string(step).unwrap_or_default()
}

/// The ids of each resource that were known before its first step without a response was sent, and
/// the requests that the crawl took.
fn known_ids_before(
    vault: &mut Vault,
    run: &Run,
    all: &[StepRun],
) -> Result<(BTreeMap<Resource, KnownIds>, u64), VaultError> {
    let Some(before) = run.before else { return Ok((BTreeMap::new(), 0)) };
    let mut known = BTreeMap::new();
    for resource in run.touched.iter().copied() {
        let lost =
            |work: &&StepRun| work.state == StepState::Sent && work.step.resource == resource;
        let until = all.iter().filter(lost);
        let until = until.filter_map(|work| Some((work.sent?, work.step.step))).min();
        known.insert(resource, known_ids_of(vault, run, resource, until)?);
    }
    Ok((known, vault.snapshot(before)?.usage.requests))
}

/// The messages at the end of a run, from its journal.
fn problems_of(vault: &Vault, run: RunId) -> Result<Vec<String>, ApplyError> {
    let mut problems = Vec::new();
    for row in vault.steps(run)? {
        let name = step_title(&parse_step(&row)?);
        if row.state != StepState::Done {
            problems.push(unfinished_step_message(&name, row.state, row.message.as_deref()));
        } else if let Some(remark) =
            row.remark.filter(|_| row.verified != Some(VerifiedState::Hidden))
        {
            problems.push(format!("{name}: {remark}"));
        }
    }
    Ok(problems)
}

/// A message for people about a run.
enum RunProblem {
    /// A progress event has reported it.
    Reported(String),
    Unreported(String),
}

fn run_report(vault: &Vault, run: RunId, all: Vec<RunProblem>) -> Result<RunReport, ApplyError> {
    let steps = vault.steps(run)?;
    let run = vault.run(run)?;
    let (mut problems, mut unreported) = (Vec::new(), Vec::new());
    for problem in all {
        match problem {
            RunProblem::Reported(text) => problems.push(text),
            RunProblem::Unreported(text) => {
                unreported.push(text.clone());
                problems.push(text);
            }
        }
    }
    Ok(RunReport {
        run: run.number,
        done: run.count(StepState::Done),
        refused: run.count(StepState::Refused),
        skipped: run.count(StepState::Skipped),
        stale: run.count(StepState::Stale),
        unknown: run.count(StepState::Unknown),
        not_sent: run.count(StepState::Planned) + run.count(StepState::Sent),
        different: steps.iter().filter(|row| row.differs()).count() as u64,
        verified: run.verified,
        requests: run.requests,
        before: run.before,
        after: run.after,
        problems,
        unreported,
        twins: Vec::new(),
    })
}

impl PlanRunner<'_> {
    fn status(&self) -> Result<RunStatus, ApplyError> {
        let any = |state| self.all.iter().any(|work| work.state == state);
        let undone = [StepState::Refused, StepState::Skipped, StepState::Stale].map(any);
        Ok(if any(StepState::Unknown) {
            RunStatus::Unknown
        } else if undone.contains(&true)
            || self.vault.steps(self.run)?.iter().any(JournalStep::differs)
        {
            RunStatus::Partial
        } else {
            RunStatus::Complete
        })
    }

    /// Reads the resources `which` into the run's own vault, or into `aside`; with `checked`, without
    /// a first request for the account.
    fn crawl_lists(
        &mut self,
        which: &[Resource],
        resume: bool,
        progress: &dyn Progress,
        aside: Option<&mut Vault>,
        checked: Option<AccountCheck>,
    ) -> Result<CrawlReport, ApplyError> {
        let deleted = |it: &&StepRun| it.step.verb == Verb::Delete && it.state == StepState::Done;
        let deleted = self.all.iter().filter(deleted);
        let deleted = deleted.filter_map(|it| Some((it.step.resource, it.step.id?))).collect();
        let scope = ObservationScope::Run { which, deleted, resume, checked };
        let service = &self.options.service;
        let link = ServiceLink { client: self.client, clock: self.clock, progress, service };
        crawl::observe(link, scope, aside.unwrap_or(self.vault))
            .map_err(|error| self.observation_error(error))
    }

    /// Reads resources into the vault, so that a process that resumes the run has the listing, too.
    pub fn observe_into_vault(&mut self, resources: &[Resource]) -> Result<State, ApplyError> {
        let (state, began, started) = self.observe_whole(resources, false)?;
        self.record_observation(resources, began);
        for resource in resources.iter().copied() {
            let known = self.known.entry(resource).or_default();
            if let Some(records) = state.get(resource) {
                known.add_listing(resource, records, started);
            }
        }
        Ok(state)
    }

    /// Reads resources completely; with `aside`, into a vault in memory. Also returns when that
    /// began.
    pub fn observe_whole(
        &mut self,
        resources: &[Resource],
        aside: bool,
    ) -> Result<(State, AccountCheck, Timestamp), ApplyError> {
        let mut looks = 0;
        loop {
            looks += 1;
            let mut memory = aside.then(|| self.vault.empty_of_same_account()).transpose()?;
            let began = AccountCheck::next(self.clock, self.client);
            let report = self.crawl_lists(resources, false, &NoProgress, memory.as_mut(), None)?;
            let seen = report.snapshot;
            match crawl::require_complete(&seen, resources) {
                Ok(()) => {
                    let vault = memory.as_mut().unwrap_or(self.vault);
                    return Ok((vault.state(seen.number, resources)?, began, seen.started));
                }
                Err(Unread { resource, why, .. }) if looks == MAX_READS => {
                    return Err(ApplyError::OutcomeUnreadable { run: self.run, resource, why });
                }
                Err(_) => {}
            }
        }
    }

    /// The error for a failed crawl. If it found another account, the snapshot that an earlier
    /// process left running is discarded.
    pub fn observation_error(&mut self, error: CrawlError) -> ApplyError {
        if let CrawlError::Vault(why) = &error
            && let Err(failed) =
                crawl::discard_running(self.vault, self.clock, &self.options.service, why, None)
        {
            return failed.into();
        }
        match error {
            CrawlError::Api(source) => ApplyError::Stopped { run: self.run, source },
            CrawlError::Vault(VaultError::Checkpoint(source)) => self.not_stored(source),
            other => other.into(),
        }
    }

    /// Reads all touched resources again and verifies the steps. Returns the messages and the
    /// number of the snapshot.
    fn observe_after_run(
        &mut self,
        run: &Run,
        twins: &mut Vec<Twin>,
    ) -> Result<(Vec<RunProblem>, SnapshotId), ApplyError> {
        let checked = self.check_for_observation()?;
        let (which, resume) = (&run.touched, !self.wrote);
        let snapshot = self.crawl_lists(which, resume, self.progress, None, checked)?.snapshot;
        let unread = crawl::unread(&snapshot, &run.touched);
        let mut whole = run.touched.clone();
        whole.retain(|it| unread.iter().all(|unread| unread.resource != *it));
        let state = self.vault.state(snapshot.number, &whole)?;
        self.vault.flush()?;
        twins.extend(twins::twins_at_end(self.vault, run, snapshot.number)?);
        twins.retain(|twin| self.all[twin.step as usize - 1].repeated);
        for twin in twins.iter() {
            let unknown = StepResult::of(StepState::Unknown).with_message(twin.to_string());
            self.close(twin.step as usize - 1, &StepResult { id: Some(twin.id), ..unknown })?;
        }
        let (found, mut problems) = self.verify(&state)?;
        problems.extend(unread.into_iter().map(|Unread { resource, why, .. }| {
            RunProblem::Unreported(format!(
                "{resource} could not be read again, so their steps are not verified: {why}"
            ))
        }));
        self.vault.verify_steps(self.run, &found, self.clock.now())?;
        Ok((problems, snapshot.number))
    }

    fn verify(
        &self,
        state: &State,
    ) -> Result<(Vec<StepVerification>, Vec<RunProblem>), VaultError> {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        let made = self.created_records(state);
        let new: BTreeSet<_> = made.values().copied().collect();
        let known = self.vault.sent_values(None, &Resource::ALL)?;
        for work in &self.all {
            let step = &work.step;
            let name = || step_title(step);
            if work.state != StepState::Done {
                let text = unfinished_step_message(&name(), work.state, work.message.as_deref());
                let told = self.told.contains(&step.step);
                problems.push(if told {
                    RunProblem::Reported(text)
                } else {
                    RunProblem::Unreported(text)
                });
                continue;
            }
            let ids = |number: u32| made.get(&number).map(|(_, id)| *id);
            let params = step_request::ready(step, ids, &step_request::StepSecrets::default());
            let params = params.map_or_else(|_| Vec::new(), |ready| ready.params);
            let (mut look, id) = verify(step, work.id.or(step.id), &params, state);
            // A record that this run created may have the id of one that it deleted.
            let is_given_again = step.id.is_some_and(|id| new.contains(&(step.resource, id)));
            if step.verb == Verb::Delete && is_given_again {
                look = Verification::AsAsked(None);
            }
            match &look {
                Verification::Differs(why) | Verification::AsAsked(Some(why)) => {
                    problems.push(RunProblem::Unreported(format!("{}: {why}", name())));
                }
                _ => {}
            }
            let created = step.verb == Verb::Create;
            let learned = id.filter(|_| created && work.id.is_none());
            let mut remember =
                learned.map_or_else(Vec::new, |id| remember::sent_values_of_step(step, id));
            if let Some(id) = id {
                remember.extend(remember::stored_forms(&known, step, id, state));
                remember.extend(remember::rotator_after_step(self.vault, step, id, state)?);
            }
            all.push(StepVerification {
                step: step.step,
                result: look.state(),
                remark: look.remark().map(str::to_owned),
                id: learned,
                remember,
                maps: remember::id_mapping(step, learned),
            });
        }
        Ok((all, problems))
    }

    /// The records that this run created, by step. If no response had an id, it is taken from the
    /// list in `state`.
    fn created_records(&self, state: &State) -> BTreeMap<u32, (Resource, i64)> {
        let creates = self.all.iter().filter(|work| work.step.verb == Verb::Create);
        let id = |work: &StepRun| match (work.id, work.state) {
            (None, StepState::Done) => verify(&work.step, None, &[], state).1,
            (id, _) => id,
        };
        let made = |work: &StepRun| Some((work.step.step, (work.step.resource, id(work)?)));
        creates.filter_map(made).collect()
    }
}
