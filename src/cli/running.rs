//! From a plan to a run: asks, carries it out, and tells what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::app::App;
use super::desk::WriteSession;
use super::error::{Exit, OpError, OpErrorKind};
use super::outcome;
use super::planning::{self, MaxStalenessArgs, Observation, PlanFormat};
use super::rehearsing;
use super::rejected::{self, RunInput};
use super::session::SessionLimits;
use super::wanted::{self, DesiredInput};
use crate::apply::{self, ApplyOptions, RunReport, StepSecrets};
use crate::change::plan::saved::{SavedPlan, SavedPlanError, read};
use crate::change::plan::{CurrentState, Plan};
use crate::change::policy::Policy;
use crate::config::AccountConfig;
use crate::format;
use crate::model::Resource;

/// How a plan is carried out: the flags of every command that does.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunArgs {
    /// Stop at the first step that the service refuses
    #[arg(long)]
    pub fail_fast: bool,
    /// Write the rows that were refused here, to be mended and applied again
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
    /// Print the plan and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Apply without asking
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
}

/// What to carry out.
pub struct RunRequest<'a> {
    /// `apply`, `import`, `restore`, `undo`.
    pub command: &'a str,
    /// The state's name, or the file's.
    pub asked: String,
    /// Of a saved plan, its own id.
    pub plan_id: String,
    pub secrets: StepSecrets,
    /// How many records of the input have no step and are left to a person.
    pub manual: u64,
}

impl<'a> RunRequest<'a> {
    /// A job without secrets, of a plan that was not saved.
    #[must_use]
    pub fn new(command: &'a str, asked: &str) -> Self {
        let (plan_id, secrets) = (String::new(), StepSecrets::default());
        Self { command, asked: asked.to_owned(), plan_id, secrets, manual: 0 }
    }
}

/// Plans for what is wanted, shows the plan, asks, and applies it.
///
/// # Errors
/// When a guard refuses, there are conflicts, or the run had to stop.
pub fn apply_input(
    app: &App,
    account: &AccountConfig,
    job: RunRequest<'_>,
    wanted: &DesiredInput,
    policy: &Policy,
    run: &RunArgs,
    bounds: &SessionLimits,
) -> Result<Exit, OpError> {
    let desk = WriteSession::open(app, account, job.command, bounds)?;
    apply_input_in(desk, job, wanted, policy, run)
}

/// The same for an account that is open already.
///
/// # Errors
/// As [`apply_input`].
pub fn apply_input_in(
    mut desk: WriteSession<'_>,
    job: RunRequest<'_>,
    wanted: &DesiredInput,
    policy: &Policy,
    run: &RunArgs,
) -> Result<Exit, OpError> {
    desk.require_no_open_run()?;
    let mut which = planning::needed_resources(&wanted.desired, policy);
    if job.secrets.password.is_some() && !which.contains(&Resource::Account) {
        which.push(Resource::Account);
    }
    let mut looked = desk.observe(&which, run.dry_run)?;
    looked.max_staleness = run.staleness.of(desk.account);
    wanted
        .is_of(desk.account, &looked.service, looked.account_id)
        .map_err(|failure| desk.discard_after(&looked, failure))?;
    let made = planning::make_plan(&wanted.desired, wanted.base.as_ref(), &looked, policy);
    let mut plan = made.map_err(|failure| desk.discard_after(&looked, failure))?;
    plan.unsupported.extend(wanted.unsupported.iter().cloned());
    if job.secrets.password.is_some() {
        apply::step_request::set_password(&mut plan, looked.account_id);
        plan.cost = looked.cost(&plan);
    }
    planning::kept_records(desk.app, wanted, &looked, policy);
    confirm_and_apply(desk, job, &plan, &looked, policy, run)
}

/// Applies a saved plan, if it is for this account and still true.
///
/// # Errors
/// As [`apply_input`]; when it is stale or was applied before, nothing is written.
pub fn apply_saved_plan(
    app: &App,
    account: &AccountConfig,
    asked: &str,
    saved: SavedPlan,
    policy: &Policy,
    run: &RunArgs,
    bounds: &SessionLimits,
) -> Result<Exit, OpError> {
    let desk = WriteSession::open(app, account, "apply", bounds)?;
    apply_saved_plan_in(desk, asked, saved, policy, run)
}

