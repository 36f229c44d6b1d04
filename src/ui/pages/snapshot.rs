//! The page of a snapshot: its records and its changes.

use askama::Template;

use crate::format;
use crate::model::Resource;
use crate::ui::links;
use crate::ui::pages::changes::{self, ChangeRow, CountRow};
use crate::ui::pages::rows::SnapshotRow;
use crate::ui::pages::{Link, PageContext, PageError, PageFrame, PagedRows, Pager, number};
use crate::ui::time_text::{self, TimeText};
use crate::vault::snapshot::{ReadState, ResourceOutcome};

/// Changes per page.
pub(crate) const SIZE: u64 = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: &'static str,
    state: &'static str,
    tone: &'static str,
    records: String,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "snapshot.html", config = "src/ui/templates/askama.toml")]
struct SnapshotPage {
    frame: PageFrame,
    snapshot: SnapshotRow,
    finished: Option<TimeText>,
    requests: String,
    waited: String,
    throttled: String,
    digest: Option<String>,
    parts: Vec<Part>,
    before: Option<Link>,
    compare_href: Option<String>,
    scans: Option<String>,
    counts: Vec<CountRow>,
    only: Option<&'static str>,
    all_href: String,
    changes: Vec<ChangeRow>,
    pager: Pager,
}

/// Renders the page of a snapshot.
///
/// # Errors
/// [`PageError::NotFound`] when the account or the snapshot does not exist, or the snapshot is
/// forgotten or still running.
pub fn page(
    context: &PageContext<'_>,
    name: &str,
    text: &str,
    query: &PagedRows,
) -> Result<String, PageError> {
    let mut vault = context.vault(name)?;
    let snapshot = vault.snapshot(number(text)?)?;
    if snapshot.forgotten.is_some() || snapshot.finished.is_none() {
        return Err(crate::vault::VaultError::NoSnapshot(snapshot.number).into());
    }
    let here = links::snapshot(name, snapshot.number);
    let only = Resource::from_name(&query.resource);
    let before = vault.snapshot_before(snapshot.number)?;
    let (mut counts, mut scans, mut found, mut total) = (Vec::new(), None, Vec::new(), 0);
    if let Some(before) = before {
        let pair = (before, snapshot.number);
        counts =
            changes::counts(&vault, pair, |it| links::with(&here, &[("resource", it.name())]))?;
        scans = changes::scans(&vault, pair)?;
        let selected = changes::selected(&counts, only);
        total = selected.iter().map(|(_, count)| count).sum();
        found = changes::read(&mut vault, name, pair, &selected, Pager::slice(query.at(), SIZE))?;
    }
    let link = |page: &str| {
        links::with(&here, &[("resource", only.map_or("", |it| it.name())), ("page", page)])
    };
    let way = vec![Link::new(links::snapshots(name), "Snapshots")];
    let page = SnapshotPage {
        frame: context.frame(name, &format!("Snapshot #{}", snapshot.number), way),
        finished: snapshot.finished.map(|time| TimeText::new(time, context.now)),
        requests: format::count(snapshot.usage.requests),
        waited: format::duration(snapshot.usage.waited),
        throttled: format::count(snapshot.usage.throttled),
        digest: snapshot.digest.clone(),
        parts: snapshot.outcomes.iter().map(part).collect(),
        before: before.map(|it| Link::new(links::snapshot(name, it), format!("#{it}"))),
        compare_href: before
            .map(|_| links::with(&links::compare(name), &[("to", &snapshot.number.to_string())])),
        scans,
        counts,
        only: only.map(|it| it.name()),
        changes: found,
        pager: Pager::new(query.at(), SIZE, total, link),
        snapshot: SnapshotRow::new(name, &snapshot, context.now),
        all_href: here.clone(),
    };
    Ok(page.render()?)
}

fn part(outcome: &ResourceOutcome) -> Part {
    Part {
        name: outcome.resource.name(),
        state: match outcome.state {
            ReadState::NotOffered => "not offered",
            other => other.name(),
        },
        tone: if outcome.is_as_requested() { "good" } else { "warning" },
        records: format::count(outcome.records),
        message: outcome.message.as_deref().map(time_text::cut),
    }
}
