//! `forget`: drops snapshots. Their digests stay in the chain, and so do the
//! series of scans and statistics, which cost little and cannot be had again.

use super::schema::version_table;
use crate::clock::Timestamp;
use crate::model::Resource;
use crate::vault::{
    TemplateCache, Transaction, TransactionError, Vault, VaultError, checksums, sent_values,
};

impl Vault {
    /// The snapshots that unfinished runs need: of all that was seen since they
    /// began, they tell what is new.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn needed_by_runs(&self) -> Result<Vec<i64>, VaultError> {
        let read = || -> rusqlite::Result<Vec<i64>> {
            let mut find = self.db.prepare(
                "SELECT snapshot FROM snapshot WHERE forgotten IS NULL AND snapshot >=
                   (SELECT min(before) FROM run WHERE finished IS NULL)",
            )?;
            find.query_map([], |row| row.get(0))?.collect()
        };
        read().map_err(|source| self.sql(source))
    }

    /// Forgets the snapshots in `numbers`: what only they showed is gone, what
    /// others show stays. Returns how many versions went.
    ///
    /// # Errors
    /// When the vault cannot be written; nothing is then forgotten.
    pub fn forget(&mut self, numbers: &[i64], now: Timestamp) -> Result<u64, VaultError> {
        let gone = self.transact(|tx, shapes| {
            let mut mark = tx.prepare(
                "UPDATE snapshot SET forgotten = ?2
                 WHERE snapshot = ?1 AND finished IS NOT NULL AND forgotten IS NULL",
            )?;
            for number in numbers {
                checksums::snapshot(tx, *number, || match mark.execute((number, now.0))? {
                    1 => Ok(()),
                    _ => Err(TransactionError::NoSnapshot(*number)),
                })?;
            }
            let mut gone = 0;
            for resource in Resource::ALL {
                gone += merge(tx, resource)?;
            }
            sent_values::forget(tx)?;
            drop_unused_templates(tx)?;
            shapes.clear();
            Ok(gone)
        })?;
        self.erase()?;
        Ok(gone)
    }

    /// Has nothing of what was deleted left in the file and its log. `secure_delete` overwrites the
    /// rows, but SQLite leaves copies in the gaps of pages that it has split before; a file that is
    /// written anew has none. Where the disk is too full for that, the free pages are given back,
    /// and the next time does the rest.
    pub(super) fn erase(&mut self) -> Result<(), VaultError> {
        match self.vacuum() {
            Err(VaultError::Full(_)) => {
                let free = self.transact_now(|tx, _| release_free_pages(tx, u32::MAX));
                match free.and_then(|()| self.checkpoint()) {
                    Err(VaultError::Full(_)) => Ok(()),
                    done => done,
                }
            }
            done => done.and_then(|()| self.checkpoint()),
        }
    }

    /// Gives free pages back to the file system: those that held the notes on the pages of lists.
    /// Where the disk is too full for that, the end of the next snapshot does it.
    pub(super) fn release(&mut self) -> Result<(), VaultError> {
        let free = self.db.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0));
        if free.map_err(|source| self.sql(source))? == 0 {
            return Ok(());
        }
        match self.transact_now(|tx, _| release_free_pages(tx, MOST_RELEASED)) {
            Err(VaultError::Full(_)) => Ok(()),
            done => done,
        }
    }
}

/// The most free pages that the end of a snapshot releases (16 MiB).
const MOST_RELEASED: u32 = 4096;

/// Gives free pages back to the file system, `most` at most, by moving the last pages of the file
/// into their places. A file of an earlier format keeps them until it is rewritten.
fn release_free_pages(tx: &Transaction<'_>, most: u32) -> Result<(), TransactionError> {
    // Each step of the statement releases one page.
    let mut release = tx.prepare_cached("PRAGMA incremental_vacuum")?;
    let mut released = release.query([])?;
    for _ in 0..most {
        if released.next()?.is_none() {
            break;
        }
    }
    Ok(())
}

/// A trigger lets only the templates go that are listed as unused.
pub(super) fn drop_unused_templates(tx: &Transaction<'_>) -> Result<(), TransactionError> {
    let used = Resource::ALL.map(|it| format!("SELECT shape FROM {}", version_table(it)));
    let used = used.join(" UNION ");
    tx.execute_batch(&format!(
        "INSERT INTO unused_template SELECT shape FROM shape WHERE shape NOT IN ({used});
         DELETE FROM shape WHERE shape IN (SELECT shape FROM unused_template);
         DELETE FROM unused_template;"
    ))?;
    Ok(())
}

/// Once snapshot `number` is finished: drops what waited for it, because the
/// snapshots before it were forgotten.
/// Whether there was anything that waited.
pub(super) fn settle(
    tx: &Transaction<'_>,
    shapes: &mut TemplateCache,
    number: i64,
) -> Result<bool, TransactionError> {
    let waited: bool = tx.query_row(
        "SELECT count(*) FROM snapshot WHERE snapshot = ?1 - 1 AND forgotten IS NOT NULL",
        [number],
        |row| row.get(0),
    )?;
    if waited {
        for resource in Resource::ALL {
            merge(tx, resource)?;
        }
        sent_values::forget(tx)?;
        drop_unused_templates(tx)?;
        shapes.clear();
    }
    Ok(waited)
}

/// Moves every span's ends to the next snapshot that can be read, and drops the
/// spans in which none can. Ends that no readable snapshot follows stay where
/// they are until one is finished: what it adds, changes and removes is counted
/// against the snapshot before it, forgotten or not.
fn merge(tx: &Transaction<'_>, resource: Resource) -> Result<u64, TransactionError> {
    let table = version_table(resource);
    let next = |column: &str, otherwise: &str| {
        format!(
            "coalesce((SELECT min(s.snapshot) FROM snapshot s
                       WHERE s.snapshot >= {table}.{column} AND s.finished IS NOT NULL
                         AND s.forgotten IS NULL), {otherwise})"
        )
    };
    let gone = tx.execute(
        &format!(
            "DELETE FROM {table} WHERE {} = {}
               AND until IN (SELECT snapshot FROM snapshot WHERE finished IS NOT NULL)",
            next("since", "0"),
            next("until", "0"),
        ),
        [],
    )?;
    for column in ["since", "until"] {
        tx.execute(
            &format!(
                "UPDATE {table} SET {column} = {} WHERE {column} IN
                   (SELECT snapshot FROM snapshot WHERE forgotten IS NOT NULL)",
                next(column, column)
            ),
            [],
        )?;
    }
    Ok(gone as u64)
}
