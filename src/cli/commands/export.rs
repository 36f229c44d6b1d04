//! `linkvault export`: writes a state as files.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::json;

use crate::change::csv_files::write::CsvDialect;
use crate::cli::plan_args::FilterArgs;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, CommandResult, Escaped, Exit, OpErrorKind, values};
use crate::config::ExportFormat;
use crate::format;
use crate::model::Resource;
use crate::ops::export::{ExportReport, ExportRequest, plan_export};
use crate::ops::state_ref::LoadedState;

/// Write a state as CSV or JSON files, or as a workbook
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault export main --to sheets
  linkvault export main --to sheets --format xlsx
  linkvault export main --to sheets --dialect excel   CSV files for Excel
  linkvault export main@2026-11-01 --to old --format json
  linkvault export main --to sheets --only campaigns,channels")]
pub struct Args {
    /// The state: ACCOUNT, or ACCOUNT@REF with a snapshot, date, tag or `live`
    #[arg(value_name = "REF")]
    pub reference: String,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Format of the files
    #[arg(long, default_value = "csv")]
    pub format: FormatArg,
    /// Form of CSV files: `excel` has semicolons, as Excel expects where the decimal sign is a comma;
    /// `excel-comma` has commas; both have a byte order mark
    #[arg(long, default_value = "plain")]
    pub dialect: DialectArg,
    /// Write only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Skip these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// Which records to write.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Print what would be written and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// The format of exported files.
// clap would print doc comments of the variants in the help.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    // One file for each resource.
    Csv,
    // One file.
    Json,
    // One file with a sheet for each resource.
    Xlsx,
}

/// The form of exported CSV files.
// clap would print doc comments of the variants in the help.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DialectArg {
    Plain,
    Excel,
    ExcelComma,
}

impl DialectArg {
    const fn dialect(self) -> CsvDialect {
        match self {
            Self::Plain => CsvDialect::Plain,
            Self::Excel => CsvDialect::Excel,
            Self::ExcelComma => CsvDialect::ExcelComma,
        }
    }
}

/// Writes the files and a manifest, which names the state.
///
/// # Errors
/// If the state does not exist, or the folder has other files.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    if args.dialect != DialectArg::Plain && args.format != FormatArg::Csv {
        let message = "--dialect is only for --format csv";
        return Err(CliError::new(OpErrorKind::Usage, message));
    }
    let request = ExportRequest {
        reference: &args.reference,
        folder: &args.to,
        format: args.format.export_format(),
        dialect: args.dialect.dialect(),
        only: &args.only,
        skip: &args.skip,
        filter: args.filter.filter(),
        limits: args.bounds.limits(),
        dry_run: args.dry_run,
    };
    let mut plan = plan_export(&app.env, &request)?;
    for what in &plan.state.unread {
        app.out.warn(format_args!("not exported: {what}"));
    }
    for what in plan.state.stale() {
        app.out.warn(what);
    }
    if args.dry_run {
        return dry_run(args, app, &mut plan.state);
    }
    let ExportReport { manifest, files } = plan.write()?;
    if app.out.is_json() {
        let mut document = manifest;
        document["to"] = json!(args.to.display().to_string());
        app.out.json(&document)?;
    }
    for file in &files {
        let records = format::counted(file.records, "record", "records");
        app.out
            .summary(format_args!("{}  {records}", Escaped(args.to.join(&file.name).display())))?;
    }
    app.out.summary(format_args!("Exported {} as {}", plan.state.name, args.format.name()))?;
    Ok(exit(&plan.state))
}

fn exit(loaded: &LoadedState) -> Exit {
    Exit::of(Ok(CommandResult::complete(loaded.unread.is_empty())))
}

/// Prints what would be written.
fn dry_run(args: &Args, app: &App, loaded: &mut LoadedState) -> Result<Exit, CliError> {
    let counts = loaded.admitted_counts()?;
    if app.out.is_json() {
        let resources = counts.iter().map(|(it, count)| (it.name().to_owned(), json!(count)));
        let resources: serde_json::Map<_, _> = resources.collect();
        app.out.json(&json!({
            "format": 1, "dry_run": true, "state": loaded.name,
            "to": args.to.display().to_string(), "resources": resources,
        }))?;
        return Ok(exit(loaded));
    }
    for (resource, count) in counts {
        let records = format::counted(count, "record", "records");
        app.out.line(format_args!("{resource}  {records}"))?;
    }
    let (name, to) = (&loaded.name, args.to.display());
    app.out.note(format_args!("{name} would be exported to {to}; nothing was written"));
    Ok(exit(loaded))
}

impl FormatArg {
    const fn export_format(self) -> ExportFormat {
        match self {
            Self::Csv => ExportFormat::Csv,
            Self::Json => ExportFormat::Json,
            Self::Xlsx => ExportFormat::Xlsx,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Json => "JSON",
            Self::Xlsx => "a workbook",
        }
    }
}
