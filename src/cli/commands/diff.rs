//! `linkvault diff`: what changed between two states.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::change::csv_files::CsvKind;
use crate::change::desired::{DesiredRecord, RecordRef};
use crate::change::diff::{self, ChangeKind, CounterChange, RecordChange, StateDiff};
use crate::change::overlay;
use crate::cli::session::SessionLimits;
use crate::cli::states::{LoadedState, StateRef};
use crate::cli::values::{self, scope};
use crate::cli::wanted::{self, DesiredInput};
use crate::cli::{App, CommandResult, Escaped, Exit, OpError, OpErrorKind, Paint};
use crate::config::AccountConfig;
use crate::format;
use crate::model::{Resource, State};
use crate::vault::reference::Reference;

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
    /// The newer state or files; the newest snapshot if left out
    #[arg(value_name = "B")]
    pub to: Option<String>,
    /// Compare only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// What a CSV file holds whose name does not tell
    #[arg(long, value_name = "RESOURCE", value_parser = values::sheet())]
    pub resource: Option<CsvKind>,
    /// End with exit code 2 if there are changes
    #[arg(long)]
    pub detailed_exitcode: bool,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

/// Compares the two states and shows what differs.
///
/// # Errors
/// When one of them cannot be had.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let which = scope(&args.only, &args.skip)?;
    let sides = sides(args, app, &which)?;
    let found = diff::diff(&sides.before.state, &sides.after.state);
    let new: Vec<_> = [&sides.before, &sides.after].into_iter().flat_map(new_rows).collect();
    let lacking: Vec<_> = sides.before.lacking.iter().chain(&sides.after.lacking).collect();
    for what in &lacking {
        app.out.warn(format_args!("not compared: {what}"));
    }
    for what in sides.before.stale.iter().chain(&sides.after.stale) {
        app.out.warn(what);
    }
    if app.out.is_json() {
        app.out.json(&document(&sides, &found, &new))?;
    } else {
        print(app, &sides, &found, &new)?;
    }
    let changed = !found.changes.is_empty() || !new.is_empty();
    let (missing, changes) = (lacking.len() as u64, changed && args.detailed_exitcode);
    Ok(Exit::of(Ok(CommandResult { missing, changes, ..CommandResult::default() })))
}

/// One side of a comparison.
struct Side {
    name: String,
    state: State,
    lacking: Vec<String>,
    stale: Vec<String>,
    /// Rows of a file that mean no record of the other side.
    new: Vec<(Resource, DesiredRecord)>,
    /// What becomes of them from the first side to the second.
    kind: ChangeKind,
}

struct Sides {
    before: Side,
    after: Side,
}

/// A side as it is named, before its records are read.
enum Named {
    State(Box<StateRef>),
    Files(PathBuf),
}

fn sides(args: &Args, app: &App, which: &[Resource]) -> Result<Sides, OpError> {
    let path = |text: Option<&str>| text.map_or(Ok(None), |text| wanted::path(app, text));
    let file = path(args.to.as_deref())?;
    // An account alone is its last two snapshots; beside something else, its newest.
    let missing = Reference::Latest(usize::from(args.to.is_none()));
    let from = match path(Some(&args.from))? {
        Some(path) => Named::Files(path),
        None => Named::State(Box::new(StateRef::parse(app, &args.from, missing, None)?)),
    };
    let to = args.to.as_deref().unwrap_or("latest");
    let to = match file {
        Some(path) => Named::Files(path),
        None => {
            let account = match &from {
                Named::State(target) => Some(target.account.clone()),
                Named::Files(_) if app_names(app, to)? => None,
                Named::Files(path) => Some(wanted::account_of(app, path)?),
            };
            let target = StateRef::parse(app, to, Reference::Latest(0), account.as_ref())?;
            Named::State(Box::new(target))
        }
    };
    if args.resource.is_some()
        && !matches!((&from, &to), (Named::Files(_), _) | (_, Named::Files(_)))
    {
        return Err(OpError::new(
            OpErrorKind::Usage,
            "--resource is for a CSV file, and none is named",
        ));
    }
    let load = |target: &StateRef, which: &[Resource]| target.load(app, &args.bounds, which);
    let files = |path: &Path, account: Option<&AccountConfig>| {
        wanted::read_files(path, args.resource, account, which)
    };
    Ok(match (from, to) {
        (Named::State(from), Named::State(to)) => Sides {
            before: Side::loaded(load(&from, which)?)?,
            after: Side::loaded(load(&to, which)?)?,
        },
        (Named::State(from), Named::Files(path)) => {
            let read = files(&path, Some(&from.account))?;
            let before = Side::loaded(load(&from, &spoken(&read))?)?;
            let after = Side::laid(app, read, &before.state, ChangeKind::Added);
            Sides { before, after }
        }
        (Named::Files(path), Named::State(to)) => {
            let read = files(&path, Some(&to.account))?;
            let after = Side::loaded(load(&to, &spoken(&read))?)?;
            let before = Side::laid(app, read, &after.state, ChangeKind::Removed);
            Sides { before, after }
        }
        (Named::Files(from), Named::Files(to)) => {
            let read = |path: &Path| files(path, wanted::exporting_account(app, path)?.as_ref());
            let (from, to) = (read(&from)?, read(&to)?);
            let under = from.state.clone().unwrap_or_default();
            let after = Side::laid(app, to, &under, ChangeKind::Added);
            let before = Side::laid(app, from, &after.state, ChangeKind::Removed);
            Sides { before, after }
        }
    })
}

