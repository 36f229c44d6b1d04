//! From a plan to a run: asks, carries it out, and tells what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::app::App;
use super::desk::Desk;
use super::error::{Exit, Failure, Kind};
use super::human;
use super::outcome;
use super::planning::{self, Form, Looked, StalenessArgs};
use super::rehearsing;
use super::rejected::{self, Origin};
use super::session::Bounds;
use super::wanted::{self, Read};
use crate::apply::{self, Options, Outcome, Secrets};
use crate::change::plan::saved::{SavedPlan, SavedPlanError, read};
use crate::change::plan::{Current, Plan};
use crate::change::policy::Policy;
use crate::config::Account;
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
    pub staleness: StalenessArgs,
}

/// What to carry out.
pub struct Job<'a> {
    /// `apply`, `import`, `restore`, `undo`.
    pub command: &'a str,
    /// The state's name, or the file's.
    pub asked: String,
    /// Of a saved plan, its own id.
    pub plan_id: String,
    pub secrets: Secrets,
    /// How many records of the input have no step and are left to a person.
    pub manual: u64,
}

impl<'a> Job<'a> {
    /// A job without secrets, of a plan that was not saved.
    #[must_use]
    pub fn new(command: &'a str, asked: &str) -> Self {
        let (plan_id, secrets) = (String::new(), Secrets::default());
        Self { command, asked: asked.to_owned(), plan_id, secrets, manual: 0 }
    }
}

/// Plans for what is wanted, shows the plan, asks, and applies it.
///
/// # Errors
/// When a guard refuses, there are conflicts, or the run had to stop.
pub fn push(
    app: &App,
    account: &Account,
    job: Job<'_>,
    wanted: &Read,
    policy: &Policy,
    run: &RunArgs,
    bounds: &Bounds,
) -> Result<Exit, Failure> {
    let desk = Desk::open(app, account, job.command, bounds)?;
    push_from(desk, job, wanted, policy, run)
}

/// The same for an account that is open already.
///
/// # Errors
/// As [`push`].
pub fn push_from(
    mut desk: Desk<'_>,
    job: Job<'_>,
    wanted: &Read,
    policy: &Policy,
    run: &RunArgs,
) -> Result<Exit, Failure> {
    desk.refuse_a_second_run()?;
    let mut which = planning::needed(&wanted.desired, policy);
    if job.secrets.password.is_some() && !which.contains(&Resource::Account) {
        which.push(Resource::Account);
    }
    let mut looked = desk.look(&which, run.dry_run)?;
    looked.max_staleness = run.staleness.of(desk.account);
    wanted
        .is_of(desk.account, &looked.service, looked.account_id)
        .map_err(|failure| desk.forgetting(&looked, failure))?;
    let made = planning::planned(&wanted.desired, wanted.base.as_ref(), &looked, policy);
    let mut plan = made.map_err(|failure| desk.forgetting(&looked, failure))?;
    plan.unsupported.extend(wanted.unsupported.iter().cloned());
    if job.secrets.password.is_some() {
        apply::request::set_password(&mut plan, looked.account_id);
        plan.cost = looked.cost(&plan);
    }
    planning::tell_what_stays(desk.app, wanted, &looked, policy);
    carry_out(desk, job, &plan, &looked, policy, run)
}

/// Applies a saved plan, if it is for this account and still true.
///
/// # Errors
/// As [`push`]; when it is stale or was applied before, nothing is written.
pub fn saved(
    app: &App,
    account: &Account,
    asked: &str,
    saved: SavedPlan,
    policy: &Policy,
    run: &RunArgs,
    bounds: &Bounds,
) -> Result<Exit, Failure> {
    let desk = Desk::open(app, account, "apply", bounds)?;
    saved_from(desk, asked, saved, policy, run)
}

/// The same for an account that is open already.
///
/// # Errors
/// As [`saved`].
pub fn saved_from(
    mut desk: Desk<'_>,
    asked: &str,
    saved: SavedPlan,
    policy: &Policy,
    run: &RunArgs,
) -> Result<Exit, Failure> {
    let account = desk.account;
    if let Some(run) = desk.vault.plan_was_used(&saved.id)? {
        return Err(super::failures::of_apply(apply::ApplyError::Used(run), &account.name));
    }
    desk.refuse_a_second_run()?;
    let ours = (desk.session.service.as_str(), desk.vault.identity()?.map(|it| it.account));
    let other = |service: &str, id: Option<i64>| {
        saved.service != service || (id.is_some() && saved.account_id != id)
    };
    if other(ours.0, ours.1) {
        let message = format!("the plan was made for `{}` at {}", saved.account, saved.service);
        return Err(Failure::new(Kind::Stale, message)
            .hint(format_args!("nothing was written; make a plan for {}", account.name)));
    }
    let which = saved.plan.reads();
    let mut looked = desk.look(&which, run.dry_run)?;
    looked.max_staleness = run.staleness.of(account);
    let own = looked.account_id.map(|id| format!("{}#{id}", looked.service));
    let moves = saved.plan.foreign.as_ref().map(|it| &it.origin);
    if moves.is_some() && moves == own.as_ref() {
        let message = "the plan moves records of this account to itself";
        let failure = Failure::new(Kind::Stale, message).hint("nothing was written");
        return Err(desk.forgetting(&looked, failure));
    }
    if other(&looked.service, looked.account_id) {
        let message = format!("the plan was made for another account at {}", saved.service);
        let failure = Failure::new(Kind::Stale, message).hint("nothing was written");
        return Err(desk.forgetting(&looked, failure));
    }
    // A plan that cannot be applied is neither shown nor asked about.
    let current = Current { state: &looked.state, memory: &looked.memory };
    let stale = apply::before::stale(&saved.plan.steps, current);
    if !stale.is_empty() {
        let failure = super::failures::of_apply(apply::ApplyError::Stale(stale), &account.name);
        return Err(desk.forgetting(&looked, failure));
    }
    let job = Job { plan_id: saved.id, ..Job::new("apply", asked) };
    let plan = Plan { cost: looked.cost(&saved.plan), ..saved.plan };
    carry_out(desk, job, &plan, &looked, policy, run)
}

