//! `linkvault log`: shows the history of one record.

use crate::ops::state_ref;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{diff as changes, show};
use crate::change::diff::{self, RecordChange, StateDiff};
use crate::cli::values;
use crate::cli::{App, CliError, Exit, OpErrorKind, hints};
use crate::clock::Timestamp;
use crate::format;
use crate::model::Resource;
use crate::model::SentValues;
use crate::model::{RecordKey, SnapshotId, State};
use crate::vault::Vault;
use crate::vault::read::{RecordVersion, SeriesSample};
use crate::vault::sent_values::SentVersion;

/// Show how a record changed, snapshot by snapshot
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault log main campaigns 12
  linkvault log main channel_items 7/links/33")]
pub struct Args {
    /// The account
    pub account: String,
    /// The resource of the record
    #[arg(value_parser = values::resource())]
    pub resource: Resource,
    /// The record's id; channel/type/id for an item of a channel
    pub id: String,
}

/// The change of a record in one snapshot.
struct Event {
    snapshot: SnapshotId,
    time: Timestamp,
    change: RecordChange,
}

/// Shows the record's versions, each compared with the one before.
///
/// # Errors
/// If the record never existed, or there is no vault.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.account)?;
    let key = show::key(args.resource, &args.id)?;
    let mut vault = state_ref::open(&account)?;
    let versions = vault.history(args.resource, &key)?;
    if versions.is_empty() {
        let message = format!("no snapshot of {} has {} {key}", account.name, args.resource);
        return Err(CliError::new(OpErrorKind::NotFound, message)
            .hint(hints::list_records(&account.name, args.resource)));
    }
    let sent = vault.sent_history(args.resource, &key)?;
    let events = events(&vault, args.resource, &versions, &sent)?;
    let scans = match args.resource {
        Resource::QrCodes => vault.scans(key.id())?,
        _ => Vec::new(),
    };
    if app.out.is_json() {
        app.out.json(&document(args, &account.name, &key, &events, &scans))?;
        return Ok(Exit::Done);
    }
    for event in &events {
        app.out.line(format_args!("#{} {}", event.snapshot, format::time(event.time)))?;
        changes::lines(app, &event.change)?;
    }
    scans_line(app, &scans)?;
    Ok(Exit::Done)
}

fn scans_line(app: &App, scans: &[SeriesSample<i64>]) -> Result<(), CliError> {
    let at = |it: &SeriesSample<i64>| format!("{} on {}", it.value, format::time(it.time));
    match scans {
        [] => Ok(()),
        [only] => app.out.line(format_args!("scans: {}, and none since", at(only))),
        [first, .., last] => app.out.line(format_args!("scans: {}, {}", at(first), at(last))),
    }
}

/// The changes of a record: the beginning of a version is an addition or a change; an end without a
/// following version is a removal. A value that was sent during a version is a change.
fn events(
    vault: &Vault,
    resource: Resource,
    versions: &[RecordVersion],
    sent: &[SentVersion],
) -> Result<Vec<Event>, CliError> {
    // The snapshots in which the record or its sent values changed.
    let ends = versions.iter().flat_map(|it| [Some(it.since), it.until]);
    let sends = sent.iter().flat_map(|it| [Some(it.since), it.until]);
    let numbers: BTreeSet<_> = ends.chain(sends).flatten().collect();
    let mut events = Vec::new();
    let mut before = State::default().with_sent(Some(SentValues::new()));
    before.resource_mut(resource);
    for snapshot in numbers {
        let after = state(resource, snapshot, versions, sent);
        let difference = diff::diff(&before, &after);
        if difference == StateDiff::default() {
            continue;
        }
        let found = vault.snapshot(snapshot)?;
        if found.finished.is_none() {
            // A backup that is not finished has no result yet.
            continue;
        }
        let time = found.started;
        let changes = difference.changes.into_iter();
        events.extend(changes.map(|change| Event { snapshot, time, change }));
        before = after;
    }
    Ok(events)
}

/// The record in snapshot `number`.
fn state(
    resource: Resource,
    number: SnapshotId,
    versions: &[RecordVersion],
    sent: &[SentVersion],
) -> State {
    let shows = |since: SnapshotId, until: Option<SnapshotId>| {
        since <= number && until.is_none_or(|until| until > number)
    };
    let mut state = State::default();
    let mut values = SentValues::new();
    let records = state.resource_mut(resource);
    if let Some(version) = versions.iter().find(|it| shows(it.since, it.until)) {
        let key = version.record.key.clone();
        records.insert(key.clone(), version.record.clone());
        let fields = values.entry((resource, key)).or_default();
        let sent = sent.iter().filter(|it| shows(it.since, it.until));
        fields.extend(sent.map(|it| (it.field.clone(), it.value.clone())));
    }
    state.with_sent(Some(values))
}

fn document(
    args: &Args,
    account: &str,
    key: &RecordKey,
    events: &[Event],
    scans: &[SeriesSample<i64>],
) -> Value {
    let events: Vec<_> = events
        .iter()
        .map(|event| {
            let mut value = changes::change(&event.change);
            value["snapshot"] = json!(event.snapshot);
            value["time"] = json!(event.time.iso());
            value
        })
        .collect();
    let scans: Vec<_> = scans
        .iter()
        .map(|it| json!({"snapshot": it.snapshot, "time": it.time.iso(), "scans": it.value}))
        .collect();
    json!({
        "format": 1, "account": account, "resource": args.resource, "id": show::id(key),
        "changes": events, "scans": scans,
    })
}
