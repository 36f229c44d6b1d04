//! The page of a record: its values and its history.

use askama::Template;

use crate::clock::Timestamp;
use crate::model::differences::equal_fields;
use crate::model::{Record, RecordKey, Resource, SnapshotId};
use crate::ui::chart::{Chart, chart};
use crate::ui::links;
use crate::ui::pages::changes::{self, ChangeRow};
use crate::ui::pages::{Link, PageContext, PageError, PageFrame, resource};
use crate::ui::time_text::{self, TimeText};
use crate::vault::browse::ChangedRecord;
use crate::vault::read::RecordVersion;
use crate::vault::{Vault, VaultError};

/// The most events that are shown, the newest first.
const MAX_EVENTS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: &'static str,
    value: Option<String>,
}

/// The change of the record in one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    snapshot: Link,
    time: TimeText,
    change: ChangeRow,
}

#[derive(Template)]
#[template(path = "record.html", config = "src/ui/templates/askama.toml")]
struct RecordPage {
    frame: PageFrame,
    resource: &'static str,
    title: &'static str,
    key: String,
    name: String,
    /// Whether the newest snapshot does not have it.
    gone: bool,
    fields: Vec<Field>,
    chart: Vec<Chart>,
    events: Vec<Event>,
    left_out: usize,
}

/// Renders the page of a record.
///
/// # Errors
/// [`PageError::NotFound`] when the account does not exist or no snapshot has the record.
pub fn page(
    context: &PageContext<'_>,
    name: &str,
    which: &str,
    key: &str,
) -> Result<String, PageError> {
    let which = resource(which)?;
    let mut vault = context.vault(name)?;
    let not_found = || {
        let hint = format!("The list of {which} shows the existing records.");
        PageError::not_found(format!("No snapshot of {name} has {which} {key}"), hint)
    };
    let key = RecordKey::parse(which, key).ok_or_else(not_found)?;
    let versions = vault.history(which, &key)?;
    let newest = versions.last().ok_or_else(not_found)?;
    let gone = newest.until.is_some();
    let at = match newest.until {
        Some(_) => None,
        None => vault.snapshot_times(1)?.first().map(|(number, _)| *number),
    };
    // The counter in the newest version is as old as the version.
    let shown = match at {
        Some(at) => vault.record(at, which, &key)?.unwrap_or_else(|| newest.record.clone()),
        None => newest.record.clone(),
    };
    let (events, left_out) = events(&vault, name, which, &key, &versions, context.now)?;
    let scans = match which {
        Resource::QrCodes => vault.scans(key.id())?,
        _ => Vec::new(),
    };
    let content = changes::content(&vault, which, &key)?;
    let called = content.as_deref().map(time_text::cut);
    let called = called.unwrap_or_else(|| changes::name(which, &shown));
    let mut fields = fields(which, &shown);
    if let Some(content) = content {
        fields.push(Field { name: "content (as sent)", value: Some(content) });
    }
    let way = vec![Link::new(links::records(name, which), which.name())];
    let page = RecordPage {
        frame: context.frame(name, &key.to_string(), way),
        resource: which.name(),
        title: which.spec().title,
        key: key.to_string(),
        name: called,
        gone,
        fields,
        chart: match scans.is_empty() {
            true => Vec::new(),
            false => {
                vec![chart("scans", "Scans over time", ("scan", "scans"), &scans, context.now)]
            }
        },
        events,
        left_out,
    };
    Ok(page.render()?)
}

fn fields(resource: Resource, record: &Record<'_>) -> Vec<Field> {
    let named = resource.spec().read_fields().zip(&record.values);
    named
        .map(|(field, value)| Field { name: field.name, value: time_text::value(&value.json()) })
        .collect()
}

/// The history of the record, newest first, and the number of events that are not shown. The
/// beginning of a version is an addition or a change; an end without a following version is a
/// removal.
fn events(
    vault: &Vault,
    account: &str,
    resource: Resource,
    key: &RecordKey,
    versions: &[RecordVersion],
    now: Timestamp,
) -> Result<(Vec<Event>, usize), VaultError> {
    let mut steps: Vec<(SnapshotId, ChangedRecord)> = Vec::new();
    for (at, version) in versions.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &versions[at]);
        let before = before.filter(|before| before.until == Some(version.since));
        let before = before.map(|it| it.record.clone());
        let after = &version.record;
        // A version that differs only in spelling is not a change.
        let differs = |before: &Record<'_>| !equal_fields(resource, key, &before.raw, &after.raw);
        if before.as_ref().is_none_or(differs) {
            let after = Some(after.clone());
            steps.push((version.since, ChangedRecord { key: key.clone(), before, after }));
        }
        let next = versions.get(at + 1).map(|next| next.since);
        if let Some(until) = version.until.filter(|until| next != Some(*until)) {
            let before = Some(version.record.clone());
            steps.push((until, ChangedRecord { key: key.clone(), before, after: None }));
        }
    }
    let left_out = steps.len().saturating_sub(MAX_EVENTS);
    let mut events = Vec::new();
    for (number, changed) in steps.iter().rev().take(MAX_EVENTS) {
        let snapshot = vault.snapshot(*number)?;
        let href = match snapshot.forgotten {
            None => links::snapshot(account, *number),
            Some(_) => String::new(),
        };
        events.push(Event {
            snapshot: Link::new(href, format!("#{number}")),
            time: TimeText::new(snapshot.started, now),
            change: changes::row(account, resource, changed, None),
        });
    }
    Ok((events, left_out))
}
