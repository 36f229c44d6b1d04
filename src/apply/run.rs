//! The order of work: look, compare, write, look again, verify.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ApplyError;
use super::steps::{Runner, Work};
use super::verify::{Look, look};
use super::{Options, Outcome, before, keep, request, settle};
use crate::api::client::Client;
use crate::change::plan::{Current, Plan, Step};
use crate::clock::Clock;
use crate::crawl::{self, CrawlError, Stats};
use crate::model::{Resource, State, Verb};
use crate::progress::{Progress, Silent};
use crate::vault::journal::{JournalStep, NewRun, Run, RunStatus, StepState, Verified};
use crate::vault::snapshot::Snapshot;
use crate::vault::{Vault, VaultError};

/// Applies `plan`: looks at what it touches, refuses a stale plan, sends each
/// step, looks again and verifies.
///
/// # Errors
/// [`ApplyError`] says whether anything was written, and whether the run can go on.
pub fn apply(
    client: &mut Client,
    vault: &mut Vault,
    clock: &dyn Clock,
    progress: &dyn Progress,
    options: &Options,
    plan: &Plan,
) -> Result<Outcome, ApplyError> {
    if let Some(run) = vault.plan_was_used(&options.plan_id)? {
        return Err(ApplyError::Used(run));
    }
    check(&plan.steps)?;
    let mut spent = client.counters().requests;
    let touched = plan.touched();
    let look = crawl_options(options, &touched, true);
    let snapshot = match options.looked {
        Some(number) => {
            let looked = vault.snapshot(number)?;
            // Looking is part of what a run costs, whoever did it.
            spent = spent.saturating_sub(looked.usage.requests);
            looked
        }
        None => crawl::crawl(client, vault, clock, progress, &look)?.snapshot,
    };
    if let Some((resource, why)) = lacking(&snapshot, &look.scope) {
        return Err(ApplyError::Unread { resource, why });
    }
    let state = vault.state(snapshot.number, &look.scope)?;
    let memory = keep::memory(vault)?;
    let stale = before::stale(&plan.steps, Current { state: &state, memory: &memory });
    if !stale.is_empty() {
        return Err(ApplyError::Stale(stale));
    }
    let new = NewRun {
        command: options.command.clone(),
        asked: options.asked.clone(),
        plan_id: options.plan_id.clone(),
        plan: options.plan.clone(),
        touched,
        before: snapshot.number,
        steps: plan.steps.iter().map(text).collect(),
    };
    let number = vault.begin_run(&new, clock.now())?;
    let run = vault.run(number)?;
    go_on(client, vault, clock, progress, options, &run, spent)
}

/// Goes on with a run that was stopped, or whose unknown steps were decided on.
///
/// # Errors
/// As [`apply`].
pub fn resume(
    client: &mut Client,
    vault: &mut Vault,
    clock: &dyn Clock,
    progress: &dyn Progress,
    options: &Options,
    run: i64,
) -> Result<Outcome, ApplyError> {
    if vault.run(run)?.finished.is_some() {
        return outcome(vault, run, Vec::new());
    }
    let run = vault.take_up_run(run)?;
    let spent = client.counters().requests;
    go_on(client, vault, clock, progress, options, &run, spent)
}

fn go_on(
    client: &mut Client,
    vault: &mut Vault,
    clock: &dyn Clock,
    progress: &dyn Progress,
    options: &Options,
    run: &Run,
    spent: u64,
) -> Result<Outcome, ApplyError> {
    let (known, reading) = known_before(vault, run)?;
    let all = work(vault, run)?;
    let open = all.iter().filter(|work| work.is_open()).count() as u64;
    let mut runner = Runner {
        client,
        vault,
        clock,
        progress,
        options,
        run: run.number,
        all,
        open,
        known,
        intended: BTreeSet::new(),
        unanswered: 0,
        reading,
        wrote: false,
    };
    runner.know_what_it_made();
    let ended = runner.work().and_then(|()| runner.look_again(run));
    // Whatever stopped it, what is known is kept.
    runner.vault.settle()?;
    let (status, after) = match &ended {
        Ok((_, after)) => (runner.status(), Some(*after)),
        Err(_) => (RunStatus::Running, None),
    };
    let requests = runner.client.counters().requests.saturating_sub(spent);
    runner.vault.leave_run(run.number, status, after, requests, clock.now())?;
    let (problems, _) = ended?;
    outcome(vault, run.number, problems)
}

