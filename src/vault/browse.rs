//! Reads a vault page by page, for the web page: however large the vault, a query reads only the
//! records of its page.

use std::collections::HashMap;

use rusqlite::OptionalExtension as _;

use super::journal::{JournalStep, Run};
use super::read::{SeriesSample, counter};
use super::schema::{columns, key_columns, version_table};
use super::snapshot::{Snapshot, signed};
use super::{TransactionError, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{FieldKind, Record, RecordKey, Resource, RunId, SnapshotId};
use crate::vault::version_rows::{StoredVersion, TemplateCache, equal_stored_fields, key};

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    /// Number of entries to skip.
    pub skip: u64,
    /// Maximum number of entries after that.
    pub take: u64,
}

impl PageRange {
    /// The values for LIMIT and OFFSET.
    fn bounds(self) -> (i64, i64) {
        (signed(self.take), signed(self.skip))
    }
}

/// A record that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRecord {
    /// Key of the record.
    pub key: RecordKey,
    /// The record in the earlier snapshot; `None` if it was added.
    pub before: Option<Record<'static>>,
    /// The record in the later snapshot; `None` if it was removed.
    pub after: Option<Record<'static>>,
}

/// Number of records of a resource that differ between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCount {
    /// Records that only the later snapshot shows.
    pub added: u64,
    /// Records with different fields.
    pub changed: u64,
    /// Records that only the earlier snapshot shows.
    pub removed: u64,
}

impl ChangeCount {
    /// The sum of the three.
    #[must_use]
    pub const fn all(self) -> u64 {
        self.added + self.changed + self.removed
    }
}

/// Steps whose outcome is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnknownWrites {
    /// Number of these steps.
    pub count: u64,
    /// Start of the first run that has one; `None` without any.
    pub since: Option<Timestamp>,
}

/// A part of the records of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSlice {
    /// The records, in the order of keys.
    pub records: Vec<Record<'static>>,
    /// Number of records in all parts.
    pub total: u64,
}

/// The key of a record, and the row numbers of its versions before and after.
type Pair = (RecordKey, Option<i64>, Option<i64>);

impl Vault {
    /// Starts a read transaction: later reads ignore changes by other connections.
    pub fn read_transaction(&self) -> Result<(), VaultError> {
        self.db.execute_batch("BEGIN").map_err(|source| self.sql(source))
    }

    /// The readable snapshots, newest first.
    pub fn newest_snapshots(&self, range: PageRange) -> Result<Vec<Snapshot>, VaultError> {
        self.snapshots_where(
            "finished IS NOT NULL AND forgotten IS NULL ORDER BY snapshot DESC LIMIT ?1 OFFSET ?2",
            range.bounds(),
        )
    }

    /// Number of readable snapshots.
    pub fn count_snapshots(&self) -> Result<u64, VaultError> {
        self.number(
            "SELECT count(*) FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL",
        )
    }

    /// Number and start time of the newest `most` readable snapshots, newest first.
    pub fn snapshot_times(&self, most: u64) -> Result<Vec<(SnapshotId, Timestamp)>, VaultError> {
        let sql = "SELECT snapshot, started FROM snapshot
                   WHERE finished IS NOT NULL AND forgotten IS NULL
                   ORDER BY snapshot DESC LIMIT ?1";
        self.query_all(sql, [signed(most)], |row| Ok((row.get(0)?, Timestamp(row.get(1)?))))
    }

    /// The readable snapshot before `number`.
    pub fn snapshot_before(&self, number: SnapshotId) -> Result<Option<SnapshotId>, VaultError> {
        let sql = "SELECT max(snapshot) FROM snapshot
                   WHERE snapshot < ?1 AND finished IS NOT NULL AND forgotten IS NULL";
        self.db
            .query_row(sql, [number], |row| row.get(0))
            .optional()
            .map(Option::flatten)
            .map_err(|source| self.sql(source))
    }

    /// The newest readable snapshot of status complete.
    pub fn newest_complete(&self) -> Result<Option<Snapshot>, VaultError> {
        let found = self.snapshots_where(
            "status = 'complete' AND finished IS NOT NULL AND forgotten IS NULL
             ORDER BY snapshot DESC LIMIT 1",
            [],
        )?;
        Ok(found.into_iter().next())
    }

