//! `linkvault migrate`: move an account to another.

mod document;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use serde_json::{Value, json};

use self::document::document;
use crate::apply::{self, RunReport};
use crate::change::csv_files::{self, CsvKind, CsvProblems, CsvRecords, ExportContext};
use crate::change::plan::{AccountMemory, CurrentState};
use crate::change::policy::{OnConflict, Policy};
use crate::cli::desk::WriteSession;
use crate::cli::failures::cannot_write;
use crate::cli::planning::{self, ConflictChoice, MaxStalenessArgs, Observation, PlanFormat};
use crate::cli::running::{self, RunArgs, RunRequest};
use crate::cli::session::{AccountSession, SessionLimits, command_words};
use crate::cli::states::StateRef;
use crate::cli::values::scope;
use crate::cli::{
    App, CommandResult, Exit, OpError, OpErrorKind, TextTable, outcome, values, wanted,
};
use crate::config::AccountConfig;
use crate::crawl::{self, StatisticsMode};
use crate::files::{folder_of, write_private};
use crate::format;
use crate::migrate::{
    self, FieldFilter, ManualTask, MappedRecords, MigrateOptions, MigrationPlan, MigrationReport,
    MigrationSource, Substitution, report::VerificationGap,
};
use crate::model::{CountOrPercent, Resource, State};
use crate::progress::Progress;
use crate::vault::Vault;
use crate::vault::journal::{JournalStep, StepState};
use crate::vault::reference::Reference;
use crate::vault::snapshot::{ReadState, Snapshot};

/// Move an account to another, and tell what is left to be done by hand
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault migrate old new -n               print the plan only
  linkvault migrate old new --links map.csv --report moved.md
  linkvault migrate old@2026-11-01 new --only campaigns,channels
  linkvault migrate old new --verify-only    has everything arrived?

FROM is never written to. Running it again carries over what has changed since.")]
pub struct Args {
    /// The account to move, which is backed up first; or ACCOUNT@REF, a snapshot
    pub from: String,
    /// The account to move it to
    pub to: String,
    /// A CSV file with the ids of short links in both accounts, as from,to
    #[arg(long, value_name = "FILE")]
    pub links: Option<PathBuf>,
    /// Replace a value, or its beginning: domain:a.example=b.example
    #[arg(long, value_name = "RESOURCE.FIELD:OLD=NEW")]
    pub set: Vec<Substitution>,
    /// Move only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// Move only records whose field matches, with what belongs to them
    #[arg(long = "where", value_name = "RESOURCE.FIELD~PATTERN")]
    pub wheres: Vec<FieldFilter>,
    /// A qr_codes.csv that tells what the codes contain
    #[arg(long, value_name = "FILE")]
    pub qr_data: Option<PathBuf>,
    /// What becomes of codes whose content is not known
    #[arg(long, value_name = "WHAT", default_value = "known")]
    pub qr_content: QrContent,
    /// Save the plan, to be applied as it is, once
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["verify_only", "dry_run"])]
    pub out: Option<PathBuf>,
    /// Write what came of it as Markdown
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub report: Option<PathBuf>,
    /// Compare the accounts and write nothing; exit code 2 if something lacks
    #[arg(long, conflicts_with = "dry_run")]
    pub verify_only: bool,
    /// Update at most this number or share of a resource's records, such as 50 or 30%
    #[arg(long, value_name = "BOUND", default_value = "30%")]
    pub max_update: CountOrPercent,
    /// Whose value counts where both accounts changed a field since the last move
    #[arg(long, value_name = "WHOSE", default_value = "fail")]
    pub on_conflict: ConflictChoice,
    /// Stop at the first step that the service refuses
    #[arg(long)]
    pub fail_fast: bool,
    /// Print the plan and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Apply without asking
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

impl Args {
    const fn writes_nothing(&self) -> bool {
        self.verify_only || self.dry_run || self.out.is_some()
    }
}

/// What becomes of QR codes whose content is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum QrContent {
    // They stay behind.
    #[default]
    Known,
    // The new code opens the old code's link.
    Link,
}

/// Moves.
///
/// # Errors
/// When an account cannot be read whole, a guard refuses, or the run had to stop.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let to = app.account(&args.to)?;
    let options = options(args)?;
    if let Some(file) = &args.report {
        has_a_place(file)?;
    }
    let target = Source::target(args, app, &to)?;
    app.catch_interrupts();
    let desk = WriteSession::open(app, &to, "migrate", &args.bounds)?;
    if !args.writes_nothing() {
        // Reading the source for nothing may take long.
        desk.require_no_open_run()?;
    }
    let mut source = Source::read(args, app, target, &options.which)?;
    let from = MigrationSource { id: &source.origin, name: &source.name };
    let mut mapped = migrate::map(&source.state, &source.memory, from, &options);
    mapped.manual.append(&mut source.unread);
    for doubt in &mapped.warnings {
        app.out.warn(doubt);
    }
    Move { args, app, to: &to, name: source.name, origin: source.origin }.go(desk, mapped)
}

