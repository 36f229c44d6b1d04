//! Migrates an account to another one: reads both, makes a plan, and applies it or compares the
//! accounts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::account_session::{AccountSession, SessionLimits, lock_command};
use super::apply::{RunOptions, RunRequest, run_confirmed, warn_of_unreported};
use super::confirm_plan::guard_or_ask;
use super::desired_input::warn_of_suspicious;
use super::error_sources::apply_error;
use super::input::{self, scope};
use super::migration_flags::{MigrationFlags, RecordedFlags, RecordedMigration};
use super::migration_report::{self, ReportInput};
use super::observation::Observation;
use super::output_files::{OutputKind, require_output, require_outputs};
use super::plan::{needed_resources, save};
use super::rejected_rows::RunInput;
use super::state_ref::{self, StateRef};
use super::write_session::WriteSession;
use super::{Env, NextStep, OpError, OpErrorKind, StoredWork};
use crate::apply::{self, RunReport};
use crate::change::csv_files::{self, CsvKind, CsvProblems, CsvRecords, ExportContext};
use crate::change::plan::{AccountMemory, CurrentState};
use crate::change::policy::{OnConflict, Policy};
use crate::config::AccountConfig;
use crate::crawl::{self, ObservationScope};
use crate::migrate::history::MigrationParty;
use crate::migrate::{
    self, ManualTask, MappedRecords, MigrateOptions, MigrationPlan, MigrationReport,
    MigrationSource,
};
use crate::model::{CountOrPercent, Resource, RunId, State};
use crate::vault::Vault;
use crate::vault::journal::{JournalStep, Run, RunCommand, StepState};
use crate::vault::reference::Reference;
use crate::vault::snapshot::{ReadState, Snapshot};

/// Source and target of a migration, and its options.
pub struct MigrateRequest<'a> {
    /// The source: the name of an account, which is backed up first, or `ACCOUNT@REF` for a
    /// snapshot.
    pub from: &'a str,
    /// The target account.
    pub to: &'a AccountConfig,
    /// What to do with the plan.
    pub goal: MigrateGoal,
    /// Which records to migrate, and how.
    pub flags: MigrationFlags,
    /// The file for the report in Markdown.
    pub report: Option<PathBuf>,
    /// The most records of a resource in the target that may be updated.
    pub max_update: CountOrPercent,
    /// What happens to fields that also changed in the target since the last migration.
    pub on_conflict: OnConflict,
    /// Stop at the first step that the service refuses.
    pub fail_fast: bool,
    /// Do not ask for confirmation.
    pub yes: bool,
    /// The maximum age of a list when a write that depends on it is sent; the configuration's if
    /// `None`.
    pub max_staleness: Option<Duration>,
    /// Limits on requests, time and the wait for locks, for each account.
    pub limits: SessionLimits,
}

/// What to do with the plan of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrateGoal {
    /// Ask for confirmation and apply the plan.
    Apply,
    /// Make the plan and write nothing.
    DryRun,
    /// Save the plan to a file.
    Save(PathBuf),
    /// Compare the accounts and write nothing.
    Verify,
}

/// The result of a migration.
pub enum MigrateReport {
    /// The plan was made; nothing was written except the requested files.
    Planned {
        /// The plan for the target, and tasks to do by hand.
        moving: Box<MigrationPlan>,
        /// The source: `old@#12`.
        from: String,
        /// The present target, for which the plan was made.
        observation: Box<Observation>,
    },
    /// The accounts were compared.
    Verified {
        /// The plan that would remove the differences.
        moving: Box<MigrationPlan>,
        /// The differences by resource.
        report: MigrationReport,
        /// The run whose recorded flags completed the given ones.
        flags_of: Option<RunId>,
        /// The flags that the comparison used.
        flags: MigrationFlags,
    },
    /// The plan had no steps.
    Nothing {
        /// The records that exist in the target already, by resource.
        report: MigrationReport,
        /// The number of changes without a step ([`missing`]).
        missing: u64,
    },
    /// The user declined at the prompt; nothing was written.
    Declined,
    /// The run ended.
    Applied {
        /// The migrated records and the tasks to do by hand.
        report: MigrationReport,
        /// Counts and messages of the run.
        run: Box<RunReport>,
        /// The number of changes without a step ([`missing`]).
        missing: u64,
    },
}