/// Shows a plan, asks, and applies it.
///
/// # Errors
/// As [`push`].
pub fn carry_out(
    mut desk: Desk<'_>,
    job: Job<'_>,
    plan: &Plan,
    looked: &Looked,
    policy: &Policy,
    run: &RunArgs,
) -> Result<Exit, Failure> {
    let (app, account) = (desk.app, desk.account);
    planning::show(app, plan, Form::Text, run.dry_run)?;
    planning::guard(plan, looked, policy).map_err(|it| desk.forgetting(looked, it))?;
    if run.dry_run {
        if app.out.is_json() {
            let mut document = planning::document(plan, account, &job.asked, looked);
            document["dry_run"] = json!(true);
            app.out.json(&document)?;
        }
        return Ok(outcome::exit(&Outcome::default(), plan.unsupported.len() as u64));
    }
    if plan.steps.is_empty() {
        desk.forget(looked)?;
        if desk.rehearsed {
            return rehearsing::nothing(&desk, plan);
        }
        return nothing(&desk, plan, run, &job);
    }
    match ask_and_apply(&mut desk, job, plan, looked, run)? {
        Some(outcome) if desk.rehearsed => rehearsing::finish(desk, outcome, plan),
        Some(outcome) => outcome::finish(desk, outcome, run.rejected.as_deref()),
        None => Ok(Exit::Done),
    }
}

/// Asks whether a plan is to be applied, and applies it. `None` is a no.
///
/// # Errors
/// When there is no terminal to ask at. What came of the run is inside.
pub fn ask_and_apply(
    desk: &mut Desk<'_>,
    job: Job<'_>,
    plan: &Plan,
    looked: &Looked,
    run: &RunArgs,
) -> Result<Option<Result<Outcome, apply::ApplyError>>, Failure> {
    let (app, account) = (desk.app, desk.account);
    // A plan file says nothing of files that is to be believed.
    let saved = !job.plan_id.is_empty();
    let mut origin = if saved { Origin::without_files(plan) } else { Origin::of(plan) };
    origin.manual = job.manual;
    let asked = desk.clock.monotonic();
    let steps = human::counted(plan.steps.len() as u64, "step", "steps");
    let question = format!("Apply {steps} to {}?", account.name);
    let answer = match desk.clock.interrupted() {
        true => Err(Failure::new(Kind::Interrupted, "interrupted; nothing was written")),
        false => app.out.confirm(question, run.yes),
    };
    if !answer.map_err(|failure| desk.forgetting(looked, failure))? {
        desk.forget(looked)?;
        app.out.note("nothing was written");
        return Ok(None);
    }
    apply::note_matches(&mut desk.vault, plan, saved, desk.clock.now())?;
    let thought = desk.clock.monotonic().saturating_sub(asked);
    let options = Options {
        command: job.command.to_owned(),
        asked: job.asked,
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
        looked: (thought < LONG_THOUGHT).then_some(looked.snapshot),
    };
    let progress = Arc::clone(&desk.progress);
    let (client, vault) = (&mut desk.session.client, &mut desk.vault);
    let ended = apply::apply(client, vault, &*desk.clock, &*progress, &options, plan);
    if matches!(&ended, Err(apply::ApplyError::Stale(_) | apply::ApplyError::Used(_))) {
        // No run was begun.
        desk.forget(looked)?;
    }
    Ok(Some(ended))
}

const LONG_THOUGHT: std::time::Duration = std::time::Duration::from_secs(60);

/// An empty plan is good news, and still one document.
fn nothing(desk: &Desk<'_>, plan: &Plan, run: &RunArgs, job: &Job<'_>) -> Result<Exit, Failure> {
    let app = desk.app;
    let rows = rejected::rows(&[], &plan.unsupported);
    if job.plan_id.is_empty() {
        rejected::write(app, &rows, &Origin::of(plan), run.rejected.as_deref());
    }
    if app.out.is_json() {
        let requests = desk.session.client.counters().requests;
        let outcome = Outcome { requests, ..Outcome::default() };
        let mut document = outcome::document(desk.account, &outcome);
        document["run"] = Value::Null;
        document["unsupported"] = json!(plan.unsupported);
        document["from"] = json!(job.asked);
        app.out.json(&document)?;
    }
    Ok(outcome::exit(&Outcome::default(), plan.unsupported.len() as u64))
}

/// Reads `path` as a saved plan, if it is one: a JSON file with steps.
///
/// # Errors
/// When it is one that cannot be applied.
pub fn saved_plan(path: &Path) -> Result<Option<SavedPlan>, Failure> {
    let is_json = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if !is_json || !path.is_file() {
        return Ok(None);
    }
    let bytes = wanted::bytes(path)?;
    match read(&bytes) {
        Ok(saved) => Ok(Some(saved)),
        // An export has no steps, and is read as a state.
        Err(SavedPlanError::NotAPlan(_)) if has_resources(&bytes) => Ok(None),
        Err(error) => Err(Failure::new(Kind::Failed, format_args!("{} {error}", path.display()))
            .hint("nothing was written")),
    }
}

fn has_resources(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|it| it.get("resources").is_some())
}
