//! The vault: one SQLite file that holds the whole history of one account.
//! The only place that knows SQL.
//!
//! Reading order: [`schema`] the tables and views · [`template`] how a record's
//! text is kept · [`template_match`] a record as it comes · [`snapshot`] one mirror of
//! the account · [`mod@write`] a page of records into it · [`listing`] how far a
//! crawl came · [`read`] states and histories · [`browse`] the same page by page · [`mod@reference`] how a snapshot
//! is named · [`journal`] what runs did · [`id_map`] which record stands for which ·
//! [`digest`], `checksums` and [`check`] proof that nothing was altered ·
//! [`retention`] and [`forget`] · [`sent_values`] what can never be read back ·
//! [`lock`] one process at a time.

pub mod browse;
pub mod check;
mod checksums;
pub mod digest;
mod error;
pub mod forget;
mod header;
pub mod id_map;
pub mod journal;
pub mod listing;
pub mod lock;
mod open;
mod open_files;
pub mod read;
pub mod reference;
pub mod restore;
pub mod retention;
mod rollback;
pub mod schema;
pub mod sent_values;
pub mod snapshot;
mod statements;
pub mod statistics;
pub mod template;
pub mod template_match;
mod transaction;
pub mod triggers;
mod version_rows;
mod wal_mark;
pub mod write;
mod writer;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use crate::clock::Timestamp;
use crate::files::beside;

pub use error::{IdentityPart, VaultError};
pub use open::AccountIdentity;
use transaction::Transaction;
pub use transaction::{CommitHook, CommitPhase};
pub use version_rows::TemplateCache;

/// An open vault.
pub struct Vault {
    db: Connection,
    path: PathBuf,
    shapes: TemplateCache,
    hook: Option<CommitHook>,
    /// Since when a transaction is open for pages to come.
    held: Option<Timestamp>,
    /// Whether the triggers of the file are in force.
    triggers: bool,
    /// Given back after the connection.
    _place: Option<header::Place>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Vault {
    /// Where the file lies; `:memory:` for a vault that has none.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `hook` around every commit from now on.
    pub fn on_commit(&mut self, hook: CommitHook) {
        self.hook = Some(hook);
    }

    /// The number of bytes the file takes, its log included.
    #[must_use]
    pub fn size(&self) -> u64 {
        [self.path.as_path(), &beside(&self.path, "-wal")]
            .iter()
            .filter_map(|path| std::fs::metadata(path).ok())
            .map(|metadata| metadata.len())
            .sum()
    }

    /// The page size that worked last for `resource`.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn learned_page_size(
        &self,
        resource: crate::model::Resource,
    ) -> Result<Option<u64>, VaultError> {
        let sql = "SELECT page_size FROM learned WHERE resource = ?1";
        let size: Option<i64> = self
            .db
            .query_row(sql, [resource.name()], |row| row.get(0))
            .optional()
            .map_err(|source| self.sql(source))?;
        Ok(size.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0))
    }

    /// Writes the log back into the file, so that the file alone is the vault.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn close(mut self) -> Result<(), VaultError> {
        self.flush()?;
        self.checkpoint()
    }

    pub(crate) fn checkpoint(&self) -> Result<(), VaultError> {
        self.db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(|source| self.sql(source))
    }

    /// Lets the file grow to `pages` pages and no further, as a full disk would.
    /// For simulations.
    ///
    /// # Errors
    /// When the vault cannot be read.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages: u32) -> Result<(), VaultError> {
        self.db
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
            .map_err(|source| self.sql(source))
    }

    fn sql(&self, source: rusqlite::Error) -> VaultError {
        VaultError::sql(&self.path, source)
    }

    fn damaged(&self, what: impl Into<String>) -> VaultError {
        VaultError::Damaged { path: self.path.clone(), what: what.into() }
    }
}

/// What can go wrong inside a transaction, before the path is known.
#[derive(Debug)]
enum TransactionError {
    Sql(rusqlite::Error),
    Damaged(String),
    NoSnapshot(i64),
    Finished(i64),
}

impl TransactionError {
    fn at(self, path: &Path) -> VaultError {
        match self {
            Self::Sql(source) => VaultError::sql(path, source),
            Self::Damaged(what) => VaultError::Damaged { path: path.to_owned(), what },
            Self::NoSnapshot(number) => VaultError::NoSnapshot(number),
            Self::Finished(number) => VaultError::Finished(number),
        }
    }
}

impl From<rusqlite::Error> for TransactionError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sql(source)
    }
}

impl From<template::TemplateMismatch> for TransactionError {
    fn from(misfit: template::TemplateMismatch) -> Self {
        Self::Damaged(misfit.to_string())
    }
}
