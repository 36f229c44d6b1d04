//! Makes plans: what `plan`, `apply`, `import`, `restore` and `undo` have in common before the
//! first write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::account_options::max_staleness;
use super::account_session::SessionLimits;
use super::error::Details;
use super::input::{DesiredInput, InputOptions};
use super::observation::{Observation, observe_account};
use super::output_files::{OutputKind, require_output, write_output};
use super::{Env, NextStep, OpError, OpErrorKind, state_ref};
use crate::change::desired::DesiredState;
use crate::change::guards::{GuardRefusal, check_guards};
use crate::change::plan::reverts::possible_reverts;
use crate::change::plan::saved::SavedPlan;
use crate::change::plan::{CurrentState, Plan, PlanProblems, PlanStep, plan};
use crate::change::policy::Policy;
use crate::change::record_filter::FilteredRecord;
use crate::config::AccountConfig;
use crate::escaped::Escaped;
use crate::format;
use crate::model::{RecordKey, Resource, State, Verb};
use crate::vault::Vault;

/// The account and the desired state to make a plan for.
pub struct PlanRequest<'a> {
    /// The account that the plan would change.
    pub account: &'a AccountConfig,
    /// The desired state: a reference, or files and folders.
    pub input: &'a [String],
    /// Which part of the input to use.
    pub options: InputOptions,
    /// What the plan may do.
    pub policy: Policy,
    /// The maximum age of a list when a write that depends on it is sent; the configuration's if
    /// `None`.
    pub max_staleness: Option<Duration>,
    /// The file to save the plan to.
    pub save: Option<PathBuf>,
    /// Limits on requests, time and the wait for the lock.
    pub limits: SessionLimits,
}

/// A plan, and the state that it was made for.
pub struct PlanReport {
    /// The plan.
    pub plan: Plan,
    /// The name of the desired state, such as `main@#12`, or the path of the file.
    pub input: String,
    /// The present account, for which the plan was made.
    pub observation: Observation,
    /// A remark on records that the desired state lacks and that stay.
    pub kept: Option<(String, NextStep)>,
    /// The error with which `apply` would refuse the plan.
    pub refusal: Option<OpError>,
}

/// Reads the account and the desired state, and makes the plan.
///
/// # Errors
/// If one of them cannot be read, the input is ambiguous, or there are conflicts.
pub fn plan_changes(env: &Env, request: &PlanRequest<'_>) -> Result<PlanReport, OpError> {
    let (account, policy) = (request.account, &request.policy);
    env.catch_interrupts();
    if let Some(file) = &request.save {
        require_output(file, OutputKind::Plan, env.force)?;
    }
    let wanted = request.options.read(env, &request.limits, request.input, account)?;
    wanted.warn_of_suspicious(env);
    let which = needed_resources(&wanted.desired, policy);
    let mut observation = observe_account(env, account, &request.limits, &which)?;
    observation.max_staleness = max_staleness(request.max_staleness, account);
    wanted.require_account(account, &observation.service, observation.account_id)?;
    warn_of_unmatched(env, &wanted.desired, &observation);
    let mut plan = make_plan(&wanted.desired, wanted.base.as_ref(), &observation, policy)?;
    if let Some(mut vault) = state_ref::open_if_there(account)? {
        find_reverts(&wanted, &mut vault, &mut plan)?;
    }
    warn_of_cells(env, &plan);
    if let Some(file) = &request.save {
        save(env, account, &plan, &observation, file)?;
    }
    let kept = kept_records(&wanted, &observation, policy);
    let refusal = guard(&plan, &observation, policy).err();
    Ok(PlanReport { plan, input: wanted.name, observation, kept, refusal })
}

/// The resources that must be read to make a plan for `desired`.
#[must_use]
pub fn needed_resources(desired: &DesiredState, policy: &Policy) -> Vec<Resource> {
    let mut needed: Vec<_> = desired.resources.keys().copied().collect();
    needed.extend(desired.to_delete.keys());
    if !desired.campaign_links.is_empty() {
        needed.push(Resource::Campaigns);
    }
    if needed.contains(&Resource::ChannelItems) {
        needed.extend(Resource::ChannelItems.spec().depends_on);
    }
    // Deleting a channel deletes its items, so they are needed to restore it.
    if policy.delete && needed.contains(&Resource::Channels) {
        needed.push(Resource::ChannelItems);
    }
    needed.sort_unstable();
    needed.dedup();
    needed
}

