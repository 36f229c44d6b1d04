//! From a state that somebody wants to a plan: what `plan`, `apply`, `import`,
//! `restore` and `undo` have in common before the first write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::app::App;
use super::error::{OpError, OpErrorKind};
use super::failures::cannot_write;
use super::session::{AccountSession, SessionLimits, command_words};
use super::wanted::{self, DesiredInput};
use crate::apply;
use crate::change::cost::{Lists, cost};
use crate::change::csv_files::CsvKind;
use crate::change::desired::DesiredState;
use crate::change::export::ExportContent;
use crate::change::guards;
use crate::change::plan::saved::SavedPlan;
use crate::change::plan::{AccountMemory, CurrentState, Plan, PlanCost, PlanProblems, plan};
use crate::change::policy::{OnConflict, Policy};
use crate::change::render;
use crate::change::staleness::{self, StalenessLimit};
use crate::cli::{Paint, values};
use crate::clock::Clock;
use crate::config::{AccountConfig, parse_duration};
use crate::crawl::{self, StatisticsMode};
use crate::escaped::Escaped;
use crate::files::{Durability, replace};
use crate::format;
use crate::model::paging::Paging;
use crate::model::{CountOrPercent, RecordKey, Resource, State, Verb};
use crate::progress::Progress;
use crate::vault::snapshot::ReadState;
use crate::vault::{Vault, VaultError};

/// How old a list may be when a write that stands on it leaves: the flag of every
/// command that writes, and of those that tell what writing costs.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct MaxStalenessArgs {
    /// Read a list again before a write that stands on it when it is older than this,
    /// such as 10m; by default 5 minutes, or what the configuration says
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        env = "LINKVAULT_MAX_STALENESS",
        hide_env_values = true
    )]
    pub max_staleness: Option<Duration>,
}

impl MaxStalenessArgs {
    /// What holds for `account`.
    #[must_use]
    pub fn of(self, account: &AccountConfig) -> Duration {
        self.max_staleness.or(account.settings.max_staleness).unwrap_or(staleness::DEFAULT)
    }
}

/// What a plan may do: the flags of every command that makes one.
#[derive(Debug, Clone, clap::Args)]
pub struct PolicyArgs {
    /// What a CSV file holds whose name does not tell
    #[arg(long, value_name = "RESOURCE", value_parser = values::sheet())]
    pub resource: Option<CsvKind>,
    /// Take only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// Delete what the account has and the wanted state has not
    #[arg(long)]
    pub delete: bool,
    /// Delete at most this number or share of a resource's records, such as 50 or 30%
    #[arg(long, value_name = "BOUND", default_value = "30%")]
    pub max_delete: CountOrPercent,
    /// Update at most this number or share of a resource's records
    #[arg(long, value_name = "BOUND", default_value = "30%")]
    pub max_update: CountOrPercent,
    /// Whose value counts where a cell was edited here and changed there
    #[arg(long, value_name = "WHOSE", default_value = "fail")]
    pub on_conflict: ConflictChoice,
}

/// Whose value counts in a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConflictChoice {
    // Neither: nothing is written.
    Fail,
    Mine,
    Theirs,
}

impl From<ConflictChoice> for OnConflict {
    fn from(whose: ConflictChoice) -> Self {
        match whose {
            ConflictChoice::Fail => Self::Fail,
            ConflictChoice::Mine => Self::Mine,
            ConflictChoice::Theirs => Self::Theirs,
        }
    }
}

impl PolicyArgs {
    /// What these flags allow.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            delete: self.delete,
            max_delete: self.max_delete,
            max_update: self.max_update,
            on_conflict: self.on_conflict.into(),
            account: self.names_the_account(),
        }
    }

    fn names_the_account(&self) -> bool {
        self.resource == Some(CsvKind::Resource(Resource::Account))
    }

    /// Reads what `text` names, as wanted for `account`.
    ///
    /// # Errors
    /// When there is nothing of that name, or a file has mistakes.
    pub fn wanted(
        &self,
        app: &App,
        bounds: &SessionLimits,
        text: &str,
        account: &AccountConfig,
    ) -> Result<DesiredInput, OpError> {
        let mut which = values::scope(&self.only, &self.skip)?;
        // An account's own record is never changed by the way.
        which.retain(|it| *it != Resource::Account || self.names_the_account());
        let read = wanted::read_input(app, bounds, text, self.resource, account, &which)?;
        self.told(app, read)
    }

    /// The same of a file, whatever else its name may mean.
    ///
    /// # Errors
    /// As [`PolicyArgs::wanted`].
    pub fn wanted_file(
        &self,
        app: &App,
        file: &Path,
        account: &AccountConfig,
    ) -> Result<DesiredInput, OpError> {
        let mut which = values::scope(&self.only, &self.skip)?;
        which.retain(|it| *it != Resource::Account || self.names_the_account());
        self.told(app, wanted::read_files(file, self.resource, Some(account), &which)?)
    }

    fn told(&self, app: &App, mut read: DesiredInput) -> Result<DesiredInput, OpError> {
        read.find_owner(app)?;
        for warning in &read.warnings {
            app.out.warn(warning);
        }
        if read.deletes_nothing() && self.delete {
            app.out.warn(format_args!(
                "{} deletes nothing: what was there when it was exported is not known",
                read.name
            ));
        }
        if self.delete && read.state.is_none() && !read.exported {
            app.out.warn(format_args!(
                "{} deletes nothing: what a CSV file leaves out is left alone; a folder that \
                 `linkvault export` wrote, with rows taken out, deletes them",
                read.name
            ));
        }
        leave_untouched(&mut read);
        Ok(read)
    }
}

