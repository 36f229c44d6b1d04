//! Errors of runs.

use crate::api::error::ApiError;
use crate::apply::stale::StaleStep;
use crate::crawl::{CrawlError, Unread};
use crate::model::{Resource, RunId};
use crate::vault::VaultError;
use crate::vault::checkpoints::CheckpointError;

/// Why a run did not begin or did not finish.
///
/// Every function that reads or writes the vault can return [`Vault`](Self::Vault). An `# Errors`
/// section names only further conditions.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Nothing was written: records changed since the plan was made.
    #[error("the plan is stale: {}", first_of(.0))]
    Stale(Vec<StaleStep>),
    /// Nothing was written: the plan was applied before, in this run.
    #[error("this plan was applied already, in run {0}")]
    Used(RunId),
    /// Nothing was written: a list of a resource that the plan changes could not be read
    /// completely.
    #[error("{} could not be read completely, so nothing was written: {}", .0.resource, .0.why)]
    Unread(#[from] Unread),
    /// Nothing was written: a step is not in the resource table.
    #[error("step {step}: {why}")]
    Step {
        /// Number of the step.
        step: u32,
        /// The reason, for people.
        why: String,
    },
    /// The text of a step in the journal is invalid.
    #[error("step {step} is damaged in the journal: {why}")]
    Journal {
        /// Number of the step.
        step: u32,
        /// The reason, for people.
        why: String,
    },
    /// The run with this number is finished, so no decision is possible.
    #[error("run {0} is finished")]
    Finished(RunId),
    /// The run stopped at a request, and can be continued.
    #[error("run {run} stopped: {source}")]
    Stopped {
        /// Number of the run.
        run: RunId,
        /// The error of the request.
        source: ApiError,
    },
    /// The run stopped because a list that would show an outcome cannot be read completely.
    #[error("run {run} stopped: {resource} could not be read completely: {why}")]
    OutcomeUnreadable {
        /// Number of the run.
        run: RunId,
        /// The resource of the list.
        resource: Resource,
        /// The reason, for people.
        why: String,
    },
    /// The run stopped before a write, because its journal could not be put into the store of its
    /// vault.
    #[error("run {run} stopped{}: {source}", if *.wrote { "" } else { " before its first write" })]
    NotStored {
        /// Number of the run.
        run: RunId,
        /// Whether the run may have written to the service before.
        wrote: bool,
        /// Why the journal could not be put.
        source: CheckpointError,
    },
    /// A crawl failed, before the first write or after the last one.
    #[error("{0}")]
    Crawl(#[from] CrawlError),
    /// The vault cannot be read or written.
    #[error("{0}")]
    Vault(#[from] VaultError),
}

fn first_of(all: &[StaleStep]) -> String {
    let more = all.len().saturating_sub(1);
    let first = all.first().map(ToString::to_string).unwrap_or_default();
    if more == 0 { first } else { format!("{first} (and {more} more)") }
}
