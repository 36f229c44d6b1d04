//! Observes the service: reads a scope of it into a vault, and reports what could not be read.

use std::collections::BTreeSet;

use super::account::AccountCheck;
use super::crawl;
use super::crawler::CrawlReport;
use super::error::CrawlError;
use super::options::{CrawlOptions, StatisticsMode};
use crate::api::client::Client;
use crate::clock::Clock;
use crate::model::Resource;
use crate::progress::Progress;
use crate::vault::Vault;
use crate::vault::snapshot::{ReadState, ResourceOutcome, Snapshot};

/// The connection to a service.
pub struct ServiceLink<'a> {
    /// Sends the requests.
    pub client: &'a mut Client,
    /// Tells the time of the snapshot.
    pub clock: &'a dyn Clock,
    /// Receives progress events.
    pub progress: &'a dyn Progress,
    /// Its base URL, as the vault stores it.
    pub service: &'a str,
}

/// The part of the service to read.
#[derive(Debug, Clone)]
pub enum ObservationScope<'a> {
    /// The scope of a backup.
    Backup(&'a CrawlOptions),
    /// These resources and their parents, without statistics.
    Fresh(&'a [Resource]),
    /// Like `Fresh`, for a run, which confirms the account itself before it writes.
    Run {
        /// The resources to read, with their parents.
        which: &'a [Resource],
        /// Records that the run deleted: their absence is no sign of another account.
        deleted: BTreeSet<(Resource, i64)>,
        /// Whether to continue an interrupted observation.
        resume: bool,
        /// The run's last check of the account, if it is recent enough to begin with.
        checked: Option<AccountCheck>,
    },
}

impl<'a> ObservationScope<'a> {
    /// The observation of `which` before the first write of a run.
    #[must_use]
    pub const fn before_run(which: &'a [Resource]) -> Self {
        Self::Run { which, deleted: BTreeSet::new(), resume: false, checked: None }
    }

    fn options(self, service: &str) -> CrawlOptions {
        let of = |which| CrawlOptions {
            stats: StatisticsMode::None,
            ..CrawlOptions::new(service).only(which)
        };
        match self {
            Self::Backup(options) => options.clone(),
            Self::Fresh(which) => CrawlOptions { fresh: true, ..of(which) },
            Self::Run { which, deleted, resume, checked } => {
                CrawlOptions { deleted, checked, fresh: !resume, confirm: false, ..of(which) }
            }
        }
    }
}

/// Reads `scope` of the account behind `link` into a vault: the account's own, or one in memory.
///
/// # Errors
/// [`CrawlError`] if the crawl had to stop. A resource that cannot be read is not an error: see
/// [`unread`] and [`require_complete`].
pub fn observe(
    link: ServiceLink<'_>,
    scope: ObservationScope<'_>,
    into: &mut Vault,
) -> Result<CrawlReport, CrawlError> {
    let options = scope.options(link.service);
    crawl(link.client, into, link.clock, link.progress, &options)
}

/// A resource that a snapshot does not contain completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource} could not be read completely: {why}")]
pub struct Unread {
    /// The resource.
    pub resource: Resource,
    /// How reading it ended.
    pub state: ReadState,
    /// The reason, for people.
    pub why: String,
}

/// The resources of `which` that `snapshot` does not contain completely, with the reason, in the
/// order of the table. A resource without an outcome counts as pending.
#[must_use]
pub fn unread(snapshot: &Snapshot, which: &[Resource]) -> Vec<Unread> {
    let unread = |resource: Resource| {
        let outcome = snapshot.outcome(resource);
        if outcome.is_some_and(ResourceOutcome::is_complete) {
            return None;
        }
        let state = outcome.map_or(ReadState::Pending, |it| it.state);
        let message = outcome.and_then(|it| it.message.clone());
        let why = message.unwrap_or_else(|| state.name().replace('_', " "));
        Some(Unread { resource, state, why })
    };
    Resource::ALL.into_iter().filter(|it| which.contains(it)).filter_map(unread).collect()
}

/// Checks that `snapshot` contains `which` completely.
///
/// # Errors
/// The first resource that it does not contain completely.
pub fn require_complete(snapshot: &Snapshot, which: &[Resource]) -> Result<(), Unread> {
    unread(snapshot, which).into_iter().next().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::vault::snapshot::RequestUsage;

    #[test]
    fn a_resource_without_an_outcome_is_unread() {
        let mut vault = Vault::in_memory().unwrap();
        let number = vault.begin(Timestamp(0), None, &[Resource::Pixels]).unwrap();
        vault.conclude(number, Resource::Pixels, ReadState::Complete, None).unwrap();
        let mut snapshot = vault.finish(number, Timestamp(0), RequestUsage::default()).unwrap();
        let which = [Resource::Pixels, Resource::Campaigns];
        let states = |snapshot: &Snapshot| -> Vec<_> {
            unread(snapshot, &which).into_iter().map(|it| (it.resource, it.state)).collect()
        };
        assert_eq!(states(&snapshot), [(Resource::Campaigns, ReadState::Skipped)]);
        snapshot.outcomes.retain(|it| it.resource != Resource::Campaigns);
        assert_eq!(states(&snapshot), [(Resource::Campaigns, ReadState::Pending)]);
        require_complete(&snapshot, &which).unwrap_err();
    }
}
