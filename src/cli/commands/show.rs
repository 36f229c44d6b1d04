//! `linkvault show`: prints a state, a resource of it, or one record.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::change::{diff, labels};
use crate::cli::session_args::SessionArgs;
use crate::cli::values;
use crate::cli::{App, CliError, CommandResult, Escaped, Exit, OpErrorKind, TextTable, hints};
use crate::format;
use crate::model::Resource;
use crate::model::{Record, RecordKey};
use crate::ops::input::scope;
use crate::ops::state_ref::{LoadedState, StateRef};
use crate::vault::reference::Reference;
use crate::vault::snapshot::{ReadState, ResourceOutcome};

/// Show a state: its resources, the records of one, or a record
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault show main                        the newest snapshot
  linkvault show main@2026-11-01 campaigns   the campaigns of that day
  linkvault show main@#12 qr_codes 33        one QR code in snapshot 12
  linkvault show main@live channels          what the service has now")]
pub struct Args {
    /// The state: ACCOUNT, or ACCOUNT@REF with a snapshot, date, tag or `live`
    #[arg(value_name = "REF")]
    pub reference: String,
    /// List the records of this resource
    #[arg(value_parser = values::resource())]
    pub resource: Option<Resource>,
    /// The record's id; channel/type/id for an item of a channel
    #[arg(requires = "resource")]
    pub id: Option<String>,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Shows the state, a resource of it, or a record.
///
/// # Errors
/// If the state or the record does not exist.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let target = StateRef::parse(&app.env, &args.reference, Reference::Latest(0), None)?;
    let which = match args.resource {
        Some(resource) => vec![resource],
        None => scope(&[], &[])?,
    };
    let mut loaded = target.load(&app.env, &args.bounds.limits(), &which)?;
    for what in &loaded.unread {
        app.out.warn(what);
    }
    match (args.resource, &args.id) {
        (None, _) => show_state(app, &loaded)?,
        (Some(resource), None) => list(app, &mut loaded, resource)?,
        (Some(resource), Some(id)) => show_record(app, &mut loaded, resource, &key(resource, id)?)?,
    }
    Ok(Exit::of(Ok(CommandResult::complete(loaded.unread.is_empty()))))
}

/// Parses the key of a record.
///
/// # Errors
/// If `text` is not a key of the resource.
pub(super) fn key(resource: Resource, text: &str) -> Result<RecordKey, CliError> {
    RecordKey::parse(resource, text).ok_or_else(|| {
        let form = match resource {
            Resource::ChannelItems => "CHANNEL/TYPE/ID, as 7/links/33",
            _ => "a whole number",
        };
        CliError::new(
            OpErrorKind::Usage,
            format_args!("`{text}` is not an id of {resource}, which is {form}"),
        )
    })
}

/// An id in JSON: a number, or an item's whole key.
pub(super) fn id(key: &RecordKey) -> Value {
    match key {
        RecordKey::Id(id) => json!(id),
        RecordKey::Item { .. } => json!(key.to_string()),
    }
}

fn show_state(app: &App, loaded: &LoadedState) -> Result<(), CliError> {
    let counts = loaded.counts()?;
    if app.out.is_json() {
        let resources: serde_json::Map<_, _> = counts
            .into_iter()
            .map(|(resource, records)| (resource.name().to_owned(), json!(records)))
            .collect();
        let snapshot = loaded.snapshot.as_ref().map(super::snapshots::document);
        return app.out.json(&json!({
            "format": 1, "state": loaded.name, "snapshot": snapshot, "resources": resources,
        }));
    }
    if let Some(snapshot) = &loaded.snapshot {
        app.out.line(format_args!(
            "{}, {}, begun {}{}",
            loaded.name,
            snapshot.status.name(),
            format::time(snapshot.started),
            snapshot.tag.as_ref().map_or(String::new(), |tag| format!(", tag {}", Escaped(tag)))
        ))?;
    }
    let mut table = TextTable::new(&["resource", "records", "note"]).right(&[1]);
    for (resource, records) in counts {
        let outcome = loaded.snapshot.as_ref().and_then(|it| it.outcome(resource));
        let odd = |it: &&ResourceOutcome| !it.is_complete() || it.state == ReadState::NotOffered;
        let note = outcome.filter(odd).map_or_else(String::new, |it| {
            let why = it.message.as_deref().unwrap_or_default();
            format!("{}: {why}", it.state.name()).trim_end_matches(": ").to_owned()
        });
        table.row([resource.name().to_owned(), format::count(records), note]);
    }
    app.out.table(table)
}