/// The same for an account that is open already.
///
/// # Errors
/// As [`apply_saved_plan`].
pub fn apply_saved_plan_in(
    mut desk: WriteSession<'_>,
    asked: &str,
    saved: SavedPlan,
    policy: &Policy,
    run: &RunArgs,
) -> Result<Exit, OpError> {
    let account = desk.account;
    if let Some(run) = desk.vault.plan_was_used(&saved.id)? {
        return Err(super::failures::apply_error(apply::ApplyError::Used(run), &account.name));
    }
    desk.require_no_open_run()?;
    let ours = (desk.session.service.as_str(), desk.vault.identity()?.map(|it| it.account));
    let other = |service: &str, id: Option<i64>| {
        saved.service != service || (id.is_some() && saved.account_id != id)
    };
    if other(ours.0, ours.1) {
        let message = format!("the plan was made for `{}` at {}", saved.account, saved.service);
        return Err(OpError::new(OpErrorKind::Stale, message)
            .hint(format_args!("nothing was written; make a plan for {}", account.name)));
    }
    let which = saved.plan.reads();
    let mut looked = desk.observe(&which, run.dry_run)?;
    looked.max_staleness = run.staleness.of(account);
    let own = looked.account_id.map(|id| format!("{}#{id}", looked.service));
    let moves = saved.plan.foreign.as_ref().map(|it| &it.origin);
    if moves.is_some() && moves == own.as_ref() {
        let message = "the plan moves records of this account to itself";
        let failure = OpError::new(OpErrorKind::Stale, message).hint("nothing was written");
        return Err(desk.discard_after(&looked, failure));
    }
    if other(&looked.service, looked.account_id) {
        let message = format!("the plan was made for another account at {}", saved.service);
        let failure = OpError::new(OpErrorKind::Stale, message).hint("nothing was written");
        return Err(desk.discard_after(&looked, failure));
    }
    // A plan that cannot be applied is neither shown nor asked about.
    let current = CurrentState { state: &looked.state, memory: &looked.memory };
    let stale = apply::stale::stale_steps(&saved.plan.steps, current);
    if !stale.is_empty() {
        let failure = super::failures::apply_error(apply::ApplyError::Stale(stale), &account.name);
        return Err(desk.discard_after(&looked, failure));
    }
    let job = RunRequest { plan_id: saved.id, ..RunRequest::new("apply", asked) };
    let plan = Plan { cost: looked.cost(&saved.plan), ..saved.plan };
    confirm_and_apply(desk, job, &plan, &looked, policy, run)
}

/// Shows a plan, asks, and applies it.
///
/// # Errors
/// As [`apply_input`].
pub fn confirm_and_apply(
    mut desk: WriteSession<'_>,
    job: RunRequest<'_>,
    plan: &Plan,
    looked: &Observation,
    policy: &Policy,
    run: &RunArgs,
) -> Result<Exit, OpError> {
    let (app, account) = (desk.app, desk.account);
    planning::show(app, plan, PlanFormat::Text, run.dry_run)?;
    planning::guard(plan, looked, policy).map_err(|it| desk.discard_after(looked, it))?;
    if run.dry_run {
        if app.out.is_json() {
            let mut document = planning::document(plan, account, &job.asked, looked);
            document["dry_run"] = json!(true);
            app.out.json(&document)?;
        }
        return Ok(outcome::exit(&RunReport::default(), plan.unsupported.len() as u64));
    }
    if plan.steps.is_empty() {
        desk.discard_observation(looked)?;
        if desk.rehearsed {
            return rehearsing::nothing(&desk, plan);
        }
        return nothing(&desk, plan, run, &job);
    }
    match apply_confirmed(&mut desk, job, plan, looked, run)? {
        Some(outcome) if desk.rehearsed => rehearsing::finish(desk, outcome, plan),
        Some(outcome) => outcome::finish(desk, outcome, run.rejected.as_deref()),
        None => Ok(Exit::Done),
    }
}