/// Whether `text` begins with an account.
fn app_names(app: &App, text: &str) -> Result<bool, OpError> {
    Ok(text.contains('@') || app.config()?.account(text).is_ok())
}

/// The resources that files speak of.
fn spoken(read: &DesiredInput) -> Vec<Resource> {
    let wanted = &read.desired.resources;
    let items = wanted.get(&Resource::ChannelItems).into_iter().flat_map(|it| &it.records);
    // Channels are looked up by their names.
    let named = items.into_iter().any(|row| matches!(row.channel, Some(RecordRef::Name(_))));
    let spoken = |it: &Resource| wanted.contains_key(it) || named && *it == Resource::Channels;
    Resource::ALL.into_iter().filter(spoken).collect()
}

impl Side {
    fn loaded(mut loaded: LoadedState) -> Result<Self, OpError> {
        Ok(Self {
            state: loaded.state()?,
            stale: loaded.stale(),
            name: loaded.name,
            lacking: loaded.unread,
            new: Vec::new(),
            kind: ChangeKind::Added,
        })
    }

    /// Files, laid over the other side.
    fn laid(app: &App, read: DesiredInput, other: &State, kind: ChangeKind) -> Self {
        for (resource, fields) in wanted::unlisted_fields(&read.desired) {
            let fields = fields.join(", ");
            app.out
                .note(format_args!("not compared: {fields} of {resource}; no list gives it back"));
        }
        let (state, new) = match read.state {
            Some(state) => (state, Vec::new()),
            None => {
                let laid = overlay::overlay(&read.desired, other, read.base.as_ref());
                let new = laid.new.into_iter().map(|(resource, row)| (resource, row.clone()));
                (laid.state, new.collect())
            }
        };
        Self { name: read.name, state, lacking: Vec::new(), stale: read.warnings, new, kind }
    }
}

/// A row that means no record of the other side.
struct NewRow<'a> {
    resource: Resource,
    row: &'a DesiredRecord,
    kind: ChangeKind,
}

impl NewRow<'_> {
    /// What its list would show of it.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        let fields = self.resource.spec().fields;
        let given = self.row.fields.iter().filter_map(|(place, value)| {
            let field = fields.get(*place).filter(|field| field.is_read())?;
            Some((field.name, value.json()))
        });
        given.filter(|(_, value)| !value.is_null()).collect()
    }

    fn source(&self) -> String {
        self.row.source.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

fn new_rows(side: &Side) -> impl Iterator<Item = NewRow<'_>> {
    let kind = side.kind;
    side.new.iter().map(move |(resource, row)| NewRow { resource: *resource, row, kind })
}

fn document(sides: &Sides, found: &StateDiff, new: &[NewRow<'_>]) -> Value {
    let (before, after) = (&sides.before, &sides.after);
    let stale = [before.stale.as_slice(), &after.stale].concat();
    let mut changes: Vec<_> = found.changes.iter().map(change).collect();
    changes.extend(new.iter().map(|it| {
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
        "format": 1, "from": before.name, "to": after.name, "changes": changes,
        "counters": counters, "not_compared": found.unread,
        "stale": stale,
    })
}

/// A change for programs. An item's id is unique within channel and type only,
/// so its whole key stands there.
pub(super) fn change(change: &RecordChange) -> Value {
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

fn print(app: &App, sides: &Sides, found: &StateDiff, new: &[NewRow<'_>]) -> Result<(), OpError> {
    for change in &found.changes {
        lines(app, change)?;
    }
    for row in new {
        let (sigil, paint) = sigil(row.kind);
        let head = format!("{sigil} {} of {}", row.resource, Escaped(row.source()));
        app.out.line(app.out.paint(paint, &head))?;
        for (name, value) in row.fields() {
            app.out.line(format_args!("    {name}: {}", short(&value)))?;
        }
    }
    let count = |kind| {
        let changes = found.changes.iter().filter(|change| change.kind == kind).count();
        (changes + new.iter().filter(|row| row.kind == kind).count()) as u64
    };
    let more =
        |sum: i64, it: &CounterChange| sum.saturating_add(it.after.saturating_sub(it.before));
    let scans = found.movements.iter().fold(0, more);
    let mut text = format!(
        "{} to {}: {} added, {} changed, {} removed",
        Escaped(&sides.before.name),
        Escaped(&sides.after.name),
        format::count(count(ChangeKind::Added)),
        format::count(count(ChangeKind::Changed)),
        format::count(count(ChangeKind::Removed))
    );
    if !found.movements.is_empty() {
        let codes = format::counted(found.movements.len() as u64, "QR code", "QR codes");
        text += &format!("; {scans:+} scans on {codes}");
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

/// One change: its record on a line, and a line for each field.
pub(super) fn lines(app: &App, change: &RecordChange) -> Result<(), OpError> {
    let (sigil, paint) = sigil(change.kind);
    let head = format!("{sigil} {} {}", change.resource, Escaped(&change.key));
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

/// A value on one line, shortened where it is very long; `--json` has it whole.
fn short(value: &Value) -> String {
    format::truncate(&Escaped(value).to_string(), 200).into_owned()
}
