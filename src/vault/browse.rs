//! Reading a vault page by page, for people who look around in it: whatever its
//! size, a page reads no more records than it shows.

use std::collections::HashMap;

use rusqlite::OptionalExtension as _;

use super::journal::{JournalStep, Run};
use super::read::{SeriesSample, counter};
use super::schema::{columns, key_columns, version_table};
use super::snapshot::{Snapshot, signed};
use super::{TransactionError, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{FieldKind, Record, RecordKey, Resource};
use crate::vault::version_rows::{StoredVersion, TemplateCache, key, stored_alike};

/// A part of a list: `take` entries after the first `skip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    pub skip: u64,
    pub take: u64,
}

impl PageRange {
    /// As SQLite counts, for LIMIT and OFFSET.
    fn bounds(self) -> (i64, i64) {
        (signed(self.take), signed(self.skip))
    }
}

/// A record that two snapshots do not show alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRecord {
    pub key: RecordKey,
    /// As the earlier snapshot shows it; `None` where it does not.
    pub before: Option<Record<'static>>,
    /// As the later one shows it.
    pub after: Option<Record<'static>>,
}

/// How many records of a resource two snapshots do not show alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCount {
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
}

impl ChangeCount {
    /// All of them.
    #[must_use]
    pub const fn all(self) -> u64 {
        self.added + self.changed + self.removed
    }
}

/// A record's key, and its versions before and after.
type Pair = (RecordKey, Option<i64>, Option<i64>);

