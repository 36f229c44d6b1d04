//! `linkvault diff`: shows the changes between two states.

use serde_json::{Value, json};

use crate::change::csv_files::{CsvKind, TextEncoding};
use crate::change::diff::{ChangeKind, CounterChange, RecordChange};
use crate::cli::csv_args::CsvArgs;
use crate::cli::plan_args::FilterArgs;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, CommandResult, Escaped, Exit, Paint, values};
use crate::format;
use crate::model::Resource;
use crate::ops::diff::{DiffReport, DiffRequest, compare};

/// Show what changed between two states
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault diff main                      the newest snapshot and the one before
  linkvault diff main@2026-11-01           that day and the newest snapshot
  linkvault diff main@latest main@live     the newest snapshot and the service
  linkvault diff sheets main@live          an edited export and the service
  linkvault diff main campaigns.csv        what a CSV file says differently
  linkvault diff main --detailed-exitcode  exit code 2 if anything changed")]
pub struct Args {
    /// The older state, as ACCOUNT@REF, or files
    #[arg(value_name = "A")]
    pub from: String,
    /// The newer state, or files; default: the newest snapshot
    #[arg(value_name = "B")]
    pub to: Option<String>,
    /// Compare only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Skip these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// The resource of a CSV file whose name is not that of a resource
    #[arg(long, value_name = "RESOURCE", value_parser = values::sheet())]
    pub resource: Option<CsvKind>,
    /// The encoding of CSV files, such as windows-1252; default: found from their bytes
    #[arg(long, value_name = "LABEL", value_parser = values::encoding)]
    pub encoding: Option<TextEncoding>,
    /// How the columns of CSV files are read.
    #[command(flatten)]
    pub csv: CsvArgs,
    /// Which records to compare.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Exit with code 2 if there are changes
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Compares the two states and shows the differences.
///
/// # Errors
/// If one of them does not exist or cannot be read.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let request = DiffRequest {
        from: &args.from,
        to: args.to.as_deref(),
        only: &args.only,
        skip: &args.skip,
        filter: args.filter.filter(),
        resource: args.resource,
        encoding: args.encoding,
        csv: args.csv.options(app),
        limits: args.bounds.limits(),
    };
    let report = compare(&app.env, &request)?;
    for what in &report.not_compared {
        app.out.warn(format_args!("not compared: {what}"));
    }
    for what in &report.stale {
        app.out.warn(what);
    }
    if app.out.is_json() {
        app.out.json(&document(&report))?;
    } else {
        print(app, &report)?;
    }
    let changed = !report.found.changes.is_empty() || !report.new_rows.is_empty();
    let missing = report.not_compared.len() as u64;
    let changes = changed && args.detailed_exitcode;
    Ok(Exit::of(Ok(CommandResult { missing, changes, ..CommandResult::default() })))
}

fn document(report: &DiffReport) -> Value {
    let DiffReport { from, to, found, new_rows, stale, .. } = report;
    let mut changes: Vec<_> = found.changes.iter().map(change).collect();
    changes.extend(new_rows.iter().map(|it| {
        let sides = |value| match it.kind {
            ChangeKind::Removed => json!({"before": value, "after": null}),
            _ => json!({"before": null, "after": value}),
        };
        let fields: serde_json::Map<_, _> =
            it.fields().into_iter().map(|(name, value)| (name.to_owned(), sides(value))).collect();
        json!({
            "resource": it.resource, "id": null, "change": it.kind.name(), "fields": fields,
            "source": it.source(),
        })
    }));
    let counters: Vec<_> = found
        .movements
        .iter()
        .map(|it| {
            json!({
                "resource": it.resource, "id": it.key.id(), "field": it.field,
                "before": it.before, "after": it.after,
            })
        })
        .collect();
    json!({
        "format": 1, "from": from, "to": to, "changes": changes,
        "counters": counters, "not_compared": found.unread,
        "stale": stale,
    })
}

/// The JSON of a change. An item has its whole key, because its id is unique only within channel
/// and type.
pub(super) fn change(change: &RecordChange) -> Value {
    let fields: serde_json::Map<_, _> = change
        .fields
        .iter()
        .map(|it| (it.name.clone(), json!({"before": it.before, "after": it.after})))
        .collect();
    let mut document = json!({
        "resource": change.resource, "id": super::show::id(&change.key),
        "change": change.kind.name(), "fields": fields,
    });
    if let Some(content) = &change.content {
        document["content"] = json!(content);
    }
    document
}

fn print(app: &App, report: &DiffReport) -> Result<(), CliError> {
    let DiffReport { from, to, found, new_rows, .. } = report;
    for change in &found.changes {
        lines(app, change)?;
    }
    for row in new_rows {
        let (sigil, paint) = sigil(row.kind);
        let head = format!("{sigil} {} of {}", row.resource, Escaped(row.source()));
        app.out.line(app.out.paint(paint, &head))?;
        for (name, value) in row.fields() {
            app.out.line(format_args!("    {name}: {}", short(&value)))?;
        }
    }
    let count = |kind| {
        let changes = found.changes.iter().filter(|change| change.kind == kind).count();
        (changes + new_rows.iter().filter(|row| row.kind == kind).count()) as u64
    };
    let more =
        |sum: i64, it: &CounterChange| sum.saturating_add(it.after.saturating_sub(it.before));
    let scans = found.movements.iter().fold(0, more);
    let mut text = format!(
        "{} to {}: {} added, {} changed, {} removed",
        Escaped(from),
        Escaped(to),
        format::count(count(ChangeKind::Added)),
        format::count(count(ChangeKind::Changed)),
        format::count(count(ChangeKind::Removed))
    );
    if !found.movements.is_empty() {
        text += &format!("; {}", format::new_scans(scans, found.movements.len() as u64));
    }
    app.out.summary(text)
}

const fn sigil(kind: ChangeKind) -> (&'static str, Paint) {
    match kind {
        ChangeKind::Added => ("+", Paint::Added),
        ChangeKind::Removed => ("-", Paint::Removed),
        ChangeKind::Changed => ("~", Paint::Changed),
    }
}

/// Prints one change: a line for its record, and a line for each field.
pub(super) fn lines(app: &App, change: &RecordChange) -> Result<(), CliError> {
    let (sigil, paint) = sigil(change.kind);
    let content = change.content.as_ref();
    let content = content.map(|it| format!("  {}", Escaped(format::truncate(it, 100))));
    let content = content.unwrap_or_default();
    let head = format!("{sigil} {} {}{content}", change.resource, Escaped(&change.key));
    app.out.line(app.out.paint(paint, &head))?;
    for field in &change.fields {
        let name = Escaped(&field.name);
        let text = match change.kind {
            ChangeKind::Added => format!("    {name}: {}", short(&field.after)),
            ChangeKind::Removed => format!("    {name}: {}", short(&field.before)),
            ChangeKind::Changed => {
                format!("    {name}: {} -> {}", short(&field.before), short(&field.after))
            }
        };
        app.out.line(text)?;
    }
    Ok(())
}

/// A value on one line, shortened to 200 characters; `--json` has all of it.
fn short(value: &Value) -> String {
    format::truncate(&Escaped(value).to_string(), 200).into_owned()
}