fn list(app: &App, loaded: &mut LoadedState, resource: Resource) -> Result<(), CliError> {
    if app.out.is_json() {
        let mut records = Vec::new();
        loaded.each(resource, |record| records.extend(raw(&record)))?;
        let contents = contents(loaded, resource)?;
        let (state, resource) = (&loaded.name, resource.name());
        return app.out.json(&List { format: 1, state, resource, records, contents });
    }
    if resource == Resource::Account {
        // There is one record with long values, so each field gets a line.
        let mut table = None;
        loaded.each(resource, |record| table = Some(fields(resource, &record)))?;
        return table.map_or(Ok(()), |table| app.out.table(table));
    }
    let known = contents(loaded, resource)?;
    let mut names: Vec<_> = resource.spec().read_fields().map(|field| field.name).collect();
    if !known.is_empty() {
        names.push("content");
    }
    let mut table = TextTable::new(&names);
    let mut count = 0;
    loaded.each(resource, |record| {
        let content = known.get(&record.key.id()).map(|it| Cow::Borrowed(it.as_str()));
        let values = record.values.iter().map(crate::model::FieldValue::cell);
        table.row(values.chain(content));
        count += 1;
    })?;
    if count > 0 {
        app.out.table(table)?;
    }
    let records = format::counted(count, "record", "records");
    app.out.note(format_args!("{records} of {resource} in {}", loaded.name));
    Ok(())
}

/// The known contents of QR codes, by id.
fn contents(
    loaded: &mut LoadedState,
    resource: Resource,
) -> Result<BTreeMap<i64, String>, CliError> {
    if resource != Resource::QrCodes {
        return Ok(BTreeMap::new());
    }
    let state = loaded.sent()?;
    Ok(state.sent.as_ref().map(labels::contents).unwrap_or_default())
}

fn show_record(
    app: &App,
    loaded: &mut LoadedState,
    resource: Resource,
    key: &RecordKey,
) -> Result<(), CliError> {
    let record = loaded.record(resource, key)?.ok_or_else(|| {
        let message = format!("{} has no {resource} {key}", loaded.name);
        let account = loaded.name.split('@').next().unwrap_or_default();
        CliError::new(OpErrorKind::NotFound, message)
            .hint(hints::show_history(account, resource, key))
    })?;
    let sent: Vec<_> = diff::hidden(&loaded.sent()?, resource, key).collect();
    if app.out.is_json() {
        return app.out.json(&One {
            format: 1,
            state: &loaded.name,
            resource: resource.name(),
            id: id(key),
            record: raw(&record),
            remembered: sent.into_iter().collect(),
        });
    }
    let mut table = fields(resource, &record);
    for (name, value) in sent {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        table.row([format!("{name} (as sent)"), text]);
    }
    app.out.table(table)
}

/// A record as a table with a line for each field.
fn fields(resource: Resource, record: &Record<'static>) -> TextTable {
    let mut table = TextTable::new(&["field", "value"]);
    for (field, value) in resource.spec().read_fields().zip(&record.values) {
        table.row([field.name.to_owned(), value.cell().into_owned()]);
    }
    table
}

/// The JSON of a record, exactly as the service sent it.
fn raw(record: &Record<'static>) -> Option<Box<RawValue>> {
    RawValue::from_string(record.raw.to_string()).ok()
}

#[derive(serde::Serialize)]
struct List<'a> {
    format: u8,
    state: &'a str,
    resource: &'a str,
    records: Vec<Box<RawValue>>,
    /// The contents of QR codes that linkvault sent, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    contents: BTreeMap<i64, String>,
}

#[derive(serde::Serialize)]
struct One<'a> {
    format: u8,
    state: &'a str,
    resource: &'a str,
    id: Value,
    record: Option<Box<RawValue>>,
    /// Values that linkvault sent and that no list returns.
    remembered: serde_json::Map<String, Value>,
}
