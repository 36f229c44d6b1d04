//! Writes the outcome of each row of a run's input as a CSV file: what became of the row, the id of
//! its record, and the address of a QR code or a campaign.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::iter;
use std::path::Path;

use super::Env;
use super::error_sources::cannot_write;
use super::output_files::{OutputKind, RESULT_COLUMNS, write_output};
use crate::change::csv_files::write::table;
use crate::change::desired::{DesiredRecord, DesiredState, RecordRef, SourceLocation};
use crate::change::plan::{Conflict, PlanStep, UnsupportedChange};
use crate::format;
use crate::model::natural_key::value_text;
use crate::model::{FieldValue, NaturalKey, Record, RecordKey, Resource, State, Verb};
use crate::vault::journal::{JournalStep, VerifiedState};

/// What is known at the end of a run, or of a plan without steps.
pub(super) struct RunOutcome<'a> {
    /// The input; `None` for a saved plan, whose rows are known by its steps alone.
    pub desired: Option<&'a DesiredState>,
    /// The steps of the run.
    pub steps: &'a [JournalStep],
    /// The steps of the plan, of which the user may have declined some.
    pub planned: &'a [PlanStep],
    /// The rows of the input that the filter leaves out.
    pub filtered: &'a BTreeSet<SourceLocation>,
    /// Changes that the API cannot make.
    pub unsupported: &'a [UnsupportedChange],
    /// Conflicts in which the account's value was kept.
    pub conflicts: &'a [Conflict],
    /// The account after the run; `None` if it could not be read.
    pub state: Option<&'a State>,
}

/// One line of the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct ResultRow {
    source: Option<SourceLocation>,
    resource: Option<Resource>,
    action: &'static str,
    record: String,
    outcome: &'static str,
    id: Option<i64>,
    address: String,
    message: String,
}

/// Writes the file `to`. A failure is a warning and does not change the result of the run.
pub(super) fn write_results(env: &Env, to: Option<&Path>, outcome: &RunOutcome<'_>) {
    let Some(to) = to else { return };
    let rows = result_rows(outcome);
    let written = csv_bytes(&rows)
        .map_err(|error| cannot_write(to, &error))
        .and_then(|bytes| write_output(to, OutputKind::Results, env.force, &bytes));
    match written {
        Ok(()) => {
            let count = format::counted(rows.len() as u64, "row", "rows");
            let to = to.display();
            env.note(format_args!("the outcome of {count} was written to {to}"));
        }
        Err(error) => env.warn(format_args!("the results are missing: {}", error.message)),
    }
}

/// One row for each step, unsupported change and conflict, and one for each row of the input without
/// either; in the order of the input.
fn result_rows(outcome: &RunOutcome<'_>) -> Vec<ResultRow> {
    let mut rows: Vec<ResultRow> = Vec::new();
    let steps = outcome.steps.iter();
    rows.extend(steps.filter_map(|row| step_row(row, outcome.state)));
    rows.extend(outcome.unsupported.iter().map(unsupported_row));
    rows.extend(outcome.conflicts.iter().map(conflict_row));
    let mut told: HashSet<_> = rows.iter().filter_map(|row| row.source.clone()).collect();
    let sent = |step: &&PlanStep| step.source.as_ref().is_none_or(|it| told.contains(it));
    let declined: Vec<_> =
        outcome.planned.iter().filter(|it| !sent(it)).map(declined_row).collect();
    told.extend(declined.iter().filter_map(|row| row.source.clone()));
    rows.extend(declined);
    let unchanged = outcome.desired.map(|desired| unchanged_rows(desired, outcome.state, &told));
    rows.extend(unchanged.into_iter().flatten().map(|row| match &row.source {
        Some(source) if outcome.filtered.contains(source) => {
            ResultRow { outcome: "filtered", ..row }
        }
        _ => row,
    }));
    // Steps without a place in a file stay in their order, before the others.
    rows.sort_by(|one, other| one.source.cmp(&other.source));
    rows
}

fn step_row(row: &JournalStep, state: Option<&State>) -> Option<ResultRow> {
    let step: PlanStep = serde_json::from_str(&row.spec).ok()?;
    let id = row.id.or(step.id);
    let record = id.zip(state).and_then(|(id, state)| record_of(state, step.resource, id));
    let differs = row.verified.is_some_and(|it| it != VerifiedState::Verified);
    let remark = row.remark.as_ref().filter(|_| differs);
    Some(ResultRow {
        resource: Some(step.resource),
        action: step.verb.name(),
        record: record_name(step.verb, &step.name, &step.key),
        outcome: row.state.name(),
        id: id.or_else(|| assigned_id(step.verb, &step.key)),
        address: record.map(|it| address(step.resource, it)).unwrap_or_default(),
        message: row.message.as_ref().or(remark).cloned().unwrap_or_default(),
        source: step.source,
    })
}

/// The name of a step's record. Of an assignment, followed by the type and the id of what is
/// assigned: `Shop window/links/103`.
fn record_name(verb: Verb, name: &str, key: &str) -> String {
    let mut parts = key.rsplitn(3, '/');
    match (verb, parts.next(), parts.next()) {
        _ if name.is_empty() || name == key => key.to_owned(),
        (Verb::Assign, Some(id), Some(kind)) => format!("{name}/{kind}/{id}"),
        _ => name.to_owned(),
    }
}

/// The id of what the assignment with this key assigns.
fn assigned_id(verb: Verb, key: &str) -> Option<i64> {
    (verb == Verb::Assign).then(|| last_id(key)).flatten()
}

fn last_id(key: &str) -> Option<i64> {
    key.rsplit('/').next()?.parse().ok()
}

