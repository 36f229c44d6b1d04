//! The schedules of a fleet: makes Temporal's equal to a declaration of accounts, and shows them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::schedule_pause::is_paused_by_command;
use super::status::scheduled_accounts;
use super::temporal_error::explain;
use super::{Details, Env, NextStep, OpError, OpErrorKind};
use crate::config::{AccountConfig, Config, FleetSettings};
use crate::format;
use crate::health::fleet_state::FleetState;
use crate::model::CountOrPercent;
use crate::progress::Event;
use crate::temporal::error::{TemporalError, TemporalErrorKind};
use crate::temporal::schedule::{
    DeclaredSchedule, FleetSchedule, ScheduleChange, StartedBackup, changes,
};
use crate::temporal::schedules::{FailedChange, Schedules};

/// A declaration of accounts is not longer than this.
const MAX_FILE: u64 = 256 << 20;

/// Where a declaration of accounts is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclarationSource {
    /// The standard input.
    Stdin,
    /// A file, or a folder with files that end in `.toml`.
    Path(PathBuf),
}

/// The changes that make the schedules equal to a declaration.
pub struct FleetPlan {
    schedules: Schedules,
    /// The changes, by name of the account.
    pub changes: Vec<ScheduleChange>,
    /// Schedules that stay as they are.
    pub unchanged: u64,
    /// Declared accounts without a schedule.
    pub unscheduled: Vec<String>,
}

/// Compares the declaration in `source` with the schedules of the fleet.
///
/// # Errors
/// If the declaration has mistakes, an account's vault is a local file, more schedules than
/// `most_deleted` would be deleted, or Temporal cannot be reached.
pub fn plan(
    env: &Env,
    source: &DeclarationSource,
    most_deleted: CountOrPercent,
) -> Result<FleetPlan, OpError> {
    let accounts = declared_accounts(env, source)?;
    require_stores(&accounts)?;
    let scheduled = scheduled_accounts(env, &accounts)?;
    let declared = scheduled.into_iter().map(|it| DeclaredSchedule {
        account: it.account,
        crontab: it.schedule,
        calendars: it.timetable.schedule.calendars(),
        zone: it.timetable.zone,
        jitter: it.timetable.schedule.spread(),
    });
    let declared: Vec<_> = declared.collect();
    let unscheduled = accounts.iter().filter(|it| it.settings.schedule.is_none());
    let unscheduled = unscheduled.map(|it| it.name.clone()).collect();
    let schedules = connect(env)?;
    let existing = schedules.list(env.clock.now()).map_err(|error| failed(env, &error))?;
    let all = declared.len() as u64;
    let changes = changes(declared, &existing);
    let is_new = |it: &&ScheduleChange| !matches!(it, ScheduleChange::Delete { .. });
    let unchanged = all - changes.iter().filter(is_new).count() as u64;
    guard(&changes, existing.len() as u64, most_deleted)?;
    Ok(FleetPlan { schedules, changes, unchanged, unscheduled })
}

fn guard(changes: &[ScheduleChange], all: u64, most: CountOrPercent) -> Result<(), OpError> {
    let deleted = changes.iter().filter(|it| matches!(it, ScheduleChange::Delete { .. })).count();
    let deleted = deleted as u64;
    match most.allows(all) {
        Some(allowed) if deleted > allowed => Err(OpError::new(
            OpErrorKind::Guard,
            format!(
                "the plan deletes {deleted} of {all} schedules; the limit is {allowed} ({most})"
            ),
        )
        .next(NextStep::RaiseMaxDelete)),
        _ => Ok(()),
    }
}

impl FleetPlan {
    /// Makes the changes.
    ///
    /// # Errors
    /// The first error, with the number of changes that were made.
    pub fn apply(&self, env: &Env) -> Result<(), OpError> {
        let (all, began) = (self.changes.len(), env.clock.monotonic());
        let progress = env.progress("fleet");
        let made = |made: usize| {
            let spent = env.clock.monotonic().saturating_sub(began);
            let (done, total) = (made as u64, all as u64);
            let requests = total - done;
            let time = spent.mul_f64(requests as f64 / done as f64);
            progress.event(&Event::Steps { done, total, requests, time });
        };
        self.schedules.apply(&self.changes, made).map_err(|FailedChange { made, nth, error }| {
            let change = &self.changes[nth];
            let (verb, account) = (change.verb(), change.account());
            let failure = failed(env, &error);
            let message = format!(
                "{} of {} made; cannot {verb} the schedule of {account}: {}",
                format::count(made as u64),
                format::counted(all as u64, "change", "changes"),
                failure.message
            );
            OpError { message, ..failure }
        })
    }
}