/// Refuses steps that the API does not have, before anything is sent.
fn check(steps: &[Step]) -> Result<(), ApplyError> {
    let any = request::Secrets { password: Some(String::new()) };
    for (nth, step) in (1..).zip(steps) {
        let fault = |why| ApplyError::Step { step: step.step, why };
        if step.step != nth {
            return Err(fault(format!("it should be step {nth}")));
        }
        if step.waits_for.iter().any(|on| *on == 0 || *on >= nth) {
            return Err(fault("it waits for a step that does not come before it".to_owned()));
        }
        let earlier = |on: u32| step.waits_for.contains(&on).then_some(1);
        request::ready(step, earlier, &any).map_err(fault)?;
    }
    Ok(())
}

fn text(step: &Step) -> String {
    serde_json::to_string(step).unwrap_or_default()
}

fn crawl_options(options: &Options, touched: &[Resource], fresh: bool) -> crawl::Options {
    let all = crawl::Options::new(&options.service).only(touched);
    crawl::Options { stats: Stats::None, fresh, ..all }
}

/// What of `scope` a snapshot does not show whole, and why.
fn lacking(snapshot: &Snapshot, scope: &[Resource]) -> Option<(Resource, String)> {
    let mut outcomes = snapshot.outcomes.iter().filter(|it| scope.contains(&it.resource));
    let lacking = outcomes.find(|it| !it.is_whole())?;
    let why = lacking.message.clone().unwrap_or_else(|| lacking.state.name().replace('_', " "));
    Some((lacking.resource, why))
}

/// The ids that were there before the run, and what reading them costs.
fn known_before(
    vault: &mut Vault,
    run: &Run,
) -> Result<(BTreeMap<Resource, BTreeSet<i64>>, u64), VaultError> {
    let Some(before) = run.before else { return Ok((BTreeMap::new(), 0)) };
    let state = vault.state(before, &run.touched)?;
    let ids = |records: &settle::Records| records.keys().map(crate::model::Key::id).collect();
    let known = state.iter().map(|(resource, records)| (resource, ids(records))).collect();
    Ok((known, vault.snapshot(before)?.usage.requests))
}

/// What a row of the journal says its step is.
pub(super) fn step_of(row: &JournalStep) -> Result<Step, ApplyError> {
    serde_json::from_str(&row.spec).map_err(|error| ApplyError::Step {
        step: row.step,
        why: format!("its text in the journal is damaged: {error}"),
    })
}

/// The steps of a run, with what the journal knows of each.
fn work(vault: &Vault, run: &Run) -> Result<Vec<Work>, ApplyError> {
    let mut all = Vec::new();
    for row in vault.steps(run.number)? {
        let step = step_of(&row)?;
        all.push(Work {
            step,
            state: row.state,
            id: row.id,
            attempts: row.attempts,
            doubted: row.state == StepState::Sent || row.attempts > 0,
            declined: false,
            message: row.message,
            needed: false,
        });
    }
    let needed: BTreeSet<_> = all.iter().flat_map(|work| work.step.waits_for.clone()).collect();
    for work in &mut all {
        work.needed = needed.contains(&work.step.step);
    }
    Ok(all)
}

fn outcome(vault: &Vault, run: i64, problems: Vec<String>) -> Result<Outcome, ApplyError> {
    let run = vault.run(run)?;
    Ok(Outcome {
        run: run.number,
        done: run.count(StepState::Done),
        refused: run.count(StepState::Refused),
        skipped: run.count(StepState::Skipped),
        unknown: run.count(StepState::Unknown),
        waiting: run.count(StepState::Planned) + run.count(StepState::Sent),
        verified: run.verified,
        requests: run.requests,
        before: run.before,
        after: run.after,
        problems,
    })
}