/// Migrates the requested records, or compares the accounts.
///
/// # Errors
/// If an account cannot be read completely, both are the same account, an input file has mistakes,
/// a guard refuses, or the run stopped.
pub fn migrate(env: &Env, request: &MigrateRequest<'_>) -> Result<MigrateReport, OpError> {
    // Mistakes in the given files are reported before anything is locked.
    let given = options(&request.flags)?;
    let saved = if let MigrateGoal::Save(file) = &request.goal { Some(file) } else { None };
    let report = request.report.as_ref();
    require_outputs([(report, OutputKind::Report), (saved, OutputKind::Plan)], env.force)?;
    let target = MovedAccount::target(env, request, request.to)?;
    let accounts = [request.to, &target.account];
    let work = StoredWork::account_unless(request.goal != MigrateGoal::Apply);
    env.with_stored(&accounts, work, || migrate_fetched(env, request, given, &target))
}

fn migrate_fetched(
    env: &Env,
    request: &MigrateRequest<'_>,
    mut given: GivenOptions,
    target: &StateRef,
) -> Result<MigrateReport, OpError> {
    let session = WriteSession::open(env, request.to, "migrate", &request.limits)?;
    let mut flags = (request.flags.clone(), None);
    if request.goal == MigrateGoal::Verify
        && let Some((completed, run)) = recorded_flags(env, &session, target, &request.flags)?
    {
        given = options(&completed)?;
        flags = (completed, Some(run));
    }
    if request.goal == MigrateGoal::Apply {
        // Checked before the source is read, which may take long.
        session.require_no_open_run()?;
    }
    warn_of_suspicious(env, &given.suspicious);
    let moved = MovedAccount::read(env, &request.limits, target, &given.options.which)?;
    let mapped = moved.map(&given.options);
    mapped.warnings.iter().for_each(|warning| env.warn(warning));
    move_records(session, request, &moved, mapped, flags)
}

fn move_records(
    mut session: WriteSession<'_>,
    request: &MigrateRequest<'_>,
    moved: &MovedAccount,
    mapped: MappedRecords,
    (flags, flags_of): (MigrationFlags, Option<RunId>),
) -> Result<MigrateReport, OpError> {
    let (env, to) = (session.env, request.to);
    let on_conflict = match request.on_conflict {
        // A comparison does not stop at a conflict; it reports it.
        OnConflict::Fail if request.goal == MigrateGoal::Verify => OnConflict::Theirs,
        whose => whose,
    };
    let policy = Policy { max_update: request.max_update, on_conflict, ..Policy::default() };
    let which = needed_resources(&mapped.desired, &policy);
    let observation = session.observe(&which, request.goal != MigrateGoal::Apply);
    let mut observation = observation.map_err(|failure| name_account(to, failure))?;
    observation.max_staleness = super::account_options::max_staleness(request.max_staleness, to);
    let account = observation.account_id.unwrap_or_default();
    if moved.origin == format!("{}#{account}", observation.service) {
        let message = format!("{} and {} are the same account", request.from, to.name);
        return Err(session.discard_after(&observation, OpError::new(OpErrorKind::Usage, message)));
    }
    // Resources that the new service does not offer cannot be created there.
    for resource in &observation.not_offered {
        observation.state.remove(*resource);
    }
    observation.memory =
        apply::migration_memory(&mut session.vault, &moved.origin, &observation.state)
            .map_err(|error| apply_error(error, &to.name))?;
    let current = CurrentState { state: &observation.state, memory: &observation.memory };
    let for_report = request.report.is_some().then(|| mapped.clone());
    let made = MigrationPlan::plan(mapped, current, &policy);
    let mut moving = made.map_err(|it| session.discard_after(&observation, OpError::from(&it)))?;
    observation.complete(&mut moving.plan);
    if request.goal == MigrateGoal::Verify {
        if !moving.plan.steps.is_empty() {
            env.events().planned(&moving.plan, true)?;
        }
        let report = report(&session.vault, moved, to, &moving, None)?;
        let after = Some(observation.state);
        write(&mut session, request, moved, for_report, after)?;
        return Ok(MigrateReport::Verified { moving: Box::new(moving), report, flags_of, flags });
    }
    let ask = request.goal == MigrateGoal::Apply && !request.yes;
    let mut shown = env.events().planned(&moving.plan, request.goal != MigrateGoal::Apply);
    if ask && shown.is_ok() && !moving.plan.steps.is_empty() {
        shown = env.events().manual_tasks(&moving.manual);
    }
    shown.map_err(|failure| session.discard_after(&observation, failure))?;
    if let MigrateGoal::Save(file) = &request.goal {
        save(env, to, &moving.plan, &observation, file)?;
        let after = Some(observation.state.clone());
        write(&mut session, request, moved, for_report, after)?;
        let (moving, observation) = (Box::new(moving), Box::new(observation));
        return Ok(MigrateReport::Planned { moving, from: moved.name.clone(), observation });
    }
    guard_or_ask(env, &moving.plan, &observation, &policy, ask)
        .map_err(|failure| session.discard_after(&observation, failure))?;
    if request.goal == MigrateGoal::Apply {
        return apply_step(session, request, moved, (&moving, for_report), &observation);
    }
    let (moving, observation) = (Box::new(moving), Box::new(observation));
    Ok(MigrateReport::Planned { moving, from: moved.name.clone(), observation })
}

