//! Changes between two snapshots as table rows, field by field.

use crate::change::diff::{self, ChangeKind};
use crate::change::labels;
use crate::format;
use crate::model::{Record, RecordKey, Resource, SnapshotId, State};
use crate::ui::links;
use crate::ui::time_text;
use crate::vault::browse::{ChangeCount, ChangedRecord, PageRange};
use crate::vault::{Vault, VaultError};

/// A record that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRow {
    pub kind: &'static str,
    pub resource: &'static str,
    pub key: String,
    /// Name of the record.
    pub name: String,
    pub href: String,
    pub fields: Vec<FieldRow>,
}

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRow {
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Number of changed records of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountRow {
    pub resource: Resource,
    pub name: &'static str,
    pub href: String,
    pub counted: ChangeCount,
    pub added: String,
    pub changed: String,
    pub removed: String,
}

impl CountRow {
    pub fn new(resource: Resource, counted: ChangeCount, href: String) -> Self {
        let [added, changed, removed] =
            [counted.added, counted.changed, counted.removed].map(format::count);
        Self { resource, name: resource.name(), href, counted, added, changed, removed }
    }
}

/// The row of a changed record. A QR code is named by its content, if it is known.
#[must_use]
pub fn row(
    account: &str,
    resource: Resource,
    changed: &ChangedRecord,
    content: Option<&str>,
) -> ChangeRow {
    let kind = match (&changed.before, &changed.after) {
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Removed,
        _ => ChangeKind::Changed,
    };
    let state = |record: &Option<Record<'static>>| {
        let mut state = State::default();
        let records = state.resource_mut(resource);
        if let Some(record) = record {
            records.insert(record.key.clone(), record.clone());
        }
        state
    };
    let found = diff::diff(&state(&changed.before), &state(&changed.after));
    let fields = found.changes.into_iter().flat_map(|change| change.fields);
    let fields = fields.map(|it| FieldRow {
        name: it.name,
        before: time_text::value(&it.before),
        after: time_text::value(&it.after),
    });
    let fields = fields.filter(|it| it.before.is_some() || it.after.is_some());
    let record = changed.after.as_ref().or(changed.before.as_ref());
    ChangeRow {
        kind: kind.name(),
        resource: resource.name(),
        key: changed.key.to_string(),
        name: match content {
            Some(content) => time_text::cut(content),
            None => record.map(|record| name(resource, record)).unwrap_or_default(),
        },
        href: links::record(account, resource, &changed.key),
        fields: fields.collect(),
    }
}

/// The content of a QR code, if linkvault sent it.
pub fn content(
    vault: &Vault,
    resource: Resource,
    key: &RecordKey,
) -> Result<Option<String>, VaultError> {
    if resource != Resource::QrCodes {
        return Ok(None);
    }
    Ok(vault.remembered(resource, key)?.get(labels::CONTENT).and_then(labels::content_text))
}

/// The name of a record; empty if it has only its key.
#[must_use]
pub fn name(resource: Resource, record: &Record<'_>) -> String {
    let spec = resource.spec();
    let names = spec.natural_key.iter().chain(&["name", "domain", "alias", "tag"]);
    let value = |name: &&str| {
        let place = spec.read_fields().position(|field| field.name == *name)?;
        let text = record.values.get(place)?.cell().into_owned();
        (!text.is_empty() && record.key != RecordKey::Id(text.parse().unwrap_or(-1)))
            .then_some(text)
    };
    time_text::cut(&names.into_iter().find_map(value).unwrap_or_default())
}

/// Splits a page over the resources: which slice of each resource's changes it shows.
#[must_use]
pub fn spread(counts: &[(Resource, u64)], page: PageRange) -> Vec<(Resource, PageRange)> {
    let (mut skip, mut left) = (page.skip, page.take);
    let mut parts = Vec::new();
    for (resource, count) in counts {
        let here = count.saturating_sub(skip).min(left);
        if here > 0 {
            parts.push((*resource, PageRange { skip, take: here }));
        }
        skip = skip.saturating_sub(*count);
        left -= here;
    }
    parts
}

