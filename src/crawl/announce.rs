//! The paths of pages, and the announcement of lists that will be read next.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::crawler::Crawler;
use super::error::CrawlError;
use crate::model::{Resource, SnapshotId, Verb};
use crate::vault::Vault;

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
pub(super) fn first_size(
    vault: &Vault,
    snapshot: SnapshotId,
    resource: Resource,
) -> Result<u64, CrawlError> {
    let learned = vault.learned_page_size(resource)?;
    let learned = learned.filter(|_| snapshot.0 % LARGE_PAGE_INTERVAL != 0);
    Ok(learned.unwrap_or(SIZES[0]))
}

pub(super) fn page_path(list: &str, size: u64, number: u64) -> String {
    format!("{list}?limit={size}&page={number}")
}

/// The list of a resource, or of the items of a channel.
pub(super) type List = (Resource, Option<i64>);

/// Announces the first pages of these lists, which will be read next.
pub(super) fn announce_lists(
    crawler: &mut Crawler<'_>,
    lists: impl Iterator<Item = List>,
) -> Result<(), CrawlError> {
    let Crawler { client, vault, snapshot, .. } = crawler;
    let (mut sizes, mut failure) = (BTreeMap::new(), None);
    let paths = lists.map_while(|(resource, parent)| {
        let size = match sizes.entry(resource) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => match first_size(vault, *snapshot, resource) {
                Ok(size) => *unknown.insert(size),
                Err(error) => {
                    failure = Some(error);
                    return None;
                }
            },
        };
        Some(page_path(&list_path(resource, parent), size, 1))
    });
    client.announce(paths);
    failure.map_or(Ok(()), Err)
}
