//! Why a plan was not applied, or not to its end.

use crate::api::error::ApiError;
use crate::apply::stale::StaleStep;
use crate::crawl::{CrawlError, Unread};
use crate::model::Resource;
use crate::vault::VaultError;

/// Why a run did not begin or did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Nothing was written: what the plan touches is not what it was made for.
    #[error("the plan is stale: {}", first(.0))]
    Stale(Vec<StaleStep>),
    /// Nothing was written: the plan was applied before.
    #[error("this plan was applied already, in run {0}")]
    Used(i64),
    /// Nothing was written: what the plan touches could not be read whole.
    #[error("{} could not be read whole, so nothing was written: {}", .0.resource, .0.why)]
    Unread(#[from] Unread),
    /// Nothing was written: a step is not one that the API has.
    #[error("step {step}: {why}")]
    Step { step: u32, why: String },
    /// The journal does not say what a step is.
    #[error("step {step} is damaged in the journal: {why}")]
    Journal { step: u32, why: String },
    /// There is nothing left to decide on.
    #[error("run {0} is finished")]
    Finished(i64),
    /// The run stopped, and can go on.
    #[error("run {run} stopped: {source}")]
    Stopped { run: i64, source: ApiError },
    /// The run stopped since a list that would tell an outcome cannot be read.
    #[error("run {run} stopped: {resource} could not be read whole: {why}")]
    Unsettled { run: i64, resource: Resource, why: String },
    /// Before the first write, or between the last and the end.
    #[error("{0}")]
    Crawl(#[from] CrawlError),
    #[error("{0}")]
    Vault(#[from] VaultError),
}

fn first(all: &[StaleStep]) -> String {
    let more = all.len().saturating_sub(1);
    let first = all.first().map(ToString::to_string).unwrap_or_default();
    if more == 0 { first } else { format!("{first} (and {more} more)") }
}
