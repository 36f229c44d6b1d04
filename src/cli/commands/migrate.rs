//! `linkvault migrate`: migrates an account to another one.

mod document;

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};

use self::document::document;
use crate::apply::RunReport;
use crate::change::record_filter::FieldFilter;
use crate::cli::plan_args::{ConflictChoice, MaxStalenessArgs, PlanOutputArgs};
use crate::cli::render::migration;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, CommandResult, Exit, Output, TextTable, render, values};
use crate::config::AccountConfig;
use crate::format;
use crate::migrate::{MigrationPlan, MigrationReport, Substitution, report::VerificationGap};
use crate::model::{CountOrPercent, Resource, RunId};
use crate::ops::migrate::{MigrateGoal, MigrateReport, MigrateRequest, migrate, missing};
use crate::ops::migration_flags::MigrationFlags;
use crate::ops::observation::Observation;

/// Migrate an account to another, and list what must be done by hand
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault migrate old new -n               print the plan only
  linkvault migrate old new --links map.csv --report moved.md
  linkvault migrate old@2026-11-01 new --only campaigns,channels
  linkvault migrate old new --verify-only    only compare the accounts

FROM is never written to. Running it again carries over what has changed since.")]
pub struct Args {
    /// The account to migrate, backed up first, or one of its snapshots as ACCOUNT@REF
    pub from: String,
    /// The account to migrate to
    pub to: String,
    /// CSV file that maps ids of short links, with the columns from,to
    #[arg(long, value_name = "FILE")]
    pub links: Option<PathBuf>,
    /// Replace a value or its prefix: domain:a.example=b.example
    #[arg(long, value_name = "RESOURCE.FIELD:OLD=NEW")]
    pub set: Vec<Substitution>,
    /// Migrate only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Skip these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// Migrate only records whose field matches, and the records that they need
    #[arg(long = "where", value_name = "RESOURCE.FIELD~PATTERN")]
    pub wheres: Vec<FieldFilter>,
    /// A qr_codes.csv with the content of the codes
    #[arg(long, value_name = "FILE")]
    pub qr_data: Option<PathBuf>,
    /// What to do with QR codes whose content is unknown
    #[arg(long, value_name = "WHAT", default_value = "known")]
    pub qr_content: QrContent,
    /// Do not update records that the target has already, under the same name or moved before
    #[arg(long)]
    pub keep_existing: bool,
    /// Save the plan to this file; `apply` executes it once
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["verify_only", "dry_run"])]
    pub out: Option<PathBuf>,
    /// Write a report in Markdown to this file
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub report: Option<PathBuf>,
    /// Compare the accounts and write nothing; exit with code 2 if anything is missing
    #[arg(long, conflicts_with = "dry_run")]
    pub verify_only: bool,
    /// Refuse a plan that updates more of a resource's records than this number or share, such
    /// as 50 or 30%
    #[arg(long, value_name = "BOUND", default_value = "30%")]
    pub max_update: CountOrPercent,
    /// Which value to use if both accounts changed a field since the last migration
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
    /// How the plan is shown.
    #[command(flatten)]
    pub shown: PlanOutputArgs,
    /// The maximum age of lists.
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

impl Args {
    fn flags(&self) -> MigrationFlags {
        MigrationFlags {
            links: self.links.clone(),
            qr_data: self.qr_data.clone(),
            link_codes: self.qr_content == QrContent::Link,
            keep_existing: self.keep_existing,
            set: self.set.clone(),
            wheres: self.wheres.clone(),
            only: self.only.clone(),
            skip: self.skip.clone(),
        }
    }

    fn goal(&self) -> MigrateGoal {
        match &self.out {
            _ if self.verify_only => MigrateGoal::Verify,
            _ if self.dry_run => MigrateGoal::DryRun,
            Some(file) => MigrateGoal::Save(file.clone()),
            None => MigrateGoal::Apply,
        }
    }
}

/// What happens to QR codes of unknown content.
// clap would print doc comments of the variants in the help.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum QrContent {
    // They are not migrated.
    #[default]
    Known,
    // The new code opens the link of the old code.
    Link,
}

