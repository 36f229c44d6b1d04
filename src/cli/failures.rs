//! What the rooms below call an error, told to a person: kind, cause, hint.

use std::path::Path;

use crate::api::base_url::BaseUrlError;
use crate::api::error::{ApiError, ApiErrorKind};
use crate::apply::ApplyError;
use crate::cli::error::{Failure, Kind};
use crate::crawl::CrawlError;
use crate::vault::VaultError;
use crate::vault::lock::LockError;
use crate::vault::reference::ReferenceError;

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let kind = match error.kind {
            ApiErrorKind::Unauthorised { .. } => Kind::Unauthorised,
            ApiErrorKind::Interrupted => {
                return Self::new(Kind::Interrupted, "interrupted; what was read is kept")
                    .hint("run the same command again to go on");
            }
            ApiErrorKind::LimitReached(_) | ApiErrorKind::Throttled(_) => Kind::Stopped,
            _ => Kind::Service,
        };
        let hint = error.hint();
        Self::new(kind, error).hint(hint)
    }
}

impl From<VaultError> for Failure {
    fn from(error: VaultError) -> Self {
        let kind = match error {
            VaultError::Missing(_) | VaultError::NoSnapshot(_) => Kind::NotFound,
            VaultError::InUse(_) => Kind::Locked,
            _ => Kind::Vault,
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
pub fn of_vault(error: VaultError, account: &str) -> Failure {
    match error {
        VaultError::NoRun(run) => {
            Failure::new(Kind::NotFound, format_args!("{account} has no run {run}"))
                .hint(format_args!("`linkvault runs {account}` lists them"))
        }
        error => error.into(),
    }
}

impl From<CrawlError> for Failure {
    fn from(error: CrawlError) -> Self {
        match error {
            CrawlError::Api(error) => error.into(),
            CrawlError::Vault(error) => error.into(),
            CrawlError::Account(_) => Self::new(Kind::Service, error)
                .hint("check that the account's url is the service's, without /api"),
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io { path, source } => VaultError::io(&path, source).into(),
            LockError::Interrupted => Self::new(Kind::Interrupted, error),
            LockError::Held(_) => {
                Self::new(Kind::Locked, error).hint("wait for it, or give --lock-timeout a time")
            }
        }
    }
}

impl From<ReferenceError> for Failure {
    fn from(error: ReferenceError) -> Self {
        Self::new(Kind::NotFound, error).hint(
            "a state is named ACCOUNT, ACCOUNT@latest~1, ACCOUNT@#12, ACCOUNT@2026-11-01, \
             ACCOUNT@TAG or ACCOUNT@live; a file by its path",
        )
    }
}

impl From<BaseUrlError> for Failure {
    fn from(error: BaseUrlError) -> Self {
        Self::new(Kind::Config, error)
    }
}

/// Why a plan was not applied to `account`, or not to its end.
#[must_use]
pub fn of_apply(error: ApplyError, account: &str) -> Failure {
    let go_on = |run| format!("`linkvault resume {account} {run}` goes on; nothing is done twice");
    let (kind, hint) = match &error {
        ApplyError::Stale(_) => (Kind::Stale, Some("make the plan anew and look at it".to_owned())),
        ApplyError::Used(_) => (Kind::Stale, error.hint().map(str::to_owned)),
        ApplyError::Journal { .. } => (Kind::Vault, error.hint().map(str::to_owned)),
        ApplyError::Unread { .. } => (Kind::Service, error.hint().map(str::to_owned)),
        ApplyError::Step { .. } | ApplyError::Finished(_) => {
            (Kind::Failed, error.hint().map(str::to_owned))
        }
        ApplyError::Unsettled { run, .. } => (Kind::UnknownOutcome, Some(go_on(run))),
        ApplyError::Stopped { run, source } => {
            let kind = match source.kind {
                ApiErrorKind::Unauthorised { .. } => Kind::Unauthorised,
                ApiErrorKind::Interrupted => Kind::Interrupted,
                ApiErrorKind::LimitReached(_) | ApiErrorKind::Throttled(_) => Kind::Stopped,
                _ => Kind::Service,
            };
            let mut hint = go_on(run);
            if kind == Kind::Unauthorised {
                hint = format!("{}\n{hint}", source.hint());
            }
            (kind, Some(hint))
        }
        ApplyError::Crawl(_) | ApplyError::Vault(_) => {
            return match error {
                ApplyError::Crawl(error) => error.into(),
                ApplyError::Vault(error) => of_vault(error, account),
                _ => Failure::new(Kind::Failed, ""),
            };
        }
    };
    let details: Vec<_> = match &error {
        ApplyError::Stale(all) => all.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let failure = match &error {
        ApplyError::Stale(_) => Failure::new(kind, "the plan is stale; nothing was written"),
        ApplyError::Stopped { run, source } => match &source.kind {
            ApiErrorKind::Interrupted => {
                Failure::new(kind, format_args!("run {run} was interrupted"))
            }
            ApiErrorKind::LimitReached(why) => {
                Failure::new(kind, format_args!("run {run} stopped: {why}"))
            }
            _ => Failure::new(kind, &error),
        },
        error => Failure::new(kind, error),
    };
    let failure = failure.details(details);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A failure to write a file of the program's own.
pub fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Kind::Failed, format_args!("{} cannot be written: {error}", path.display()))
}