/// A file that was not edited wants nothing, so what it holds need not be read.
fn leave_untouched(read: &mut DesiredInput) {
    if read.base.is_none() {
        return;
    }
    for file in &read.untouched {
        match ExportContent::of(file) {
            Some(ExportContent::Sheet(CsvKind::Resource(resource))) => {
                read.desired.resources.remove(&resource);
            }
            Some(ExportContent::Sheet(CsvKind::CampaignLinks)) => {
                read.desired.campaign_links.clear()
            }
            Some(ExportContent::Records) => read.desired = DesiredState::default(),
            None => {}
        }
    }
}

/// An account as it is now, and what is remembered of it.
#[derive(Debug)]
pub struct Observation {
    pub state: State,
    /// What the service does not have; of those the state has no records.
    pub not_offered: Vec<Resource>,
    pub memory: AccountMemory,
    /// What looking cost, in requests.
    pub reading: u64,
    /// Requests beside these that ask again whose account it is, where a look into the
    /// account's own vault finds lists that lost records.
    pub confirming: u64,
    /// How the lists are divided into pages.
    pub paging: BTreeMap<Resource, Paging>,
    /// Requests a minute; 0 is no limit.
    pub limit: u64,
    pub reserve: u64,
    /// How old a list may be when a write that stands on it leaves.
    pub max_staleness: Duration,
    /// As the vault remembers it.
    pub service: String,
    /// The account's own id there.
    pub account_id: Option<i64>,
    /// The snapshot that shows it.
    pub snapshot: i64,
    /// Whether that stands in the account's own vault.
    pub kept: bool,
}

impl Observation {
    /// What carrying `plan` out costs, this look and one at the end included.
    #[must_use]
    pub fn cost(&self, plan: &Plan) -> PlanCost {
        let mut again = plan.touched();
        if again.contains(&Resource::ChannelItems) && !again.contains(&Resource::Channels) {
            again.push(Resource::Channels);
        }
        let lists = Lists::of(&self.state, self.paging.clone());
        let mut done = lists.clone();
        plan.steps.iter().for_each(|step| done.carry_out(step));
        let after = again.iter().map(|it| done.requests(*it)).fold(1, u64::saturating_add);
        let staleness = StalenessLimit::new(self.max_staleness, self.limit, self.reserve, lists);
        cost(plan, (self.reading + self.confirming, after), self.limit, self.reserve, &staleness)
    }
}

/// The resources that must be known to plan for `desired`.
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
    // The items of a channel go with it, and are to come back with it.
    if policy.delete && needed.contains(&Resource::Channels) {
        needed.push(Resource::ChannelItems);
    }
    needed.sort_unstable();
    needed.dedup();
    needed
}

