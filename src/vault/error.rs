//! Errors of vaults.

use super::checkpoints::CheckpointError;
use crate::model::{RunId, SnapshotId};
use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a vault cannot be used.
///
/// Every method of [`Vault`](super::Vault) that reads or writes the file can return
/// [`Damaged`](Self::Damaged), [`Io`](Self::Io) or [`Sql`](Self::Sql), and every one that writes
/// also [`Full`](Self::Full) or [`ReadOnly`](Self::ReadOnly). A method that fails leaves the vault
/// unchanged. An `# Errors` section names only further conditions.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// There is no file at this path.
    #[error("there is no vault at {0}")]
    Missing(PathBuf),
    /// The file at this path is not an SQLite database with linkvault's application id.
    #[error("{0} is not a vault of linkvault")]
    NotAVault(PathBuf),
    /// The vault has a format that a newer version of linkvault wrote.
    #[error("{path} has vault format {found}, and this program knows formats up to {known}")]
    Newer {
        /// Path of the vault.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The newest format that this program supports.
        known: i64,
    },
    /// The vault belongs to another account or service than the one that responded.
    #[error("the vault belongs to {what} {ours}, and the service answers for {theirs}")]
    OtherAccount {
        /// The part in which the two differ.
        what: IdentityPart,
        /// The account or URL in the vault.
        ours: String,
        /// The account or URL that responded.
        theirs: String,
    },
    /// The content of the vault is inconsistent.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// Path of the vault.
        path: PathBuf,
        /// What is inconsistent, for people.
        what: String,
    },
    /// The disk with this file is full.
    #[error("the disk that holds {0} is full")]
    Full(PathBuf),
    /// The file at this path, or its disk, is read-only.
    #[error("{0} cannot be written: the file or its disk is read-only")]
    ReadOnly(PathBuf),
    /// Another error of the file system.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// Another error of SQLite.
    #[error("{path}: {source}")]
    Sql {
        /// Path of the vault.
        path: PathBuf,
        /// The error.
        source: rusqlite::Error,
    },
    /// The log or journal beside the vault belongs to another file, which SQLite would apply to it.
    #[error("cannot open {path}: {log} is the log of another file")]
    ForeignLog {
        /// Path of the vault.
        path: PathBuf,
        /// Path of the log or journal.
        log: PathBuf,
    },
    /// The vault is missing, and its log contains changes.
    #[error("cannot open {path}: it is missing, but {log} has changes for it")]
    LogAlone {
        /// Path of the vault.
        path: PathBuf,
        /// Path of the log.
        log: PathBuf,
    },
    /// Another process has the vault at this path open or locked.
    #[error("cannot open {0}: another process works on it")]
    InUse(PathBuf),
    /// The snapshot with this number is not running any more.
    #[error("cannot write to snapshot #{0}: another process has finished it")]
    Finished(SnapshotId),
    /// There is no readable snapshot with this number.
    #[error("there is no snapshot #{0}")]
    NoSnapshot(SnapshotId),
    /// There is no run with this number.
    #[error("there is no run {0}")]
    NoRun(RunId),
    /// A checkpoint was not made, and the work must not go on without it.
    #[error("{0}")]
    Checkpoint(CheckpointError),
    /// A [`CommitHook`](super::CommitHook) stopped the operation; only simulations have one.
    #[error("stopped by the commit hook")]
    Stopped,
}

/// In what two accounts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityPart {
    /// The id that the service gives the account.
    Account,
    /// The service's URL.
    Service,
}

impl fmt::Display for IdentityPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Account => "account",
            Self::Service => "service",
        })
    }
}

impl VaultError {
    /// Whether the disk failed, or a limit on file sizes.
    #[must_use]
    pub fn is_disk_failure(&self) -> bool {
        let code = match self {
            Self::Sql { source, .. } => source.sqlite_error_code(),
            _ => None,
        };
        code == Some(ErrorCode::SystemIoFailure)
    }

    /// What `source` means for the vault's file at `path`, or one beside it.
    #[must_use]
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::StorageFull => Self::Full(path.to_owned()),
            std::io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path.to_owned()),
            std::io::ErrorKind::NotFound => Self::Missing(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    pub(super) fn sql(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let damaged = |what: String| Self::Damaged { path: path.clone(), what };
        match &source {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows => damaged(source.to_string()),
            _ => match source.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Self::Full(path),
                Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly(path),
                Some(ErrorCode::NotADatabase) => Self::NotAVault(path),
                Some(ErrorCode::DatabaseCorrupt) => damaged(source.to_string()),
                Some(ErrorCode::CannotOpen) if !path.exists() => Self::Missing(path),
                _ => Self::Sql { path, source },
            },
        }
    }
}
