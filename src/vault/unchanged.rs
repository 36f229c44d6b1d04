//! Drops a snapshot that is equal to the one before.

use crate::clock::Timestamp;
use crate::model::SnapshotId;
use crate::vault::snapshot::{Snapshot, SnapshotStatus};
use crate::vault::{Vault, VaultError};

impl Vault {
    /// Forgets the finished snapshot `number` if the one before it is complete, was not made by a
    /// run, and shows the same. Returns the number of that one.
    pub fn drop_unchanged(
        &mut self,
        number: SnapshotId,
        now: Timestamp,
    ) -> Result<Option<SnapshotId>, VaultError> {
        let newest = self.snapshots_where(
            "finished IS NOT NULL AND forgotten IS NULL ORDER BY snapshot DESC LIMIT 2",
            [],
        )?;
        let [new, before] = newest.as_slice() else { return Ok(None) };
        let is_whole = |it: &Snapshot| it.status == SnapshotStatus::Complete && !it.of_run;
        if new.number != number || !is_whole(new) || !is_whole(before) {
            return Ok(None);
        }
        let before = before.number;
        if self.sums(number)? != self.sums(before)? {
            return Ok(None);
        }
        self.forget(&[number], now)?;
        Ok(Some(before))
    }

    /// The state and the checksum of each resource in a snapshot.
    fn sums(&self, number: SnapshotId) -> Result<Vec<(String, String, Vec<u8>)>, VaultError> {
        let read = || -> rusqlite::Result<_> {
            let mut rows = self.db.prepare_cached(
                "SELECT resource, state, sum FROM snapshot_resource WHERE snapshot = ?1
                 ORDER BY resource",
            )?;
            let rows =
                rows.query_map([number], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        };
        read().map_err(|source| self.sql(source))
    }
}
