//! Reads states and histories. Records have their exact original text.

use std::collections::BTreeMap;

use rusqlite::Row;

use super::schema::{counter_place, key_columns, version_table};
use super::{TransactionError, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{DecodedRecord, Record, RecordKey, Resource, SnapshotId, State};
use crate::vault::version_rows::{StoredVersion, TemplateCache};

/// A version of a record and the span of snapshots that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordVersion {
    /// The first snapshot that shows it.
    pub since: SnapshotId,
    /// The first snapshot that no longer shows it; `None` while it is current.
    pub until: Option<SnapshotId>,
    /// The record in this version.
    pub record: Record<'static>,
}

/// One value of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesSample<T> {
    /// The snapshot that read it.
    pub snapshot: SnapshotId,
    /// When the snapshot began.
    pub time: Timestamp,
    /// The value.
    pub value: T,
}

/// The scans of QR codes between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewScans {
    /// Number of QR codes whose scans changed.
    pub codes: u64,
    /// The sum of the changes; negative if the service counts fewer scans than before.
    pub scans: i64,
}

impl Vault {
    /// The records of the resources in `which` that snapshot `number` shows, with their sent
    /// values.
    ///
    /// # Errors
    /// [`VaultError::NoSnapshot`] if it does not exist or is forgotten.
    pub fn state(&mut self, number: SnapshotId, which: &[Resource]) -> Result<State, VaultError> {
        let mut state = State::default();
        for resource in which {
            let records = state.resource_mut(*resource);
            self.for_each_record(number, *resource, |record| {
                records.insert(record.key.clone(), record);
            })?;
        }
        let mut sent = self.sent_values(Some(number), which)?;
        sent.retain(|(resource, key), _| {
            state.get(*resource).is_some_and(|records| records.contains_key(key))
        });
        Ok(state.with_sent(Some(sent)))
    }

    /// Calls `take` with every record of `resource` that snapshot `number` shows, in the order of
    /// keys.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn for_each_record(
        &mut self,
        number: SnapshotId,
        resource: Resource,
        mut take: impl FnMut(Record<'static>),
    ) -> Result<(), VaultError> {
        self.require_readable(number)?;
        let keys: Vec<_> = key_columns(resource).map(|name| format!("v.\"{name}\"")).collect();
        let sql = format!(
            "SELECT {}, {} FROM {} v WHERE v.since <= ?1 AND (v.until IS NULL OR v.until > ?1)
             ORDER BY {}",
            StoredVersion::select(resource),
            counter(resource, "?1"),
            version_table(resource),
            keys.join(", ")
        );
        self.rows(&sql, [number], resource, |_, record| take(record))
    }

