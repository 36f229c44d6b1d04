//! `forget`: deletes the records of snapshots. Their digests stay in the chain. The series of scans
//! and statistics stay as well: they are small, and the service does not have them any more.

use super::schema::version_table;
use crate::clock::Timestamp;
use crate::model::{Resource, SnapshotId};
use crate::vault::{
    TemplateCache, Transaction, TransactionError, Vault, VaultError, checksums, sent_values,
};

impl Vault {
    /// The snapshots since the beginning of unfinished runs. They show which records are new since
    /// then.
    pub fn needed_by_runs(&self) -> Result<Vec<SnapshotId>, VaultError> {
        let read = || -> rusqlite::Result<Vec<SnapshotId>> {
            let mut find = self.db.prepare(
                "SELECT snapshot FROM snapshot WHERE forgotten IS NULL AND snapshot >=
                   (SELECT min(before) FROM run WHERE finished IS NULL)",
            )?;
            find.query_map([], |row| row.get(0))?.collect()
        };
        read().map_err(|source| self.sql(source))
    }

    /// Forgets the snapshots in `numbers`: deletes versions that no other snapshot shows. Returns
    /// the number of deleted versions.
    ///
    /// # Errors
    /// [`VaultError::NoSnapshot`] for a number that is not a readable snapshot.
    pub fn forget(&mut self, numbers: &[SnapshotId], now: Timestamp) -> Result<u64, VaultError> {
        let deleted = self.transact(|tx, templates| {
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
            let mut deleted = 0;
            for resource in Resource::ALL {
                deleted += merge_spans(tx, resource)?;
            }
            sent_values::forget(tx)?;
            drop_unused_templates(tx)?;
            templates.clear();
            Ok(deleted)
        })?;
        self.erase()?;
        Ok(deleted)
    }

    /// Removes all deleted data from the file and its log. `secure_delete` overwrites rows, but
    /// copies remain in unused parts of pages that were split before; only a rewritten file has
    /// none. If the disk is too full to rewrite the file, free pages are released, and the next
    /// call does the rest.
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

    /// Releases free pages to the file system, such as those of the listing's pages. If the disk is
    /// too full, the end of the next snapshot does it.
    pub(super) fn release(&mut self) -> Result<(), VaultError> {
        let free = self.db.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0));
        if free.map_err(|source| self.sql(source))? == 0 {
            return Ok(());
        }
        match self.transact_now(|tx, _| release_free_pages(tx, MAX_RELEASED)) {
            Err(VaultError::Full(_)) => Ok(()),
            done => done,
        }
    }
}

/// Maximum number of free pages that the end of a snapshot releases (16 MiB).
const MAX_RELEASED: u32 = 4096;

/// Releases up to `max` free pages to the file system: the last pages of the file move into their
/// place. A file of an earlier format keeps them until it is rewritten.
fn release_free_pages(tx: &Transaction<'_>, max: u32) -> Result<(), TransactionError> {
    // Each step of the statement releases one page.
    let mut release = tx.prepare_cached("PRAGMA incremental_vacuum")?;
    let mut released = release.query([])?;
    for _ in 0..max {
        if released.next()?.is_none() {
            break;
        }
    }
    Ok(())
}

/// Deletes unused templates. A trigger allows this only for those in `unused_template`.
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

/// Called when snapshot `number` is finished: merges spans whose ends had to stay because the
/// snapshot before it was forgotten. Returns whether it was.
pub(super) fn merge_pending(
    tx: &Transaction<'_>,
    templates: &mut TemplateCache,
    number: SnapshotId,
) -> Result<bool, TransactionError> {
    let was_forgotten: bool = tx.query_row(
        "SELECT count(*) FROM snapshot WHERE snapshot = ?1 - 1 AND forgotten IS NOT NULL",
        [number],
        |row| row.get(0),
    )?;
    if was_forgotten {
        for resource in Resource::ALL {
            merge_spans(tx, resource)?;
        }
        sent_values::forget(tx)?;
        drop_unused_templates(tx)?;
        templates.clear();
    }
    Ok(was_forgotten)
}

/// Moves the ends of spans from forgotten snapshots to the next readable snapshot, and deletes
/// spans without a readable snapshot. An end without a later readable snapshot stays until one is
/// finished: its counts are relative to the snapshot before, also if that is forgotten.
fn merge_spans(tx: &Transaction<'_>, resource: Resource) -> Result<u64, TransactionError> {
    let table = version_table(resource);
    let next = |column: &str, otherwise: &str| {
        format!(
            "coalesce((SELECT min(s.snapshot) FROM snapshot s
                       WHERE s.snapshot >= {table}.{column} AND s.finished IS NOT NULL
                         AND s.forgotten IS NULL), {otherwise})"
        )
    };
    let deleted = tx.execute(
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
    Ok(deleted as u64)
}