/// Reads one page of the changes from one snapshot to another.
pub fn read(
    vault: &mut Vault,
    account: &str,
    (from, to): (SnapshotId, SnapshotId),
    counts: &[(Resource, u64)],
    page: PageRange,
) -> Result<Vec<ChangeRow>, VaultError> {
    let mut rows = Vec::new();
    for (resource, slice) in spread(counts, page) {
        let found = vault.changes_of(resource, from, to, slice)?;
        for changed in &found {
            let content = content(vault, resource, &changed.key)?;
            rows.push(row(account, resource, changed, content.as_deref()));
        }
    }
    Ok(rows)
}

/// Counts the changed records of each resource that has any. `link` returns the URL of the
/// changes of one resource.
pub fn counts(
    vault: &Vault,
    (from, to): (SnapshotId, SnapshotId),
    link: impl Fn(Resource) -> String,
) -> Result<Vec<CountRow>, VaultError> {
    let mut rows = Vec::new();
    for resource in Resource::ALL {
        let counted = vault.count_changes(resource, from, to)?;
        if counted.all() > 0 {
            rows.push(CountRow::new(resource, counted, link(resource)));
        }
    }
    Ok(rows)
}

/// The scans between two snapshots, such as `+3 scans on 2 QR codes`; `None` if there are none.
///
/// # Errors
/// If the vault cannot be read.
pub fn scans(
    vault: &Vault,
    (from, to): (SnapshotId, SnapshotId),
) -> Result<Option<String>, VaultError> {
    let new = vault.scans_between(from, to)?;
    Ok((new.codes > 0).then(|| format::new_scans(new.scans, new.codes)))
}

/// The counts of all resources, or of `only`.
#[must_use]
pub fn selected(counts: &[CountRow], only: Option<Resource>) -> Vec<(Resource, u64)> {
    let selected = counts.iter().filter(|it| only.is_none_or(|only| it.resource == only));
    selected.map(|it| (it.resource, it.counted.all())).collect()
}

#[cfg(test)]
mod tests {
    use crate::model::DecodedRecord;
    use crate::ui::pages::changes::*;

    fn record(resource: Resource, raw: &'static str) -> Option<Record<'static>> {
        Some(DecodedRecord::read(resource, Some(1), raw).unwrap().record.into_owned())
    }

    #[test]
    fn a_change_is_shown_field_by_field() {
        let changed = ChangedRecord {
            key: RecordKey::Id(1),
            before: record(Resource::Campaigns, r#"{"id":1,"name":"a","public":true}"#),
            after: record(Resource::Campaigns, r#"{"id":1,"name":"b","public":true,"new":[1]}"#),
        };
        let row = row("main", Resource::Campaigns, &changed, None);
        assert_eq!((row.kind, row.name.as_str()), ("changed", "b"));
        assert_eq!(row.href, "/accounts/main/records/campaigns/1");
        let fields: Vec<_> = row
            .fields
            .iter()
            .map(|it| (it.name.as_str(), it.before.as_deref(), it.after.as_deref()))
            .collect();
        assert_eq!(fields, [("name", Some("a"), Some("b")), ("new", None, Some("[1]"))]);
    }

    #[test]
    fn another_spelling_is_a_change_without_fields() {
        let changed = ChangedRecord {
            key: RecordKey::Id(1),
            before: record(Resource::Campaigns, r#"{"id":"1","domain":"a"}"#),
            after: record(Resource::Campaigns, r#"{"id":1,"name":"a"}"#),
        };
        let row = row("main", Resource::Campaigns, &changed, None);
        assert_eq!((row.kind, row.fields.len()), ("changed", 0));
    }

    #[test]
    fn a_page_is_spread_over_the_resources() {
        let counts = [(Resource::Domains, 3), (Resource::Campaigns, 60), (Resource::Pixels, 2)];
        let at = |skip| {
            let parts = spread(&counts, PageRange { skip, take: 50 });
            parts
                .into_iter()
                .map(|(it, slice)| (it.name(), slice.skip, slice.take))
                .collect::<Vec<_>>()
        };
        assert_eq!(at(0), [("domains", 0, 3), ("campaigns", 0, 47)]);
        assert_eq!(at(50), [("campaigns", 47, 13), ("pixels", 0, 2)]);
        assert_eq!(at(100), []);
    }
}