/// The name of an item's channel, and the type and the id of the item.
fn item_name(row: &DesiredRecord, state: Option<&State>) -> String {
    let name_of = |id: i64| {
        let channel = record_of(state?, Resource::Channels, id)?;
        let (place, _) = Resource::Channels.spec().field("name")?;
        channel.values.get(place).map(|name| value_text(name).into_owned())
    };
    let channel = match &row.channel {
        Some(RecordRef::Name(name)) => name.clone(),
        Some(RecordRef::Id(id)) => name_of(*id).unwrap_or_else(|| id.to_string()),
        None => String::new(),
    };
    let kind = row.value(Resource::ChannelItems, "type").map(value_text).unwrap_or_default();
    format!("{channel}/{kind}/{}", row.id.map(|id| id.to_string()).unwrap_or_default())
}

fn declined_row(step: &PlanStep) -> ResultRow {
    ResultRow {
        source: step.source.clone(),
        resource: Some(step.resource),
        action: step.verb.name(),
        record: record_name(step.verb, &step.name, &step.key),
        outcome: "declined",
        id: step.id.or_else(|| assigned_id(step.verb, &step.key)),
        ..ResultRow::default()
    }
}

fn unsupported_row(change: &UnsupportedChange) -> ResultRow {
    ResultRow {
        source: change.source.clone(),
        resource: Some(change.resource),
        record: change.key.clone(),
        outcome: "unsupported",
        id: (change.resource == Resource::ChannelItems).then(|| last_id(&change.key)).flatten(),
        message: change.reason.clone(),
        ..ResultRow::default()
    }
}

fn conflict_row(conflict: &Conflict) -> ResultRow {
    let message = match &conflict.field {
        Some(field) => {
            format!("the `{field}` of the account was kept: {}", conflict.theirs)
        }
        None => "the state of the account was kept".to_owned(),
    };
    ResultRow {
        source: conflict.source.clone(),
        resource: Some(conflict.resource),
        record: conflict.key.clone(),
        outcome: "conflict",
        id: last_id(&conflict.key),
        message,
        ..ResultRow::default()
    }
}

/// The rows of the input that are not in `told`: nothing was to be done for them.
fn unchanged_rows(
    desired: &DesiredState,
    state: Option<&State>,
    told: &HashSet<SourceLocation>,
) -> Vec<ResultRow> {
    let mut rows = Vec::new();
    let in_file = |source: &Option<SourceLocation>| {
        source.clone().filter(|it| it.line.is_some() && !told.contains(it))
    };
    for (resource, wanted) in &desired.resources {
        let ids = state.map(|state| ids_by_key(state, *resource)).unwrap_or_default();
        for row in &wanted.records {
            let Some(source) = in_file(&row.source) else { continue };
            let key = row.natural_key(*resource);
            let id = row.id.or_else(|| ids.get(key.as_ref()?).copied().flatten());
            let record = id.zip(state).and_then(|(id, state)| record_of(state, *resource, id));
            rows.push(ResultRow {
                source: Some(source),
                resource: Some(*resource),
                record: match resource {
                    Resource::ChannelItems => item_name(row, state),
                    _ => {
                        let value = |name: &str| row.value(*resource, name).map(value_text);
                        NaturalKey::text(*resource, value)
                    }
                },
                outcome: UNCHANGED,
                id,
                address: record.map(|it| address(*resource, it)).unwrap_or_default(),
                ..ResultRow::default()
            });
        }
    }
    for link in &desired.campaign_links {
        let Some(source) = in_file(&link.source) else { continue };
        rows.push(ResultRow {
            source: Some(source),
            resource: Some(Resource::Campaigns),
            outcome: UNCHANGED,
            id: Some(link.link),
            ..ResultRow::default()
        });
    }
    rows
}

const UNCHANGED: &str = "unchanged";

/// The records of a resource by natural key; `None` for a key that several of them have.
fn ids_by_key(state: &State, resource: Resource) -> HashMap<NaturalKey, Option<i64>> {
    let mut ids = HashMap::new();
    for record in state.get(resource).into_iter().flat_map(BTreeMap::values) {
        let sent = state.sent_of(resource, &record.key);
        for key in NaturalKey::all_of_record(resource, record, sent) {
            ids.entry(key).and_modify(|id| *id = None).or_insert(Some(record.key.id()));
        }
    }
    ids
}

fn record_of(state: &State, resource: Resource, id: i64) -> Option<&Record<'static>> {
    state.get(resource)?.get(&RecordKey::Id(id))
}

/// The short address of a QR code, or the rotator of a campaign.
fn address(resource: Resource, record: &Record<'_>) -> String {
    let name = match resource {
        Resource::QrCodes => "link",
        Resource::Campaigns => "rotator",
        _ => return String::new(),
    };
    let value = resource.spec().field(name).and_then(|(place, _)| record.values.get(place));
    match value {
        Some(FieldValue::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn csv_bytes(rows: &[ResultRow]) -> std::io::Result<Vec<u8>> {
    let number = |it: Option<String>| it.unwrap_or_default();
    let cells = |row: &ResultRow| {
        let source = row.source.as_ref();
        [
            source.map(|it| it.file.clone()).unwrap_or_default(),
            number(source.and_then(|it| it.line).map(|it| it.to_string())),
            row.resource.map(Resource::name).unwrap_or_default().to_owned(),
            row.action.to_owned(),
            row.record.clone(),
            row.outcome.to_owned(),
            number(row.id.map(|it| it.to_string())),
            row.address.clone(),
            row.message.clone(),
        ]
    };
    let header = RESULT_COLUMNS.map(str::to_owned);
    table(&iter::once(header).chain(rows.iter().map(cells)).collect::<Vec<_>>())
}