    /// Number of records in each finished snapshot, also in forgotten ones, oldest first.
    pub fn records_over_time(&self) -> Result<Vec<SeriesSample<i64>>, VaultError> {
        let sql = "SELECT s.snapshot, s.started, sum(r.records)
                   FROM snapshot s JOIN snapshot_resource r USING (snapshot)
                   WHERE s.finished IS NOT NULL GROUP BY s.snapshot ORDER BY s.snapshot";
        self.query_all(sql, [], sample)
    }

    /// The total scans of all QR codes at each finished snapshot, oldest first. A deleted code
    /// counts with its last value.
    pub fn scans_over_time(&self) -> Result<Vec<SeriesSample<i64>>, VaultError> {
        let mut moved: HashMap<SnapshotId, i64> = HashMap::new();
        let mut sum = || -> rusqlite::Result<()> {
            // In the order of the primary key, so that no sort is needed.
            let sql = "SELECT id, snapshot, value FROM sample_qr_codes WHERE value IS NOT NULL
                       ORDER BY id, snapshot";
            let mut find = self.db.prepare_cached(sql)?;
            let mut rows = find.query([])?;
            let mut last = (0_i64, 0_i64);
            while let Some(row) = rows.next()? {
                let (id, snapshot, value) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let before = if id == last.0 { last.1 } else { 0 };
                let by = moved.entry(snapshot).or_default();
                *by = by.saturating_add(i64::saturating_sub(value, before));
                last = (id, value);
            }
            Ok(())
        };
        sum().map_err(|source| self.sql(source))?;
        let sql = "SELECT snapshot, started, 0 FROM snapshot WHERE finished IS NOT NULL
                   ORDER BY snapshot";
        let mut samples = self.query_all(sql, [], sample)?;
        let mut sum = 0_i64;
        for sample in &mut samples {
            sum = sum.saturating_add(moved.remove(&sample.snapshot).unwrap_or_default());
            sample.value = sum;
        }
        Ok(samples)
    }

    /// The runs, newest first.
    pub fn newest_runs(&self, range: PageRange) -> Result<Vec<Run>, VaultError> {
        self.runs_where("1 ORDER BY run DESC LIMIT ?1 OFFSET ?2", range.bounds())
    }

    /// Number of runs.
    pub fn count_runs(&self) -> Result<u64, VaultError> {
        self.number("SELECT count(*) FROM run")
    }

    /// The steps with an unknown outcome in unfinished runs.
    pub fn unknown_writes(&self) -> Result<UnknownWrites, VaultError> {
        let sql = "SELECT count(*), min(run.started) FROM step JOIN run USING (run)
                   WHERE step.state = 'unknown' AND run.finished IS NULL";
        let one = self.query_all(sql, [], |row| {
            let since = row.get::<_, Option<i64>>(1)?.map(Timestamp);
            Ok(UnknownWrites { count: unsigned(row.get(0)?), since })
        })?;
        Ok(one.into_iter().next().unwrap_or_default())
    }

    /// A part of a run's steps, in order.
    pub fn steps_of(&self, run: RunId, range: PageRange) -> Result<Vec<JournalStep>, VaultError> {
        let (take, skip) = range.bounds();
        self.steps_where(run, "ORDER BY step LIMIT ?2 OFFSET ?3", (run, take, skip))
    }

