//! Changes an account to a desired state: the work of `apply`, `import`, `restore` and `undo`, from
//! the plan to the run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::account_options::max_staleness;
use super::account_session::SessionLimits;
use super::confirm_plan::{PlanConfirmation, confirm_plan, guard_or_ask};
use super::error_sources::{apply_error, without_skip};
use super::input::{DesiredInput, InputOptions, read_saved_plan};
use super::migration_flags::RecordedFlags;
use super::observation::Observation;
use super::output_files::{OutputKind, require_no_input, require_outputs};
use super::plan::{
    find_reverts, kept_records, make_plan, needed_resources, warn_of_cells, warn_of_unmatched,
};
use super::rejected_rows::{self, RunInput};
use super::run_results::{RunOutcome, write_results};
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind, StoredWork};
use crate::apply::{self, RunReport, StepSecrets};
use crate::change::csv_files::{ColumnOptions, TextEncoding};
use crate::change::desired::DesiredState;
use crate::change::plan::saved::SavedPlan;
use crate::change::plan::{CurrentState, Plan, PlanStep, UnsupportedChange};
use crate::change::policy::Policy;
use crate::config::AccountConfig;
use crate::format;
use crate::model::{Resource, State};
use crate::vault::Vault;
use crate::vault::journal::{Run, RunCommand, StepState};

/// What to apply, to which account, and how.
pub struct ApplyRequest<'a> {
    /// The account to change.
    pub account: &'a AccountConfig,
    /// The command for lock and journal: `apply`, `import` or `restore`.
    pub command: RunCommand,
    /// The desired state.
    pub input: ApplyInput,
    /// Which part of the input to use.
    pub options: InputOptions,
    /// What the plan may do.
    pub policy: Policy,
    /// The account's new password, if it is to be set.
    pub password: Option<String>,
    /// How to execute the plan.
    pub run: RunOptions,
    /// Limits on requests, time and the wait for the lock.
    pub limits: SessionLimits,
}

/// The desired state of an account.
#[derive(Debug, Clone)]
pub enum ApplyInput {
    /// A saved plan, a state by its reference, or files and folders.
    PlanOrState(Vec<String>),
    /// A state by its reference.
    State(String),
    /// Files and folders, even if a name is also a reference.
    Files(Vec<PathBuf>),
    /// Only the new password.
    Password,
}

/// How a plan is executed.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Stop at the first step that the service refuses.
    pub fail_fast: bool,
    /// The file for rejected rows; beside the input file if `None`.
    pub rejected: Option<PathBuf>,
    /// The file for the outcome of each row; none is written if `None`.
    pub results: Option<PathBuf>,
    /// Make the plan and write nothing.
    pub dry_run: bool,
    /// Do not ask for confirmation.
    pub yes: bool,
    /// Do not ask whether values that are probably mistakes are meant.
    pub accept_suspicious: bool,
    /// The encoding of the input files that the user named, for the file of rejected rows.
    pub encoding: Option<TextEncoding>,
    /// How the columns of the input files were read, for the file of rejected rows.
    pub columns: ColumnOptions,
    /// Ask about each step.
    pub interactive: bool,
    /// The maximum age of a list when a write that depends on it is sent; the configuration's if
    /// `None`.
    pub max_staleness: Option<Duration>,
}

impl RunOptions {
    /// Refuses output files that may not be written, or that are one of `inputs`.
    ///
    /// # Errors
    /// If there is such a file.
    pub fn require_files(&self, env: &Env, inputs: &[PathBuf]) -> Result<(), OpError> {
        let (results, rejected) = (self.results.as_ref(), self.rejected.as_ref());
        for file in results.iter().chain(&rejected) {
            require_no_input(file, inputs)?;
        }
        let files = [(results, OutputKind::Results), (rejected, OutputKind::Rejected)];
        require_outputs(files, env.force)
    }

    /// The maximum age of a list of `account`.
    #[must_use]
    pub fn max_staleness(&self, account: &AccountConfig) -> Duration {
        max_staleness(self.max_staleness, account)
    }
}

