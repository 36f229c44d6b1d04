//! Leading an account to a state: what `apply`, `import`, `restore` and `undo` do, from the
//! plan to the run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::account_options::max_staleness;
use super::account_session::SessionLimits;
use super::error_sources::apply_error;
use super::input::{self, DesiredInput, InputOptions};
use super::observation::Observation;
use super::plan::{guard, kept_records, make_plan, needed_resources};
use super::rejected_rows::{self, RunInput};
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind};
use crate::apply::{self, RunReport, StepSecrets};
use crate::change::plan::saved::{SavedPlan, SavedPlanError, read};
use crate::change::plan::{CurrentState, Plan, PlanStep, UnsupportedChange};
use crate::change::policy::Policy;
use crate::config::AccountConfig;
use crate::format;
use crate::model::Resource;
use crate::vault::journal::StepState;

/// What to apply, to which account, and how.
pub struct ApplyRequest<'a> {
    pub account: &'a AccountConfig,
    /// `apply`, `import`, `restore`.
    pub command: &'a str,
    pub input: ApplyInput,
    /// What of the input is taken.
    pub options: InputOptions,
    pub policy: Policy,
    /// The account's new password, if it is to be set.
    pub password: Option<String>,
    pub run: RunOptions,
    pub limits: SessionLimits,
}

/// What an account is led to.
#[derive(Debug, Clone)]
pub enum ApplyInput {
    /// A saved plan, or a state by its name.
    PlanOrState(String),
    /// A state by its name.
    State(String),
    /// A file, whatever else its name may mean.
    File(PathBuf),
    /// Nothing but the new password.
    Password,
}

/// How a plan is carried out.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Stop at the first step that the service refuses.
    pub fail_fast: bool,
    /// Where rows that were refused are written; beside their file if `None`.
    pub rejected: Option<PathBuf>,
    /// Make the plan and write nothing.
    pub dry_run: bool,
    /// Do not ask.
    pub yes: bool,
    /// How old a list may be when a write that stands on it leaves; the configuration's if
    /// `None`.
    pub max_staleness: Option<Duration>,
}

impl RunOptions {
    /// How old a list of `account` may be.
    #[must_use]
    pub fn max_staleness(&self, account: &AccountConfig) -> Duration {
        max_staleness(self.max_staleness, account)
    }
}

/// What became of a request to change an account.
pub enum ApplyReport {
    /// A dry run: nothing was written.
    Planned {
        plan: Plan,
        /// The input as the user named it; of a file, its path.
        input: String,
        observation: Box<Observation>,
    },
    /// There was nothing to do.
    Nothing {
        plan: Plan,
        input: String,
        requests: u64,
    },
    /// The user said no.
    Declined,
    Applied(AppliedRun),
}

/// A run that ended, and what of its input it had no step for.
pub struct AppliedRun {
    pub report: RunReport,
    pub unsupported: Vec<UnsupportedChange>,
    /// How much of the input is not carried out, beside its steps.
    pub missing: u64,
}

/// A plan to be carried out, and where it comes from.
pub struct RunRequest<'a> {
    /// `apply`, `import`, `restore`, `undo`.
    pub command: &'a str,
    /// The input as the user named it; of a file, its path.
    pub input: String,
    /// Of a saved plan, its own id.
    pub plan_id: String,
    pub secrets: StepSecrets,
    /// How many records of the input have no step and are left to a person.
    pub manual: u64,
}

impl<'a> RunRequest<'a> {
    /// A request without secrets, of a plan that was not saved.
    #[must_use]
    pub fn new(command: &'a str, input: &str) -> Self {
        let (plan_id, secrets) = (String::new(), StepSecrets::default());
        Self { command, input: input.to_owned(), plan_id, secrets, manual: 0 }
    }
}