fn apply_step(
    mut session: WriteSession<'_>,
    request: &MigrateRequest<'_>,
    moved: &MovedAccount,
    (moving, for_report): (&MigrationPlan, Option<MappedRecords>),
    observation: &Observation,
) -> Result<MigrateReport, OpError> {
    let (env, to) = (session.env, request.to);
    if moving.plan.steps.is_empty() {
        let now = session.clock.now();
        apply::save_matches(&mut session.vault, &moving.plan, false, now)?;
        if let Some(foreign) = &moving.plan.foreign {
            let options = apply::ApplyOptions {
                command: RunCommand::Migrate,
                input: moved.name.clone(),
                plan: RunInput::of(&moving.plan, None, &csv_files::ColumnOptions::default())
                    .with_flags(Some(RecordedFlags::of(&request.flags)))
                    .text(),
                ..apply::ApplyOptions::default()
            };
            apply::save_agreement(
                &mut session.vault,
                &options,
                foreign,
                observation.snapshot,
                now,
            )?;
        }
        session.discard_observation(observation)?;
        let report = report(&session.vault, moved, to, moving, None)?;
        let after = Some(observation.state.clone());
        write(&mut session, request, moved, for_report, after)?;
        return Ok(MigrateReport::Nothing { report, missing: missing(moving) });
    }
    let run =
        RunOptions { fail_fast: request.fail_fast, yes: request.yes, ..RunOptions::default() };
    let manual = left_to_a_person(moving);
    let flags = Some(RecordedFlags::of(&request.flags));
    let asked = RunRequest { manual, flags, ..RunRequest::new(RunCommand::Migrate, &moved.name) };
    let ended = run_confirmed(&mut session, asked, &moving.plan, observation, &run, false)?;
    let Some(ended) = ended else { return Ok(MigrateReport::Declined) };
    let checkpoint = session.vault.checkpoint();
    let run = ended.map_err(|error| apply_error(error, &to.name))?;
    checkpoint?;
    let report = report(&session.vault, moved, to, moving, Some(run.run))?;
    let after = match &for_report {
        Some(_) => state_after(&mut session.vault, &run, &observation.state)?,
        None => None,
    };
    let written = write(&mut session, request, moved, for_report, after);
    drop(session);
    warn_of_unreported(env, to, &run);
    written?;
    // Steps that the report counts as failed are in the counts of the run already.
    Ok(MigrateReport::Applied { report, run: Box::new(run), missing: missing(moving) })
}

