//! The list of an account's snapshots.

use askama::Template;

use crate::ui::links;
use crate::ui::pages::rows::SnapshotRow;
use crate::ui::pages::{PageContext, PageError, PageFrame, PagedRows, Pager};

/// Snapshots per page.
const SIZE: u64 = 50;

#[derive(Template)]
#[template(path = "snapshots.html", config = "src/ui/templates/askama.toml")]
struct SnapshotsPage {
    frame: PageFrame,
    snapshots: Vec<SnapshotRow>,
    compare_href: Option<String>,
    pager: Pager,
}

/// Renders the list.
///
/// # Errors
/// [`PageError::NotFound`] when the account does not exist or has no vault yet.
pub fn page(context: &PageContext<'_>, name: &str, query: &PagedRows) -> Result<String, PageError> {
    let vault = context.vault(name)?;
    let total = vault.count_snapshots()?;
    let found = vault.newest_snapshots(Pager::slice(query.at(), SIZE))?;
    let link = |page: &str| links::with(&links::snapshots(name), &[("page", page)]);
    let page = SnapshotsPage {
        frame: context.frame(name, "Snapshots", Vec::new()),
        snapshots: found.iter().map(|it| SnapshotRow::new(name, it, context.now)).collect(),
        compare_href: (total > 1).then(|| links::compare(name)),
        pager: Pager::new(query.at(), SIZE, total, link),
    };
    Ok(page.render()?)
}