/// Looks at an account without leaving anything in its vault.
///
/// # Errors
/// When what is needed cannot be read whole.
pub fn observe_account(
    app: &App,
    account: &AccountConfig,
    bounds: &SessionLimits,
    which: &[Resource],
) -> Result<Observation, OpError> {
    let progress: Arc<dyn Progress + Send + Sync> = Arc::from(app.progress(&account.name));
    let words = command_words("plan", &account.name);
    let mut session = AccountSession::open(app, account, &words, bounds, Arc::clone(&progress))?;
    let mut own = match Vault::open_read_only(&account.vault) {
        Ok(vault) => Some(vault),
        Err(VaultError::Missing(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let mut vault = Vault::in_memory()?;
    if let Some(ours) = own.as_mut().map(|own| own.identity()).transpose()?.flatten() {
        vault.claim(&ours, false)?;
    }
    let mut looked =
        observe_into(&*app.clock, account, &mut session, &mut vault, &*progress, which)?;
    if let Some(own) = &own {
        looked.memory = apply::account_memory(own)?;
        looked.confirming = lost_lists(own, &looked)?;
    }
    Ok(looked)
}

/// How many lists of `now` lack records that `own` has: a look into `own` confirms the
/// account for each. Of a list that is not offered, nothing is known to be lost.
fn lost_lists(own: &Vault, now: &Observation) -> Result<u64, VaultError> {
    let mut lists = BTreeSet::new();
    let offered = |(it, _): &(Resource, _)| !now.not_offered.contains(it);
    for (resource, records) in now.state.iter().filter(offered) {
        for key in own.open_keys(resource)?.into_iter().filter(|key| !records.contains_key(key)) {
            let channel = match key {
                RecordKey::Item { channel, .. } => Some(channel),
                RecordKey::Id(_) => None,
            };
            let listed = |channel| now.state.get(Resource::Channels)?.get(&RecordKey::Id(channel));
            if channel.is_none_or(|channel| listed(channel).is_some()) {
                lists.insert((resource, channel));
            }
        }
    }
    Ok(lists.len() as u64)
}

/// Looks at an account by a snapshot in `vault`.
///
/// # Errors
/// As [`observe_account`].
pub fn observe_into(
    clock: &dyn Clock,
    account: &AccountConfig,
    session: &mut AccountSession,
    vault: &mut Vault,
    progress: &dyn Progress,
    which: &[Resource],
) -> Result<Observation, OpError> {
    let options = crawl::CrawlOptions::new(&session.service).only(which);
    let options =
        crawl::CrawlOptions { stats: StatisticsMode::None, fresh: true, confirm: false, ..options };
    let before = session.client.counters().requests;
    let summary = crawl::crawl(&mut session.client, vault, clock, progress, &options)?;
    let snapshot = summary.snapshot;
    let lacking = snapshot
        .outcomes
        .iter()
        .find(|outcome| options.scope.contains(&outcome.resource) && !outcome.is_complete());
    if let Some(outcome) = lacking {
        let why = outcome.message.as_deref().unwrap_or("it is not offered");
        let message = format!("{} could not be read whole: {why}", outcome.resource);
        return Err(OpError::new(OpErrorKind::Service, message)
            .hint("nothing was planned or written; --skip leaves a resource out"));
    }
    let confirming = summary.confirmed;
    let reading = (session.client.counters().requests - before).saturating_sub(confirming);
    let outcomes = snapshot.outcomes.iter();
    let not_offered = outcomes.filter(|it| it.state == ReadState::NotOffered);
    let not_offered = not_offered.map(|it| it.resource).collect();
    let known = session.client.limit().or(account.settings.limit.map(u64::from));
    Ok(Observation {
        state: vault.state(snapshot.number, &options.scope)?,
        not_offered,
        memory: apply::account_memory(vault)?,
        reading,
        confirming,
        paging: summary.paging,
        limit: known.unwrap_or(30),
        reserve: session.reserve,
        max_staleness: account.settings.max_staleness.unwrap_or(staleness::DEFAULT),
        service: session.service.clone(),
        account_id: vault.identity()?.map(|identity| identity.account),
        snapshot: snapshot.number,
        kept: true,
    })
}

/// Plans, with the price.
///
/// # Errors
/// When rows leave open what is meant, or there are conflicts.
pub fn make_plan(
    desired: &DesiredState,
    base: Option<&State>,
    looked: &Observation,
    policy: &Policy,
) -> Result<Plan, OpError> {
    let current = CurrentState { state: &looked.state, memory: &looked.memory };
    let mut plan = plan(desired, current, base, policy).map_err(|it| OpError::from(&it))?;
    plan.cost = looked.cost(&plan);
    log(&plan);
    Ok(plan)
}

/// Each choice of the planner, for `-v`.
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

/// Tells of records that `wanted` does not have and that stay, since `--delete` was
/// not given: a row taken out of a sheet, or what is newer than a snapshot.
pub fn kept_records(app: &App, wanted: &DesiredInput, looked: &Observation, policy: &Policy) {
    let whole =
        wanted.desired.resources.values().any(|it| it.is_complete && !it.records.is_empty());
    if policy.delete || !whole {
        return;
    }
    let bold = Policy { delete: true, ..*policy };
    // Where deleting would be a conflict, that is soon enough told with the flag.
    let Ok(plan) = make_plan(&wanted.desired, wanted.base.as_ref(), looked, &bold) else { return };
    let deletes = plan.steps.iter().filter(|step| step.verb == Verb::Delete);
    let mut counts = BTreeMap::new();
    deletes.for_each(|step| *counts.entry(step.resource).or_insert(0_u64) += 1);
    if counts.is_empty() {
        return;
    }
    let records = counts.iter().map(|(resource, count)| {
        format!("{} of {resource}", format::counted(*count, "record", "records"))
    });
    app.out.note(format_args!(
        "Not in {}, and left as they are: {}; --delete deletes them",
        wanted.name,
        records.collect::<Vec<_>>().join(", ")
    ));
}

impl From<&PlanProblems> for OpError {
    fn from(problems: &PlanProblems) -> Self {
        const MOST: usize = 50;
        let rows = problems.rows.iter().map(ToString::to_string);
        let all = rows.chain(problems.conflicts.iter().map(ToString::to_string));
        let more = (problems.rows.len() + problems.conflicts.len()).saturating_sub(MOST);
        let lines = |text: String| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>();
        let mut lines: Vec<_> = all.take(MOST).flat_map(lines).collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        if problems.is_conflict() {
            let count = problems.conflicts.len();
            let message = match count {
                1 => "a cell was edited here and has changed in the account".to_owned(),
                _ => format!("{count} cells were edited here and have changed in the account"),
            };
            return Self::new(OpErrorKind::Stale, message).details(lines).hint(
                "nothing was written; --on-conflict mine pushes your values,\n\
                 --on-conflict theirs keeps the account's",
            );
        }
        Self::new(OpErrorKind::Failed, "it is not clear what is wanted")
            .details(lines)
            .hint("mend these rows and run the command again; nothing was written")
    }
}

/// Refuses a plan that does more than the flags allow.
///
/// # Errors
/// With numbers, limits, and the flags that lift them.
pub fn guard(plan: &Plan, looked: &Observation, policy: &Policy) -> Result<(), OpError> {
    guards::check_guards(plan, &looked.state, policy).map_err(|refusals| {
        let lines: Vec<_> = refusals.iter().map(ToString::to_string).collect();
        OpError::new(OpErrorKind::Guard, "the plan does more than is allowed; nothing was written")
            .details(lines)
            .hint("look at the plan, and add the flag if it is meant so")
    })
}

/// How a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PlanFormat {
    #[default]
    Text,
    // For a ticket or a page.
    Markdown,
}

/// A plan for programs.
#[must_use]
pub fn document(plan: &Plan, account: &AccountConfig, name: &str, looked: &Observation) -> Value {
    let mut document = render::document(plan, &account.name);
    document["from"] = json!(name);
    document["limit"] = json!(looked.limit);
    document["reserve"] = json!(looked.reserve);
    document
}

/// A plan for people: the `answer` to what they asked for, or on the way to it.
///
/// # Errors
/// When it cannot be written.
pub fn show(app: &App, plan: &Plan, form: PlanFormat, answer: bool) -> Result<(), OpError> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match form {
        PlanFormat::Text => render::text(plan, &mut text),
        PlanFormat::Markdown => render::markdown(plan, &mut text),
    };
    for it in &plan.reused {
        let (title, id) = (it.resource.spec().title, it.id);
        app.out.note(format_args!(
            "{title} {id} was deleted; its id belongs to {} now, which is not updated",
            if it.name.is_empty() { "another one" } else { &it.name }
        ));
    }
    if form == PlanFormat::Markdown {
        return app.out.raw(text.as_bytes());
    }
    for line in text.trim_end().lines() {
        let paint = match line.trim_start().split(' ').next() {
            Some("+") => Some(Paint::Added),
            Some("~") => Some(Paint::Changed),
            Some("-") => Some(Paint::Removed),
            Some(">") => Some(Paint::Hint),
            _ => None,
        };
        let line = paint.map_or_else(|| line.to_owned(), |it| app.out.paint(it, line));
        app.out.answer(line, answer)?;
    }
    Ok(())
}

/// Saves a plan, whole or not at all, for its user alone.
///
/// # Errors
/// When the file cannot be written.
pub fn save(
    app: &App,
    account: &AccountConfig,
    plan: &Plan,
    looked: &Observation,
    file: &Path,
) -> Result<(), OpError> {
    let whose = (account.name.as_str(), looked.service.as_str(), looked.account_id);
    let price = (looked.limit, looked.reserve);
    let saved = SavedPlan::new(whose, app.clock.now().0, price, plan.clone());
    replace(file, saved.to_json().as_bytes(), Durability::Unsynced)
        .map_err(|error| cannot_write(file, &error))
}
