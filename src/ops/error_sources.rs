//! Errors of the modules below as an [`OpError`]: kind, message, hint.

use std::path::Path;

use super::{OpError, OpErrorKind};
use crate::api::base_url::BaseUrlError;
use crate::api::error::{ApiError, ApiErrorKind};
use crate::apply::ApplyError;
use crate::crawl::{CrawlError, Unread};
use crate::vault::VaultError;
use crate::vault::lock::LockError;
use crate::vault::reference::ReferenceError;

impl From<ApiError> for OpError {
    fn from(error: ApiError) -> Self {
        let kind = match error.kind {
            ApiErrorKind::Unauthorised { .. } => OpErrorKind::Unauthorised,
            ApiErrorKind::Interrupted => {
                return Self::new(OpErrorKind::Interrupted, "interrupted; what was read is kept")
                    .hint("run the same command again to go on");
            }
            ApiErrorKind::LimitReached(_) | ApiErrorKind::Throttled(_) => OpErrorKind::Stopped,
            _ => OpErrorKind::Service,
        };
        let hint = error.hint();
        Self::new(kind, error).hint(hint)
    }
}

impl From<VaultError> for OpError {
    fn from(error: VaultError) -> Self {
        let kind = match error {
            VaultError::Missing(_) | VaultError::NoSnapshot(_) => OpErrorKind::NotFound,
            VaultError::InUse(_) => OpErrorKind::Locked,
            _ => OpErrorKind::Vault,
        };
        let hint = error.hint();
        let failure = Self::new(kind, error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What is wrong with the vault of `account`, or not in it.
#[must_use]
pub fn vault_error(error: VaultError, account: &str) -> OpError {
    match error {
        VaultError::NoRun(run) => {
            OpError::new(OpErrorKind::NotFound, format_args!("{account} has no run {run}"))
                .hint(format_args!("`linkvault runs {account}` lists them"))
        }
        error => error.into(),
    }
}

impl From<CrawlError> for OpError {
    fn from(error: CrawlError) -> Self {
        match error {
            CrawlError::Api(error) => error.into(),
            CrawlError::Vault(error) => error.into(),
            CrawlError::Account(_) => Self::new(OpErrorKind::Service, error)
                .hint("check that the account's url is the service's, without /api"),
        }
    }
}

impl From<Unread> for OpError {
    fn from(error: Unread) -> Self {
        Self::new(OpErrorKind::Service, error)
            .hint("nothing was planned or written; --skip leaves a resource out")
    }
}

impl From<LockError> for OpError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io { path, source } => VaultError::io(&path, source).into(),
            LockError::Interrupted => Self::new(OpErrorKind::Interrupted, error),
            LockError::Held(_) => Self::new(OpErrorKind::Locked, error)
                .hint("wait for it, or give --lock-timeout a time"),
        }
    }
}

impl From<ReferenceError> for OpError {
    fn from(error: ReferenceError) -> Self {
        Self::new(OpErrorKind::NotFound, error).hint(
            "a state is named ACCOUNT, ACCOUNT@latest~1, ACCOUNT@#12, ACCOUNT@2026-11-01, \
             ACCOUNT@TAG or ACCOUNT@live; a file by its path",
        )
    }
}

impl From<BaseUrlError> for OpError {
    fn from(error: BaseUrlError) -> Self {
        Self::new(OpErrorKind::Config, error)
    }
}

/// Why a plan was not applied to `account`, or not to its end.
#[must_use]
pub fn apply_error(error: ApplyError, account: &str) -> OpError {
    let go_on = |run| format!("`linkvault resume {account} {run}` goes on; nothing is done twice");
    let (kind, hint) = match &error {
        ApplyError::Stale(_) => {
            (OpErrorKind::Stale, Some("make the plan anew and look at it".to_owned()))
        }
        ApplyError::Used(_) => (OpErrorKind::Stale, error.hint().map(str::to_owned)),
        ApplyError::Journal { .. } => (OpErrorKind::Vault, error.hint().map(str::to_owned)),
        ApplyError::Unread(_) => (OpErrorKind::Service, error.hint().map(str::to_owned)),
        ApplyError::Step { .. } | ApplyError::Finished(_) => {
            (OpErrorKind::Failed, error.hint().map(str::to_owned))
        }
        ApplyError::Unsettled { run, .. } => (OpErrorKind::UnknownOutcome, Some(go_on(run))),
        ApplyError::Stopped { run, source } => {
            let kind = match source.kind {
                ApiErrorKind::Unauthorised { .. } => OpErrorKind::Unauthorised,
                ApiErrorKind::Interrupted => OpErrorKind::Interrupted,
                ApiErrorKind::LimitReached(_) | ApiErrorKind::Throttled(_) => OpErrorKind::Stopped,
                _ => OpErrorKind::Service,
            };
            let mut hint = go_on(run);
            if kind == OpErrorKind::Unauthorised {
                hint = format!("{}\n{hint}", source.hint());
            }
            (kind, Some(hint))
        }
        ApplyError::Crawl(_) | ApplyError::Vault(_) => {
            return match error {
                ApplyError::Crawl(error) => error.into(),
                ApplyError::Vault(error) => vault_error(error, account),
                _ => OpError::new(OpErrorKind::Failed, ""),
            };
        }
    };
    let details: Vec<_> = match &error {
        ApplyError::Stale(all) => all.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let failure = match &error {
        ApplyError::Stale(_) => OpError::new(kind, "the plan is stale; nothing was written"),
        ApplyError::Stopped { run, source } => match &source.kind {
            ApiErrorKind::Interrupted => {
                OpError::new(kind, format_args!("run {run} was interrupted"))
            }
            ApiErrorKind::LimitReached(why) => {
                OpError::new(kind, format_args!("run {run} stopped: {why}"))
            }
            _ => OpError::new(kind, &error),
        },
        error => OpError::new(kind, error),
    };
    let failure = failure.details(details);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A failure to write a file of the program's own.
pub fn cannot_write(path: &Path, error: &std::io::Error) -> OpError {
    OpError::new(OpErrorKind::Failed, format_args!("{} cannot be written: {error}", path.display()))
}
