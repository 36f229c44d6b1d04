//! `forget`: drops snapshots. Their digests stay in the chain, and so do the
//! series of scans and statistics, which cost little and cannot be had again.

use super::schema::version_table;
use super::{Failure, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::Resource;

impl Vault {
    /// The snapshots that unfinished runs need.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn needed_by_runs(&self) -> Result<Vec<i64>, VaultError> {
        let read = || -> rusqlite::Result<Vec<i64>> {
            let mut find = self.db.prepare(
                "SELECT before FROM run WHERE finished IS NULL AND before IS NOT NULL
                 UNION SELECT after FROM run WHERE finished IS NULL AND after IS NOT NULL",
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
        let gone = self.transact(|tx, _| {
            let mut mark = tx.prepare(
                "UPDATE snapshot SET forgotten = ?2
                 WHERE snapshot = ?1 AND finished IS NOT NULL AND forgotten IS NULL",
            )?;
            for number in numbers {
                if mark.execute((number, now.0))? != 1 {
                    return Err(Failure::NoSnapshot(*number));
                }
            }
            let mut gone = 0;
            for resource in Resource::ALL {
                gone += merge(tx, resource)?;
            }
            Ok(gone)
        })?;
        self.shrink()?;
        Ok(gone)
    }

    /// Gives space back once a good part of the file is empty.
    fn shrink(&self) -> Result<(), VaultError> {
        let pragma = |name| {
            self.db
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                .map_err(|source| self.sql(source))
        };
        if pragma("freelist_count")? * 5 > pragma("page_count")? {
            self.db.execute_batch("VACUUM").map_err(|source| self.sql(source))?;
        }
        self.checkpoint()
    }
}

/// Moves every span's ends to the next snapshot that is left, and drops the
/// spans in which none is. Where none is left, that is the one still to come.
fn merge(tx: &rusqlite::Transaction<'_>, resource: Resource) -> Result<u64, Failure> {
    let table = version_table(resource);
    let next = |column: &str| {
        format!(
            "coalesce((SELECT min(s.snapshot) FROM snapshot s
                       WHERE s.snapshot >= {table}.{column} AND s.forgotten IS NULL),
                      (SELECT max(snapshot) + 1 FROM snapshot))"
        )
    };
    let (since, until) = (next("since"), next("until"));
    let gone = tx.execute(
        &format!("DELETE FROM {table} WHERE until IS NOT NULL AND {since} = {until}"),
        [],
    )?;
    for (column, next) in [("since", since), ("until", until)] {
        tx.execute(
            &format!(
                "UPDATE {table} SET {column} = {next} WHERE {column} IN
                   (SELECT snapshot FROM snapshot WHERE forgotten IS NOT NULL)"
            ),
            [],
        )?;
    }
    Ok(gone as u64)
}