/// The result of [`apply()`] and [`undo`](super::undo::undo).
pub enum ApplyReport {
    /// A dry run: nothing was written.
    Planned {
        /// The plan.
        plan: Plan,
        /// The input as the user named it; of a file, its path.
        input: String,
        /// The present account, for which the plan was made.
        observation: Box<Observation>,
    },
    /// The plan had no steps.
    Nothing {
        /// The plan, which may contain unsupported changes.
        plan: Plan,
        /// The input as the user named it; of a file, its path.
        input: String,
        /// The requests that were sent to read the account.
        requests: u64,
    },
    /// The user declined at the prompt; nothing was written.
    Declined,
    /// The run ended.
    Applied(AppliedRun),
}

/// A run that ended, and the part of its input for which it had no step.
pub struct AppliedRun {
    /// Counts and messages of the run.
    pub report: RunReport,
    /// Changes that the API cannot make.
    pub unsupported: Vec<UnsupportedChange>,
    /// The number of changes in the input without a step: unsupported ones and those left to a
    /// person.
    pub missing: u64,
}

/// Where a plan to be executed comes from.
pub struct RunRequest {
    /// The command for the journal.
    pub command: RunCommand,
    /// The input as the user named it; of a file, its path.
    pub input: String,
    /// The id of a saved plan; empty for a plan that was just made.
    pub plan_id: String,
    /// Values to be sent that plan and journal do not contain.
    pub secrets: StepSecrets,
    /// The number of records of the input without a step that are left to a person.
    pub manual: u64,
    /// The flags of a migration, for the journal.
    pub flags: Option<RecordedFlags>,
}

impl RunRequest {
    /// A request without secrets, for a plan that was just made.
    #[must_use]
    pub fn new(command: RunCommand, input: &str) -> Self {
        let (plan_id, secrets) = (String::new(), StepSecrets::default());
        Self { command, input: input.to_owned(), plan_id, secrets, manual: 0, flags: None }
    }
}

/// Makes a plan for the input, shows it, asks for confirmation, and applies it.
///
/// # Errors
/// If the input cannot be read, a guard refuses, there are conflicts, a saved plan is stale or was
/// applied before, or the run stopped.
pub fn apply(env: &Env, request: ApplyRequest<'_>) -> Result<ApplyReport, OpError> {
    let account = request.account;
    let kind = StoredWork::account_unless(request.run.dry_run);
    env.with_stored(&[account], kind, || apply_fetched(env, request))
}

fn apply_fetched(env: &Env, request: ApplyRequest<'_>) -> Result<ApplyReport, OpError> {
    let ApplyRequest { account, command, input, options, policy, password, run, limits } = request;
    let columns = options.csv.columns.clone();
    let run = RunOptions { encoding: options.encoding, columns, ..run };
    env.catch_interrupts();
    let open = || WriteSession::open(env, account, command.name(), &limits);
    let (wanted, input_name) = match input {
        ApplyInput::Password => (DesiredInput::default(), "a new password".to_owned()),
        ApplyInput::Files(files) => {
            let wanted = options.read_files(env, &files, account)?;
            let name = wanted.name.clone();
            (wanted, name)
        }
        ApplyInput::State(text) => {
            (options.read(env, &limits, std::slice::from_ref(&text), account)?, text)
        }
        ApplyInput::PlanOrState(texts) => {
            let name = input_name(&texts);
            if let Some(saved) = read_saved_plan(&texts)? {
                run.require_files(env, &texts.iter().map(PathBuf::from).collect::<Vec<_>>())?;
                options.csv.require_none(&name, "a saved plan")?;
                if password.is_some() {
                    let message = "cannot set a password together with a saved plan";
                    return Err(
                        OpError::new(OpErrorKind::Usage, message).next(NextStep::SetPasswordAlone)
                    );
                }
                let mut session = open()?;
                let ended = run_saved_plan(&mut session, &name, saved, &policy, &run)?;
                return report(session, ended, None, &run);
            }
            (options.read(env, &limits, &texts, account)?, name)
        }
    };
    run.require_files(env, &wanted.files)?;
    if !wanted.are_values_meant(env, run.accept_suspicious || run.dry_run)? {
        env.note("nothing was written");
        return Ok(ApplyReport::Declined);
    }
    let secrets = StepSecrets { password };
    let request = RunRequest { secrets, ..RunRequest::new(command, &input_name) };
    let mut session = open()?;
    let ended = run_input(&mut session, request, &wanted, &policy, &run)?;
    report(session, ended, Some(&wanted.desired), &run)
}

/// The result of a plan that was to be executed.
pub(super) enum PlanEnd {
    Planned { plan: Plan, input: String, observation: Box<Observation> },
    Nothing { plan: Plan, input: String, saved: bool, state: State },
    Declined { plan: Plan },
    Ran { plan: Plan, ended: Box<Result<RunReport, apply::ApplyError>> },
}

