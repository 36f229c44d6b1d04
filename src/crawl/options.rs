//! What a crawl is asked for.

use std::collections::BTreeSet;

use crate::model::Resource;

/// Which statistics to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatisticsMode {
    /// Those of the codes whose scans moved since the last fetch.
    #[default]
    Changed,
    All,
    None,
}

/// What a crawl is to do.
#[derive(Debug, Clone)]
pub struct CrawlOptions {
    /// What to read; everything else stays as last known.
    pub scope: Vec<Resource>,
    pub stats: StatisticsMode,
    /// The most statistics in this snapshot; the rest waits for the next.
    pub stats_budget: Option<u64>,
    /// Starts over instead of going on with a crawl that was stopped.
    pub fresh: bool,
    pub tag: Option<String>,
    /// What the configuration leaves out for good: it is as last known, and a
    /// snapshot without it lacks nothing.
    pub excluded: Vec<Resource>,
    /// The service's base URL, as the vault is to remember it.
    pub service: String,
    /// Accepts that the same account answers at another URL now.
    pub service_moved: bool,
    /// Records that the caller has deleted. That they are gone is no reason to confirm
    /// the account.
    pub deleted: BTreeSet<(Resource, i64)>,
    /// Confirms the account before the snapshot ends, where the crawl took more than a
    /// minute. A run does not need it: it proves the account before it writes. After a
    /// pause between two requests, every crawl confirms it.
    pub confirm: bool,
}

impl CrawlOptions {
    /// Everything, from the service at `service`.
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
        }
    }

    /// The same for the resources in `scope` and their parents alone.
    #[must_use]
    pub fn only(self, scope: &[Resource]) -> Self {
        let scope = with_parents(scope);
        let excluded = self.excluded.into_iter().filter(|it| !scope.contains(it)).collect();
        Self { scope, excluded, ..self }
    }

    /// The same without `skip`, nor the items of channels that are not read.
    #[must_use]
    pub fn excluding(self, skip: &[Resource]) -> Self {
        let skipped = |it: &Resource| {
            skip.contains(it) || it.spec().parent.is_some_and(|parent| skip.contains(&parent))
        };
        let (excluded, scope) = self.scope.into_iter().partition(skipped);
        Self { scope, excluded, ..self }
    }
}

/// The resources in `which`, and those without which they cannot be listed: the items of
/// channels need the channels.
#[must_use]
pub fn with_parents(which: &[Resource]) -> Vec<Resource> {
    let is_parent = |it| which.iter().any(|resource| resource.spec().parent == Some(it));
    let wanted = |it: &Resource| which.contains(it) || is_parent(*it);
    Resource::ALL.into_iter().filter(wanted).collect()
}
