//! Options of a crawl.

use std::collections::BTreeSet;

use super::account::AccountCheck;
use crate::model::Resource;

/// Which statistics to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatisticsMode {
    /// Statistics of the codes whose scans changed since the last fetch.
    #[default]
    Changed,
    /// Statistics of all codes.
    All,
    /// No statistics.
    None,
}

/// The options of a crawl.
#[derive(Debug, Clone)]
pub struct CrawlOptions {
    /// Resources to read; all others are as in the snapshot before.
    pub scope: Vec<Resource>,
    /// Which statistics to fetch.
    pub stats: StatisticsMode,
    /// Maximum number of statistics in this snapshot; the rest waits for the next.
    pub stats_budget: Option<u64>,
    /// Starts anew instead of continuing an interrupted crawl.
    pub fresh: bool,
    /// Tag of the snapshot.
    pub tag: Option<String>,
    /// Resources that the configuration excludes: they are as in the snapshot before, which is
    /// complete without them.
    pub excluded: Vec<Resource>,
    /// The service's base URL, as the vault stores it.
    pub service: String,
    /// Accepts another URL for the same account.
    pub service_moved: bool,
    /// Records that the caller has deleted. Their absence is no reason to confirm the account.
    pub deleted: BTreeSet<(Resource, i64)>,
    /// Confirms the account before the snapshot is finished, if the crawl took more than a minute.
    /// A run does not need it: it confirms the account before it writes. After a pause between two
    /// requests, every crawl confirms it.
    pub confirm: bool,
    /// A check that the caller made just before, instead of the crawl's first request. Ignored if
    /// the account itself is to be read, or if the vault is new.
    pub checked: Option<AccountCheck>,
}

impl CrawlOptions {
    /// All resources of the service at `service`.
    #[must_use]
    pub fn new(service: &str) -> Self {
        Self {
            scope: Resource::ALL.to_vec(),
            stats: StatisticsMode::default(),
            stats_budget: None,
            fresh: false,
            tag: None,
            excluded: Vec::new(),
            service: service.trim_end_matches('/').to_owned(),
            service_moved: false,
            deleted: BTreeSet::new(),
            confirm: true,
            checked: None,
        }
    }

    /// Reads only the resources in `scope` and their parents.
    #[must_use]
    pub fn only(self, scope: &[Resource]) -> Self {
        let scope = with_parents(scope);
        let excluded = self.excluded.into_iter().filter(|it| !scope.contains(it)).collect();
        Self { scope, excluded, ..self }
    }

    /// Excludes `skip`, and the items of channels if channels are excluded.
    #[must_use]
    pub fn excluding(self, skip: &[Resource]) -> Self {
        let skipped = |it: &Resource| {
            skip.contains(it) || it.spec().parent.is_some_and(|parent| skip.contains(&parent))
        };
        let (excluded, scope) = self.scope.into_iter().partition(skipped);
        Self { scope, excluded, ..self }
    }
}

/// The resources in `which` with their parents: the items of channels need the channels.
#[must_use]
pub fn with_parents(which: &[Resource]) -> Vec<Resource> {
    let is_parent = |it| which.iter().any(|resource| resource.spec().parent == Some(it));
    let wanted = |it: &Resource| which.contains(it) || is_parent(*it);
    Resource::ALL.into_iter().filter(wanted).collect()
}
