//! One snapshot: what it holds, and what it changed.

use askama::Template;

use super::super::links;
use super::super::text::{self, When};
use super::changes::{self, ChangeRow, CountRow};
use super::rows::SnapshotRow;
use super::{Desk, Frame, Link, Paged, Pager, Trouble, number};
use crate::human;
use crate::model::Resource;
use crate::vault::snapshot::{Outcome, ReadState};

/// Changes on a page.
pub(super) const SIZE: u64 = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: &'static str,
    state: &'static str,
    tone: &'static str,
    records: String,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "snapshot.html", config = "src/web/templates/askama.toml")]
struct Page {
    frame: Frame,
    snapshot: SnapshotRow,
    finished: Option<When>,
    requests: String,
    waited: String,
    throttled: String,
    digest: Option<String>,
    parts: Vec<Part>,
    before: Option<Link>,
    compare_href: Option<String>,
    counts: Vec<CountRow>,
    only: Option<&'static str>,
    all_href: String,
    changes: Vec<ChangeRow>,
    pager: Pager,
}

/// The snapshot's page.
///
/// # Errors
/// When there is no such snapshot, or the vault cannot be read.
pub fn page(desk: &Desk<'_>, name: &str, text: &str, ask: &Paged) -> Result<String, Trouble> {
    let mut vault = desk.vault(name)?;
    let snapshot = vault.snapshot(number(text)?)?;
    if snapshot.forgotten.is_some() || snapshot.finished.is_none() {
        return Err(crate::vault::VaultError::NoSnapshot(snapshot.number).into());
    }
    let here = links::snapshot(name, snapshot.number);
    let only = Resource::from_name(&ask.resource);
    let before = vault.snapshot_before(snapshot.number)?;
    let (mut counts, mut found, mut total) = (Vec::new(), Vec::new(), 0);
    if let Some(before) = before {
        let pair = (before, snapshot.number);
        counts =
            changes::counts(&vault, pair, |it| links::with(&here, &[("resource", it.name())]))?;
        let wanted = changes::wanted(&counts, only);
        total = wanted.iter().map(|(_, count)| count).sum();
        found = changes::read(&mut vault, name, pair, &wanted, Pager::slice(ask.at(), SIZE))?;
    }
    let link = |page: &str| {
        links::with(&here, &[("resource", only.map_or("", |it| it.name())), ("page", page)])
    };
    let way = vec![Link::new(links::snapshots(name), "Snapshots")];
    let page = Page {
        frame: Frame::of(name, &format!("Snapshot #{}", snapshot.number), way),
        finished: snapshot.finished.map(|time| When::new(time, desk.now)),
        requests: human::count(snapshot.usage.requests),
        waited: human::duration(snapshot.usage.waited),
        throttled: human::count(snapshot.usage.throttled),
        digest: snapshot.digest.clone(),
        parts: snapshot.outcomes.iter().map(part).collect(),
        before: before.map(|it| Link::new(links::snapshot(name, it), format!("#{it}"))),
        compare_href: before
            .map(|_| links::with(&links::compare(name), &[("to", &snapshot.number.to_string())])),
        counts,
        only: only.map(|it| it.name()),
        changes: found,
        pager: Pager::new(ask.at(), SIZE, total, link),
        snapshot: SnapshotRow::new(name, &snapshot, desk.now),
        all_href: here.clone(),
    };
    Ok(page.render()?)
}

fn part(outcome: &Outcome) -> Part {
    Part {
        name: outcome.resource.name(),
        state: match outcome.state {
            ReadState::NotOffered => "not offered",
            other => other.name(),
        },
        tone: if outcome.is_as_meant() { "good" } else { "warning" },
        records: human::count(outcome.records),
        message: outcome.message.as_deref().map(text::cut),
    }
}