/// Makes a plan with its cost.
///
/// # Errors
/// If rows are ambiguous, or there are conflicts.
pub fn make_plan(
    desired: &DesiredState,
    base: Option<&State>,
    observation: &Observation,
    policy: &Policy,
) -> Result<Plan, OpError> {
    let current = CurrentState { state: &observation.state, memory: &observation.memory };
    let mut plan = plan(desired, current, base, policy).map_err(|it| OpError::from(&it))?;
    observation.complete(&mut plan);
    log(&plan);
    Ok(plan)
}

/// Finds the changes of files without a base that set an older value again: nothing shows whether
/// the user edited these cells, or another person changed them in the account.
///
/// # Errors
/// If the vault cannot be read.
pub fn find_reverts(
    wanted: &DesiredInput,
    vault: &mut Vault,
    plan: &mut Plan,
) -> Result<(), OpError> {
    if wanted.base.is_some() || wanted.files.is_empty() {
        return Ok(());
    }
    for step in plan.steps.iter().filter(|step| step.verb == Verb::Update) {
        let Some(id) = step.id else { continue };
        let versions = vault.history(step.resource, &RecordKey::Id(id))?;
        let versions: Vec<_> = versions.into_iter().map(|it| (it.since, it.record)).collect();
        plan.reverts.extend(possible_reverts(step, &versions));
    }
    Ok(())
}

/// Warns of cells that the API cannot set, and of empty ones that clear a value.
pub fn warn_of_cells(env: &Env, plan: &Plan) {
    plan.cell_warnings.grouped_lines().iter().for_each(|line| env.warn(Escaped(line)));
}

/// Warns of filters and selectors that match no record of the account or the input.
pub fn warn_of_unmatched(env: &Env, desired: &DesiredState, observation: &Observation) {
    let rows = desired.resources.iter().flat_map(|(resource, wanted)| {
        wanted.records.iter().map(|row| {
            let key = row.id.map(RecordKey::Id);
            FilteredRecord::of_fields(*resource, key, &row.fields)
        })
    });
    let live = FilteredRecord::of_state(&observation.state);
    warn_of_filters(env, &desired.filter.unmatched(rows.chain(live)));
}

/// Warns of filters and selectors that match no record.
pub fn warn_of_filters(env: &Env, unmatched: &[String]) {
    unmatched.iter().for_each(|filter| env.warn(format_args!("`{filter}` matches no record")));
}

/// Logs each match and each step, for `-v`.
fn log(plan: &Plan) {
    for it in plan.foreign.iter().flat_map(|foreign| &foreign.matched) {
        tracing::debug!("{} {}: matched with {} here", it.resource.name(), it.old, it.new);
    }
    for step in &plan.steps {
        let (verb, resource, key) = (step.verb.name(), step.resource.name(), Escaped(&step.key));
        tracing::debug!("step {}: {verb} {resource} {key}", step.step);
    }
    for it in &plan.unsupported {
        let key = Escaped(&it.key);
        tracing::debug!("{} {key} is unsupported: {}", it.resource.name(), Escaped(&it.reason));
    }
}

/// A remark on records that `wanted` lacks and that stay because the policy does not allow deletes:
/// rows that were removed from a CSV file, or records that are newer than a snapshot. With the step
/// for the user.
#[must_use]
pub fn kept_records(
    wanted: &DesiredInput,
    observation: &Observation,
    policy: &Policy,
) -> Option<(String, NextStep)> {
    let kept: BTreeMap<_, _> = wanted
        .desired
        .resources
        .iter()
        .filter(|(_, it)| it.is_complete && !policy.deletes_missing(it.records.len()))
        .map(|(resource, it)| (*resource, it.records.is_empty()))
        .collect();
    if kept.is_empty() {
        return None;
    }
    let bold = Policy { delete: true, allow_empty: true, ..*policy };
    // A conflict about a delete is reported when the flag is given.
    let plan = make_plan(&wanted.desired, wanted.base.as_ref(), observation, &bold).ok()?;
    let is_kept = |step: &&PlanStep| kept.contains_key(&step.resource);
    let deletes = plan.steps.iter().filter(|step| step.verb == Verb::Delete);
    let mut counts = BTreeMap::new();
    deletes.filter(is_kept).for_each(|step| *counts.entry(step.resource).or_insert(0_u64) += 1);
    if counts.is_empty() {
        return None;
    }
    let records = counts.iter().map(|(resource, count)| {
        format!("{} of {resource}", format::counted(*count, "record", "records"))
    });
    let text = format!(
        "Not in {}, and left as they are: {}",
        wanted.name,
        records.collect::<Vec<_>>().join(", ")
    );
    let by_empty_list = counts.keys().any(|resource| kept.get(resource) == Some(&true));
    Some((text, NextStep::DeleteMissing { by_empty_list }))
}