impl Vault {
    /// From here on, reads show one moment, whatever is written meanwhile.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn read_transaction(&self) -> Result<(), VaultError> {
        self.db.execute_batch("BEGIN").map_err(|source| self.sql(source))
    }

    /// The snapshots that can be read back, newest first.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn newest_snapshots(&self, slice: PageRange) -> Result<Vec<Snapshot>, VaultError> {
        self.snapshots_where(
            "finished IS NOT NULL AND forgotten IS NULL ORDER BY snapshot DESC LIMIT ?1 OFFSET ?2",
            slice.bounds(),
        )
    }

    /// How many snapshots can be read back.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn count_snapshots(&self) -> Result<u64, VaultError> {
        self.number(
            "SELECT count(*) FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL",
        )
    }

    /// Number and beginning of the newest `most` snapshots, newest first.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn snapshot_times(&self, most: u64) -> Result<Vec<(i64, Timestamp)>, VaultError> {
        let sql = "SELECT snapshot, started FROM snapshot
                   WHERE finished IS NOT NULL AND forgotten IS NULL
                   ORDER BY snapshot DESC LIMIT ?1";
        self.listed(sql, [signed(most)], |row| Ok((row.get(0)?, Timestamp(row.get(1)?))))
    }

    /// The readable snapshot before `number`, if there is one.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn snapshot_before(&self, number: i64) -> Result<Option<i64>, VaultError> {
        let sql = "SELECT max(snapshot) FROM snapshot
                   WHERE snapshot < ?1 AND finished IS NOT NULL AND forgotten IS NULL";
        self.db
            .query_row(sql, [number], |row| row.get(0))
            .optional()
            .map(Option::flatten)
            .map_err(|source| self.sql(source))
    }

    /// The newest snapshot that is complete.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn newest_complete(&self) -> Result<Option<Snapshot>, VaultError> {
        let found = self.snapshots_where(
            "status = 'complete' AND finished IS NOT NULL AND forgotten IS NULL
             ORDER BY snapshot DESC LIMIT 1",
            [],
        )?;
        Ok(found.into_iter().next())
    }

    /// How many records each finished snapshot showed, oldest first; what was
    /// forgotten since is told too.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn records_over_time(&self) -> Result<Vec<SeriesSample<i64>>, VaultError> {
        let sql = "SELECT s.snapshot, s.started, sum(r.records)
                   FROM snapshot s JOIN snapshot_resource r USING (snapshot)
                   WHERE s.finished IS NOT NULL GROUP BY s.snapshot ORDER BY s.snapshot";
        self.listed(sql, [], sample)
    }

    /// The scans of all QR codes together at each finished snapshot, oldest first.
    /// A code that is gone counts as it was last seen.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn scans_over_time(&self) -> Result<Vec<SeriesSample<i64>>, VaultError> {
        let mut moved: HashMap<i64, i64> = HashMap::new();
        let mut sum = || -> rusqlite::Result<()> {
            // In the order in which they lie: nothing has to be sorted.
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
        let mut samples = self.listed(sql, [], sample)?;
        let mut sum = 0_i64;
        for sample in &mut samples {
            sum = sum.saturating_add(moved.remove(&sample.snapshot).unwrap_or_default());
            sample.value = sum;
        }
        Ok(samples)
    }

    /// The runs, newest first.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn newest_runs(&self, slice: PageRange) -> Result<Vec<Run>, VaultError> {
        self.runs_where("1 ORDER BY run DESC LIMIT ?1 OFFSET ?2", slice.bounds())
    }

    /// How many runs there are.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn count_runs(&self) -> Result<u64, VaultError> {
        self.number("SELECT count(*) FROM run")
    }

    /// How many writes of unfinished runs have an unknown outcome, and when the
    /// first of these runs began.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn unknown_writes(&self) -> Result<(u64, Option<Timestamp>), VaultError> {
        let sql = "SELECT count(*), min(run.started) FROM step JOIN run USING (run)
                   WHERE step.state = 'unknown' AND run.finished IS NULL";
        let one = self.listed(sql, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?.map(Timestamp)))
        })?;
        let (count, since) = one.into_iter().next().unwrap_or_default();
        Ok((count.unsigned_abs(), since))
    }

    /// Some of a run's steps, in order.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn steps_of(&self, run: i64, slice: PageRange) -> Result<Vec<JournalStep>, VaultError> {
        let (take, skip) = slice.bounds();
        self.steps_where(run, "ORDER BY step LIMIT ?2 OFFSET ?3", (run, take, skip))
    }

    /// Some of the records of `resource` that snapshot `number` shows, in the
    /// order of keys, and how many there are; only those in whose texts `search`
    /// stands, where there is one.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn records_of(
        &mut self,
        number: i64,
        resource: Resource,
        search: Option<&str>,
        slice: PageRange,
    ) -> Result<(Vec<Record<'static>>, u64), VaultError> {
        self.readable(number)?;
        let (table, keys) = (version_table(resource), keys(resource));
        let found = search.map_or_else(|| "1".to_owned(), |_| matching(resource));
        let shown = format!(
            "FROM {table} v WHERE v.since <= ?1 AND (v.until IS NULL OR v.until > ?1) AND {found}"
        );
        let pattern = search.map(pattern).unwrap_or_default();
        let count = match search {
            None => self.shown(number, resource)?,
            Some(_) => {
                let sql = format!("SELECT count(*) {shown} AND ?2 <> ''");
                let count = self.db.query_row(&sql, (number, &pattern), |row| row.get(0));
                unsigned(count.map_err(|source| self.sql(source))?)
            }
        };
        let sql =
            format!("SELECT v.version {shown} AND ?2 = ?2 ORDER BY {keys} LIMIT ?3 OFFSET ?4");
        let (take, skip) = slice.bounds();
        let versions: Vec<i64> =
            self.listed(&sql, (number, &pattern, take, skip), |row| row.get(0))?;
        let mut records = self.of_versions(resource, &versions, number)?;
        let ordered = versions.iter().filter_map(|version| records.remove(version));
        Ok((ordered.collect(), count))
    }

    /// How many records of `resource` the snapshots `from` and `to`, which is
    /// later, do not show alike.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn count_changes(
        &self,
        resource: Resource,
        from: i64,
        to: i64,
    ) -> Result<ChangeCount, VaultError> {
        self.readable(from)?;
        self.readable(to)?;
        if !self.may_differ(resource, from, to)? {
            return Ok(ChangeCount::default());
        }
        let sql = format!(
            "SELECT coalesce(sum(before IS NULL), 0), coalesce(sum(after IS NULL), 0), count(*)
             FROM ({})",
            different(resource)
        );
        let alike = self.alike(resource, from, to)?.len() as u64;
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<ChangeCount> {
            let (added, removed, all) =
                (unsigned(row.get(0)?), unsigned(row.get(1)?), unsigned(row.get(2)?));
            Ok(ChangeCount { added, changed: all.saturating_sub(added + removed + alike), removed })
        };
        self.db.query_row(&sql, (from, to), read).map_err(|source| self.sql(source))
    }

    /// Some of the records of `resource` that the snapshots `from` and `to`, which
    /// is later, do not show alike, in the order of keys.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn changes_of(
        &mut self,
        resource: Resource,
        from: i64,
        to: i64,
        slice: PageRange,
    ) -> Result<Vec<ChangedRecord>, VaultError> {
        self.readable(from)?;
        self.readable(to)?;
        if slice.take == 0 || !self.may_differ(resource, from, to)? {
            return Ok(Vec::new());
        }
        let plain: Vec<_> = key_columns(resource).map(|name| format!("\"{name}\"")).collect();
        let sql = format!(
            "SELECT * FROM ({}) WHERE after IS NULL
               OR after NOT IN (SELECT value FROM json_each(?5))
             ORDER BY {} LIMIT ?3 OFFSET ?4",
            different(resource),
            plain.join(", ")
        );
        let (take, skip) = slice.bounds();
        let alike: Vec<_> = self.alike(resource, from, to)?.iter().map(i64::to_string).collect();
        let alike = format!("[{}]", alike.join(","));
        let found = self.pairs(resource, &sql, (from, to, take, skip, alike))?;
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

    /// The versions that snapshot `to` shows and that differ from those of `from`
    /// in their spelling alone: they are no changes.
    fn alike(&self, resource: Resource, from: i64, to: i64) -> Result<Vec<i64>, VaultError> {
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
            self.listed(&sql, (from, to), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut shapes = TemplateCache::default();
        let select = format!(
            "SELECT {} FROM {table} v WHERE v.version = ?1",
            StoredVersion::select(resource)
        );
        let read = || -> Result<Vec<i64>, TransactionError> {
            let mut find = self.db.prepare_cached(&select)?;
            let mut load = |version: i64| -> Result<StoredVersion, TransactionError> {
                find.query_row([version], |row| Ok(StoredVersion::read(resource, row)))?
            };
            let mut alike = Vec::new();
            for (before, after) in pairs {
                let (mut before, mut now) = (load(before)?, load(after)?);
                if stored_alike(&self.db, &mut shapes, resource, &mut before, &mut now)? {
                    alike.push(after);
                }
            }
            Ok(alike)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// Whether a snapshot after `from`, up to `to`, changed anything of `resource`.
    fn may_differ(&self, resource: Resource, from: i64, to: i64) -> Result<bool, VaultError> {
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

    /// The records of these versions, their counters as at snapshot `at`.
    fn of_versions(
        &mut self,
        resource: Resource,
        versions: &[i64],
        at: i64,
    ) -> Result<HashMap<i64, Record<'static>>, VaultError> {
        // Numbers of our own: nothing that would need to be bound.
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

    fn listed<T>(
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

/// `before`, `after` and the key of each record that two snapshots, ?1 and the
/// later ?2, do not show alike: which version each of them shows.
fn different(resource: Resource) -> String {
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

/// A condition on the pattern ?2: that it is in one of the record's texts, or its id.
fn matching(resource: Resource) -> String {
    let texts = columns(resource).filter(|field| !matches!(field.kind, FieldKind::Bool));
    let parts: Vec<_> =
        texts.map(|field| format!("v.\"{}\" LIKE ?2 ESCAPE '\\'", field.name)).collect();
    format!("({})", parts.join(" OR "))
}

/// `text` anywhere, its own wildcards taken as what they are.
fn pattern(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{text}%")
}

fn sample(row: &rusqlite::Row<'_>) -> rusqlite::Result<SeriesSample<i64>> {
    Ok(SeriesSample { snapshot: row.get(0)?, time: Timestamp(row.get(1)?), value: row.get(2)? })
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