/// Plans for what is wanted, shows the plan, asks, and applies it.
///
/// # Errors
/// When the state cannot be had, a guard refuses, there are conflicts, a saved plan is
/// stale or was applied before, or the run had to stop.
pub fn apply(env: &Env, request: ApplyRequest<'_>) -> Result<ApplyReport, OpError> {
    let ApplyRequest { account, command, input, options, policy, password, run, limits } = request;
    env.catch_interrupts();
    let open = || WriteSession::open(env, account, command, &limits);
    let (wanted, input_name) = match input {
        ApplyInput::Password => (DesiredInput::default(), "a new password".to_owned()),
        ApplyInput::File(file) => {
            let wanted = options.read_file(env, &file, account)?;
            let name = wanted.name.clone();
            (wanted, name)
        }
        ApplyInput::State(text) => (options.read(env, &limits, &text, account)?, text),
        ApplyInput::PlanOrState(text) => {
            if let Some(saved) = read_saved_plan(Path::new(&text))? {
                if password.is_some() {
                    let message = "cannot set a password together with a saved plan";
                    return Err(
                        OpError::new(OpErrorKind::Usage, message).next(NextStep::SetPasswordAlone)
                    );
                }
                let mut session = open()?;
                let ended = run_saved_plan(&mut session, &text, saved, &policy, &run)?;
                return report(session, ended, &run);
            }
            (options.read(env, &limits, &text, account)?, text)
        }
    };
    let secrets = StepSecrets { password };
    let request = RunRequest { secrets, ..RunRequest::new(command, &input_name) };
    let mut session = open()?;
    let ended = run_input(&mut session, request, &wanted, &policy, &run)?;
    report(session, ended, &run)
}

/// How a plan ended that was to be carried out.
pub(super) enum PlanEnd {
    Planned { plan: Plan, input: String, observation: Box<Observation> },
    Nothing { plan: Plan, input: String, saved: bool },
    Declined { plan: Plan },
    Ran { plan: Plan, ended: Box<Result<RunReport, apply::ApplyError>> },
}

/// Plans for what is wanted and carries the plan out in `session`.
///
/// # Errors
/// As [`apply`].
pub(super) fn run_input(
    session: &mut WriteSession<'_>,
    request: RunRequest<'_>,
    wanted: &DesiredInput,
    policy: &Policy,
    run: &RunOptions,
) -> Result<PlanEnd, OpError> {
    session.require_no_open_run()?;
    let mut which = needed_resources(&wanted.desired, policy);
    if request.secrets.password.is_some() && !which.contains(&Resource::Account) {
        which.push(Resource::Account);
    }
    let mut looked = session.observe(&which, run.dry_run)?;
    looked.max_staleness = run.max_staleness(session.account);
    wanted
        .is_of(session.account, &looked.service, looked.account_id)
        .map_err(|failure| session.discard_after(&looked, failure))?;
    let made = make_plan(&wanted.desired, wanted.base.as_ref(), &looked, policy);
    let mut plan = made.map_err(|failure| session.discard_after(&looked, failure))?;
    plan.unsupported.extend(wanted.unsupported.iter().cloned());
    if request.secrets.password.is_some() {
        apply::step_request::set_password(&mut plan, looked.account_id);
        plan.cost = looked.cost(&plan);
    }
    if let Some(kept) = kept_records(wanted, &looked, policy) {
        session.env.note(kept);
    }
    run_plan(session, request, plan, looked, policy, run)
}

