//! Which records the recent snapshots found removed.

use std::time::Duration;

use super::schema::{key_columns, version_table};
use super::{Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{Resource, SnapshotId};

/// Records that a snapshot lacks and the snapshot before has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalRow {
    /// Number of the snapshot, which may be forgotten since.
    pub snapshot: SnapshotId,
    /// When it ended.
    pub at: Timestamp,
    /// The newest readable snapshot before it.
    pub kept: Option<SnapshotId>,
    /// The resource.
    pub resource: Resource,
    /// Number of the records.
    pub removed: u64,
    /// Number of records of the resource before.
    pub before: u64,
    /// Number of records of all resources before.
    pub all_before: u64,
}

impl Vault {
    /// What the snapshots of the last `period` before the newest one found removed, oldest first.
    /// Forgotten snapshots count, too: a run, or a plan that was not applied, may have found it.
    /// What a run removed itself does not count: the snapshots since its first write.
    pub fn recent_removals(&self, period: Duration) -> Result<Vec<RemovalRow>, VaultError> {
        let sql = "SELECT r.snapshot, s.finished,
                (SELECT b.snapshot FROM snapshot b WHERE b.snapshot < r.snapshot
                   AND b.finished IS NOT NULL AND b.forgotten IS NULL
                   ORDER BY b.snapshot DESC LIMIT 1),
                r.resource, r.removed, r.records + r.removed - r.added,
                (SELECT sum(a.records + a.removed - a.added) FROM snapshot_resource a
                   WHERE a.snapshot = r.snapshot)
              FROM snapshot s JOIN snapshot_resource r USING(snapshot)
              WHERE s.finished >= (SELECT max(finished) FROM snapshot) - ?1 AND r.removed > 0
                AND NOT (
                  EXISTS(SELECT 1 FROM snapshot_resource o
                         WHERE o.snapshot = s.snapshot AND o.state = 'skipped')
                  AND EXISTS(SELECT 1 FROM run WHERE before < s.snapshot
                             AND (run.finished IS NULL OR run.finished >= s.started)))
              ORDER BY r.snapshot, r.resource";
        let period = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
        let read = |row: &rusqlite::Row<'_>| {
            let count = |at| row.get::<_, i64>(at).map(|it| u64::try_from(it).unwrap_or(0));
            let name: String = row.get(3)?;
            let Some(resource) = Resource::from_name(&name) else { return Ok(None) };
            Ok(Some(RemovalRow {
                snapshot: row.get(0)?,
                at: Timestamp(row.get(1)?),
                kept: row.get(2)?,
                resource,
                removed: count(4)?,
                before: count(5)?,
                all_before: count(6)?,
            }))
        };
        Ok(self.query_all(sql, [period], read)?.into_iter().flatten().collect())
    }

    /// Number of records of `resource` in snapshot `number` that the newest snapshot does not have,
    /// neither themselves nor those that replaced them. Assignments have new keys after that of
    /// their channel was replaced, so that only their number counts.
    pub fn missing_since(&self, number: SnapshotId, resource: Resource) -> Result<u64, VaultError> {
        let table = version_table(resource);
        let keys: Vec<_> = key_columns(resource).collect();
        let sql = match keys.as_slice() {
            [key] => format!(
                "SELECT count(*) FROM {table} v WHERE v.since <= ?1 AND v.until > ?1
                   AND NOT EXISTS(SELECT 1 FROM {table} n
                     WHERE n.\"{key}\" = v.\"{key}\" AND n.until IS NULL)
                   AND NOT EXISTS(SELECT 1 FROM id_map m JOIN {table} n ON n.\"{key}\" = m.new
                     WHERE m.origin = '' AND m.resource = '{resource}' AND m.old = v.\"{key}\"
                       AND n.until IS NULL)"
            ),
            _ => format!(
                "SELECT (SELECT count(*) FROM {table}
                   WHERE since <= ?1 AND (until IS NULL OR until > ?1))
                 - (SELECT count(*) FROM {table} WHERE until IS NULL)"
            ),
        };
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let counts = self.query_all(&sql, [number], count)?;
        Ok(counts.first().map_or(0, |it| u64::try_from(*it).unwrap_or(0)))
    }
}