/// Makes a plan for `wanted` and executes it in `session`.
///
/// # Errors
/// As [`apply()`].
pub(super) fn run_input(
    session: &mut WriteSession<'_>,
    request: RunRequest,
    wanted: &DesiredInput,
    policy: &Policy,
    run: &RunOptions,
) -> Result<PlanEnd, OpError> {
    // A dry run writes nothing, so that it can be made beside a run that is not finished.
    if !run.dry_run {
        session.require_no_open_run()?;
    }
    let mut which = needed_resources(&wanted.desired, policy);
    if request.secrets.password.is_some() && !which.contains(&Resource::Account) {
        which.push(Resource::Account);
    }
    let mut observation = session.observe(&which, run.dry_run)?;
    observation.max_staleness = run.max_staleness(session.account);
    wanted
        .require_account(session.account, &observation.service, observation.account_id)
        .map_err(|failure| session.discard_after(&observation, failure))?;
    warn_of_unmatched(session.env, &wanted.desired, &observation);
    let made = make_plan(&wanted.desired, wanted.base.as_ref(), &observation, policy);
    let mut plan = made.map_err(|failure| session.discard_after(&observation, failure))?;
    plan.unsupported.extend(wanted.unsupported.iter().cloned());
    let reverts = find_reverts(wanted, &mut session.vault, &mut plan);
    reverts.map_err(|failure| session.discard_after(&observation, failure))?;
    if request.secrets.password.is_some() {
        apply::step_request::set_password(&mut plan, observation.account_id);
        plan.cost = observation.cost(&plan);
    }
    warn_of_cells(session.env, &plan);
    let kept = kept_records(wanted, &observation, policy);
    run_plan(session, request, (plan, kept), observation, policy, run)
}

/// Executes a saved plan in `session`, if it is for this account and not stale.
///
/// # Errors
/// As [`apply()`]. If the plan is stale or was applied before, nothing is written.
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
    let mut observation = session.observe(&which, run.dry_run).map_err(without_skip)?;
    observation.max_staleness = run.max_staleness(account);
    let own = observation.account_id.map(|id| format!("{}#{id}", observation.service));
    let moves = saved.plan.foreign.as_ref().map(|it| &it.origin);
    if moves.is_some() && moves == own.as_ref() {
        let message = "the plan moves records of this account to itself; nothing was written";
        let failure = OpError::new(OpErrorKind::Stale, message);
        return Err(session.discard_after(&observation, failure));
    }
    if other(&observation.service, observation.account_id) {
        let message = format!("the plan was made for another account at {}", saved.service);
        let failure = OpError::new(OpErrorKind::Stale, message)
            .next(NextStep::MakeNewPlanFor(account.name.clone()));
        return Err(session.discard_after(&observation, failure));
    }
    // A stale plan is refused before it is shown and confirmed.
    let mut memory = apply::memory_for_steps(&session.vault, &saved.plan.steps)?;
    let matched = saved.plan.foreign.iter().flat_map(|it| &it.matched);
    memory.migrated.extend(matched.map(|it| ((it.resource, it.new), it.old)));
    let current = CurrentState { state: &observation.state, memory: &memory };
    let stale = apply::stale::stale_steps(&saved.plan.steps, current);
    if !stale.is_empty() {
        let failure = apply_error(apply::ApplyError::Stale(stale), &account.name);
        return Err(session.discard_after(&observation, failure));
    }
    let request = RunRequest { plan_id: saved.id, ..RunRequest::new(RunCommand::Apply, input) };
    let mut plan = saved.plan;
    observation.complete(&mut plan);
    run_plan(session, request, (plan, None), observation, policy, run)
}

