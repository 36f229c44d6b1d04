//! Rehearses a run: like `apply`, but with the sandbox instead of the service, a copy of the vault,
//! and a simulated clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::account_session::{AccountSession, SessionLimits};
use super::apply::{PlanEnd, RunOptions, RunRequest, input_name, run_input, run_saved_plan};
use super::backup::{BackupRequest, backup};
use super::error_sources::apply_error;
use super::input::{self, InputOptions, read_saved_plan};
use super::sandbox_from_vault::sandbox_from_vault;
use super::state_ref::{self, StateRef};
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind};
use crate::apply::{ApplyError, RunReport};
use crate::change::plan::Plan;
use crate::change::policy::Policy;
use crate::clock::{Clock, SimulatedClock, Timestamp};
use crate::config::{AccountConfig, StatisticsSetting};
use crate::format;
use crate::model::{Resource, SnapshotId};
use crate::sandbox::Behaviour;
use crate::vault::journal::{JournalStep, RunCommand};
use crate::vault::reference::Reference;
use crate::vault::snapshot::{ReadState, Snapshot};

/// The account to copy, and the plan to rehearse.
pub struct RehearseRequest<'a> {
    /// The account, whose newest snapshot is copied.
    pub account: &'a AccountConfig,
    /// A saved plan, or the desired state: a reference, or files and folders.
    pub input: &'a [String],
    /// Which part of the input to use.
    pub options: InputOptions,
    /// What the plan may do.
    pub policy: Policy,
    /// How the sandbox behaves.
    pub assumptions: RehearsalAssumptions,
    /// Stop at the first step that is refused.
    pub fail_fast: bool,
    /// The maximum age of a list when a write that depends on it is sent; the configuration's if
    /// `None`.
    pub max_staleness: Option<Duration>,
    /// Back the account up first, so that the copy is new.
    pub fresh: bool,
    /// Limits on requests and time of the rehearsed run.
    pub limits: SessionLimits,
}