/// Carries out a saved plan in `session`, if it is for this account and still true.
///
/// # Errors
/// As [`apply`]; when it is stale or was applied before, nothing is written.
pub(super) fn run_saved_plan(
    session: &mut WriteSession<'_>,
    input: &str,
    saved: SavedPlan,
    policy: &Policy,
    run: &RunOptions,
) -> Result<PlanEnd, OpError> {
    let account = session.account;
    if let Some(run) = session.vault.run_of_plan(&saved.id)? {
        return Err(apply_error(apply::ApplyError::Used(run), &account.name));
    }
    session.require_no_open_run()?;
    let own_id = session.vault.identity()?.map(|it| it.account);
    let other = |service: &str, id: Option<i64>| {
        saved.service != service || (id.is_some() && saved.account_id != id)
    };
    if other(&session.session.service, own_id) {
        let message = format!("the plan was made for `{}` at {}", saved.account, saved.service);
        return Err(OpError::new(OpErrorKind::Stale, message)
            .next(NextStep::MakeNewPlanFor(account.name.clone())));
    }
    let which = saved.plan.reads();
    let mut looked = session.observe(&which, run.dry_run)?;
    looked.max_staleness = run.max_staleness(account);
    let own = looked.account_id.map(|id| format!("{}#{id}", looked.service));
    let moves = saved.plan.foreign.as_ref().map(|it| &it.origin);
    if moves.is_some() && moves == own.as_ref() {
        let message = "the plan moves records of this account to itself; nothing was written";
        let failure = OpError::new(OpErrorKind::Stale, message);
        return Err(session.discard_after(&looked, failure));
    }
    if other(&looked.service, looked.account_id) {
        let message = format!("the plan was made for another account at {}", saved.service);
        let failure = OpError::new(OpErrorKind::Stale, message)
            .next(NextStep::MakeNewPlanFor(account.name.clone()));
        return Err(session.discard_after(&looked, failure));
    }
    // A plan that cannot be applied is neither shown nor asked about.
    let current = CurrentState { state: &looked.state, memory: &looked.memory };
    let stale = apply::stale::stale_steps(&saved.plan.steps, current);
    if !stale.is_empty() {
        let failure = apply_error(apply::ApplyError::Stale(stale), &account.name);
        return Err(session.discard_after(&looked, failure));
    }
    let request = RunRequest { plan_id: saved.id, ..RunRequest::new("apply", input) };
    let plan = Plan { cost: looked.cost(&saved.plan), ..saved.plan };
    run_plan(session, request, plan, looked, policy, run)
}

/// Shows a plan, asks, and carries it out.
fn run_plan(
    session: &mut WriteSession<'_>,
    request: RunRequest<'_>,
    plan: Plan,
    looked: Observation,
    policy: &Policy,
    run: &RunOptions,
) -> Result<PlanEnd, OpError> {
    session.env.events().planned(&plan, run.dry_run)?;
    guard(&plan, &looked, policy).map_err(|it| session.discard_after(&looked, it))?;
    if run.dry_run {
        let observation = Box::new(looked);
        return Ok(PlanEnd::Planned { plan, input: request.input, observation });
    }
    if plan.steps.is_empty() {
        session.discard_observation(&looked)?;
        let saved = !request.plan_id.is_empty();
        return Ok(PlanEnd::Nothing { plan, input: request.input, saved });
    }
    Ok(match run_confirmed(session, request, &plan, &looked, run)? {
        Some(ended) => PlanEnd::Ran { plan, ended: Box::new(ended) },
        None => PlanEnd::Declined { plan },
    })
}

/// Asks whether a plan is to be applied, and applies it. `None` is a no.
///
/// # Errors
/// When there is no terminal to ask at. What came of the run is inside.
pub(super) fn run_confirmed(
    session: &mut WriteSession<'_>,
    request: RunRequest<'_>,
    plan: &Plan,
    looked: &Observation,
    run: &RunOptions,
) -> Result<Option<Result<RunReport, apply::ApplyError>>, OpError> {
    let (env, account) = (session.env, session.account);
    // A plan file says nothing of files that is to be believed.
    let saved = !request.plan_id.is_empty();
    let mut origin = if saved { RunInput::without_files(plan) } else { RunInput::of(plan) };
    origin.manual = request.manual;
    let asked = session.clock.monotonic();
    let steps = format::counted(plan.steps.len() as u64, "step", "steps");
    let question = format!("Apply {steps} to {}?", account.name);
    let answer = env.confirm(question, run.yes, &*session.clock);
    if !answer.map_err(|failure| session.discard_after(looked, failure))? {
        session.discard_observation(looked)?;
        env.note("nothing was written");
        return Ok(None);
    }
    apply::save_matches(&mut session.vault, plan, saved, session.clock.now())?;
    let thought = session.clock.monotonic().saturating_sub(asked);
    let options = apply::ApplyOptions {
        command: request.command.to_owned(),
        input: request.input,
        plan_id: request.plan_id,
        service: session.session.service.clone(),
        fail_fast: run.fail_fast,
        secrets: request.secrets,
        max_staleness: Some(looked.max_staleness),
        limit: Some(looked.limit),
        reserve: looked.reserve,
        paging: looked.paging.clone(),
        plan: origin.text(),
        // After a long time at the question, the look at the account is old.
        snapshot_before: (thought < LONG_THOUGHT).then_some(looked.snapshot),
    };
    let progress = Arc::clone(&session.progress);
    let (client, vault) = (&mut session.session.client, &mut session.vault);
    let ended = apply::apply(client, vault, &*session.clock, &*progress, &options, plan);
    if matches!(&ended, Err(apply::ApplyError::Stale(_) | apply::ApplyError::Used(_))) {
        // No run was begun.
        session.discard_observation(looked)?;
    }
    Ok(Some(ended))
}