fn options(args: &Args) -> Result<MigrateOptions, OpError> {
    let links = match &args.links {
        Some(file) => csv_files::pairs(&file.display().to_string(), &wanted::bytes(file)?)
            .map_err(mistakes)?,
        None => BTreeMap::new(),
    };
    let codes = match &args.qr_data {
        Some(file) => {
            let (name, bytes) = (file.display().to_string(), wanted::bytes(file)?);
            let kind = CsvKind::Resource(Resource::QrCodes);
            let read =
                csv_files::read(kind, &name, &bytes, ExportContext::default()).map_err(mistakes)?;
            let CsvRecords::Of(_, records) = read.records else {
                return Err(mistakes(read.warnings));
            };
            let lost = records.iter().find(|row| row.id.is_none());
            if let Some(source) = lost.and_then(|row| row.source.as_ref()) {
                let message = format!("{source}: id: is needed, to know which code it is");
                return Err(OpError::new(OpErrorKind::Failed, message).hint("nothing was written"));
            }
            records.into_iter().filter_map(|row| Some((row.id?, row.fields))).collect()
        }
        None => BTreeMap::new(),
    };
    Ok(MigrateOptions {
        which: scope(&args.only, &args.skip)?,
        links,
        set: args.set.clone(),
        wheres: args.wheres.clone(),
        codes,
        link_codes: args.qr_content == QrContent::Link,
    })
}

/// Refuses a file that could not be written when all is done.
fn has_a_place(file: &Path) -> Result<(), OpError> {
    let why = match (folder_of(file).is_dir(), file.is_dir()) {
        (false, _) => std::io::ErrorKind::NotADirectory,
        (_, true) => std::io::ErrorKind::IsADirectory,
        _ => return Ok(()),
    };
    Err(cannot_write(file, &why.into()).hint("nothing was written; name another file"))
}

fn mistakes(problems: CsvProblems) -> OpError {
    OpError::new(OpErrorKind::Failed, "a file has mistakes")
        .details(problems.lines())
        .hint("mend the file and run the command again; nothing was written")
}

/// The account that is moved.
struct Source {
    name: String,
    origin: String,
    state: State,
    memory: AccountMemory,
    /// What could not be read, since the service does not offer it.
    unread: Vec<ManualTask>,
}

impl Source {
    /// What is to be moved, which is another account than `to`.
    fn target(args: &Args, app: &App, to: &AccountConfig) -> Result<StateRef, OpError> {
        let target = StateRef::parse(app, &args.from, Reference::Live, None)?;
        let from = &target.account;
        if from.name == to.name || from.vault == to.vault {
            return Err(OpError::new(OpErrorKind::Usage, "an account cannot be moved to itself"));
        }
        Ok(target)
    }

    fn read(args: &Args, app: &App, target: StateRef, which: &[Resource]) -> Result<Self, OpError> {
        let live = target.reference == Reference::Live;
        let from = &target.account;
        let mut needed = which.to_vec();
        needed.extend(which.iter().flat_map(|it| it.spec().depends_on));
        needed.sort_unstable();
        needed.dedup();
        let (mut vault, snapshot) = match target.find()? {
            Some(found) if !live => found,
            _ => back_up(args, app, from, &needed)?,
        };
        let unread = unread(&snapshot, from, &needed)?;
        let identity = vault.identity()?.ok_or_else(|| {
            OpError::new(
                OpErrorKind::Vault,
                format_args!("the vault of {} belongs to no account yet", from.name),
            )
            .hint(format_args!("run `linkvault backup {}` first", from.name))
        })?;
        Ok(Self {
            name: format!("{}@#{}", from.name, snapshot.number),
            origin: format!("{}#{}", identity.service, identity.account),
            memory: apply::account_memory_at(&vault, snapshot.number)?,
            state: vault.state(snapshot.number, &needed)?,
            unread,
        })
    }
}