/// The assumptions of a rehearsal about the service.
#[derive(Debug, Clone, Default)]
pub struct RehearsalAssumptions {
    /// The maximum numbers of records in the account, each with the sandbox's name of that limit.
    pub caps: Vec<(&'static str, u64)>,
    /// Behaviours that the API document does not define, each as `NAME=VALUE`.
    pub behaviour: Vec<String>,
}

/// The result of a rehearsal.
pub struct RehearsalReport {
    /// The snapshot that was copied.
    pub snapshot: SnapshotId,
    /// When it was begun.
    pub taken: Timestamp,
    /// The plan.
    pub plan: Plan,
    /// Counts and messages of the rehearsed run; only the requests if the plan has no steps.
    pub run: RunReport,
    /// The steps of the journal, by their numbers in the plan.
    pub steps: BTreeMap<u32, JournalStep>,
    /// The estimated duration of the real run: the time that passed on the simulated clock.
    pub time: Duration,
}

/// Applies the plan to a copy of the account.
///
/// # Errors
/// As [`apply`](super::apply::apply), and if the account has no snapshot.
pub fn rehearse(env: &Env, request: RehearseRequest<'_>) -> Result<RehearsalReport, OpError> {
    let RehearseRequest { account, input, options, policy, limits, .. } = &request;
    let run = RunOptions {
        fail_fast: request.fail_fast,
        yes: true,
        max_staleness: request.max_staleness,
        ..RunOptions::default()
    };
    let open = || rehearsal_session(env, account, limits, &request.assumptions);
    let (saved, name) = (read_saved_plan(input)?, input_name(input));
    if saved.is_none() {
        input.iter().try_for_each(|text| require_snapshot_input(env, text, account))?;
    }
    if request.fresh {
        let stats = Some(StatisticsSetting::None);
        let limits = *limits;
        let request = BackupRequest { stats, limits, ..BackupRequest::new("rehearse", account) };
        backup(env, &request)?.problems.iter().for_each(|it| env.warn(&it.message));
    }
    let (mut session, (snapshot, taken)) = open()?;
    env.note(format_args!(
        "{} is copied as of snapshot #{snapshot} of {}",
        account.name,
        format::time(taken)
    ));
    let end = match saved {
        Some(saved) => {
            options.csv.require_none(&name, "a saved plan")?;
            run_saved_plan(&mut session, &name, saved, policy, &run)?
        }
        None => {
            let wanted = options.read(env, limits, input, account)?;
            wanted.warn_of_suspicious(env);
            let request = RunRequest::new(RunCommand::Rehearse, &name);
            run_input(&mut session, request, &wanted, policy, &run)?
        }
    };
    let requests = session.session.client.counters().requests;
    let time = session.clock.monotonic();
    let nothing = RunReport { requests, ..RunReport::default() };
    Ok(match end {
        PlanEnd::Ran { plan, ended } => {
            let run = ended.map_err(|error| rehearsal_error(error, &account.name))?;
            let steps = session.vault.steps(run.run)?;
            let steps = steps.into_iter().map(|it| (it.step, it)).collect();
            RehearsalReport { snapshot, taken, plan, run, steps, time }
        }
        PlanEnd::Nothing { plan, .. }
        | PlanEnd::Planned { plan, .. }
        | PlanEnd::Declined { plan } => {
            let (run, steps) = (nothing, BTreeMap::new());
            RehearsalReport { snapshot, taken, plan, run, steps, time }
        }
    })
}

/// The error of a rehearsed run, without a hint to resume it.
fn rehearsal_error(error: ApplyError, account: &str) -> OpError {
    let is_run = matches!(error, ApplyError::Stopped { .. } | ApplyError::OutcomeUnreadable { .. });
    let failure = apply_error(error, account);
    if is_run { failure.next(NextStep::Rehearsed) } else { failure }
}

impl RehearsalAssumptions {
    /// `behaviour` with these assumptions.
    fn apply_to(&self, mut behaviour: Behaviour) -> Result<Behaviour, OpError> {
        let usage = |error| OpError::new(OpErrorKind::Usage, error).next(NextStep::ListBehaviours);
        behaviour.apply(&self.behaviour.join(",")).map_err(usage)?;
        for (cap, most) in &self.caps {
            behaviour.set(cap, &most.to_string()).map_err(usage)?;
        }
        Ok(behaviour)
    }
}

/// Refuses a live account as the desired state, because a rehearsal sends no requests.
///
/// # Errors
/// If `text` is a reference to a live account, or not a valid reference.
fn require_snapshot_input(env: &Env, text: &str, account: &AccountConfig) -> Result<(), OpError> {
    if input::path(env, text)?.is_some() {
        return Ok(());
    }
    let target = StateRef::parse(env, text, Reference::Latest(0), Some(account))?;
    if target.reference != Reference::Live {
        return Ok(());
    }
    let name = &target.account.name;
    Err(OpError::new(OpErrorKind::Usage, "cannot rehearse @live: a rehearsal sends no requests")
        .next(NextStep::BackUpAndNameSnapshot(name.clone())))
}

/// A write session for a copy of `account`, with the state of its newest snapshot; and the number
/// and the time of the snapshot.
///
/// # Errors
/// If the account has no vault or no snapshot, or an assumption is invalid.
fn rehearsal_session<'a>(
    env: &'a Env,
    account: &'a AccountConfig,
    bounds: &SessionLimits,
    assumed: &RehearsalAssumptions,
) -> Result<(WriteSession<'a>, (SnapshotId, Timestamp)), OpError> {
    let mut vault = state_ref::open(account)?.copy()?;
    let name = &account.name;
    let newest = vault.snapshots()?.pop().ok_or_else(|| {
        OpError::new(OpErrorKind::NotFound, format_args!("{name} has no snapshot yet"))
            .next(NextStep::BackUp(Some(name.clone())))
    })?;
    let loaded = sandbox_from_vault(&mut vault, newest.number)?;
    for what in &loaded.skipped {
        env.warn(format_args!("left out of the rehearsal: {what}"));
    }
    for outcome in &newest.outcomes {
        if matches!(outcome.state, ReadState::Drifted | ReadState::Failed) {
            let (resource, number) = (outcome.resource, newest.number);
            env.warn(format_args!("{name}@#{number} shows {resource} as last known before it"));
        }
    }
    let rate_limit = AccountSession::known_limit(account);
    let mut behaviour = Behaviour { rate_limit, ..Behaviour::default() };
    let wrong = |error| OpError::new(OpErrorKind::Usage, error);
    let parts = not_offered(&newest);
    if !parts.is_empty() {
        behaviour.set("not-offered", &parts.join("+")).map_err(wrong)?;
    }
    let behaviour = assumed.apply_to(behaviour)?;
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::new(env.clock.now()));
    let session = AccountSession::to_sandbox(account, bounds, (loaded.store, behaviour), &clock);
    let session = WriteSession::of_copy(env, account, session, vault, clock);
    Ok((session, (newest.number, newest.started)))
}

/// The resources that the service did not offer, with the sandbox's names.
fn not_offered(snapshot: &Snapshot) -> Vec<&'static str> {
    let lacking = snapshot.outcomes.iter().filter(|it| it.state == ReadState::NotOffered);
    let part = |resource| match resource {
        Resource::Account => "account",
        Resource::Domains => "domains",
        Resource::Overlays => "overlay",
        Resource::Campaigns => "campaigns",
        Resource::Channels | Resource::ChannelItems => "channels",
        Resource::SplashPages => "splash",
        Resource::Pixels => "pixels",
        Resource::QrCodes => "qr",
    };
    let mut parts: Vec<_> = lacking.map(|it| part(it.resource)).collect();
    parts.dedup();
    parts
}