/// Shows a plan and a remark on records that stay, asks for confirmation, and executes it.
fn run_plan(
    session: &mut WriteSession<'_>,
    request: RunRequest,
    (plan, kept): (Plan, Option<(String, NextStep)>),
    observation: Observation,
    policy: &Policy,
    run: &RunOptions,
) -> Result<PlanEnd, OpError> {
    let env = session.env;
    let shown = env.events().planned(&plan, run.dry_run).and_then(|()| {
        if let Some((kept, next)) = kept {
            env.note_with(kept, &next);
        }
        guard_or_ask(env, &plan, &observation, policy, !run.yes && !run.dry_run)
    });
    shown.map_err(|failure| session.discard_after(&observation, failure))?;
    if run.dry_run {
        let observation = Box::new(observation);
        return Ok(PlanEnd::Planned { plan, input: request.input, observation });
    }
    if plan.steps.is_empty() {
        session.discard_observation(&observation)?;
        let saved = !request.plan_id.is_empty();
        let state = observation.state;
        return Ok(PlanEnd::Nothing { plan, input: request.input, saved, state });
    }
    Ok(match run_confirmed(session, request, &plan, &observation, run, true)? {
        Some(ended) => PlanEnd::Ran { plan, ended: Box::new(ended) },
        None => PlanEnd::Declined { plan },
    })
}

/// Asks for confirmation and applies a plan, or the steps of it that the user chose if `by_step`
/// allows it. `None` if the user declined. The inner result is that of the run.
///
/// # Errors
/// If the question could not be asked, or was interrupted.
pub(super) fn run_confirmed(
    session: &mut WriteSession<'_>,
    request: RunRequest,
    plan: &Plan,
    observation: &Observation,
    run: &RunOptions,
    by_step: bool,
) -> Result<Option<Result<RunReport, apply::ApplyError>>, OpError> {
    let env = session.env;
    // The file names in a saved plan are not trusted.
    let saved = !request.plan_id.is_empty();
    let mut origin = if saved {
        RunInput::without_files(plan)
    } else {
        RunInput::of(plan, run.encoding, &run.columns)
    };
    origin.manual = request.manual;
    let origin = origin.with_flags(request.flags);
    let max_staleness = observation.max_staleness;
    let RunOptions { yes, interactive, .. } = *run;
    let confirmation = PlanConfirmation { yes, by_step, interactive };
    let chosen = confirm_plan(session, plan, observation, confirmation);
    let Some(plan) = chosen.map_err(|failure| session.discard_after(observation, failure))? else {
        session.discard_observation(observation)?;
        env.note("nothing was written");
        return Ok(None);
    };
    let plan = &*plan;
    let prompt_time = session.clock.monotonic().saturating_sub(observation.read_at);
    let fresh = if prompt_time < MAX_PROMPT_TIME {
        None
    } else {
        // Without a run, the snapshot would count as a backup.
        session.discard_observation(observation)?;
        Some(session.observe(&plan.reads(), false)?)
    };
    let observation = fresh.as_ref().unwrap_or(observation);
    let matched = apply::save_matches(&mut session.vault, plan, saved, session.clock.now());
    matched.map_err(|failure| session.discard_after(observation, failure.into()))?;
    let options = apply::ApplyOptions {
        command: request.command,
        input: request.input,
        plan_id: request.plan_id,
        service: session.session.service.clone(),
        fail_fast: run.fail_fast,
        secrets: request.secrets,
        max_staleness: Some(max_staleness),
        limit: Some(observation.rate.limit),
        reserve: observation.rate.reserve,
        paging: observation.paging.clone(),
        plan: origin.text(),
        snapshot_before: Some(observation.snapshot),
    };
    let progress = Arc::clone(&session.progress);
    let (client, vault) = (&mut session.session.client, &mut session.vault);
    let ended = apply::apply(client, vault, &*session.clock, &*progress, &options, plan);
    if ended.is_err() && session.vault.unfinished_run()?.is_none() {
        // No run began.
        session.discard_observation(observation)?;
    }
    Ok(Some(ended))
}

/// After waiting this long for the confirmation, the account is read again before the run.
const MAX_PROMPT_TIME: Duration = Duration::from_secs(60);

/// The report on a plan; writes the rejected rows, and the outcome of each row of `desired`.
pub(super) fn report(
    session: WriteSession<'_>,
    end: PlanEnd,
    desired: Option<&DesiredState>,
    run: &RunOptions,
) -> Result<ApplyReport, OpError> {
    Ok(match end {
        PlanEnd::Planned { plan, input, observation } => {
            ApplyReport::Planned { plan, input, observation }
        }
        PlanEnd::Nothing { plan, input, saved, state } => {
            if !saved {
                let rows = rejected_rows::rows(&[], &plan.unsupported);
                rejected_rows::write(
                    session.env,
                    &rows,
                    &RunInput::of(&plan, run.encoding, &run.columns),
                    run.rejected.as_deref(),
                );
            }
            let (unsupported, filtered) = (plan.unsupported.as_slice(), &plan.filtered);
            let (steps, planned, state) = (&[], &[], Some(&state));
            let conflicts = &plan.conflicts.kept;
            let outcome =
                RunOutcome { desired, steps, planned, filtered, unsupported, conflicts, state };
            write_results(session.env, run.results.as_deref(), &outcome);
            let requests = session.session.client.counters().requests;
            ApplyReport::Nothing { plan, input, requests }
        }
        PlanEnd::Declined { .. } => ApplyReport::Declined,
        PlanEnd::Ran { plan, ended } => {
            let files =
                RunFiles { rejected: run.rejected.as_deref(), results: run.results.as_deref() };
            ApplyReport::Applied(finish(session, *ended, &files, (desired, Some(&plan)))?)
        }
    })
}

