//! Transactions: every change of the vault is one, or shares one with the pages
//! just before it.

use std::ops::Deref;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};

use crate::clock::Timestamp;
use crate::vault::{TemplateCache, TransactionError, Vault, VaultError, wal_mark};

/// A moment of a commit, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitPhase {
    BeforeCommit,
    AfterCommit,
}

/// Called around every commit; an error ends the operation there, as a crash
/// would. For simulations and audits.
pub type CommitHook = Box<dyn FnMut(CommitPhase) -> Result<(), VaultError> + Send>;

/// Held pages are committed after this time, in milliseconds.
const HELD_FOR: i64 = 100;

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
    /// Runs `work` in one transaction and commits it, after what is held.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        self.enforce_triggers(true)?;
        self.transact_now(work)
    }

    /// Runs `work`, which writes to the running `snapshot` alone, in one transaction. A trigger
    /// costs more than the row that it guards, so they are off here; instead the transaction
    /// begins by proving that the snapshot is not finished. With `hold`, as
    /// [`Vault::transact_held`].
    pub(super) fn transact_page<T>(
        &mut self,
        snapshot: i64,
        hold: Option<Timestamp>,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        self.enforce_triggers(false)?;
        let proven = |tx: &Transaction<'_>, shapes: &mut TemplateCache| {
            prove_running(tx, snapshot)?;
            work(tx, shapes)
        };
        match hold {
            Some(now) => self.transact_batched(now, proven),
            None => self.transact_now(proven),
        }
    }

    /// Has the triggers of the file fire, or not, for the statements to come.
    pub(super) fn enforce_triggers(&mut self, on: bool) -> Result<(), VaultError> {
        // Each change has SQLite prepare all statements anew.
        if self.triggers != on {
            let option = DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
            self.db.set_db_config(option, on).map_err(|source| self.sql(source))?;
            self.triggers = on;
        }
        Ok(())
    }

    /// As [`Vault::transact`], for what has no trigger.
    pub(super) fn transact_now<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        self.flush()?;
        self.begin_work()?;
        let done = self.work(work)?;
        self.commit()?;
        Ok(done)
    }

    /// Runs `work` in a transaction that may stay open for those that follow
    /// soon after `now`: a commit has its own cost, and many small ones are most
    /// of what a quick service's pages cost. A failure undoes all that is held.
    pub(super) fn transact_batched<T>(
        &mut self,
        now: Timestamp,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        let since = match self.held {
            Some(since) => since,
            None => {
                self.begin_work()?;
                now
            }
        };
        self.held = Some(since);
        let done = self.work(work)?;
        // A clock that was set back does not hold it for ever.
        if !(0..HELD_FOR).contains(&(now.0.saturating_sub(since.0))) {
            self.flush()?;
        }
        Ok(done)
    }

    /// Commits what is held, if anything is.
    ///
    /// # Errors
    /// When the vault cannot be written; what was held is then undone.
    pub fn flush(&mut self) -> Result<(), VaultError> {
        if self.held.take().is_some() { self.commit() } else { Ok(()) }
    }

    /// Forgets what is held, if anything is.
    pub(super) fn drop_held(&mut self) {
        if self.held.is_some() {
            self.undo();
        }
    }

    fn begin_work(&self) -> Result<(), VaultError> {
        self.batch("BEGIN IMMEDIATE")
    }

    fn work<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut TemplateCache) -> Result<T, TransactionError>,
    ) -> Result<T, VaultError> {
        let done = work(&Transaction(&self.db), &mut self.shapes);
        done.map_err(|failure| {
            self.undo();
            failure.at(&self.path)
        })
    }

    fn commit(&mut self) -> Result<(), VaultError> {
        wal_mark::advance(&self.db)
            .map_err(|source| self.sql(source))
            .inspect_err(|_| self.undo())?;
        self.tell(CommitPhase::BeforeCommit).inspect_err(|_| self.undo())?;
        self.batch("COMMIT").inspect_err(|_| self.undo())?;
        self.tell(CommitPhase::AfterCommit)
    }

    /// Forgets what is not committed, as the end of a process does. For simulations.
    #[doc(hidden)]
    pub fn abandon(&mut self) {
        self.undo();
        self.hook = None;
    }

    fn undo(&mut self) {
        self.held = None;
        // The cache may name shapes that are rolled back now.
        self.shapes.clear();
        // Some failures have undone it already.
        if !self.db.is_autocommit() {
            let _ = self.batch("ROLLBACK");
        }
    }

    fn batch(&self, sql: &str) -> Result<(), VaultError> {
        let run = || self.db.prepare_cached(sql)?.raw_execute();
        run().map(drop).map_err(|source| self.sql(source))
    }

    fn tell(&mut self, moment: CommitPhase) -> Result<(), VaultError> {
        self.hook.as_mut().map_or(Ok(()), |hook| hook(moment))
    }
}

/// Refuses to write to a snapshot that is finished, or has another after it.
pub(super) fn prove_running(tx: &Transaction<'_>, snapshot: i64) -> Result<(), TransactionError> {
    let sql = "SELECT snapshot = ?1 AND finished IS NULL FROM snapshot
               ORDER BY snapshot DESC LIMIT 1";
    let running: Option<bool> =
        tx.prepare_cached(sql)?.query_row([snapshot], |row| row.get(0)).optional()?;
    if running == Some(true) { Ok(()) } else { Err(TransactionError::Finished(snapshot)) }
}
