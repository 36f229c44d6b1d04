//! The vault: one SQLite file that holds the whole history of one account. Only this module
//! contains SQL.
//!
//! Reading order: [`schema`] tables and views · [`template`] how a record's text is stored ·
//! [`template_match`] splits a record by a known template · [`snapshot`] one mirror of the account
//! · [`mod@write`] stores a page of records · [`listing`] progress of a crawl · [`read`] states and
//! histories · [`browse`] the same page by page · [`mod@reference`] names of snapshots ·
//! [`journal`] runs and their steps · [`id_map`] ids of records that replace others · [`digest`],
//! `checksums` and [`check`] detect altered data · [`retention`] and [`forget`] · [`sent_values`]
//! values that no list returns · [`lock`] one process at a time · [`checkpoints`] copies in a store.

mod batch;
pub mod browse;
pub mod check;
pub mod checkpoints;
mod checksums;
mod columns;
mod connection;
pub mod digest;
mod error;
mod field_types;
pub mod forget;
mod header;
mod id_columns;
pub mod id_map;
pub mod journal;
pub mod listing;
pub mod lock;
mod open;
mod open_files;
pub mod read;
pub mod reference;
pub mod removals;
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
mod unchanged;
mod version_rows;
mod wal_mark;
pub mod write;
mod write_back;
mod writer;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use crate::files::beside;
use crate::model::SnapshotId;
use crate::vault::batch::Batch;
use crate::vault::checkpoints::Checkpoints;
use crate::vault::write_back::WriteBack;

pub use error::{IdentityPart, VaultError};
pub use open::AccountIdentity;
pub(in crate::vault) use transaction::Transaction;
pub use transaction::{CommitHook, CommitPhase};
pub use version_rows::TemplateCache;

/// An open vault.
pub struct Vault {
    db: Connection,
    path: PathBuf,
    templates: TemplateCache,
    hook: Option<CommitHook>,
    /// The open batch; `None` without one.
    batch: Option<Batch>,
    /// Whether the triggers of the file are enabled.
    triggers: bool,
    /// Writes the log back during a crawl of many records.
    write_back: RefCell<Option<WriteBack>>,
    /// Puts the vault into its store while it is open; `None` for a vault that lives in no store.
    checkpoints: Option<Box<dyn Checkpoints>>,
    /// Declared last, so that it is dropped after the connection.
    _connection: Option<header::ConnectionGuard>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Vault {
    /// Path of the file; `:memory:` for a vault in memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `hook` before and after every later commit.
    pub fn on_commit(&mut self, hook: CommitHook) {
        self.hook = Some(hook);
    }

    /// From now on makes checkpoints with `checkpoints`.
    pub fn set_checkpoints(&mut self, checkpoints: Box<dyn Checkpoints>) {
        self.checkpoints = Some(checkpoints);
    }

    /// Whether checkpoints are made: the vault lives in a store.
    #[must_use]
    pub fn has_checkpoints(&self) -> bool {
        self.checkpoints.is_some()
    }

    /// Whether the next checkpoint is to be made.
    #[must_use]
    pub fn is_checkpoint_due(&self) -> bool {
        self.checkpoints.as_ref().is_some_and(|it| it.is_due())
    }

    /// Makes a checkpoint now, if the vault lives in a store.
    ///
    /// # Errors
    /// [`VaultError::Checkpoint`] if the store does not have the present content.
    pub fn make_checkpoint(&mut self) -> Result<(), VaultError> {
        self.flush()?;
        let put = self.checkpoints.as_mut().map_or(Ok(()), |it| it.put());
        put.map_err(VaultError::Checkpoint)
    }

    /// Whether it was not known a moment ago that no other machine has put a newer vault.
    #[must_use]
    pub fn is_unconfirmed(&self) -> bool {
        self.checkpoints.as_ref().is_some_and(|it| it.is_unconfirmed())
    }

    /// Asks the store whether another machine has put a newer vault.
    ///
    /// # Errors
    /// [`VaultError::Checkpoint`] if one has, or the store cannot be read.
    pub fn confirm_newest(&mut self) -> Result<(), VaultError> {
        let confirmed = self.checkpoints.as_mut().map_or(Ok(()), |it| it.confirm());
        confirmed.map_err(VaultError::Checkpoint)
    }

    /// Makes a checkpoint if one is due. If the store cannot be written now, the next one is tried
    /// later.
    ///
    /// # Errors
    /// [`VaultError::Checkpoint`] if another machine has put a newer vault.
    pub fn checkpoint_if_due(&mut self) -> Result<(), VaultError> {
        if !self.is_checkpoint_due() {
            return Ok(());
        }
        match self.make_checkpoint() {
            Err(VaultError::Checkpoint(error)) if !error.is_lost => {
                self.checkpoints.iter_mut().for_each(|it| it.postpone(&error));
                Ok(())
            }
            made => made,
        }
    }

    /// Size of the file and its log, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        [self.path.as_path(), &beside(&self.path, "-wal")]
            .iter()
            .filter_map(|path| std::fs::metadata(path).ok())
            .map(|metadata| metadata.len())
            .sum()
    }

    /// A text that changes with every transaction.
    pub fn content_mark(&self) -> Result<String, VaultError> {
        wal_mark::last_id(&self.db).map_err(|source| self.sql(source))
    }

    /// The page size that the last crawl of `resource` used successfully; `None` before that.
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

    /// Writes the log back into the file, which is then complete without it.
    pub fn close(mut self) -> Result<(), VaultError> {
        self.flush()?;
        self.checkpoint()
    }

    pub(crate) fn checkpoint(&self) -> Result<(), VaultError> {
        // SQLite does not wait for another connection that writes the log back.
        self.write_back.take();
        self.db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(|source| self.sql(source))
    }

    /// Limits the file to `pages` SQLite pages, to simulate a full disk. For simulations.
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

/// An error inside a transaction, where the path of the vault is not known.
#[derive(Debug)]
enum TransactionError {
    Sql(rusqlite::Error),
    Damaged(String),
    NoSnapshot(SnapshotId),
    Finished(SnapshotId),
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
    fn from(mismatch: template::TemplateMismatch) -> Self {
        Self::Damaged(mismatch.to_string())
    }
}
