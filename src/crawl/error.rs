//! Errors of crawls.

use crate::api::error::{ApiError, ApiErrorKind};
use crate::model::RecordProblem;
use crate::vault::VaultError;

/// Why a crawl stopped. The pages that it had read are in the vault, and the next crawl continues
/// from there.
///
/// Every function that reads or writes the vault can return [`Vault`](Self::Vault), and every one
/// that sends requests [`Api`](Self::Api). An `# Errors` section names only further conditions.
#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// A request has no usable response.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// The vault cannot be read or written.
    #[error("{0}")]
    Vault(#[from] VaultError),
    /// The response to `/api/account` has no id by which the vault's account could be checked.
    #[error("the service's answer to /api/account cannot be used: {0}")]
    Account(RecordProblem),
}

/// Whether an error ends the crawl, not only the reading of one resource.
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
