//! The list of an account's runs.

use askama::Template;

use crate::ui::links;
use crate::ui::pages::rows::RunRow;
use crate::ui::pages::{PageContext, PageError, PageFrame, PagedRows, Pager};

/// Runs per page.
const SIZE: u64 = 50;

#[derive(Template)]
#[template(path = "runs.html", config = "src/ui/templates/askama.toml")]
struct RunsPage {
    frame: PageFrame,
    runs: Vec<RunRow>,
    pager: Pager,
}

/// Renders the list.
///
/// # Errors
/// [`PageError::NotFound`] when the account does not exist or has no vault yet.
pub fn page(context: &PageContext<'_>, name: &str, query: &PagedRows) -> Result<String, PageError> {
    let vault = context.vault(name)?;
    let executor = context.run_executor(name);
    let found = vault.newest_runs(Pager::slice(query.at(), SIZE))?;
    let link = |page: &str| links::with(&links::runs(name), &[("page", page)]);
    let page = RunsPage {
        frame: context.frame(name, "Runs", Vec::new()),
        runs: found.iter().map(|it| RunRow::new(name, it, executor, context.now)).collect(),
        pager: Pager::new(query.at(), SIZE, vault.count_runs()?, link),
    };
    Ok(page.render()?)
}
