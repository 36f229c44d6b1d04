//! A run that changes nothing: the sandbox stands in for the service, a copy for
//! the vault, and time passes only on paper. All else is what `apply` does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::app::App;
use super::desk::{WriteLock, WriteSession};
use super::error::{Exit, OpError, OpErrorKind};
use super::outcome;
use super::session::{AccountSession, SessionLimits};
use super::states::{self, StateRef};
use crate::apply::{ApplyError, RunReport};
use crate::change::plan::{Plan, PlanStep};
use crate::cli::{Escaped, failures, served, values, wanted};
use crate::clock::{Clock, SimulatedClock};
use crate::config::AccountConfig;
use crate::format;
use crate::model::Resource;
use crate::progress::NoProgress;
use crate::sandbox::Behaviour;
use crate::vault::journal::{JournalStep, StepState};
use crate::vault::reference::Reference;
use crate::vault::snapshot::{ReadState, Snapshot};

/// Refuses the state that only the service could tell.
///
/// # Errors
/// When `text` names a live account, or nothing that can be named.
pub fn require_snapshot_input(
    app: &App,
    text: &str,
    account: &AccountConfig,
) -> Result<(), OpError> {
    if wanted::path(app, text)?.is_some() {
        return Ok(());
    }
    let target = StateRef::parse(app, text, Reference::Latest(0), Some(account))?;
    if target.reference != Reference::Live {
        return Ok(());
    }
    let name = &target.account.name;
    Err(OpError::new(
        OpErrorKind::Usage,
        "a rehearsal asks the service for nothing, so not for @live",
    )
    .hint(format_args!("run `linkvault backup {name}` first and name {name}@latest")))
}

/// What a rehearsal assumes of the service.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RehearsalAssumptions {
    /// How many records the account's plan allows, such as campaigns=50
    #[arg(
        long = "cap",
        value_name = "RESOURCE=NUMBER",
        value_delimiter = ',',
        value_parser = values::cap
    )]
    pub caps: Vec<(&'static str, u64)>,
    /// How it behaves where its document leaves it open, as for `sandbox`
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', visible_alias = "behavior")]
    pub behaviour: Vec<String>,
}

impl RehearsalAssumptions {
    /// `behaviour` with all that is assumed.
    fn upon(&self, mut behaviour: Behaviour) -> Result<Behaviour, OpError> {
        let usage = |error| {
            OpError::new(OpErrorKind::Usage, error)
                .hint("`linkvault sandbox --behaviour list` shows them")
        };
        behaviour.apply(&self.behaviour.join(",")).map_err(usage)?;
        for (cap, most) in &self.caps {
            behaviour.set(cap, &most.to_string()).map_err(usage)?;
        }
        Ok(behaviour)
    }
}

/// A copy of `account` as its newest snapshot shows it, ready to be written to.
///
/// # Errors
/// When the account was never backed up, or its vault cannot be read.
pub fn rehearsal_session<'a>(
    app: &'a App,
    account: &'a AccountConfig,
    bounds: &SessionLimits,
    assumed: &RehearsalAssumptions,
) -> Result<WriteSession<'a>, OpError> {
    let mut vault = states::open(account)?.copy()?;
    let name = &account.name;
    let newest = vault.snapshots()?.pop().ok_or_else(|| {
        OpError::new(OpErrorKind::NotFound, format_args!("{name} has no snapshot yet"))
            .hint(format_args!("run `linkvault backup {name}` first"))
    })?;
    let loaded = served::sandbox_from_vault(&mut vault, newest.number)?;
    for what in &loaded.skipped {
        app.out.warn(format_args!("left out of the rehearsal: {what}"));
    }
    for outcome in &newest.outcomes {
        if matches!(outcome.state, ReadState::Drifted | ReadState::Failed) {
            let (resource, number) = (outcome.resource, newest.number);
            app.out.warn(format_args!("{name}@#{number} shows {resource} as last known before it"));
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
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::new(app.clock.now()));
    let session = AccountSession::to_sandbox(account, bounds, (loaded.store, behaviour), &clock);
    let (progress, writes) = (Arc::new(NoProgress), WriteLock::default());
    Ok(WriteSession { app, account, session, vault, progress, clock, rehearsed: true, writes })
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

/// Tells what a rehearsed run came to.
///
/// # Errors
/// The run's own, or when the news cannot be written.
pub fn finish(
    desk: WriteSession<'_>,
    outcome: Result<RunReport, ApplyError>,
    plan: &Plan,
) -> Result<Exit, OpError> {
    let outcome = outcome.map_err(|error| {
        let failure = failures::apply_error(error, &desk.account.name);
        // There is no run to go on with.
        let goes_on = failure.hint.as_ref().is_some_and(|it| it.contains("linkvault resume"));
        if goes_on { failure.hint("it was a rehearsal; nothing was written") } else { failure }
    })?;
    let journal = desk.vault.steps(outcome.run)?;
    let journal: BTreeMap<u32, JournalStep> = journal.into_iter().map(|it| (it.step, it)).collect();
    tell(&desk, plan, &outcome, &journal)?;
    Ok(outcome::exit(&outcome, plan.unsupported.len() as u64))
}

/// An empty plan has nothing to rehearse.
///
/// # Errors
/// When the news cannot be written.
pub fn nothing(desk: &WriteSession<'_>, plan: &Plan) -> Result<Exit, OpError> {
    let requests = desk.session.client.counters().requests;
    let outcome = RunReport { requests, ..RunReport::default() };
    if desk.app.out.is_json() {
        desk.app.out.json(&document(desk, plan, &outcome, &BTreeMap::new()))?;
    }
    Ok(outcome::exit(&outcome, plan.unsupported.len() as u64))
}

fn tell(
    desk: &WriteSession<'_>,
    plan: &Plan,
    outcome: &RunReport,
    journal: &BTreeMap<u32, JournalStep>,
) -> Result<(), OpError> {
    let out = &desk.app.out;
    if out.is_json() {
        return out.json(&document(desk, plan, outcome, journal));
    }
    for problem in &outcome.problems {
        out.line(Escaped(problem))?;
    }
    let name = &desk.account.name;
    let requests = format::counted(outcome.requests, "request", "requests");
    let (counts, time) = (outcome::counts(outcome), format::duration(desk.clock.monotonic()));
    out.line(format_args!("rehearsal for {name}: {counts}; {requests}, {time}"))?;
    out.note("nothing was sent, and nothing was written");
    Ok(())
}

fn document(
    desk: &WriteSession<'_>,
    plan: &Plan,
    outcome: &RunReport,
    journal: &BTreeMap<u32, JournalStep>,
) -> Value {
    let step = |step: &PlanStep| {
        let row = journal.get(&step.step);
        let state = row.map_or(StepState::Planned, |row| row.state);
        json!({
            "step": step.step, "resource": step.resource.name(), "verb": step.verb.name(),
            "key": step.key, "state": state.name(),
            "message": row.and_then(|row| row.message.as_ref()),
        })
    };
    json!({
        "format": 1, "account": desk.account.name, "rehearsed": true, "done": outcome.done,
        "refused": outcome.refused, "skipped": outcome.skipped, "stale": outcome.stale,
        "unknown": outcome.unknown, "not_sent": outcome.not_sent,
        "differs": outcome.different, "verified": outcome.verified, "requests": outcome.requests,
        "seconds": desk.clock.monotonic().as_secs_f64(), "problems": outcome.problems,
        "steps": plan.steps.iter().map(step).collect::<Vec<_>>(),
        "unsupported": plan.unsupported,
    })
}