const LONG_THOUGHT: Duration = Duration::from_secs(60);

/// What became of a plan, with rows that were refused written out.
pub(super) fn report(
    session: WriteSession<'_>,
    end: PlanEnd,
    run: &RunOptions,
) -> Result<ApplyReport, OpError> {
    Ok(match end {
        PlanEnd::Planned { plan, input, observation } => {
            ApplyReport::Planned { plan, input, observation }
        }
        PlanEnd::Nothing { plan, input, saved } => {
            if !saved {
                let rows = rejected_rows::rows(&[], &plan.unsupported);
                rejected_rows::write(
                    session.env,
                    &rows,
                    &RunInput::of(&plan),
                    run.rejected.as_deref(),
                );
            }
            let requests = session.session.client.counters().requests;
            ApplyReport::Nothing { plan, input, requests }
        }
        PlanEnd::Declined { .. } => ApplyReport::Declined,
        PlanEnd::Ran { ended, .. } => {
            ApplyReport::Applied(finish(session, *ended, run.rejected.as_deref())?)
        }
    })
}

/// Ends the session of a run: tells its problems, and writes the rows that were refused
/// `to` a file.
///
/// # Errors
/// The run's own.
pub(super) fn finish(
    session: WriteSession<'_>,
    ended: Result<RunReport, apply::ApplyError>,
    to: Option<&Path>,
) -> Result<AppliedRun, OpError> {
    let WriteSession { env, account, session, vault, progress, .. } = session;
    let checkpoint = vault.checkpoint();
    let report = ended.map_err(|error| apply_error(error, &account.name))?;
    checkpoint?;
    drop((session, progress));
    warn_of_problems(env, account, &report);
    let steps = vault.steps(report.run)?;
    let refused: Vec<(PlanStep, String)> = steps
        .iter()
        .filter(|it| matches!(it.state, StepState::Refused | StepState::Skipped | StepState::Stale))
        .filter_map(|it| {
            let step = serde_json::from_str(&it.spec).ok()?;
            Some((step, it.message.clone().unwrap_or_default()))
        })
        .collect();
    let origin = RunInput::read(&vault.run(report.run)?.plan);
    let rows = rejected_rows::rows(&refused, &origin.unsupported);
    rejected_rows::write(env, &rows, &origin, to);
    let missing = origin.missing();
    Ok(AppliedRun { report, unsupported: origin.unsupported, missing })
}

/// The most problems that are told one by one.
const MOST_TOLD: usize = 20;

/// Tells of a run's problems that its progress has not told.
pub(super) fn warn_of_problems(env: &Env, account: &AccountConfig, report: &RunReport) {
    report.unreported.iter().take(MOST_TOLD).for_each(|problem| env.warn(problem));
    if let more @ 1.. = report.unreported.len().saturating_sub(MOST_TOLD) {
        let (name, run) = (&account.name, report.run);
        env.warn(format_args!("and {more} more; `linkvault runs {name} {run}` shows them all"));
    }
}

/// Reads `path` as a saved plan, if it is one: a JSON file with steps.
///
/// # Errors
/// When it is one that cannot be applied.
pub(super) fn read_saved_plan(path: &Path) -> Result<Option<SavedPlan>, OpError> {
    let is_json = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if !is_json || !path.is_file() {
        return Ok(None);
    }
    let bytes = input::bytes(path)?;
    match read(&bytes) {
        Ok(saved) => Ok(Some(saved)),
        // An export has no steps, and is read as a state.
        Err(SavedPlanError::NotAPlan(_)) if has_resources(&bytes) => Ok(None),
        Err(error) => {
            let message = format!("{} {error}; nothing was written", path.display());
            Err(OpError::new(OpErrorKind::Failed, message).next(NextStep::MakeNewPlan))
        }
    }
}

fn has_resources(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|it| it.get("resources").is_some())
}