/// The files that a run writes at its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunFiles<'a> {
    /// For rejected rows; beside the input file if `None`.
    pub rejected: Option<&'a Path>,
    /// For the outcome of each row; none is written if `None`.
    pub results: Option<&'a Path>,
}

/// Ends the session of a run: warns of its problems, and writes `files`. `desired` and `plan` are
/// its input and the whole plan, if they are known.
///
/// # Errors
/// The error of the run.
pub(super) fn finish(
    session: WriteSession<'_>,
    ended: Result<RunReport, apply::ApplyError>,
    files: &RunFiles<'_>,
    (desired, plan): (Option<&DesiredState>, Option<&Plan>),
) -> Result<AppliedRun, OpError> {
    let WriteSession { env, account, session, mut vault, progress, .. } = session;
    let checkpoint = vault.checkpoint();
    let report = match ended {
        Ok(report) => report,
        Err(error) => {
            // What a run did before it stopped.
            if let Ok(Some(run)) = vault.unfinished_run()
                && let Err(failure) =
                    run_results(env, &mut vault, &run, files.results, (desired, plan))
            {
                env.warn(failure.message);
            }
            return Err(apply_error(error, &account.name));
        }
    };
    checkpoint?;
    drop((session, progress));
    warn_of_unreported(env, account, &report);
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
    rejected_rows::write(env, &rows, &origin, files.rejected);
    let run = vault.run(report.run)?;
    run_results(env, &mut vault, &run, files.results, (desired, plan))?;
    let missing = origin.missing();
    Ok(AppliedRun { report, unsupported: origin.unsupported, missing })
}

/// Writes the outcome of each row of a run to the file `to`, if one was requested.
fn run_results(
    env: &Env,
    vault: &mut Vault,
    run: &Run,
    to: Option<&Path>,
    (desired, plan): (Option<&DesiredState>, Option<&Plan>),
) -> Result<(), OpError> {
    if to.is_none() {
        return Ok(());
    }
    let mut which = run.touched.clone();
    which.extend(desired.into_iter().flat_map(|it| it.resources.keys()));
    // A run that stopped has no snapshot after it.
    let state = run.after.or(run.before).and_then(|number| vault.state(number, &which).ok());
    let (steps, origin) = (vault.steps(run.number)?, RunInput::read(&run.plan));
    let (unsupported, state) = (origin.unsupported.as_slice(), state.as_ref());
    let nothing = Plan::default();
    let Plan { steps: planned, filtered, conflicts, .. } = plan.unwrap_or(&nothing);
    let (steps, conflicts) = (&*steps, &*conflicts.kept);
    let outcome = RunOutcome { desired, steps, planned, filtered, unsupported, conflicts, state };
    write_results(env, to, &outcome);
    Ok(())
}

/// The most problems that are reported one by one.
const MAX_WARNINGS: usize = 20;

/// Warns of a run's problems that no progress event has reported.
pub(super) fn warn_of_unreported(env: &Env, account: &AccountConfig, report: &RunReport) {
    report.twins.iter().for_each(|twin| env.warn(twin.warning(&account.name)));
    report.unreported.iter().take(MAX_WARNINGS).for_each(|problem| env.warn(problem));
    if let more @ 1.. = report.unreported.len().saturating_sub(MAX_WARNINGS) {
        let next = NextStep::ShowRun { account: account.name.clone(), run: report.run };
        env.warn_with(format_args!("and {more} more"), &next);
    }
}

/// The name of an input in the journal.
pub(super) fn input_name(texts: &[String]) -> String {
    const MOST_NAMED: usize = 5;
    format::list(texts, MOST_NAMED)
}
