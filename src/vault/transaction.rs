//! Transactions: every change of the vault happens in one. Pages that follow each other quickly
//! share one.

use std::ops::Deref;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};

use crate::model::SnapshotId;
use crate::vault::batch::Batch;
use crate::vault::write_back::WriteBack;
use crate::vault::{TemplateCache, TransactionError, Vault, VaultError, wal_mark};

/// When a [`CommitHook`] is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitPhase {
    /// All statements have run; nothing is committed.
    BeforeCommit,
    /// The commit has returned.
    AfterCommit,
}

/// Called before and after every commit. An error stops the operation there, as a crash would. For
/// simulations and audits.
pub type CommitHook = Box<dyn FnMut(CommitPhase) -> Result<(), VaultError> + Send>;

/// An open transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transaction<'db>(&'db Connection);

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Vault {
    /// Commits the open batch, then runs `work` in a transaction of its own and commits it.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        self.enforce_triggers(true)?;
        self.transact_now(work)
    }

    /// Runs `work`, which writes only to the running `snapshot`, in one transaction. A trigger
    /// costs more than the row that it guards, so triggers are off here; instead the transaction
    /// first checks that the snapshot is running. With `batch`, works like
    /// [`Vault::transact_batched`].
    pub(super) fn transact_page<T>(
        &mut self,
        snapshot: SnapshotId,
        batch: Option<Batch>,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        self.enforce_triggers(false)?;
        let checked_work = |tx: &Transaction<'_>, templates: &mut TemplateCache| {
            require_running(tx, snapshot)?;
            work(tx, templates)
        };
        let done = match batch {
            Some(batch) => self.transact_batched(batch, checked_work),
            None => self.transact_now(checked_work),
        };
        self.write_back_aside();
        done
    }

    /// Lets another thread write a long log back into the file, unless a batch is open.
    fn write_back_aside(&self) {
        if self._connection.is_some() && self.batch.is_none() && WriteBack::is_useful(&self.path) {
            let mut aside = self.write_back.borrow_mut();
            if aside.is_none() {
                *aside = WriteBack::start(&self.path);
            }
            aside.iter().for_each(WriteBack::wake);
        }
    }

    /// Enables or disables the triggers of the file for the following statements.
    pub(super) fn enforce_triggers(&mut self, on: bool) -> Result<(), VaultError> {
        // After each change SQLite prepares all statements anew.
        if self.triggers != on {
            let option = DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
            self.db.set_db_config(option, on).map_err(|source| self.sql(source))?;
            self.triggers = on;
        }
        Ok(())
    }

    /// Like [`Vault::transact`], for tables without triggers.
    pub(super) fn transact_now<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        self.flush()?;
        self.begin_transaction()?;
        let done = self.run_or_rollback(work)?;
        self.commit()?;
        Ok(done)
    }

    /// Runs `work`, a batch by itself, in a transaction that stays open for the calls that follow
    /// soon. Each commit has a fixed cost; for a fast service, it would be most of the cost of a
    /// page. A failure rolls back the whole batch.
    pub(super) fn transact_batched<T>(
        &mut self,
        new: Batch,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        let batch = match self.batch {
            Some(open) => open.plus(new),
            None => {
                self.begin_transaction()?;
                new
            }
        };
        self.batch = Some(batch);
        let done = self.run_or_rollback(work)?;
        if batch.is_due(new.begun) {
            self.flush()?;
        }
        Ok(done)
    }

    /// Commits the open batch, if there is one. A failure rolls it back.
    pub fn flush(&mut self) -> Result<(), VaultError> {
        if self.batch.take().is_some() { self.commit() } else { Ok(()) }
    }

    /// Rolls back the open batch, if there is one.
    pub(super) fn drop_batch(&mut self) {
        if self.batch.is_some() {
            self.rollback();
        }
    }

    fn begin_transaction(&self) -> Result<(), VaultError> {
        self.execute_sql("BEGIN IMMEDIATE")
    }

    fn run_or_rollback<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        let done = work(&Transaction(&self.db), &mut self.templates);
        done.map_err(|failure| {
            self.rollback();
            failure.at(&self.path)
        })
    }

    fn commit(&mut self) -> Result<(), VaultError> {
        wal_mark::advance(&self.db)
            .map_err(|source| self.sql(source))
            .inspect_err(|_| self.rollback())?;
        self.call_hook(CommitPhase::BeforeCommit).inspect_err(|_| self.rollback())?;
        self.execute_sql("COMMIT").inspect_err(|_| self.rollback())?;
        self.call_hook(CommitPhase::AfterCommit)
    }

    /// Rolls back uncommitted changes, as the end of the process would. For simulations.
    #[doc(hidden)]
    pub fn abandon(&mut self) {
        self.rollback();
        self.hook = None;
    }

    fn rollback(&mut self) {
        self.batch = None;
        // The cache may contain templates that are now rolled back.
        self.templates.clear();
        // SQLite rolls back by itself after some failures.
        if !self.db.is_autocommit() {
            let _ = self.execute_sql("ROLLBACK");
        }
    }

    fn execute_sql(&self, sql: &str) -> Result<(), VaultError> {
        let run = || self.db.prepare_cached(sql)?.raw_execute();
        run().map(drop).map_err(|source| self.sql(source))
    }

    fn call_hook(&mut self, phase: CommitPhase) -> Result<(), VaultError> {
        self.hook.as_mut().map_or(Ok(()), |hook| hook(phase))
    }
}

/// Returns an error unless `snapshot` is the newest snapshot and unfinished.
pub(super) fn require_running(
    tx: &Transaction<'_>,
    snapshot: SnapshotId,
) -> Result<(), TransactionError> {
    let sql = "SELECT snapshot = ?1 AND finished IS NULL FROM snapshot
               ORDER BY snapshot DESC LIMIT 1";
    let running: Option<bool> =
        tx.prepare_cached(sql)?.query_row([snapshot], |row| row.get(0)).optional()?;
    if running == Some(true) { Ok(()) } else { Err(TransactionError::Finished(snapshot)) }
}