impl Runner<'_> {
    fn know_what_it_made(&mut self) {
        for work in &self.all {
            if let Some(id) = work.id {
                self.known.entry(work.step.resource).or_default().insert(id);
            }
        }
    }

    fn status(&self) -> RunStatus {
        let any = |state| self.all.iter().any(|work| work.state == state);
        if any(StepState::Unknown) {
            RunStatus::Unknown
        } else if any(StepState::Refused) || any(StepState::Skipped) {
            RunStatus::Partial
        } else {
            RunStatus::Complete
        }
    }

    /// Reads one resource into a vault of its own; the inner error says why it
    /// could not be read whole.
    pub fn look_aside(&mut self, resource: Resource) -> Result<Result<State, String>, ApplyError> {
        let mut aside = Vault::in_memory()?;
        if let Some(size) = self.vault.learned_page_size(resource)? {
            aside.learn_page_size(resource, size)?;
        }
        let look = crawl_options(self.options, &[resource], true);
        let seen = crawl::crawl(self.client, &mut aside, self.clock, &Silent, &look);
        let snapshot = match seen {
            Ok(summary) => summary.snapshot,
            Err(CrawlError::Api(source)) => {
                return Err(ApplyError::Stopped { run: self.run, source });
            }
            Err(other) => return Err(other.into()),
        };
        if let Some((_, why)) = lacking(&snapshot, &[resource]) {
            return Ok(Err(why));
        }
        Ok(Ok(aside.state(snapshot.number, &[resource])?))
    }

    /// Reads everything again and verifies. Gives what there is to tell, and the
    /// snapshot.
    fn look_again(&mut self, run: &Run) -> Result<(Vec<String>, i64), ApplyError> {
        let look = crawl_options(self.options, &run.touched, self.wrote);
        let crawled = crawl::crawl(self.client, self.vault, self.clock, self.progress, &look);
        let snapshot = match crawled {
            Ok(summary) => summary.snapshot,
            Err(CrawlError::Api(source)) => {
                return Err(ApplyError::Stopped { run: self.run, source });
            }
            Err(other) => return Err(other.into()),
        };
        let (mut whole, mut unread) = (Vec::new(), Vec::new());
        for resource in run.touched.iter().copied() {
            match lacking(&snapshot, &[resource]) {
                None => whole.push(resource),
                Some((_, why)) => unread.push(format!(
                    "{resource} could not be read again, so their steps are not verified: {why}"
                )),
            }
        }
        let state = self.vault.state(snapshot.number, &whole)?;
        let (found, mut problems) = self.verify(&state);
        problems.extend(unread);
        self.vault.verify_steps(self.run, &found, self.clock.now())?;
        Ok((problems, snapshot.number))
    }

    fn verify(&self, state: &State) -> (Vec<Verified>, Vec<String>) {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for work in &self.all {
            let step = &work.step;
            let name = || {
                let (verb, title) = (step.verb.name(), step.resource.spec().title);
                format!("step {} ({verb} {title} {})", step.step, step.key)
            };
            if work.state != StepState::Done {
                let why = work.message.as_deref().unwrap_or("not sent");
                problems.push(format!("{} {}: {why}", name(), work.state.name()));
                continue;
            }
            let ids = |number: u32| self.all.get((number as usize).checked_sub(1)?)?.id;
            let params = request::ready(step, ids, &request::Secrets::default());
            let params = params.map_or_else(|_| Vec::new(), |ready| ready.params);
            let (look, id) = look(step, work.id.or(step.id), &params, state);
            match &look {
                Look::Differs(why) => problems.push(format!("{}: {why}", name())),
                Look::AsAsked(Some(remark)) => problems.push(format!("{}: {remark}", name())),
                _ => {}
            }
            let created = step.verb == Verb::Create;
            let learned = id.filter(|_| created && work.id.is_none());
            let remember = learned.map_or_else(Vec::new, |id| keep::of_step(step, id));
            all.push(Verified {
                step: step.step,
                word: look.word().to_owned(),
                remark: look.remark().map(str::to_owned),
                id: learned,
                remember,
                maps: keep::maps(step, learned),
            });
        }
        (all, problems)
    }
}