    /// One record as snapshot `number` shows it; `None` if it does not.
    ///
    /// # Errors
    /// As [`Vault::state`].
    pub fn record(
        &mut self,
        number: SnapshotId,
        resource: Resource,
        key: &RecordKey,
    ) -> Result<Option<Record<'static>>, VaultError> {
        self.require_readable(number)?;
        let shown = self.versions(resource, key, Some(number))?;
        Ok(shown.into_iter().next().map(|version| version.record))
    }

    /// Every version of a record that finished snapshots show, oldest first. The counter has its
    /// value in the first snapshot of the version.
    pub fn history(
        &mut self,
        resource: Resource,
        key: &RecordKey,
    ) -> Result<Vec<RecordVersion>, VaultError> {
        let newest =
            self.snapshots()?.last().map_or(SnapshotId::default(), |snapshot| snapshot.number);
        let mut versions = self.versions(resource, key, None)?;
        versions.retain(|version| version.since <= newest);
        for version in &mut versions {
            version.until = version.until.filter(|until| *until <= newest);
        }
        Ok(versions)
    }

    /// All versions of a record, or only the one that snapshot `at` shows.
    fn versions(
        &mut self,
        resource: Resource,
        key: &RecordKey,
        at: Option<SnapshotId>,
    ) -> Result<Vec<RecordVersion>, VaultError> {
        let names: Vec<_> = key_columns(resource)
            .enumerate()
            .map(|(nth, name)| format!("v.\"{name}\" = ?{}", nth + 2))
            .collect();
        let sql = format!(
            "SELECT {}, {} FROM {} v WHERE {} AND (?1 IS NULL
               OR v.since <= ?1 AND (v.until IS NULL OR v.until > ?1)) ORDER BY v.since",
            StoredVersion::select(resource),
            counter(resource, "coalesce(?1, v.since)"),
            version_table(resource),
            names.join(" AND ")
        );
        let mut versions = Vec::new();
        let take = |stored: &StoredVersion, record| {
            versions.push(RecordVersion { since: stored.since, until: stored.until, record });
        };
        match key {
            RecordKey::Id(id) => self.rows(&sql, (at, id), resource, take)?,
            RecordKey::Item { channel, kind, id } => {
                self.rows(&sql, (at, channel, kind, id), resource, take)?;
            }
        }
        Ok(versions)
    }

    /// The ids of records that a snapshot after `number` no longer shows, each with the newest
    /// snapshot that first lacks it.
    pub fn removed_since(
        &self,
        number: SnapshotId,
        resource: Resource,
    ) -> Result<BTreeMap<i64, SnapshotId>, VaultError> {
        if resource == Resource::ChannelItems {
            return Ok(BTreeMap::new());
        }
        let table = version_table(resource);
        let sql = format!(
            "SELECT id, max(lacks) FROM
               (SELECT v.id, (SELECT min(s.snapshot) FROM snapshot s WHERE s.snapshot >= v.until
                  AND s.finished IS NOT NULL AND s.forgotten IS NULL) AS lacks
                FROM {table} v WHERE v.until > ?1) gone
             WHERE lacks IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {table} w
               WHERE w.id = gone.id AND w.since <= lacks AND (w.until IS NULL OR w.until > lacks))
             GROUP BY id"
        );
        let read = || -> rusqlite::Result<BTreeMap<i64, SnapshotId>> {
            let mut find = self.db.prepare(&sql)?;
            find.query_map([number], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        read().map_err(|source| self.sql(source))
    }

    /// Whether snapshot `number` shows a record of `resource` with this id. Always `false` for
    /// channel items.
    pub fn has_record(
        &self,
        number: SnapshotId,
        resource: Resource,
        id: i64,
    ) -> Result<bool, VaultError> {
        if resource == Resource::ChannelItems {
            return Ok(false);
        }
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {} WHERE id = ?2 AND since <= ?1
               AND (until IS NULL OR until > ?1))",
            version_table(resource)
        );
        self.db.query_row(&sql, (number, id), |row| row.get(0)).map_err(|source| self.sql(source))
    }

    /// The scans of a QR code over time, oldest first.
    pub fn scans(&self, code: i64) -> Result<Vec<SeriesSample<i64>>, VaultError> {
        self.samples("sample_qr_codes", "value", code)
    }

    /// The statistics of a QR code over time as JSON text, oldest first.
    pub fn statistics(&self, code: i64) -> Result<Vec<SeriesSample<String>>, VaultError> {
        self.samples("statistics_qr_codes", "body", code)
    }

    /// The scans since the snapshot before `number`.
    pub fn new_scans(&self, number: SnapshotId) -> Result<NewScans, VaultError> {
        self.scans_between(SnapshotId(number.0.saturating_sub(1)), number)
    }

    /// The scans after snapshot `from` until snapshot `to`, of the codes that `to` shows.
    pub fn scans_between(&self, from: SnapshotId, to: SnapshotId) -> Result<NewScans, VaultError> {
        let sql = format!(
            "SELECT {}, {} FROM {} v WHERE v.since <= ?2 AND (v.until IS NULL OR v.until > ?2)
               AND v.id IN (SELECT id FROM sample_qr_codes WHERE snapshot > ?1 AND snapshot <= ?2)",
            counter(Resource::QrCodes, "?2"),
            counter(Resource::QrCodes, "?1"),
            version_table(Resource::QrCodes),
        );
        let read = || -> rusqlite::Result<NewScans> {
            let mut find = self.db.prepare(&sql)?;
            let mut rows = find.query([from, to])?;
            let mut new = NewScans::default();
            while let Some(row) = rows.next()? {
                let counts: (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
                if let (Some(value), Some(before)) = counts
                    && value != before
                {
                    new.codes += 1;
                    new.scans = new.scans.saturating_add(value.saturating_sub(before));
                }
            }
            Ok(new)
        };
        read().map_err(|source| self.sql(source))
    }

    fn samples<T: rusqlite::types::FromSql>(
        &self,
        table: &str,
        column: &str,
        code: i64,
    ) -> Result<Vec<SeriesSample<T>>, VaultError> {
        let sql = format!(
            "SELECT c.snapshot, s.started, c.{column} FROM {table} c JOIN snapshot s USING (snapshot)
             WHERE c.id = ?1 AND s.finished IS NOT NULL AND c.{column} IS NOT NULL
             ORDER BY c.snapshot"
        );
        let read = || -> rusqlite::Result<Vec<SeriesSample<T>>> {
            let mut find = self.db.prepare_cached(&sql)?;
            find.query_map([code], |row| {
                Ok(SeriesSample {
                    snapshot: row.get(0)?,
                    time: Timestamp(row.get(1)?),
                    value: row.get(2)?,
                })
            })?
            .collect()
        };
        read().map_err(|source| self.sql(source))
    }

    /// Returns an error if the snapshot is forgotten or does not exist.
    pub(super) fn require_readable(&self, number: SnapshotId) -> Result<(), VaultError> {
        let snapshot = self.snapshot(number)?;
        if snapshot.forgotten.is_some() {
            return Err(VaultError::NoSnapshot(number));
        }
        Ok(())
    }

    pub(super) fn rows(
        &mut self,
        sql: &str,
        params: impl rusqlite::Params,
        resource: Resource,
        mut take: impl FnMut(&StoredVersion, Record<'static>),
    ) -> Result<(), VaultError> {
        let Self { db, path, templates, .. } = self;
        let read = || -> Result<(), TransactionError> {
            let mut find = db.prepare_cached(sql)?;
            let mut rows = find.query(params)?;
            while let Some(row) = rows.next()? {
                let (stored, record) = record(resource, row, db, templates)?;
                take(&stored, record);
            }
            Ok(())
        };
        read().map_err(|failure| failure.at(path))
    }
}

/// SQL: the counter's value at a snapshot.
pub(super) fn counter(resource: Resource, at: &str) -> String {
    if resource.spec().counter().is_none() {
        return "NULL".to_owned();
    }
    format!(
        "(SELECT c.value FROM sample_{resource} c WHERE c.id = v.id AND c.snapshot <= {at}
          ORDER BY c.snapshot DESC LIMIT 1)"
    )
}

/// Reads a row of `StoredVersion::select` and the counter.
fn record(
    resource: Resource,
    row: &Row<'_>,
    db: &rusqlite::Connection,
    templates: &mut TemplateCache,
) -> Result<(StoredVersion, Record<'static>), TransactionError> {
    let mut stored = StoredVersion::read(resource, row)?;
    let counters = usize::from(counter_place(resource).is_some());
    let counter = row.get(5 + stored.values.len() - counters)?;
    let template = templates.template(db, stored.template_id)?;
    let raw = stored.raw(resource, template, counter)?;
    let record = decode(resource, &stored, &raw)?.record.into_owned();
    Ok((stored, record))
}

/// Decodes a stored record's text exactly as when it was received.
pub(super) fn decode<'a>(
    resource: Resource,
    stored: &StoredVersion,
    raw: &'a str,
) -> Result<DecodedRecord<'a>, TransactionError> {
    let channel = match crate::vault::version_rows::stored_key(resource, stored) {
        RecordKey::Item { channel, .. } => Some(channel),
        RecordKey::Id(_) => None,
    };
    DecodedRecord::read(resource, channel, raw)
        .map_err(|problem| TransactionError::Damaged(problem.to_string()))
}