    /// A part of the records of `resource` that snapshot `number` shows. With `search`, only records
    /// that contain it in one of their fields.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn records_of(
        &mut self,
        number: SnapshotId,
        resource: Resource,
        search: Option<&str>,
        range: PageRange,
    ) -> Result<RecordSlice, VaultError> {
        self.require_readable(number)?;
        let (table, keys) = (version_table(resource), keys(resource));
        let found = search.map_or_else(|| "1".to_owned(), |_| search_condition(resource));
        let shown = format!(
            "FROM {table} v WHERE v.since <= ?1 AND (v.until IS NULL OR v.until > ?1) AND {found}"
        );
        let like_pattern = search.map(like_pattern).unwrap_or_default();
        let total = match search {
            None => self.record_count(number, resource)?,
            Some(_) => {
                let sql = format!("SELECT count(*) {shown} AND ?2 <> ''");
                let count = self.db.query_row(&sql, (number, &like_pattern), |row| row.get(0));
                unsigned(count.map_err(|source| self.sql(source))?)
            }
        };
        let sql =
            format!("SELECT v.version {shown} AND ?2 = ?2 ORDER BY {keys} LIMIT ?3 OFFSET ?4");
        let (take, skip) = range.bounds();
        let versions: Vec<i64> =
            self.query_all(&sql, (number, &like_pattern, take, skip), |row| row.get(0))?;
        let mut records = self.of_versions(resource, &versions, number)?;
        let ordered = versions.iter().filter_map(|version| records.remove(version));
        Ok(RecordSlice { records: ordered.collect(), total })
    }

    /// Number of records of `resource` that differ between the snapshots `from` and `to`. `from`
    /// must be the earlier one.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn count_changes(
        &self,
        resource: Resource,
        from: SnapshotId,
        to: SnapshotId,
    ) -> Result<ChangeCount, VaultError> {
        self.require_readable(from)?;
        self.require_readable(to)?;
        if !self.may_differ(resource, from, to)? {
            return Ok(ChangeCount::default());
        }
        let sql = format!(
            "SELECT coalesce(sum(before IS NULL), 0), coalesce(sum(after IS NULL), 0), count(*)
             FROM ({})",
            changed_versions(resource)
        );
        let same_fields = self.same_fields(resource, from, to)?.len() as u64;
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<ChangeCount> {
            let (added, removed, all) =
                (unsigned(row.get(0)?), unsigned(row.get(1)?), unsigned(row.get(2)?));
            Ok(ChangeCount {
                added,
                changed: all.saturating_sub(added + removed + same_fields),
                removed,
            })
        };
        self.db.query_row(&sql, (from, to), read).map_err(|source| self.sql(source))
    }

    /// A part of the records of `resource` that differ between the snapshots `from` and `to`, in
    /// the order of keys. `from` must be the earlier one.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn changes_of(
        &mut self,
        resource: Resource,
        from: SnapshotId,
        to: SnapshotId,
        range: PageRange,
    ) -> Result<Vec<ChangedRecord>, VaultError> {
        self.require_readable(from)?;
        self.require_readable(to)?;
        if range.take == 0 || !self.may_differ(resource, from, to)? {
            return Ok(Vec::new());
        }
        let plain: Vec<_> = key_columns(resource).map(|name| format!("\"{name}\"")).collect();
        let sql = format!(
            "SELECT * FROM ({}) WHERE after IS NULL
               OR after NOT IN (SELECT value FROM json_each(?5))
             ORDER BY {} LIMIT ?3 OFFSET ?4",
            changed_versions(resource),
            plain.join(", ")
        );
        let (take, skip) = range.bounds();
        let same_fields: Vec<_> =
            self.same_fields(resource, from, to)?.iter().map(i64::to_string).collect();
        let same_fields = format!("[{}]", same_fields.join(","));
        let found = self.pairs(resource, &sql, (from, to, take, skip, same_fields))?;
        let before: Vec<_> = found.iter().filter_map(|(_, before, _)| *before).collect();
        let after: Vec<_> = found.iter().filter_map(|(.., after)| *after).collect();
        let mut before = self.of_versions(resource, &before, from)?;
        let mut after = self.of_versions(resource, &after, to)?;
        let changed = found.into_iter().map(|(key, old, new)| ChangedRecord {
            key,
            before: old.and_then(|version| before.remove(&version)),
            after: new.and_then(|version| after.remove(&version)),
        });
        Ok(changed.collect())
    }

    /// The versions in snapshot `to` that differ from those in `from` only in their spelling. They
    /// do not count as changes.
    fn same_fields(
        &self,
        resource: Resource,
        from: SnapshotId,
        to: SnapshotId,
    ) -> Result<Vec<i64>, VaultError> {
        let table = version_table(resource);
        let equal: Vec<_> =
            columns(resource).map(|field| format!("o.\"{0}\" IS n.\"{0}\"", field.name)).collect();
        let sql = format!(
            "SELECT o.version, n.version FROM {table} o JOIN {table} n ON {}
             WHERE o.since <= ?1 AND o.until > ?1 AND o.until <= ?2
               AND n.since > ?1 AND n.since <= ?2 AND (n.until IS NULL OR n.until > ?2)",
            equal.join(" AND ")
        );
        let pairs: Vec<(i64, i64)> =
            self.query_all(&sql, (from, to), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut templates = TemplateCache::default();
        let select = format!(
            "SELECT {} FROM {table} v WHERE v.version = ?1",
            StoredVersion::select(resource)
        );
        let read = || -> Result<Vec<i64>, TransactionError> {
            let mut find = self.db.prepare_cached(&select)?;
            let mut load = |version: i64| -> Result<StoredVersion, TransactionError> {
                find.query_row([version], |row| Ok(StoredVersion::read(resource, row)))?
            };
            let mut same_fields = Vec::new();
            for (before, after) in pairs {
                let (mut before, mut now) = (load(before)?, load(after)?);
                if equal_stored_fields(&self.db, &mut templates, resource, &mut before, &mut now)? {
                    same_fields.push(after);
                }
            }
            Ok(same_fields)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// Whether a snapshot after `from`, up to and including `to`, changed `resource`.
    fn may_differ(
        &self,
        resource: Resource,
        from: SnapshotId,
        to: SnapshotId,
    ) -> Result<bool, VaultError> {
        let sql = "SELECT coalesce(sum(added + changed + removed), 0) > 0 FROM snapshot_resource
                   WHERE resource = ?1 AND snapshot > ?2 AND snapshot <= ?3";
        self.db
            .query_row(sql, (resource.name(), from, to), |row| row.get(0))
            .map_err(|source| self.sql(source))
    }

    fn pairs(
        &self,
        resource: Resource,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Pair>, VaultError> {
        let read = || -> Result<Vec<_>, TransactionError> {
            let mut find = self.db.prepare_cached(sql)?;
            let mut rows = find.query(params)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push((key(resource, row, 2)?, row.get(0)?, row.get(1)?));
            }
            Ok(all)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// The records of these versions, with their counters at snapshot `at`.
    fn of_versions(
        &mut self,
        resource: Resource,
        versions: &[i64],
        at: SnapshotId,
    ) -> Result<HashMap<i64, Record<'static>>, VaultError> {
        // The numbers come from the vault, so they need not be bound.
        let numbers: Vec<_> = versions.iter().map(ToString::to_string).collect();
        let sql = format!(
            "SELECT {}, {} FROM {} v WHERE v.version IN ({}) AND ?1 = ?1",
            StoredVersion::select(resource),
            counter(resource, "?1"),
            version_table(resource),
            numbers.join(", ")
        );
        let mut found = HashMap::with_capacity(versions.len());
        self.rows(&sql, [at], resource, |stored, record| {
            found.insert(stored.version, record);
        })?;
        Ok(found)
    }

    pub(super) fn query_all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, VaultError> {
        let list = || -> rusqlite::Result<Vec<T>> {
            self.db.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        list().map_err(|source| self.sql(source))
    }

    fn number(&self, sql: &str) -> Result<u64, VaultError> {
        let number = self.db.query_row(sql, [], |row| row.get(0));
        number.map(unsigned).map_err(|source| self.sql(source))
    }
}

/// SQL: the key of each record that differs between snapshot ?1 and the later ?2, with the version
/// that each of them shows as `before` and `after`.
fn changed_versions(resource: Resource) -> String {
    let (table, keys) = (version_table(resource), keys(resource));
    let plain: Vec<_> = key_columns(resource).map(|name| format!("\"{name}\"")).collect();
    let plain = plain.join(", ");
    format!(
        "SELECT max(before) AS before, max(after) AS after, {plain} FROM (
           SELECT v.version AS before, NULL AS after, {keys} FROM {table} v
           WHERE v.since <= ?1 AND v.until > ?1 AND v.until <= ?2
           UNION ALL
           SELECT NULL AS before, v.version AS after, {keys} FROM {table} v
           WHERE v.since > ?1 AND v.since <= ?2 AND (v.until IS NULL OR v.until > ?2)
         ) GROUP BY {plain}"
    )
}

fn keys(resource: Resource) -> String {
    let keys: Vec<_> = key_columns(resource).map(|name| format!("v.\"{name}\"")).collect();
    keys.join(", ")
}

/// SQL condition: the pattern ?2 matches one of the record's fields.
fn search_condition(resource: Resource) -> String {
    let texts = columns(resource).filter(|field| !matches!(field.kind, FieldKind::Bool));
    let parts: Vec<_> =
        texts.map(|field| format!("v.\"{}\" LIKE ?2 ESCAPE '\\'", field.name)).collect();
    format!("({})", parts.join(" OR "))
}

/// A LIKE pattern that matches `text` anywhere; wildcards in `text` are escaped.
fn like_pattern(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{text}%")
}

fn sample(row: &rusqlite::Row<'_>) -> rusqlite::Result<SeriesSample<i64>> {
    Ok(SeriesSample { snapshot: row.get(0)?, time: Timestamp(row.get(1)?), value: row.get(2)? })
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
