//! Every run on an account.

use askama::Template;

use super::super::links;
use super::rows::RunRow;
use super::{Desk, Frame, Paged, Pager, Trouble};

/// Runs on a page.
const SIZE: u64 = 50;

#[derive(Template)]
#[template(path = "runs.html", config = "src/web/templates/askama.toml")]
struct Page {
    frame: Frame,
    runs: Vec<RunRow>,
    pager: Pager,
}

/// The list.
///
/// # Errors
/// When there is no such account, or its vault cannot be read.
pub fn page(desk: &Desk<'_>, name: &str, ask: &Paged) -> Result<String, Trouble> {
    let vault = desk.vault(name)?;
    let found = vault.newest_runs(Pager::slice(ask.at(), SIZE))?;
    let link = |page: &str| links::with(&links::runs(name), &[("page", page)]);
    let page = Page {
        frame: Frame::of(name, "Runs", Vec::new()),
        runs: found.iter().map(|it| RunRow::new(name, it, desk.now)).collect(),
        pager: Pager::new(ask.at(), SIZE, vault.count_runs()?, link),
    };
    Ok(page.render()?)
}