/// The accounts of the declaration, by name.
fn declared_accounts(env: &Env, source: &DeclarationSource) -> Result<Vec<AccountConfig>, OpError> {
    let mut accounts: BTreeMap<String, (AccountConfig, PathBuf)> = BTreeMap::new();
    let home = env.home()?;
    for (file, text) in texts(source)? {
        let config = Config::parse(&home, &text).map_err(|problems| {
            let lines = problems.iter().map(|problem| problem.at(&file));
            let what = format!("{} has mistakes", file.display());
            OpError::new(OpErrorKind::Config, what).details(Details::from(lines))
        })?;
        require_same_fleet(&env.config()?.fleet, &config.fleet, &file)?;
        for account in config.accounts() {
            let (name, entry) = (account.name.clone(), (account.clone(), file.clone()));
            if let Some((_, other)) = accounts.insert(name.clone(), entry) {
                let (one, two) = (other.display(), file.display());
                let what = format!("the account {name} is declared in {one} and in {two}");
                return Err(OpError::new(OpErrorKind::Config, what));
            }
        }
    }
    Ok(accounts.into_values().map(|(account, _)| account).collect())
}

/// Refuses the declaration of another fleet than that of this machine's configuration.
fn require_same_fleet(
    ours: &FleetSettings,
    declared: &FleetSettings,
    file: &Path,
) -> Result<(), OpError> {
    let is_declared = *declared != FleetSettings::default();
    let pairs = [
        ("temporal", &ours.temporal, &declared.temporal),
        ("namespace", &ours.namespace, &declared.namespace),
        ("task_queue", &ours.task_queue, &declared.task_queue),
    ];
    match pairs.into_iter().find(|(_, ours, declared)| is_declared && ours != declared) {
        None => Ok(()),
        Some((key, ours, declared)) => {
            let file = file.display();
            let what = format!(
                "{file} declares another fleet: its `{key}` is {declared}, and that of the \
                 configuration of this machine is {ours}"
            );
            Err(OpError::new(OpErrorKind::Config, what).next(NextStep::UseHomeOfFleet))
        }
    }
}

/// The files of a declaration with their texts.
fn texts(source: &DeclarationSource) -> Result<Vec<(PathBuf, Vec<u8>)>, OpError> {
    let unreadable = |path: &Path, error: std::io::Error| {
        OpError::new(OpErrorKind::Usage, format!("cannot read {}: {error}", path.display()))
    };
    let path = match source {
        DeclarationSource::Stdin => {
            let (name, mut text) = (PathBuf::from("the standard input"), Vec::new());
            let read = std::io::stdin().lock().take(MAX_FILE).read_to_end(&mut text);
            read.map_err(|error| unreadable(&name, error))?;
            return Ok(vec![(name, text)]);
        }
        DeclarationSource::Path(path) => path,
    };
    let read = |path: PathBuf| match std::fs::read(&path) {
        Ok(text) => Ok((path, text)),
        Err(error) => Err(unreadable(&path, error)),
    };
    if !path.is_dir() {
        return Ok(vec![read(path.clone())?]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| unreadable(path, error))?.path();
        if file.extension().is_some_and(|it| it == "toml") {
            files.push(file);
        }
    }
    if files.is_empty() {
        let what = format!("{} has no file that ends in .toml", path.display());
        return Err(OpError::new(OpErrorKind::Usage, what));
    }
    files.sort();
    files.into_iter().map(read).collect()
}

/// Workers on several machines cannot share a local file.
fn require_stores(accounts: &[AccountConfig]) -> Result<(), OpError> {
    let scheduled = accounts.iter().filter(|it| it.settings.schedule.is_some());
    let local: Vec<_> =
        scheduled.filter(|it| it.store.is_none()).map(|it| it.name.clone()).collect();
    if local.is_empty() {
        return Ok(());
    }
    let what = "vaults of accounts with a schedule are local files, which workers cannot share";
    Err(OpError::new(OpErrorKind::Config, what)
        .details(Details::from(local))
        .next(NextStep::KeepVaultInStore))
}