/// Backs the source up, through a client that can only read.
fn back_up(
    args: &Args,
    app: &App,
    from: &AccountConfig,
    which: &[Resource],
) -> Result<(Vault, Snapshot), OpError> {
    let progress: Arc<dyn Progress + Send + Sync> = Arc::from(app.progress(&from.name));
    let words = command_words("migrate", &from.name);
    let mut session =
        AccountSession::open_to_read(app, from, &words, &args.bounds, Arc::clone(&progress))
            .map_err(|failure| whose(from, failure))?;
    let mut vault = Vault::open_or_create(&from.vault)?;
    let options = crawl::CrawlOptions::new(&session.service).only(which);
    let options = crawl::CrawlOptions { stats: StatisticsMode::None, fresh: true, ..options };
    let summary = crawl::crawl(&mut session.client, &mut vault, &*app.clock, &*progress, &options)
        .map_err(|error| whose(from, error.into()))?;
    vault.checkpoint()?;
    Ok((vault, summary.snapshot))
}

/// The same, told of one of the two accounts.
fn whose(account: &AccountConfig, failure: OpError) -> OpError {
    OpError { message: format!("{}: {}", account.name, failure.message), ..failure }
}

/// What the source does not offer. All else has to be there whole.
fn unread(
    snapshot: &Snapshot,
    from: &AccountConfig,
    needed: &[Resource],
) -> Result<Vec<ManualTask>, OpError> {
    let mut unread = Vec::new();
    for outcome in &snapshot.outcomes {
        if !needed.contains(&outcome.resource) || outcome.is_complete() {
            continue;
        }
        if outcome.state != ReadState::NotOffered {
            let (resource, state) = (outcome.resource, outcome.state.name());
            let why = outcome.message.as_deref().unwrap_or(state);
            let message = format!("{resource} of {} could not be read whole: {why}", from.name);
            return Err(OpError::new(OpErrorKind::Service, message)
                .hint("nothing was planned or written; --skip leaves a resource out"));
        }
        unread.push(ManualTask::of_all(outcome.resource, migrate::manual::UNREAD));
    }
    Ok(unread)
}

/// A move under way.
struct Move<'a> {
    args: &'a Args,
    app: &'a App,
    to: &'a AccountConfig,
    name: String,
    origin: String,
}