/// The given flags, completed by those that the target's journal has of the newest migration from
/// the same source, with the number of its run.
fn recorded_flags(
    env: &Env,
    session: &WriteSession<'_>,
    source: &StateRef,
    given: &MigrationFlags,
) -> Result<Option<(MigrationFlags, RunId)>, OpError> {
    let Some(vault) = state_ref::open_if_there(&source.account)? else { return Ok(None) };
    let Some(identity) = vault.identity()? else { return Ok(None) };
    let origin = format!("{}#{}", identity.service, identity.account);
    given.completed(env, &session.vault, &origin)
}

/// What the flags say, after their files were read.
struct GivenOptions {
    options: MigrateOptions,
    /// Values of the files that are probably mistakes.
    suspicious: CsvProblems,
}

fn options(flags: &MigrationFlags) -> Result<GivenOptions, OpError> {
    let mut suspicious = CsvProblems::default();
    let links = match &flags.links {
        Some(file) => csv_files::pairs(&file.display().to_string(), &input::bytes(file)?)
            .map_err(|it| csv_error(&it))?,
        None => BTreeMap::new(),
    };
    let codes = match &flags.qr_data {
        Some(file) => {
            let (name, bytes) = (file.display().to_string(), input::bytes(file)?);
            let kind = CsvKind::Resource(Resource::QrCodes);
            let read = csv_files::read(kind, &name, &bytes, ExportContext::default())
                .map_err(|it| csv_error(&it))?;
            let CsvRecords::Of(_, records) = read.records else {
                return Err(csv_error(&read.suspicious));
            };
            let lost = records.iter().find(|row| row.id.is_none());
            if let Some(source) = lost.and_then(|row| row.source.as_ref()) {
                let message = format!("{source}: id: is missing");
                return Err(OpError::new(OpErrorKind::Failed, message).next(NextStep::FixInput));
            }
            suspicious = read.suspicious;
            records.into_iter().filter_map(|row| Some((row.id?, row.fields))).collect()
        }
        None => BTreeMap::new(),
    };
    let options = MigrateOptions {
        which: scope(&flags.only, &flags.skip)?,
        links,
        set: flags.set.clone(),
        wheres: flags.wheres.clone(),
        codes,
        link_codes: flags.link_codes,
        keep_existing: flags.keep_existing,
    };
    Ok(GivenOptions { options, suspicious })
}

fn csv_error(problems: &CsvProblems) -> OpError {
    OpError::new(OpErrorKind::Failed, "a file has mistakes")
        .details(problems)
        .next(NextStep::FixInput)
}

/// The source of a migration.
struct MovedAccount {
    name: String,
    email: String,
    origin: String,
    state: State,
    memory: AccountMemory,
    /// A task for each resource that could not be read because the service does not offer it.
    unread: Vec<ManualTask>,
}

impl MovedAccount {
    /// The source as a reference. Refuses `to` as its own source.
    fn target(
        env: &Env,
        request: &MigrateRequest<'_>,
        to: &AccountConfig,
    ) -> Result<StateRef, OpError> {
        let target = StateRef::parse(env, request.from, Reference::Live, None)?;
        let from = &target.account;
        if from.name == to.name || from.vault == to.vault {
            return Err(OpError::new(OpErrorKind::Usage, "an account cannot be moved to itself"));
        }
        Ok(target)
    }

    /// Reads the source: the snapshot that `target` names, or a new one within `limits`.
    fn read(
        env: &Env,
        limits: &SessionLimits,
        target: &StateRef,
        which: &[Resource],
    ) -> Result<Self, OpError> {
        let live = target.reference == Reference::Live;
        let from = &target.account;
        let mut needed = which.to_vec();
        needed.extend(which.iter().flat_map(|it| it.spec().depends_on));
        needed.sort_unstable();
        needed.dedup();
        let (mut vault, snapshot) = match target.find()? {
            Some(found) if !live => found,
            _ => back_up(env, limits, from, &needed)?,
        };
        let unread = unread(&snapshot, from, &needed)?;
        let identity = vault.identity()?.ok_or_else(|| {
            OpError::new(
                OpErrorKind::Vault,
                format_args!("the vault of {} belongs to no account yet", from.name),
            )
            .next(NextStep::BackUp(Some(from.name.clone())))
        })?;
        Ok(Self {
            name: format!("{}@#{}", from.name, snapshot.number),
            email: migration_report::email(&mut vault, snapshot.number),
            origin: format!("{}#{}", identity.service, identity.account),
            memory: apply::account_memory_at(&vault, snapshot.number)?,
            state: vault.state(snapshot.number, &needed)?,
            unread,
        })
    }

