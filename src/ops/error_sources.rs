//! Converts errors of other modules to [`OpError`]: kind, message, next step.

use std::path::Path;

use super::{NextStep, OpError, OpErrorKind};
use crate::api::base_url::BaseUrlError;
use crate::api::error::{ApiError, ApiErrorKind};
use crate::apply::ApplyError;
use crate::crawl::{CrawlError, Unread};
use crate::vault::VaultError;
use crate::vault::lock::LockError;
use crate::vault::reference::ReferenceError;

const fn kind_of(error: &ApiErrorKind) -> OpErrorKind {
    match error {
        ApiErrorKind::Unauthorised { .. } => OpErrorKind::Unauthorised,
        ApiErrorKind::Interrupted => OpErrorKind::Interrupted,
        ApiErrorKind::LimitReached(_) | ApiErrorKind::Throttled(_) => OpErrorKind::Stopped,
        _ => OpErrorKind::Service,
    }
}

impl From<ApiError> for OpError {
    fn from(error: ApiError) -> Self {
        let kind = kind_of(&error.kind);
        match error.kind {
            ApiErrorKind::Interrupted => {
                Self::new(kind, "interrupted; what was read is kept").next(NextStep::RunAgain)
            }
            _ => Self::new(kind, &error).next(NextStep::AfterRequest(error.kind)),
        }
    }
}

impl From<VaultError> for OpError {
    fn from(error: VaultError) -> Self {
        let kind = match &error {
            VaultError::Missing(_) | VaultError::NoSnapshot(_) => OpErrorKind::NotFound,
            VaultError::InUse(_) => OpErrorKind::Locked,
            VaultError::Checkpoint(error) if error.is_lost => OpErrorKind::Stale,
            VaultError::Checkpoint(_) => OpErrorKind::Failed,
            _ => OpErrorKind::Vault,
        };
        Self::new(kind, &error).next(NextStep::after_vault_error(&error))
    }
}

/// The error of an operation on the vault of `account`.
#[must_use]
pub fn vault_error(error: VaultError, account: &str) -> OpError {
    match error {
        VaultError::NoRun(run) => {
            OpError::new(OpErrorKind::NotFound, format_args!("{account} has no run {run}"))
                .next(NextStep::ListRuns(Some(account.to_owned())))
        }
        error => {
            let is_foreign = matches!(error, VaultError::ForeignLog { .. });
            let is_alone = matches!(error, VaultError::LogAlone { .. });
            let account = Some(account.to_owned());
            match OpError::from(error) {
                it if is_foreign => it.next(NextStep::RestoreOverForeignLog(account)),
                it if is_alone => it.next(NextStep::RestoreBesideLog(account)),
                it => it,
            }
        }
    }
}

impl From<CrawlError> for OpError {
    fn from(error: CrawlError) -> Self {
        match error {
            CrawlError::Api(error) => error.into(),
            CrawlError::Vault(error) => error.into(),
            CrawlError::Account(_) => {
                Self::new(OpErrorKind::Service, error).next(NextStep::CheckUrl)
            }
        }
    }
}

impl From<Unread> for OpError {
    fn from(error: Unread) -> Self {
        Self::new(OpErrorKind::Service, error).next(NextStep::SkipResource)
    }
}

impl From<LockError> for OpError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io { path, source } => VaultError::io(&path, source).into(),
            LockError::Interrupted => Self::new(OpErrorKind::Interrupted, error),
            LockError::Held(_) => {
                Self::new(OpErrorKind::Locked, error).next(NextStep::WaitForProcess)
            }
        }
    }
}

/// The error of a lock that `--lock-timeout` can wait for.
pub fn lock_timeout_error(error: LockError) -> OpError {
    let is_held = matches!(error, LockError::Held(_));
    let failure = OpError::from(error);
    if is_held { failure.next(NextStep::WaitForLock) } else { failure }
}

impl From<ReferenceError> for OpError {
    fn from(error: ReferenceError) -> Self {
        Self::new(OpErrorKind::NotFound, error).next(NextStep::NameState)
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
    let error = match error {
        ApplyError::Crawl(error) => return error.into(),
        ApplyError::Vault(error) => return vault_error(error, account),
        error => error,
    };
    let next = NextStep::after_apply_error(&error, account);
    let failure = match &error {
        ApplyError::Stale(all) => {
            OpError::new(OpErrorKind::Stale, "the plan is stale; nothing was written")
                .details(all.iter().map(ToString::to_string))
        }
        ApplyError::Used(_) => OpError::new(OpErrorKind::Stale, &error),
        ApplyError::Journal { .. } => OpError::new(OpErrorKind::Vault, &error),
        ApplyError::Unread { .. } => OpError::new(OpErrorKind::Service, &error),
        ApplyError::Step { .. }
        | ApplyError::Finished(_)
        | ApplyError::Crawl(_)
        | ApplyError::Vault(_) => OpError::new(OpErrorKind::Failed, &error),
        ApplyError::NotStored { wrote: false, source, .. } if source.is_lost => {
            OpError::new(OpErrorKind::Stale, &error)
        }
        ApplyError::NotStored { .. } => OpError::new(OpErrorKind::Failed, &error),
        ApplyError::OutcomeUnreadable { .. } => OpError::new(OpErrorKind::UnknownOutcome, &error),
        ApplyError::Stopped { run, source } => {
            let kind = kind_of(&source.kind);
            match &source.kind {
                ApiErrorKind::Interrupted => {
                    OpError::new(kind, format_args!("run {run} was interrupted"))
                }
                ApiErrorKind::LimitReached(why) => {
                    OpError::new(kind, format_args!("run {run} stopped: {why}"))
                }
                _ => OpError::new(kind, &error),
            }
        }
    };
    failure.next(next)
}

/// The error of a command without `--skip`.
pub fn without_skip(failure: OpError) -> OpError {
    match failure.next.as_deref() {
        Some(NextStep::SkipResource) => failure.next(NextStep::RunAgainLater),
        _ => failure,
    }
}

/// The error for a file that cannot be written.
pub fn cannot_write(path: &Path, error: &std::io::Error) -> OpError {
    OpError::new(OpErrorKind::Failed, format_args!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_hint_for_a_log_without_its_vault_names_the_account() {
        let file = || PathBuf::from("main.db");
        let next = |error| vault_error(error, "main").next.map(|it| *it);
        let account = || Some("main".to_owned());
        let foreign = VaultError::ForeignLog { path: file(), log: file() };
        assert_eq!(next(foreign), Some(NextStep::RestoreOverForeignLog(account())));
        let alone = VaultError::LogAlone { path: file(), log: file() };
        assert_eq!(next(alone), Some(NextStep::RestoreBesideLog(account())));
        assert_eq!(next(VaultError::Full(file())), Some(NextStep::FreeSpace));
    }
}
