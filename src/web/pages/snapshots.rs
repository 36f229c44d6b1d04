//! Every snapshot of an account.

use askama::Template;

use super::super::links;
use super::rows::SnapshotRow;
use super::{Desk, Frame, Paged, Pager, Trouble};

/// Snapshots on a page.
const SIZE: u64 = 50;

#[derive(Template)]
#[template(path = "snapshots.html", config = "src/web/templates/askama.toml")]
struct Page {
    frame: Frame,
    snapshots: Vec<SnapshotRow>,
    compare_href: Option<String>,
    pager: Pager,
}

/// The list.
///
/// # Errors
/// When there is no such account, or its vault cannot be read.
pub fn page(desk: &Desk<'_>, name: &str, ask: &Paged) -> Result<String, Trouble> {
    let vault = desk.vault(name)?;
    let total = vault.count_snapshots()?;
    let found = vault.newest_snapshots(Pager::slice(ask.at(), SIZE))?;
    let link = |page: &str| links::with(&links::snapshots(name), &[("page", page)]);
    let page = Page {
        frame: Frame::of(name, "Snapshots", Vec::new()),
        snapshots: found.iter().map(|it| SnapshotRow::new(name, it, desk.now)).collect(),
        compare_href: (total > 1).then(|| links::compare(name)),
        pager: Pager::new(ask.at(), SIZE, total, link),
    };
    Ok(page.render()?)
}