impl Move<'_> {
    fn go(&self, mut desk: WriteSession<'_>, mapped: MappedRecords) -> Result<Exit, OpError> {
        let (args, app) = (self.args, self.app);
        let on_conflict = match args.on_conflict {
            // A comparison goes on after a conflict, and names it.
            ConflictChoice::Fail if args.verify_only => OnConflict::Theirs,
            whose => whose.into(),
        };
        let policy = Policy { max_update: args.max_update, on_conflict, ..Policy::default() };
        let which = planning::needed_resources(&mapped.desired, &policy);
        let looked = desk.observe(&which, args.writes_nothing());
        let mut looked = looked.map_err(|failure| whose(self.to, failure))?;
        looked.max_staleness = args.staleness.of(self.to);
        let account = looked.account_id.unwrap_or_default();
        if self.origin == format!("{}#{account}", looked.service) {
            let message = format!("{} and {} are the same account", self.args.from, self.to.name);
            return Err(desk.discard_after(&looked, OpError::new(OpErrorKind::Usage, message)));
        }
        // What the new service does not have cannot be made there.
        for resource in &looked.not_offered {
            looked.state.remove(*resource);
        }
        looked.memory = apply::migration_memory(&mut desk.vault, &self.origin, &looked.state)
            .map_err(|error| crate::cli::failures::apply_error(error, &self.to.name))?;
        let current = CurrentState { state: &looked.state, memory: &looked.memory };
        let made = MigrationPlan::plan(mapped, current, &policy);
        let mut moving = made.map_err(|it| desk.discard_after(&looked, OpError::from(&it)))?;
        moving.plan.cost = looked.cost(&moving.plan);
        if args.verify_only {
            return self.verified(&desk, &moving);
        }
        planning::show(app, &moving.plan, PlanFormat::Text, args.writes_nothing())?;
        if let Some(file) = &args.out {
            return self.save(&desk, &moving, &looked, file);
        }
        planning::guard(&moving.plan, &looked, &policy)
            .map_err(|failure| desk.discard_after(&looked, failure))?;
        if args.dry_run {
            self.by_hand(&moving.manual)?;
            self.document(&moving, &looked)?;
            return Ok(outcome::exit(&RunReport::default(), missing(&moving)));
        }
        self.carry_out(desk, &moving, &looked)
    }

    fn carry_out(
        &self,
        mut desk: WriteSession<'_>,
        moving: &MigrationPlan,
        looked: &Observation,
    ) -> Result<Exit, OpError> {
        let app = self.app;
        if moving.plan.steps.is_empty() {
            apply::save_matches(&mut desk.vault, &moving.plan, false, desk.clock.now())?;
            desk.discard_observation(looked)?;
            let report = self.report(&desk.vault, moving, None)?;
            drop(desk);
            self.tell(&report, None)?;
            return Ok(outcome::exit(&RunReport::default(), missing(moving)));
        }
        let run =
            RunArgs { fail_fast: self.args.fail_fast, yes: self.args.yes, ..RunArgs::default() };
        let manual = left_to_a_person(moving);
        let job = RunRequest { manual, ..RunRequest::new("migrate", &self.name) };
        let applied = running::apply_confirmed(&mut desk, job, &moving.plan, looked, &run)?;
        let Some(outcome) = applied else { return Ok(Exit::Done) };
        let checkpoint = desk.vault.checkpoint();
        let outcome =
            outcome.map_err(|error| crate::cli::failures::apply_error(error, &self.to.name))?;
        checkpoint?;
        let report = self.report(&desk.vault, moving, Some(outcome.run))?;
        drop(desk);
        outcome::warn_of(app, self.to, &outcome);
        // What the report counts as failed, the outcome counts already.
        let exit = outcome::exit(&outcome, missing(moving));
        exit.after(
            self.tell(&report, Some(&outcome)).and_then(|()| outcome::tell(app, self.to, &outcome)),
        )
    }

    /// Compares only: what would be steps are differences.
    fn verified(&self, desk: &WriteSession<'_>, moving: &MigrationPlan) -> Result<Exit, OpError> {
        let report = self.report(&desk.vault, moving, None)?;
        let same = moving.plan.steps.is_empty();
        if !same {
            planning::show(self.app, &moving.plan, PlanFormat::Text, true)?;
        }
        self.tell(&report, None)?;
        let (from, to) = (&self.name, &self.to.name);
        let gaps = report.gaps();
        if same && gaps.is_empty() {
            self.app.out.note(format_args!("{to} has what the API can move there from {from}"));
            return Ok(Exit::Done);
        }
        self.gaps(&gaps)?;
        if same {
            self.app.out.note(format_args!(
                "{to} has all of {from} that was compared; the rest is listed above"
            ));
            return Ok(Exit::of(Ok(CommandResult { changes: true, ..CommandResult::default() })));
        }
        let steps = format::counted(moving.plan.steps.len() as u64, "step", "steps");
        self.app.out.note(format_args!(
            "{to} lacks something of {from}: {steps} to take; the same without --verify-only \
             takes them"
        ));
        Ok(Exit::of(Ok(CommandResult { changes: true, ..CommandResult::default() })))
    }

    fn save(
        &self,
        desk: &WriteSession<'_>,
        moving: &MigrationPlan,
        looked: &Observation,
        file: &Path,
    ) -> Result<Exit, OpError> {
        planning::save(self.app, self.to, &moving.plan, looked, file)?;
        if self.args.report.is_some() {
            self.write(&self.report(&desk.vault, moving, None)?)?;
        }
        self.by_hand(&moving.manual)?;
        self.document(moving, looked)?;
        let (path, name) = (file.display(), &self.to.name);
        self.app.out.note(format_args!("saved; `linkvault apply {path} --to {name}` applies it"));
        Ok(Exit::Done)
    }

    /// The plan for programs, where nothing is carried out.
    fn document(&self, moving: &MigrationPlan, looked: &Observation) -> Result<(), OpError> {
        if !self.app.out.is_json() {
            return Ok(());
        }
        let mut document = planning::document(&moving.plan, self.to, &self.name, looked);
        document["dry_run"] = json!(true);
        document["run"] = Value::Null;
        document["resources"] = json!(moving.foreseen().counts);
        document["manual"] = json!(moving.manual);
        self.app.out.json(&document)
    }

    fn report(
        &self,
        vault: &Vault,
        moving: &MigrationPlan,
        run: Option<i64>,
    ) -> Result<MigrationReport, OpError> {
        let journal = run.map(|run| vault.steps(run)).transpose()?.unwrap_or_default();
        let why = |step: JournalStep| match step.state {
            // The service said that it did it, and the list afterwards shows otherwise.
            StepState::Done if step.verified.as_deref() == Some(apply::verify::DIFFERS) => {
                Some(step.remark.unwrap_or_default())
            }
            StepState::Done => None,
            state => Some(step.message.unwrap_or_else(|| state.name().to_owned())),
        };
        let steps = journal.into_iter().map(|step| (step.step, why(step))).collect();
        let made = match run {
            Some(_) => apply::account_memory_with_ids_of(vault, &self.origin)?.ids,
            None => BTreeMap::new(),
        };
        let (from, to) = (self.name.clone(), self.to.name.clone());
        Ok(MigrationReport { from, to, run, ..moving.report(&steps, made) })
    }

    fn tell(&self, report: &MigrationReport, outcome: Option<&RunReport>) -> Result<(), OpError> {
        self.write(report)?;
        let out = &self.app.out;
        if out.is_json() {
            return out.json(&document(report, outcome));
        }
        let mut table = TextTable::new(&[
            "resource",
            "created",
            "matched",
            "unchanged",
            "unsupported",
            "failed",
        ])
        .right(&[1, 2, 3, 4, 5]);
        for (name, it) in &report.counts {
            let counts = [it.created, it.matched, it.unchanged, it.unsupported, it.failed];
            let cells = counts.map(format::count);
            table.row([(*name).to_owned()].into_iter().chain(cells));
        }
        if !table.is_empty() {
            out.summary(table.render(out.width()))?;
        }
        self.left_out(report)?;
        self.kept(report);
        self.by_hand(&report.manual)
    }

    /// What a verification cannot vouch for, a line for each resource and reason.
    fn gaps(&self, gaps: &[VerificationGap]) -> Result<(), OpError> {
        const SHOWN: usize = 5;
        let out = &self.app.out;
        if gaps.is_empty() || out.is_json() {
            return Ok(());
        }
        let mut table = TextTable::new(&["not verified", "old ids", "why"]);
        for gap in gaps {
            let mut ids = gap.ids.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(" ");
            if gap.ids.len() > SHOWN {
                ids += &format!(" and {} more", gap.ids.len() - SHOWN);
            }
            table.row([gap.resource.name(), &ids, &gap.reason]);
        }
        out.summary("")?;
        out.summary(table.render(out.width()))
    }

    /// What the owner of the target changed since the last move.
    fn kept(&self, report: &MigrationReport) {
        const SHOWN: usize = 20;
        for it in report.kept.iter().take(SHOWN) {
            self.app.out.note(format_args!(
                "kept: `{}` of {} {} is {} in {}, where it was changed since the last move",
                it.field, it.resource, it.id, it.target, report.to
            ));
        }
        let more = report.kept.len().saturating_sub(SHOWN);
        if more > 0 {
            self.app.out.note(format_args!("kept: {more} more; --json lists them"));
        }
    }

    /// What filters keep back, and what was not asked for.
    fn left_out(&self, report: &MigrationReport) -> Result<(), OpError> {
        let kept = report.kept_back.iter().map(|(resource, count)| format!("{count} {resource}"));
        let rest = report.not_asked.iter().map(|resource| format!("all {resource}"));
        let all: Vec<_> = kept.chain(rest).collect();
        if all.is_empty() {
            return Ok(());
        }
        self.app.out.summary(format_args!("left out, as asked: {}", all.join(", ")))
    }

    /// What is left to a person, a line for each kind.
    fn by_hand(&self, manual: &[ManualTask]) -> Result<(), OpError> {
        const SHOWN: usize = 5;
        let out = &self.app.out;
        if manual.is_empty() || out.is_json() {
            return Ok(());
        }
        let report = MigrationReport { manual: manual.to_vec(), ..MigrationReport::default() };
        let mut table = TextTable::new(&["to be done by hand", "old ids", "why, and what to do"]);
        for (resource, reason, all) in report.grouped() {
            let named: Vec<_> = all.iter().filter(|it| !it.id.is_empty()).collect();
            let first: Vec<_> = named.iter().take(SHOWN).map(|it| it.id.as_str()).collect();
            let mut ids = first.join(" ");
            if named.len() > SHOWN {
                ids += &format!(" and {} more", named.len() - SHOWN);
            }
            table.row([resource.name(), &ids, reason]);
        }
        out.summary("")?;
        out.summary(table.render(out.width()))
    }

    fn write(&self, report: &MigrationReport) -> Result<(), OpError> {
        let Some(file) = &self.args.report else { return Ok(()) };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = report.markdown(&mut text);
        let text = text.trim_end().to_owned() + "\n";
        write_private(file, text.as_bytes()).map_err(|error| cannot_write(file, &error))
    }
}

/// How many records of the source are not moved and stand in no plan.
fn left_to_a_person(moving: &MigrationPlan) -> u64 {
    moving.manual.iter().filter(|it| it.left).count() as u64
}

/// How much of the source the plan has no step for.
fn missing(moving: &MigrationPlan) -> u64 {
    moving.plan.unsupported.len() as u64 + left_to_a_person(moving)
}
