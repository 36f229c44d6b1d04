//! The list of a resource's records in the newest snapshot.

use askama::Template;

use crate::format;
use crate::model::spec::Role;
use crate::model::{Record, Resource, SnapshotId};
use crate::ui::links;
use crate::ui::pages::changes;
use crate::ui::pages::{PageContext, PageError, PageFrame, PagedRows, Pager, resource};
use crate::ui::time_text;
use crate::vault::browse::{PageRange, RecordSlice};

/// Records per page.
const SIZE: u64 = 50;

/// The maximum length of a search text, in characters.
const MAX_SEARCH: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    key: String,
    href: String,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    text: String,
    number: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tab {
    name: &'static str,
    href: String,
    records: String,
    chosen: bool,
}

#[derive(Template)]
#[template(path = "records.html", config = "src/ui/templates/askama.toml")]
struct RecordsPage {
    frame: PageFrame,
    resource: &'static str,
    snapshot: SnapshotId,
    snapshot_href: String,
    action: String,
    q: String,
    tabs: Vec<Tab>,
    names: Vec<&'static str>,
    rows: Vec<Row>,
    pager: Pager,
}

/// Renders the list.
///
/// # Errors
/// [`PageError::NotFound`] when the account or the resource does not exist.
pub fn page(
    context: &PageContext<'_>,
    name: &str,
    which: &str,
    query: &PagedRows,
) -> Result<String, PageError> {
    let which = resource(which)?;
    let mut vault = context.vault(name)?;
    let newest = vault.newest_snapshots(PageRange { skip: 0, take: 1 })?.pop();
    let newest = newest.ok_or_else(|| {
        let hint = format!("Run `linkvault backup {name}` to make one.");
        PageError::not_found(format!("{name} has no snapshot yet"), hint)
    })?;
    let q: String = query.q.trim().chars().take(MAX_SEARCH).collect();
    let q = q.as_str();
    let search = Some(q).filter(|q| !q.is_empty());
    let slice = Pager::slice(query.at(), SIZE);
    let RecordSlice { records, total } = vault.records_of(newest.number, which, search, slice)?;
    let here = links::records(name, which);
    let tabs = Resource::ALL.into_iter().map(|it| Tab {
        name: it.name(),
        href: links::records(name, it),
        records: format::count(newest.outcome(it).map_or(0, |outcome| outcome.records)),
        chosen: it == which,
    });
    let mut names: Vec<_> = columns(which).map(|(_, name)| name).collect();
    let mut rows: Vec<_> = records.iter().map(|record| row(name, which, record)).collect();
    let contents = records.iter().map(|record| changes::content(&vault, which, &record.key));
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    if contents.iter().any(Option::is_some) {
        names.push("content");
        for (row, content) in rows.iter_mut().zip(contents) {
            let text = time_text::cut(&content.unwrap_or_default());
            row.cells.push(Cell { text, number: false });
        }
    }
    let page = RecordsPage {
        frame: context.frame(name, which.name(), Vec::new()),
        resource: which.name(),
        snapshot: newest.number,
        snapshot_href: links::snapshot(name, newest.number),
        q: q.to_owned(),
        tabs: tabs.collect(),
        names,
        rows,
        pager: Pager::new(query.at(), SIZE, total, |page| {
            links::with(&here, &[("q", q), ("page", page)])
        }),
        action: here.clone(),
    };
    Ok(page.render()?)
}

/// Index and name of the fields besides the key.
fn columns(resource: Resource) -> impl Iterator<Item = (usize, &'static str)> {
    let fields = resource.spec().read_fields().enumerate();
    fields.filter(|(_, field)| field.role != Role::Identity).map(|(at, field)| (at, field.name))
}

fn row(account: &str, resource: Resource, record: &Record<'_>) -> Row {
    let cell = |(at, _): (usize, &str)| {
        let value = record.values.get(at);
        Cell {
            text: value.map(|value| time_text::cut(&value.cell())).unwrap_or_default(),
            number: matches!(value, Some(crate::model::FieldValue::Int(_))),
        }
    };
    Row {
        key: record.key.to_string(),
        href: links::record(account, resource, &record.key),
        cells: columns(resource).map(cell).collect(),
    }
}
