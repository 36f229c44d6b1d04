//! `linkvault diff`: what changed between two states.

use serde_json::{Value, json};

use super::scope;
use crate::change::diff::{self, Change, Diff, Kind as ChangeKind, Movement};
use crate::cli::session::Bounds;
use crate::cli::states::{Loaded, Target};
use crate::cli::values;
use crate::cli::{App, Exit, Failure, Paint, Shown, human};
use crate::model::Resource;
use crate::vault::reference::Reference;

/// Show what changed between two states
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault diff main                      the newest snapshot and the one before
  linkvault diff main@2026-11-01           that day and the newest snapshot
  linkvault diff main@latest main@live     the newest snapshot and the service
  linkvault diff main --detailed-exitcode  exit code 2 if anything changed")]
pub struct Args {
    /// The older state, as ACCOUNT@REF
    #[arg(value_name = "A")]
    pub from: String,
    /// The newer state; the newest snapshot if left out
    #[arg(value_name = "B")]
    pub to: Option<String>,
    /// Compare only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// End with exit code 2 if there are changes
    #[arg(long)]
    pub detailed_exitcode: bool,
    #[command(flatten)]
    pub bounds: Bounds,
}

/// Compares the two states and shows what differs.
///
/// # Errors
/// When one of them cannot be had.
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let which = scope(&args.only, &args.skip)?;
    let from = Target::parse(app, &args.from, Reference::Latest(1), None)?;
    let to = args.to.as_deref().unwrap_or("latest");
    let to = Target::parse(app, to, Reference::Latest(0), Some(&from.account))?;
    let mut before = from.load(app, &args.bounds, &which)?;
    let mut after = to.load(app, &args.bounds, &which)?;
    let found = diff::diff(&before.state()?, &after.state()?);
    let lacking: Vec<_> = before.lacking.iter().chain(&after.lacking).collect();
    for what in &lacking {
        app.out.warn(format_args!("not compared: {what}"));
    }
    for what in before.stale().iter().chain(&after.stale()) {
        app.out.warn(what);
    }
    if app.out.is_json() {
        app.out.json(&document(&before, &after, &found))?;
    } else {
        print(app, &before, &after, &found)?;
    }
    Ok(match (found.changes.is_empty(), lacking.is_empty()) {
        (_, false) => Exit::Partial,
        (false, true) if args.detailed_exitcode => Exit::Changes,
        _ => Exit::Done,
    })
}

fn document(before: &Loaded, after: &Loaded, found: &Diff) -> Value {
    let stale = [before.stale(), after.stale()].concat();
    let changes: Vec<_> = found.changes.iter().map(change).collect();
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
        "format": 1, "from": before.name, "to": after.name, "changes": changes,
        "counters": counters, "not_compared": found.unread,
        "stale": stale,
    })
}

/// A change for programs. An item's id is unique within channel and type only,
/// so its whole key stands there.
pub(super) fn change(change: &Change) -> Value {
    let fields: serde_json::Map<_, _> = change
        .fields
        .iter()
        .map(|it| (it.name.clone(), json!({"before": it.before, "after": it.after})))
        .collect();
    json!({
        "resource": change.resource, "id": super::show::id(&change.key),
        "change": change.kind.name(), "fields": fields,
    })
}

fn print(app: &App, before: &Loaded, after: &Loaded, found: &Diff) -> Result<(), Failure> {
    for change in &found.changes {
        lines(app, change)?;
    }
    let count = |kind| found.changes.iter().filter(|change| change.kind == kind).count() as u64;
    let more = |sum: i64, it: &Movement| sum.saturating_add(it.after.saturating_sub(it.before));
    let scans = found.movements.iter().fold(0, more);
    let mut text = format!(
        "{} to {}: {} added, {} changed, {} removed",
        before.name,
        after.name,
        human::count(count(ChangeKind::Added)),
        human::count(count(ChangeKind::Changed)),
        human::count(count(ChangeKind::Removed))
    );
    if !found.movements.is_empty() {
        let codes = human::counted(found.movements.len() as u64, "QR code", "QR codes");
        text += &format!("; {scans:+} scans on {codes}");
    }
    app.out.summary(text)
}

/// One change: its record on a line, and a line for each field.
pub(super) fn lines(app: &App, change: &Change) -> Result<(), Failure> {
    let (sigil, paint) = match change.kind {
        ChangeKind::Added => ("+", Paint::Added),
        ChangeKind::Removed => ("-", Paint::Removed),
        ChangeKind::Changed => ("~", Paint::Changed),
    };
    let head = format!("{sigil} {} {}", change.resource, Shown(&change.key));
    app.out.line(app.out.paint(paint, &head))?;
    for field in &change.fields {
        let name = Shown(&field.name);
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

/// A value on one line, shortened where it is very long; `--json` has it whole.
fn short(value: &Value) -> String {
    let text = Shown(value).to_string();
    if text.chars().count() <= 200 {
        return text;
    }
    text.chars().take(199).chain(['…']).collect()
}
