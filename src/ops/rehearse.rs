//! A run that changes nothing: the sandbox stands in for the service, a copy for
//! the vault, and the clock is simulated. All else is what `apply` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::account_session::{AccountSession, SessionLimits};
use super::apply::{PlanEnd, RunOptions, RunRequest, read_saved_plan, run_input, run_saved_plan};
use super::error_sources::apply_error;
use super::input::{self, InputOptions};
use super::sandbox_from_vault::sandbox_from_vault;
use super::state_ref::{self, StateRef};
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind};
use crate::apply::{ApplyError, RunReport};
use crate::change::plan::Plan;
use crate::change::policy::Policy;
use crate::clock::{Clock, SimulatedClock};
use crate::config::AccountConfig;
use crate::model::Resource;
use crate::sandbox::Behaviour;
use crate::vault::journal::JournalStep;
use crate::vault::reference::Reference;
use crate::vault::snapshot::{ReadState, Snapshot};

/// What to rehearse, and on a copy of which account.
pub struct RehearseRequest<'a> {
    pub account: &'a AccountConfig,
    /// A saved plan, or a state by its name.
    pub input: &'a str,
    /// What of the input is taken.
    pub options: InputOptions,
    pub policy: Policy,
    pub assumptions: RehearsalAssumptions,
    /// Stop at the first step that is refused.
    pub fail_fast: bool,
    pub max_staleness: Option<Duration>,
    pub limits: SessionLimits,
}

/// What a rehearsal assumes of the service.
#[derive(Debug, Clone, Default)]
pub struct RehearsalAssumptions {
    /// How many records the account's plan allows, by the sandbox's names of the caps.
    pub caps: Vec<(&'static str, u64)>,
    /// How it behaves where its document leaves it open: `NAME=VALUE`.
    pub behaviour: Vec<String>,
}

/// What a rehearsed run came to.
pub struct RehearsalReport {
    pub plan: Plan,
    pub run: RunReport,
    /// The journal's steps, by the plan's numbers.
    pub steps: BTreeMap<u32, JournalStep>,
    /// What the real run would take.
    pub time: Duration,
}

/// Applies to a copy of the account.
///
/// # Errors
/// As [`apply`](super::apply::apply); when the account has no snapshot to rehearse on.
pub fn rehearse(env: &Env, request: RehearseRequest<'_>) -> Result<RehearsalReport, OpError> {
    let RehearseRequest { account, input, options, policy, limits, .. } = &request;
    let run = RunOptions {
        fail_fast: request.fail_fast,
        yes: true,
        max_staleness: request.max_staleness,
        ..RunOptions::default()
    };
    let open = || rehearsal_session(env, account, limits, &request.assumptions);
    let saved = read_saved_plan(Path::new(input))?;
    if saved.is_none() {
        require_snapshot_input(env, input, account)?;
    }
    let mut session = open()?;
    let end = match saved {
        Some(saved) => run_saved_plan(&mut session, input, saved, policy, &run)?,
        None => {
            let wanted = options.read(env, limits, input, account)?;
            let request = RunRequest::new("rehearse", input);
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
            RehearsalReport { plan, run, steps, time }
        }
        PlanEnd::Nothing { plan, .. }
        | PlanEnd::Planned { plan, .. }
        | PlanEnd::Declined { plan } => {
            RehearsalReport { plan, run: nothing, steps: BTreeMap::new(), time }
        }
    })
}

/// Why a rehearsed run did not come to its end. There is no run to go on with.
fn rehearsal_error(error: ApplyError, account: &str) -> OpError {
    let is_run = matches!(error, ApplyError::Stopped { .. } | ApplyError::Unsettled { .. });
    let failure = apply_error(error, account);
    if is_run { failure.next(NextStep::Rehearsed) } else { failure }
}

impl RehearsalAssumptions {
    /// `behaviour` with all that is assumed.
    fn upon(&self, mut behaviour: Behaviour) -> Result<Behaviour, OpError> {
        let usage = |error| OpError::new(OpErrorKind::Usage, error).next(NextStep::ListBehaviours);
        behaviour.apply(&self.behaviour.join(",")).map_err(usage)?;
        for (cap, most) in &self.caps {
            behaviour.set(cap, &most.to_string()).map_err(usage)?;
        }
        Ok(behaviour)
    }
}

/// Refuses the state that only the service could tell.
///
/// # Errors
/// When `text` names a live account, or nothing that can be named.
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

/// A copy of `account` as its newest snapshot shows it, ready to be written to.
///
/// # Errors
/// When the account was never backed up, or its vault cannot be read.
fn rehearsal_session<'a>(
    env: &'a Env,
    account: &'a AccountConfig,
    bounds: &SessionLimits,
    assumed: &RehearsalAssumptions,
) -> Result<WriteSession<'a>, OpError> {
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
    let behaviour = assumed.upon(behaviour)?;
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::new(env.clock.now()));
    let session = AccountSession::to_sandbox(account, bounds, (loaded.store, behaviour), &clock);
    Ok(WriteSession::of_copy(env, account, session, vault, clock))
}

/// What the service did not offer, as the sandbox calls it.
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
