//! Values that linkvault sent and that no list returns: a QR code's type, data and colours, a
//! campaign's slug and links. They have versions like records: snapshots from `since` up to, but
//! not including, `until` show a version. A checksum of their own covers them in `check`. Passwords
//! are never stored.
//!
//! Spans are counted in snapshots. The next finished snapshot is the first to show a value that is
//! sent now. So two values sent between the same two snapshots have the same span, and only the
//! later one is kept.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row};
use serde_json::Value as Json;

use crate::clock::Timestamp;
use crate::model::sent_values::decode;
use crate::model::{RecordKey, Resource, SentFields, SentValues, SnapshotId};
use crate::vault::schema::version_table;
use crate::vault::{Transaction, TransactionError, Vault, VaultError, checksums};

/// A sent value and the span of snapshots that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentVersion {
    /// Name of the field, as in requests.
    pub field: String,
    /// The first snapshot that shows it; 0 if it was sent before vaults stored versions of sent
    /// values.
    pub since: SnapshotId,
    /// The first snapshot that no longer shows it; `None` while it is current.
    pub until: Option<SnapshotId>,
    /// The value as it was sent.
    pub value: Json,
    /// When it was sent.
    pub time: Timestamp,
}

impl SentVersion {
    /// Reads the columns from index `first` on: field, since, until, value, time. `None` if
    /// linkvault did not write the value.
    fn of_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Self>> {
        let Some(value) = decode(&row.get::<_, String>(first + 3)?) else { return Ok(None) };
        Ok(Some(Self {
            field: row.get(first)?,
            since: row.get(first + 1)?,
            until: row.get(first + 2)?,
            value,
            time: Timestamp(row.get(first + 4)?),
        }))
    }
}

/// How to determine the first snapshot that shows a sent value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstSnapshot {
    /// The next snapshot to be finished.
    Next,
    /// The first one that shows the record: the value was sent with its create request, by a run
    /// that began after the snapshot `before`.
    Created { before: SnapshotId },
    /// The newest finished snapshot, which was read after the value was sent.
    Seen,
}

/// The field that is never stored, for any resource.
const PASSWORD: &str = "password";

impl Vault {
    /// Stores that `value`, a JSON text, was sent as the record's `field`. Finished snapshots keep
    /// the value that was sent before. Passwords are not stored.
    pub fn remember(
        &mut self,
        resource: Resource,
        key: &RecordKey,
        field: &str,
        value: &str,
        now: Timestamp,
    ) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            remember_in(tx, (resource, key, field), value, FirstSnapshot::Next, now)
        })
    }

    /// The current sent values of one record.
    pub fn remembered(
        &self,
        resource: Resource,
        key: &RecordKey,
    ) -> Result<SentFields, VaultError> {
        let all = self.sent(resource, Some(key))?.into_values().flatten();
        Ok(all.map(|sent| (sent.field, sent.value)).collect())
    }

    /// The current sent values of every record of `resource`, each list in the order of fields.
    pub fn remembered_all(
        &self,
        resource: Resource,
    ) -> Result<BTreeMap<RecordKey, Vec<SentVersion>>, VaultError> {
        self.sent(resource, None)
    }

    /// The sent values of the resources in `which` that snapshot `number` shows; without a number,
    /// the current ones.
    pub fn sent_values(
        &self,
        number: Option<SnapshotId>,
        which: &[Resource],
    ) -> Result<SentValues, VaultError> {
        let read = || -> Result<SentValues, TransactionError> {
            let mut find = self.db.prepare_cached(
                "SELECT key, field, value FROM sent WHERE resource = ?1
                   AND CASE WHEN ?2 IS NULL THEN until IS NULL
                       ELSE since <= ?2 AND (until IS NULL OR until > ?2) END",
            )?;
            let mut all = SentValues::new();
            for resource in which {
                let mut rows = find.query((resource.name(), number))?;
                while let Some(row) = rows.next()? {
                    let key = key(*resource, &row.get::<_, String>(0)?)?;
                    if let Some(value) = decode(&row.get::<_, String>(2)?) {
                        all.entry((*resource, key)).or_default().insert(row.get(1)?, value);
                    }
                }
            }
            Ok(all)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// Every version of a record's sent values that finished snapshots show, oldest first.
    pub fn sent_history(
        &self,
        resource: Resource,
        key: &RecordKey,
    ) -> Result<Vec<SentVersion>, VaultError> {
        let read = || -> rusqlite::Result<Vec<SentVersion>> {
            let mut find = self.db.prepare_cached(
                "SELECT field, since, CASE WHEN until <= newest THEN until END, value, sent FROM sent,
                   (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL)
                 WHERE resource = ?1 AND key = ?2 AND since <= newest ORDER BY since, field",
            )?;
            let rows = find
                .query_map((resource.name(), key.to_string()), |row| SentVersion::of_row(row, 0))?;
            rows.filter_map(Result::transpose).collect()
        };
        read().map_err(|source| self.sql(source))
    }

    fn sent(
        &self,
        resource: Resource,
        of: Option<&RecordKey>,
    ) -> Result<BTreeMap<RecordKey, Vec<SentVersion>>, VaultError> {
        let read = || -> Result<BTreeMap<RecordKey, Vec<SentVersion>>, TransactionError> {
            let mut find = self.db.prepare_cached(
                "SELECT key, field, since, until, value, sent FROM sent
                 WHERE resource = ?1 AND (?2 IS NULL OR key = ?2) AND until IS NULL
                 ORDER BY key, field",
            )?;
            let mut rows = find.query((resource.name(), of.map(RecordKey::to_string)))?;
            let mut all: BTreeMap<RecordKey, Vec<SentVersion>> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let key = key(resource, &row.get::<_, String>(0)?)?;
                all.entry(key).or_default().extend(SentVersion::of_row(row, 1)?);
            }
            Ok(all)
        };
        read().map_err(|failure| failure.at(&self.path))
    }
}

