//! The one way to look at the service: what is read, into which vault, and what of it
//! could not be read.

use std::collections::BTreeSet;

use super::crawl;
use super::crawler::CrawlReport;
use super::error::CrawlError;
use super::options::{CrawlOptions, StatisticsMode};
use crate::api::client::Client;
use crate::clock::Clock;
use crate::model::Resource;
use crate::progress::Progress;
use crate::vault::Vault;
use crate::vault::snapshot::{ReadState, Snapshot};

/// A service that can be asked.
pub struct ServiceLink<'a> {
    pub client: &'a mut Client,
    pub clock: &'a dyn Clock,
    pub progress: &'a dyn Progress,
    /// Its base URL, as the vault is to remember it.
    pub service: &'a str,
}

/// What is read of the service.
#[derive(Debug, Clone)]
pub enum ObservationScope<'a> {
    /// What a backup is asked for.
    Backup(&'a CrawlOptions),
    /// These resources and their parents, without statistics.
    Fresh(&'a [Resource]),
    /// The same for a run, which proves the account itself before it writes.
    Run {
        which: &'a [Resource],
        /// Records that the run deleted: that they are gone proves nothing.
        deleted: BTreeSet<(Resource, i64)>,
        /// Goes on with a look that was stopped.
        resume: bool,
    },
}

impl<'a> ObservationScope<'a> {
    /// What a run reads of `which` before it writes anything.
    #[must_use]
    pub const fn before_run(which: &'a [Resource]) -> Self {
        Self::Run { which, deleted: BTreeSet::new(), resume: false }
    }

    fn options(self, service: &str) -> CrawlOptions {
        let (which, deleted, fresh, confirm) = match self {
            Self::Backup(options) => return options.clone(),
            Self::Fresh(which) => (which, BTreeSet::new(), true, true),
            Self::Run { which, deleted, resume } => (which, deleted, !resume, false),
        };
        let options = CrawlOptions::new(service).only(which);
        CrawlOptions { stats: StatisticsMode::None, fresh, deleted, confirm, ..options }
    }
}

/// Reads `scope` of the account behind `link` into a vault: the account's own, or one in
/// memory.
///
/// # Errors
/// When the crawl had to stop. A resource that cannot be read is no error: [`unread`] and
/// [`require_complete`] tell.
pub fn observe(
    link: ServiceLink<'_>,
    scope: ObservationScope<'_>,
    into: &mut Vault,
) -> Result<CrawlReport, CrawlError> {
    let options = scope.options(link.service);
    crawl(link.client, into, link.clock, link.progress, &options)
}

/// A resource that a snapshot does not show whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource} could not be read whole: {why}")]
pub struct Unread {
    pub resource: Resource,
    pub state: ReadState,
    pub why: String,
}

/// What of `which` `snapshot` does not show whole, and why.
#[must_use]
pub fn unread(snapshot: &Snapshot, which: &[Resource]) -> Vec<Unread> {
    let outcomes = snapshot.outcomes.iter();
    let lacking = outcomes.filter(|it| which.contains(&it.resource) && !it.is_complete());
    let unread = lacking.map(|it| Unread {
        resource: it.resource,
        state: it.state,
        why: it.message.clone().unwrap_or_else(|| it.state.name().replace('_', " ")),
    });
    unread.collect()
}

/// Makes sure that `snapshot` shows `which` whole.
///
/// # Errors
/// The first resource that it does not.
pub fn require_complete(snapshot: &Snapshot, which: &[Resource]) -> Result<(), Unread> {
    unread(snapshot, which).into_iter().next().map_or(Ok(()), Err)
}
