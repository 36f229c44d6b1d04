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

impl ApplyError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Stale(_) => Some("nothing was written; make the plan anew and look at it"),
            Self::Used(_) => Some("nothing was written; make a new plan, which may be empty"),
            Self::Finished(_) => None,
            Self::Unread(_) => Some("try again when the service answers for it"),
            Self::Journal { .. } => Some("`linkvault check` says what is hit"),
            Self::Step { .. } => Some("nothing was written; make the plan anew"),
            Self::Stopped { source, .. } => Some(source.hint()),
            Self::Unsettled { .. } => Some("`linkvault resume` goes on when the service answers"),
            Self::Crawl(CrawlError::Api(error)) => Some(error.hint()),
            Self::Crawl(CrawlError::Vault(error)) | Self::Vault(error) => error.hint(),
            Self::Crawl(CrawlError::Account(_)) => None,
        }
    }
}

fn first(all: &[StaleStep]) -> String {
    let more = all.len().saturating_sub(1);
    let first = all.first().map(ToString::to_string).unwrap_or_default();
    if more == 0 { first } else { format!("{first} (and {more} more)") }
}