fn key(resource: Resource, text: &str) -> Result<RecordKey, TransactionError> {
    RecordKey::parse(resource, text)
        .ok_or_else(|| TransactionError::Damaged(format!("{resource} have no key {text}")))
}

/// [`Vault::remember`] within a transaction.
pub(super) fn remember_in(
    tx: &Transaction<'_>,
    (resource, key, field): (Resource, &RecordKey, &str),
    value: &str,
    from: FirstSnapshot,
    now: Timestamp,
) -> Result<(), TransactionError> {
    if field == PASSWORD {
        return Ok(());
    }
    let since = first_snapshot(tx, resource, key, from)?;
    let text = key.to_string();
    let row = (resource.name(), text.as_str(), field);
    checksums::sent(tx, row, || {
        // A run adds values that a finished snapshot lacks, although it shows the run's changes.
        let correction = from != FirstSnapshot::Next;
        if correction {
            tx.prepare_cached("INSERT OR IGNORE INTO sent_correction VALUES(?1, ?2, ?3)")?
                .execute(row)?;
        }
        let created = matches!(from, FirstSnapshot::Created { .. });
        put(tx, row, value, (since, created), now)?;
        if correction {
            tx.prepare_cached("DELETE FROM sent_correction")?.execute([])?;
        }
        Ok(())
    })
}

