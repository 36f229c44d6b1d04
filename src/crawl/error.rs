//! Why a crawl stopped before its end. What it had read is in the vault.

use crate::api::error::{ApiError, ApiErrorKind};
use crate::model::RecordProblem;
use crate::vault::VaultError;

/// Why a crawl stopped.
#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("{0}")]
    Vault(#[from] VaultError),
    /// The service's account has no identity to hold a vault to.
    #[error("the service's answer to /api/account cannot be used: {0}")]
    Account(RecordProblem),
}

/// Whether an error ends the whole crawl, and not only the reading of one resource.
pub(super) fn is_fatal(error: &CrawlError) -> bool {
    let CrawlError::Api(error) = error else { return true };
    matches!(
        error.kind,
        ApiErrorKind::Interrupted
            | ApiErrorKind::LimitReached(_)
            | ApiErrorKind::Throttled(_)
            | ApiErrorKind::NotSent(_)
            | ApiErrorKind::Untrusted(_)
    )
}