    fn map(&self, options: &MigrateOptions) -> MappedRecords {
        let from = MigrationSource { id: &self.origin, name: &self.name };
        let mut mapped = migrate::map(&self.state, &self.memory, from, options);
        mapped.manual.extend(self.unread.iter().cloned());
        mapped
    }

    fn party(&self) -> MigrationParty {
        let (service, account) = self.origin.rsplit_once('#').unwrap_or((&self.origin, ""));
        MigrationParty {
            name: self.name.clone(),
            service: service.to_owned(),
            account: account.to_owned(),
            email: self.email.clone(),
        }
    }
}

/// The report on a run that is resumed.
pub(super) struct PreparedReport {
    moved: MovedAccount,
    mapped: MappedRecords,
    file: PathBuf,
}

impl PreparedReport {
    /// Reads the source of the migration `run` from its vault, without a request.
    ///
    /// # Errors
    /// If the run is not a migration, its source is not known any more, or `file` cannot be
    /// written.
    pub fn new(env: &Env, run: &Run, file: &Path) -> Result<Self, OpError> {
        let Some(recorded) = RecordedMigration::read(&run.plan) else {
            let message = format!("run {} is not a migration, so it has no report", run.number);
            return Err(OpError::new(OpErrorKind::Usage, message));
        };
        require_output(file, OutputKind::Report, env.force)?;
        let origin = &recorded.note.origin;
        let source = if run.command == RunCommand::Migrate {
            StateRef::parse(env, &run.input, Reference::Latest(0), None)?
        } else {
            // A saved plan does not name its source.
            let mut accounts = env.config()?.accounts().iter();
            let account = accounts.find(|it| {
                let found = state_ref::identity_of(it).ok().flatten();
                found.is_some_and(|it| format!("{}#{}", it.service, it.account) == *origin)
            });
            let account = account.cloned().ok_or_else(|| {
                OpError::new(OpErrorKind::NotFound, format_args!("no account is {origin}"))
            })?;
            StateRef { account, reference: Reference::Latest(0) }
        };
        let flags = recorded.flags.unwrap_or_default();
        let flags = flags.with(&MigrationFlags::default(), env, run.number);
        let options = options(&flags)?.options;
        // The reference is not the live account, so nothing is requested.
        let moved = MovedAccount::read(env, &SessionLimits::default(), &source, &options.which)?;
        let mapped = moved.map(&options);
        Ok(Self { moved, mapped, file: file.to_owned() })
    }

    /// Writes the report after the run `number` has ended.
    ///
    /// # Errors
    /// If the vault cannot be read, or the file cannot be written.
    pub fn write(self, env: &Env, to: &AccountConfig, number: RunId) -> Result<(), OpError> {
        let mut vault = state_ref::open(to)?;
        let run = vault.run(number)?;
        let which = needed_resources(&self.mapped.desired, &Policy::default());
        let mut after = run.after.map(|after| vault.state(after, &which)).transpose()?;
        if let (Some(state), Some(before)) = (&mut after, run.before) {
            let outcomes = vault.snapshot(before)?.outcomes;
            let lacking = outcomes.iter().filter(|it| it.state == ReadState::NotOffered);
            lacking.for_each(|it| state.remove(it.resource));
        }
        let Self { moved, mapped, file } = self;
        ReportInput { env, to, from: moved.party(), mapped, after }.write(&mut vault, &file)
    }
}

