//! What can be wrong with a vault, said so that its owner knows what to do.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a vault could not be used. The file is as it was, unless said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("there is no vault at {0}")]
    Missing(PathBuf),
    #[error("{0} is not a vault of linkvault")]
    NotAVault(PathBuf),
    #[error("{path} has vault format {found}, and this program knows formats up to {known}")]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("the vault belongs to {what} {ours}, and the service answers for {theirs}")]
    OtherAccount { what: &'static str, ours: String, theirs: String },
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("the disk that holds {0} is full")]
    Full(PathBuf),
    #[error("{0} cannot be written: the file or its disk is read-only")]
    ReadOnly(PathBuf),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Sql { path: PathBuf, source: rusqlite::Error },
    #[error("cannot open {path}: {log} is the log of another file")]
    ForeignLog { path: PathBuf, log: PathBuf },
    #[error("cannot open {path}: it is missing, but {log} has changes of it")]
    LogAlone { path: PathBuf, log: PathBuf },
    #[error("cannot open {0}: another process works on it")]
    InUse(PathBuf),
    #[error("cannot write to snapshot #{0}: another process has finished it")]
    Finished(i64),
    #[error("there is no snapshot #{0}")]
    NoSnapshot(i64),
    #[error("there is no run {0}")]
    NoRun(i64),
    /// A commit hook asked for this; only simulations install one.
    #[error("stopped by the commit hook")]
    Stopped,
}

impl VaultError {
    /// What to do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) => Some("run `linkvault backup` for this account first"),
            Self::NotAVault(_) => Some("move the file away, or name another vault in the config"),
            Self::Newer { .. } => Some("use the newer linkvault that wrote it"),
            Self::OtherAccount { what: "service", .. } => Some(
                "if the service itself moved, run the backup once with --service-moved; \
                 otherwise give the account a vault of its own",
            ),
            Self::OtherAccount { .. } => {
                Some("check the account's key and URL, or give this account a vault of its own")
            }
            Self::Damaged { .. } => Some(
                "`linkvault check` says what is hit; restore the file from a copy, or move it \
                 away and back up anew",
            ),
            Self::ForeignLog { .. } => Some(
                "a copy was put in the place of the vault, the vault was removed, or another \
                 program wrote to it. Run `linkvault vault restore FILE --to ACCOUNT` with the \
                 copy, or with the vault itself: it leaves the log out",
            ),
            Self::LogAlone { .. } => Some(
                "put the vault back, or run `linkvault vault restore FILE --to ACCOUNT` with a \
                 copy; to begin a new vault, move the log away",
            ),
            Self::InUse(_) => Some("wait for it, and run the command again"),
            Self::Finished(_) => Some("run the command again"),
            Self::NoRun(_) => Some("`linkvault runs` lists them"),
            Self::Full(_) => Some("free some space and run the command again; it goes on"),
            Self::ReadOnly(_) => Some("make the file and its folder writable"),
            Self::Sql { source, .. }
                if source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) =>
            {
                Some(
                    "look after the disk, its free space and the limit on file sizes \
                     (`ulimit -f`), then run the command again; it goes on",
                )
            }
            _ => None,
        }
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
