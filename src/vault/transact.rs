//! Transactions: every change of the vault is one, or shares one with the pages
//! just before it.

use std::ops::Deref;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};

use super::{Failure, Shapes, Vault, VaultError, log_mark};
use crate::clock::Timestamp;

/// A moment of a commit, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    BeforeCommit,
    AfterCommit,
}

/// Called around every commit; an error ends the operation there, as a crash
/// would. For simulations and audits.
pub type CommitHook = Box<dyn FnMut(Moment) -> Result<(), VaultError> + Send>;

/// Held pages are committed after this time, in milliseconds.
const HELD_FOR: i64 = 100;

/// An open transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tx<'db>(&'db Connection);

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Vault {
    /// Runs `work` in one transaction and commits it, after what is held.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Tx<'_>, &mut Shapes) -> Result<T, Failure>,
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
        work: impl FnOnce(&Tx<'_>, &mut Shapes) -> Result<T, Failure>,
    ) -> Result<T, VaultError> {
        self.enforce_triggers(false)?;
        let proven = |tx: &Tx<'_>, shapes: &mut Shapes| {
            prove_running(tx, snapshot)?;
            work(tx, shapes)
        };
        match hold {
            Some(now) => self.transact_held(now, proven),
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
        work: impl FnOnce(&Tx<'_>, &mut Shapes) -> Result<T, Failure>,
    ) -> Result<T, VaultError> {
        self.settle()?;
        self.begin_work()?;
        let done = self.work(work)?;
        self.commit()?;
        Ok(done)
    }

    /// Runs `work` in a transaction that may stay open for those that follow
    /// soon after `now`: a commit has its own cost, and many small ones are most
    /// of what a quick service's pages cost. A failure undoes all that is held.
    pub(super) fn transact_held<T>(
        &mut self,
        now: Timestamp,
        work: impl FnOnce(&Tx<'_>, &mut Shapes) -> Result<T, Failure>,
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
            self.settle()?;
        }
        Ok(done)
    }

    /// Commits what is held, if anything is.
    ///
    /// # Errors
    /// When the vault cannot be written; what was held is then undone.
    pub fn settle(&mut self) -> Result<(), VaultError> {
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
        work: impl FnOnce(&Tx<'_>, &mut Shapes) -> Result<T, Failure>,
    ) -> Result<T, VaultError> {
        let done = work(&Tx(&self.db), &mut self.shapes);
        done.map_err(|failure| {
            self.undo();
            failure.at(&self.path)
        })
    }

    fn commit(&mut self) -> Result<(), VaultError> {
        log_mark::advance(&self.db)
            .map_err(|source| self.sql(source))
            .inspect_err(|_| self.undo())?;
        self.tell(Moment::BeforeCommit).inspect_err(|_| self.undo())?;
        self.batch("COMMIT").inspect_err(|_| self.undo())?;
        self.tell(Moment::AfterCommit)
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

    fn tell(&mut self, moment: Moment) -> Result<(), VaultError> {
        self.hook.as_mut().map_or(Ok(()), |hook| hook(moment))
    }
}

/// Refuses to write to a snapshot that is finished, or has another after it.
pub(super) fn prove_running(tx: &Tx<'_>, snapshot: i64) -> Result<(), Failure> {
    let sql = "SELECT snapshot = ?1 AND finished IS NULL FROM snapshot
               ORDER BY snapshot DESC LIMIT 1";
    let running: Option<bool> =
        tx.prepare_cached(sql)?.query_row([snapshot], |row| row.get(0)).optional()?;
    if running == Some(true) { Ok(()) } else { Err(Failure::Finished(snapshot)) }
}