/// Migrates or compares the accounts, and shows the result.
///
/// # Errors
/// If an account cannot be read completely, a guard refuses, or the run stopped.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let to = app.env.account(&args.to)?;
    args.shown.apply(&app.out);
    let request = MigrateRequest {
        from: &args.from,
        to: &to,
        goal: args.goal(),
        flags: args.flags(),
        report: args.report.clone(),
        max_update: args.max_update,
        on_conflict: args.on_conflict.into(),
        fail_fast: args.fail_fast,
        yes: args.yes,
        max_staleness: args.staleness.max_staleness,
        limits: args.bounds.limits(),
    };
    let report = migrate(&app.env, &request)?;
    let show = Rendering { out: &app.out, to: &to };
    match report {
        MigrateReport::Declined => Ok(Exit::Done),
        MigrateReport::Planned { moving, from, observation } => {
            show.planned(&moving, &from, &observation)?;
            let Some(file) = &args.out else {
                return Ok(render::run::exit(&RunReport::default(), missing(&moving)));
            };
            let (path, name) = (file.display(), &to.name);
            app.out.note(format_args!("saved; `linkvault apply {path} --to {name}` applies it"));
            Ok(Exit::Done)
        }
        MigrateReport::Verified { moving, report, flags_of, flags } => {
            if let Some(run) = flags_of.filter(|_| !flags.is_empty()) {
                let flags = migration::flags(&flags).join("\n  ");
                app.out.note(format_args!("compared with the flags of run {run}:\n  {flags}"));
            }
            show.verified(&moving, &report, flags_of)
        }
        MigrateReport::Nothing { report, missing } => {
            show.report(&report, None)?;
            Ok(render::run::exit(&RunReport::default(), missing))
        }
        MigrateReport::Applied { report, run, missing } => {
            let exit = render::run::exit(&run, missing);
            let shown = show.report(&report, Some(&run));
            exit.after(shown.and_then(|()| render::run::print_outcome(app, &to, &run)))
        }
    }
}

/// Shows the result of a migration.
struct Rendering<'a> {
    out: &'a Output,
    to: &'a AccountConfig,
}

impl Rendering<'_> {
    /// Shows the tasks to do by hand and, as JSON, the plan that was not applied.
    fn planned(
        &self,
        moving: &MigrationPlan,
        from: &str,
        observation: &Observation,
    ) -> Result<(), CliError> {
        migration::manual_tasks(self.out, &moving.manual)?;
        let kept = moving.plan.foreign.iter().flat_map(|it| &it.kept);
        migration::kept(self.out, &self.to.name, &kept.cloned().collect::<Vec<_>>());
        if !self.out.is_json() {
            return Ok(());
        }
        let mut document = render::plan::document(&moving.plan, self.to, from, observation);
        document["dry_run"] = json!(true);
        document["run"] = Value::Null;
        document["resources"] = json!(moving.expected_report().counts);
        document["manual"] = json!(moving.manual);
        self.out.json(&document)
    }

    /// Shows a comparison, in which the steps of the plan are the differences.
    fn verified(
        &self,
        moving: &MigrationPlan,
        report: &MigrationReport,
        flags_of: Option<RunId>,
    ) -> Result<Exit, CliError> {
        let same = moving.plan.steps.is_empty();
        if self.out.is_json() {
            let mut document = document(report, None);
            document["flags_of_run"] = json!(flags_of);
            self.out.json(&document)?;
        } else {
            self.report(report, None)?;
        }
        let (from, to) = (&report.from, &self.to.name);
        let gaps = report.gaps();
        if same && gaps.is_empty() {
            self.out.note(format_args!("{to} has what the API can move there from {from}"));
            return Ok(Exit::Done);
        }
        self.print_gaps(&gaps)?;
        if same {
            self.out.note(format_args!(
                "{to} has all of {from} that was compared; the rest is listed above"
            ));
        } else {
            let steps = format::counted(moving.plan.steps.len() as u64, "step", "steps");
            self.out.note(format_args!(
                "{to} does not have all of {from}: {steps} to do; the same command without \
                 --verify-only does them"
            ));
        }
        Ok(Exit::of(Ok(CommandResult { changes: true, ..CommandResult::default() })))
    }

    fn report(&self, report: &MigrationReport, run: Option<&RunReport>) -> Result<(), CliError> {
        let out = self.out;
        if out.is_json() {
            return out.json(&document(report, run));
        }
        let headers = ["resource", "created", "matched", "unchanged", "unsupported", "failed"];
        let mut table = TextTable::new(&headers).right(&[1, 2, 3, 4, 5]);
        for (name, it) in &report.counts {
            let counts = [it.created, it.matched, it.unchanged, it.unsupported, it.failed];
            let cells = counts.map(format::count);
            table.row([(*name).to_owned()].into_iter().chain(cells));
        }
        if !table.is_empty() {
            out.summary(table.render(out.table_width()))?;
        }
        self.left_out(report)?;
        migration::kept(out, &report.to, &report.kept);
        migration::manual_tasks(out, &report.manual)
    }

    /// Prints what a comparison cannot verify, one line for each resource and reason.
    fn print_gaps(&self, gaps: &[VerificationGap]) -> Result<(), CliError> {
        const SHOWN: usize = 5;
        let out = self.out;
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
        out.summary(table.render(out.table_width()))
    }

    /// Prints the records that filters exclude, and the resources that were not requested.
    fn left_out(&self, report: &MigrationReport) -> Result<(), CliError> {
        let kept = report.excluded.iter().map(|(resource, count)| format!("{count} {resource}"));
        let rest = report.not_asked.iter().map(|resource| format!("all {resource}"));
        let all: Vec<_> = kept.chain(rest).collect();
        if all.is_empty() {
            return Ok(());
        }
        self.out.summary(format_args!("excluded by options: {}", all.join(", ")))
    }
}