/// The schedule of an account, with what it means for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetAccount {
    /// The schedule.
    pub schedule: FleetSchedule,
    /// The state of its backups.
    pub state: FleetState,
}

/// The state of the backups of an account with this schedule.
#[must_use]
pub fn state(schedule: &FleetSchedule) -> FleetState {
    use crate::temporal::schedule::RunState;
    let ended = |it: &&StartedBackup| it.state != RunState::Running;
    match schedule.recent.iter().rev().find(ended).map(|it| it.state) {
        Some(RunState::Failed | RunState::Retrying) => FleetState::Failed,
        Some(RunState::Stopped) => FleetState::Stopped,
        _ if schedule.is_paused => FleetState::Paused,
        Some(RunState::Complete | RunState::Running) => FleetState::Good,
        None => FleetState::New,
    }
}

/// All accounts of the fleet, problems first.
///
/// # Errors
/// If Temporal cannot be reached.
pub fn status(env: &Env) -> Result<Vec<FleetAccount>, OpError> {
    let schedules = connect(env)?.list(env.clock.now()).map_err(|error| failed(env, &error))?;
    let mut accounts: Vec<_> = schedules
        .into_iter()
        .map(|schedule| FleetAccount { state: state(&schedule), schedule })
        .collect();
    accounts.sort_by_key(|it| it.state);
    Ok(accounts)
}

/// Whether the configuration of this machine has accounts that a fleet backs up: with a schedule,
/// and with a vault in a store.
///
/// # Errors
/// If the configuration has mistakes.
pub fn has_configured_accounts(env: &Env) -> Result<bool, OpError> {
    let config = env.config()?;
    let is_backed_up = |it: &AccountConfig| it.settings.schedule.is_some() && it.store.is_some();
    Ok(config.accounts().iter().any(is_backed_up))
}

/// The result of a [`ScheduleAction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionResult {
    /// Temporal accepted it.
    Done,
    /// No backup was started, because one is under way.
    UnderWay,
}

/// What `fleet pause`, `resume` and `run` do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleAction {
    /// Start no further backup, for this reason.
    Pause(String),
    /// Start backups again.
    Resume,
    /// Start a backup now.
    Run,
}

/// Does `action` with the schedule of the account called `name`.
///
/// # Errors
/// If the account has no schedule, or Temporal cannot be reached.
pub fn act(env: &Env, name: &str, action: &ScheduleAction) -> Result<ActionResult, OpError> {
    let schedules = connect(env)?;
    let done = match action {
        ScheduleAction::Pause(why) => schedules.pause(name, why).map(|()| ActionResult::Done),
        ScheduleAction::Resume => schedules.resume(name).map(|()| ActionResult::Done),
        ScheduleAction::Run => {
            let state = schedules.state(name).map_err(|error| failed(env, &error))?;
            if state.is_some_and(|it| is_paused_by_command(&it)) {
                let what = format!("a command writes to {name}, and paused its schedule");
                let next = NextStep::WaitForWriter(name.to_owned());
                return Err(OpError::new(OpErrorKind::Locked, what).next(next));
            }
            let result = |requested| match requested {
                true => ActionResult::Done,
                false => ActionResult::UnderWay,
            };
            schedules.run(name).map(result)
        }
    };
    done.map_err(|error| match error.kind {
        TemporalErrorKind::NotFound => {
            let what = format!("the fleet has no schedule of the account `{name}`");
            OpError::new(OpErrorKind::Account, what).next(NextStep::ApplyFleet)
        }
        _ => failed(env, &error),
    })
}

fn connect(env: &Env) -> Result<Schedules, OpError> {
    let settings = &env.config()?.fleet;
    Schedules::connect(settings).map_err(|error| failed(env, &error))
}

fn failed(env: &Env, error: &TemporalError) -> OpError {
    match env.latest_config() {
        Ok(config) => explain(&config.fleet, &env.redactor, error),
        Err(failure) => failure,
    }
}