/// Asks whether a plan is to be applied, and applies it. `None` is a no.
///
/// # Errors
/// When there is no terminal to ask at. What came of the run is inside.
pub fn apply_confirmed(
    desk: &mut WriteSession<'_>,
    job: RunRequest<'_>,
    plan: &Plan,
    looked: &Observation,
    run: &RunArgs,
) -> Result<Option<Result<RunReport, apply::ApplyError>>, OpError> {
    let (app, account) = (desk.app, desk.account);
    // A plan file says nothing of files that is to be believed.
    let saved = !job.plan_id.is_empty();
    let mut origin = if saved { RunInput::without_files(plan) } else { RunInput::of(plan) };
    origin.manual = job.manual;
    let asked = desk.clock.monotonic();
    let steps = format::counted(plan.steps.len() as u64, "step", "steps");
    let question = format!("Apply {steps} to {}?", account.name);
    let answer = match desk.clock.interrupted() {
        true => Err(OpError::new(OpErrorKind::Interrupted, "interrupted; nothing was written")),
        false => app.out.confirm(question, run.yes),
    };
    if !answer.map_err(|failure| desk.discard_after(looked, failure))? {
        desk.discard_observation(looked)?;
        app.out.note("nothing was written");
        return Ok(None);
    }
    apply::save_matches(&mut desk.vault, plan, saved, desk.clock.now())?;
    let thought = desk.clock.monotonic().saturating_sub(asked);
    let options = ApplyOptions {
        command: job.command.to_owned(),
        input: job.asked,
        plan_id: job.plan_id,
        service: desk.session.service.clone(),
        fail_fast: run.fail_fast,
        secrets: job.secrets,
        max_staleness: Some(looked.max_staleness),
        limit: Some(looked.limit),
        reserve: looked.reserve,
        paging: looked.paging.clone(),
        plan: origin.text(),
        // After a long time at the question, the look at the account is old.
        snapshot_before: (thought < LONG_THOUGHT).then_some(looked.snapshot),
    };
    let progress = Arc::clone(&desk.progress);
    let (client, vault) = (&mut desk.session.client, &mut desk.vault);
    let ended = apply::apply(client, vault, &*desk.clock, &*progress, &options, plan);
    if matches!(&ended, Err(apply::ApplyError::Stale(_) | apply::ApplyError::Used(_))) {
        // No run was begun.
        desk.discard_observation(looked)?;
    }
    Ok(Some(ended))
}

const LONG_THOUGHT: std::time::Duration = std::time::Duration::from_secs(60);

/// An empty plan is good news, and still one document.
fn nothing(
    desk: &WriteSession<'_>,
    plan: &Plan,
    run: &RunArgs,
    job: &RunRequest<'_>,
) -> Result<Exit, OpError> {
    let app = desk.app;
    let rows = rejected::rows(&[], &plan.unsupported);
    if job.plan_id.is_empty() {
        rejected::write(app, &rows, &RunInput::of(plan), run.rejected.as_deref());
    }
    if app.out.is_json() {
        let requests = desk.session.client.counters().requests;
        let outcome = RunReport { requests, ..RunReport::default() };
        let mut document = outcome::document(desk.account, &outcome);
        document["run"] = Value::Null;
        document["unsupported"] = json!(plan.unsupported);
        document["from"] = json!(job.asked);
        app.out.json(&document)?;
    }
    Ok(outcome::exit(&RunReport::default(), plan.unsupported.len() as u64))
}

/// Reads `path` as a saved plan, if it is one: a JSON file with steps.
///
/// # Errors
/// When it is one that cannot be applied.
pub fn read_saved_plan(path: &Path) -> Result<Option<SavedPlan>, OpError> {
    let is_json = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if !is_json || !path.is_file() {
        return Ok(None);
    }
    let bytes = wanted::bytes(path)?;
    match read(&bytes) {
        Ok(saved) => Ok(Some(saved)),
        // An export has no steps, and is read as a state.
        Err(SavedPlanError::NotAPlan(_)) if has_resources(&bytes) => Ok(None),
        Err(error) => {
            Err(OpError::new(OpErrorKind::Failed, format_args!("{} {error}", path.display()))
                .hint("nothing was written"))
        }
    }
}

fn has_resources(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|it| it.get("resources").is_some())
}