impl From<&PlanProblems> for OpError {
    fn from(problems: &PlanProblems) -> Self {
        const MAX_LINES: usize = 50;
        let rows = problems.rows.iter().map(ToString::to_string);
        let all = rows.chain(problems.conflicts.iter().map(ToString::to_string));
        let more = (problems.rows.len() + problems.conflicts.len()).saturating_sub(MAX_LINES);
        let lines = |text: String| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>();
        let mut lines: Vec<_> = all.take(MAX_LINES).flat_map(lines).collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        if problems.is_conflict() {
            let count = problems.conflicts.len();
            let message = match count {
                1 => {
                    "a value that the plan changes has been changed in the account since".to_owned()
                }
                _ => format!(
                    "{count} values that the plan changes have been changed in the account since"
                ),
            };
            return Self::new(OpErrorKind::Stale, message)
                .details(lines)
                .next(NextStep::ChooseOnConflict);
        }
        let count = problems.rows.len() as u64;
        let message = match problems.rows.iter().all(|row| row.column.is_some()) {
            true if problems.conflicts.is_empty() => {
                let names = format::counted(count, "name", "names");
                format!("the input has {names} that no record of the account has")
            }
            _ => format!("cannot use {} of the input", format::counted(count, "row", "rows")),
        };
        let in_files = problems.in_files().filter(|_| problems.conflicts.is_empty());
        let details = in_files.map_or_else(|| lines.into(), |it| Details::from(&it));
        Self::new(OpErrorKind::Failed, message).details(details).next(NextStep::FixInput)
    }
}

/// Refuses a plan that exceeds a limit of `policy`.
///
/// # Errors
/// If it does; with counts and limits.
pub fn guard(plan: &Plan, observation: &Observation, policy: &Policy) -> Result<(), OpError> {
    check_guards(plan, &observation.state, policy)
        .map_err(|refusals| guard_failure(plan, &refusals))
}

/// The failure of a plan that exceeds limits.
pub(super) fn guard_failure(plan: &Plan, refusals: &[GuardRefusal]) -> OpError {
    let lines: Vec<_> = refusals.iter().map(ToString::to_string).collect();
    let needed = |verb| {
        let is_refused = refusals.iter().any(|it| it.verb == verb);
        is_refused.then(|| largest_count(plan, verb))
    };
    let next =
        NextStep::RaiseLimit { updates: needed(Verb::Update), deletes: needed(Verb::Delete) };
    OpError::new(OpErrorKind::Guard, "the plan exceeds a limit; nothing was written")
        .details(lines)
        .next(next)
}

/// The largest number of steps with this verb for one resource: a limit that allows all of them.
fn largest_count(plan: &Plan, verb: Verb) -> u64 {
    let mut counts = BTreeMap::new();
    for step in plan.steps.iter().filter(|step| step.verb == verb) {
        *counts.entry(step.resource).or_insert(0_u64) += 1;
    }
    counts.into_values().max().unwrap_or_default()
}

/// Saves a plan to a private file, atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn save(
    env: &Env,
    account: &AccountConfig,
    plan: &Plan,
    observation: &Observation,
    file: &Path,
) -> Result<(), OpError> {
    let whose = (account.name.as_str(), observation.service.as_str(), observation.account_id);
    let saved = SavedPlan::new(whose, env.clock.now().0, observation.rate, plan.clone());
    write_output(file, OutputKind::Plan, env.force, saved.to_json().as_bytes())
}