/// Backs the source up, with a client that cannot write.
fn back_up(
    env: &Env,
    limits: &SessionLimits,
    from: &AccountConfig,
    which: &[Resource],
) -> Result<(Vault, Snapshot), OpError> {
    let progress = env.progress(&from.name);
    let words = lock_command("migrate", &from.name);
    let mut session =
        AccountSession::open_to_read(env, from, &words, limits, Arc::clone(&progress))
            .map_err(|failure| name_account(from, failure))?;
    let mut vault = env.open_vault(from)?;
    let link = session.link(&*env.clock, &*progress);
    let report = crawl::observe(link, ObservationScope::Fresh(which), &mut vault)
        .map_err(|error| name_account(from, error.into()))?;
    vault.checkpoint()?;
    Ok((vault, report.snapshot))
}

/// The failure, with the name of the account in its message.
fn name_account(account: &AccountConfig, failure: OpError) -> OpError {
    OpError { message: format!("{}: {}", account.name, failure.message), ..failure }
}

/// A task for each resource that the source does not offer. Fails if any other resource was not
/// read completely.
fn unread(
    snapshot: &Snapshot,
    from: &AccountConfig,
    needed: &[Resource],
) -> Result<Vec<ManualTask>, OpError> {
    let unread = crawl::unread(snapshot, needed).into_iter();
    let tasks = unread.map(|it| match it.state {
        ReadState::NotOffered => Ok(ManualTask::unread(it.resource)),
        _ => Err(name_account(from, it.into())),
    });
    tasks.collect()
}

/// The report on the migration of `moved` to `to`, from the journal of its `run`.
fn report(
    vault: &Vault,
    moved: &MovedAccount,
    to: &AccountConfig,
    moving: &MigrationPlan,
    run: Option<RunId>,
) -> Result<MigrationReport, OpError> {
    let journal = run.map(|run| vault.steps(run)).transpose()?.unwrap_or_default();
    let why = |step: JournalStep| match step.state {
        // The service confirmed the step, but the list after the run differs from the plan.
        StepState::Done if step.differs() => Some(step.remark.unwrap_or_default()),
        StepState::Done => None,
        state => Some(step.message.unwrap_or_else(|| state.name().to_owned())),
    };
    let steps = journal.into_iter().map(|step| (step.step, why(step))).collect();
    let made = match run {
        Some(_) => apply::account_memory_with_ids_of(vault, &moved.origin)?.ids,
        None => BTreeMap::new(),
    };
    let (from, to) = (moved.name.clone(), to.name.clone());
    Ok(MigrationReport { from, to, run, ..moving.report(&steps, made) })
}

/// Writes the report file, if one was requested. `after` are the records of the target now.
fn write(
    session: &mut WriteSession<'_>,
    request: &MigrateRequest<'_>,
    moved: &MovedAccount,
    mapped: Option<MappedRecords>,
    after: Option<State>,
) -> Result<(), OpError> {
    let (Some(file), Some(mapped)) = (&request.report, mapped) else { return Ok(()) };
    let input =
        ReportInput { env: session.env, to: request.to, from: moved.party(), mapped, after };
    input.write(&mut session.vault, file)
}

/// The records of the target after `run`: those that were observed before it, with the resources
/// that it changed.
fn state_after(
    vault: &mut Vault,
    run: &RunReport,
    observed: &State,
) -> Result<Option<State>, OpError> {
    let Some(after) = run.after else { return Ok(None) };
    let touched = vault.run(run.run)?.touched;
    let mut state = observed.clone();
    for (resource, records) in vault.state(after, &touched)?.iter() {
        *state.resource_mut(resource) = records.clone();
    }
    Ok(Some(state))
}

/// The number of records of the source that are not migrated and have no step.
#[must_use]
pub fn left_to_a_person(moving: &MigrationPlan) -> u64 {
    moving.manual.iter().filter(|it| it.not_moved).count() as u64
}

/// The number of changes for which the plan has no step: unsupported ones and those left to a
/// person.
#[must_use]
pub fn missing(moving: &MigrationPlan) -> u64 {
    moving.plan.unsupported.len() as u64 + left_to_a_person(moving)
}
