//! The paths of pages, and the announcement of lists that will be read next.

use super::crawler::Crawler;
use super::error::CrawlError;
use crate::model::{Resource, Verb};

/// Page sizes, largest first. Each divides the one before, so that a listing can continue with a
/// smaller size at any page.
pub(super) const SIZES: &[u64] = &[1000, 500, 100, 50, 10];

/// In each snapshot whose number is a multiple of this, large pages are tried again.
const LARGE_PAGE_INTERVAL: i64 = 10;

/// The path of the list of `resource`, or of the items of channel `parent`.
pub(super) fn list_path(resource: Resource, parent: Option<i64>) -> String {
    let path = resource.spec().endpoint(Verb::List).map_or("", |endpoint| endpoint.path);
    parent.map_or_else(|| path.to_owned(), |parent| path.replace(":id", &parent.to_string()))
}

/// The page size with which a listing begins. What was too much once may have been a bad hour: now
/// and then a large page is tried again.
pub(super) fn first_size(crawler: &Crawler<'_>, resource: Resource) -> Result<u64, CrawlError> {
    let learned = crawler.vault.learned_page_size(resource)?;
    let learned = learned.filter(|_| crawler.snapshot.0 % LARGE_PAGE_INTERVAL != 0);
    Ok(learned.unwrap_or(SIZES[0]))
}

pub(super) fn page_path(list: &str, size: u64, number: u64) -> String {
    format!("{list}?limit={size}&page={number}")
}

/// Announces the first pages of these lists, which will be read next.
pub(super) fn announce_lists(
    crawler: &mut Crawler<'_>,
    lists: impl Iterator<Item = (Resource, Option<i64>)>,
) -> Result<(), CrawlError> {
    if !crawler.client.may_read_ahead() {
        return Ok(());
    }
    let mut paths = Vec::new();
    for (resource, parent) in lists.take(ANNOUNCED) {
        if crawler.vault.listing(resource, parent)?.is_none() {
            let size = first_size(crawler, resource)?;
            paths.push(page_path(&list_path(resource, parent), size, 1));
        }
    }
    crawler.client.announce(paths);
    Ok(())
}

/// Maximum number of reads that are announced at once; more than can be in flight.
pub(super) const ANNOUNCED: usize = 40;