/// Closes the values of a record that a run created, except for the fields in `keep`: they belong
/// to a deleted record that had the same id.
pub(super) fn close_others(
    tx: &Transaction<'_>,
    (resource, key): (Resource, &RecordKey),
    keep: &[&str],
    from: FirstSnapshot,
) -> Result<(), TransactionError> {
    let since = first_snapshot(tx, resource, key, from)?;
    let text = key.to_string();
    let sql = "SELECT field FROM sent WHERE resource = ?1 AND key = ?2 AND until IS NULL";
    let fields: Vec<String> = {
        let mut find = tx.prepare_cached(sql)?;
        let rows = find.query_map((resource.name(), &text), |row| row.get(0))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for field in fields.iter().filter(|field| !keep.contains(&field.as_str())) {
        let row = (resource.name(), text.as_str(), field.as_str());
        let open = "resource = ?1 AND key = ?2 AND field = ?3 AND until IS NULL";
        checksums::sent(tx, row, || {
            tx.prepare_cached("INSERT OR IGNORE INTO sent_correction VALUES(?1, ?2, ?3)")?
                .execute(row)?;
            let delete = format!("DELETE FROM sent WHERE {open} AND since >= ?4");
            let close = format!("UPDATE sent SET until = ?4 WHERE {open}");
            for sql in [delete, close] {
                tx.prepare_cached(&sql)?.execute((row.0, row.1, row.2, since))?;
            }
            tx.prepare_cached("DELETE FROM sent_correction")?.execute([])?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Closes, in the running snapshot `number`, the sent values of QR codes whose link and date both
/// differ from the version before: they belong to deleted codes that had the same ids. If a run that
/// began after a snapshot of that version created a code with the id, they belong to the new code.
pub(super) fn close_replaced_codes(
    tx: &Transaction<'_>,
    number: SnapshotId,
) -> Result<(), TransactionError> {
    let (name, table) = (Resource::QrCodes.name(), version_table(Resource::QrCodes));
    let open = "sent.resource = ?1 AND sent.until IS NULL AND sent.since < ?2";
    // The few codes with a new version come first: closed versions have no index.
    let sql = format!(
        "WITH new AS MATERIALIZED
           (SELECT v.id, v.link, v.date FROM {table} v WHERE v.since = ?2 AND v.until IS NULL
              AND EXISTS (SELECT 1 FROM sent WHERE {open})
              AND EXISTS (SELECT 1 FROM sent WHERE {open} AND key = CAST(v.id AS TEXT))),
         old AS MATERIALIZED
           (SELECT v.id, v.link, v.date, max(v.since) AS since FROM new CROSS JOIN {table} v USING (id)
            WHERE v.since < ?2 GROUP BY v.id)
         SELECT key, field FROM new CROSS JOIN old USING (id) CROSS JOIN sent
         WHERE {open} AND key = CAST(id AS TEXT) AND new.link <> old.link AND new.date <> old.date
           AND NOT EXISTS (SELECT 1 FROM step JOIN run USING (run)
             WHERE step.id = new.id AND run.before >= old.since
               AND CASE WHEN json_valid(spec) THEN spec ->> 'resource' END = ?1)"
    );
    let replaced: Vec<(String, String)> = {
        let mut find = tx.prepare_cached(&sql)?;
        let rows = find.query_map((name, number), |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    let sql = format!("UPDATE sent SET until = ?2 WHERE {open} AND key = ?3 AND field = ?4");
    for (key, field) in &replaced {
        checksums::sent(tx, (name, key, field), || {
            Ok(tx.prepare_cached(&sql)?.execute((name, number, key, field))?)
        })?;
    }
    Ok(())
}

/// Makes `value` current for the field of `row` from the snapshot `since`. With `created`, the
/// value before may belong to a deleted record that had the same id.
fn put(
    tx: &Transaction<'_>,
    row: (&str, &str, &str),
    value: &str,
    (since, created): (SnapshotId, bool),
    now: Timestamp,
) -> Result<(), TransactionError> {
    let sql = "SELECT since, value FROM sent
               WHERE resource = ?1 AND key = ?2 AND field = ?3 AND until IS NULL";
    let open: Option<(SnapshotId, String)> =
        tx.prepare_cached(sql)?.query_row(row, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let since = match open {
        Some((first, known)) if known == value && (first >= since || !created) => return Ok(()),
        Some((first, _)) if first < since => {
            let sql = "UPDATE sent SET until = ?4
                       WHERE resource = ?1 AND key = ?2 AND field = ?3 AND until IS NULL";
            tx.prepare_cached(sql)?.execute((row.0, row.1, row.2, since))?;
            since
        }
        // No snapshot before `since` shows the value that it replaces.
        Some((first, _)) => first,
        None => since,
    };
    let sql = "INSERT OR REPLACE INTO sent(resource, key, field, value, sent, since)
               VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
    tx.prepare_cached(sql)?.execute((row.0, row.1, row.2, value, now.0, since))?;
    Ok(())
}

/// The first snapshot that shows a value stored now.
fn first_snapshot(
    tx: &Transaction<'_>,
    resource: Resource,
    key: &RecordKey,
    from: FirstSnapshot,
) -> Result<SnapshotId, TransactionError> {
    let sql = "SELECT coalesce(max(snapshot), 0) FROM snapshot WHERE finished IS NOT NULL";
    let newest: SnapshotId = tx.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let next = newest.next();
    match (from, key) {
        (FirstSnapshot::Next, _) | (FirstSnapshot::Created { .. }, RecordKey::Item { .. }) => {
            Ok(next)
        }
        (FirstSnapshot::Seen, _) => Ok(newest),
        (FirstSnapshot::Created { before }, RecordKey::Id(id)) => {
            let table = version_table(resource);
            // An older version belongs to a deleted record that had this id.
            let sql = format!(
                "SELECT max(since) FROM {table} WHERE id = ?1 AND until IS NULL AND since > ?2"
            );
            let shown: Option<SnapshotId> =
                tx.prepare_cached(&sql)?.query_row((id, before), |row| row.get(0))?;
            Ok(shown.map_or(next, |shown| shown.min(next)))
        }
    }
}

/// Deletes values that no readable snapshot shows: those of forgotten snapshots and of forgotten
/// records.
pub(super) fn forget(tx: &Transaction<'_>) -> Result<(), TransactionError> {
    let readable = "SELECT min(s.snapshot) FROM snapshot s
                    WHERE s.finished IS NOT NULL AND s.forgotten IS NULL AND s.snapshot >=";
    checksums::all_sent(tx, || {
        tx.execute(
            &format!(
                "DELETE FROM sent WHERE until IS NOT NULL
                   AND coalesce(({readable} sent.since), sent.until) >= sent.until"
            ),
            [],
        )?;
        for resource in Resource::ALL.into_iter().filter(|it| *it != Resource::ChannelItems) {
            // A record created after the last complete listing has no version yet.
            let table = version_table(resource);
            let gone = format!(
                "FROM sent WHERE resource = ?1
                   AND since <= (SELECT max(s.snapshot) FROM snapshot s
                     JOIN snapshot_resource r USING (snapshot)
                     WHERE s.finished IS NOT NULL AND r.resource = ?1 AND r.state = 'complete')
                   AND NOT EXISTS (SELECT 1 FROM {table} v WHERE v.id = CAST(sent.key AS INTEGER))"
            );
            let list = "INSERT OR IGNORE INTO sent_correction SELECT DISTINCT resource, key, field";
            tx.execute(&format!("{list} {gone}"), [resource.name()])?;
            tx.execute(&format!("DELETE {gone}"), [resource.name()])?;
            tx.execute("DELETE FROM sent_correction", [])?;
        }
        for column in ["until", "since"] {
            tx.execute(
                &format!(
                    "UPDATE sent SET {column} = coalesce(({readable} sent.{column}), {column})
                     WHERE {column} IN (SELECT snapshot FROM snapshot WHERE forgotten IS NOT NULL)"
                ),
                [],
            )?;
        }
        Ok(())
    })
}
