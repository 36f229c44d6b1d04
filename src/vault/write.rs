//! Stores one page of records in the running snapshot, together with the progress of its listing,
//! in one transaction.

use std::collections::HashMap;
use std::time::Duration;

use roaring::RoaringTreemap;
use rusqlite::OptionalExtension;

use super::digest::DigestSum;
use super::forget::drop_unused_templates;
use super::schema::version_table;
use super::snapshot::{RequestUsage, Snapshot, end, previous_counts, signed};
use super::writer::RecordWriter;
pub use super::writer::WriteResult;
use super::{Transaction, TransactionError, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{DecodedRecord, RecordKey, Resource, SnapshotId};
use crate::vault::batch::Batch;
use crate::vault::template_match::TemplateMatch;
use crate::vault::transaction::require_running;
use crate::vault::version_rows::{
    RESERVED_SPACE, StoredVersion, TemplateCache, equal_stored_fields, stored_hash, stored_key,
};

/// Identifies a page of a listing, with the state of the crawl after it.
#[derive(Debug, Clone, Copy)]
pub struct CrawledPage {
    /// Number of the running snapshot.
    pub snapshot: SnapshotId,
    /// Resource that is listed.
    pub resource: Resource,
    /// Channel whose items are listed; `None` for other resources.
    pub parent: Option<i64>,
    /// Number of the page within its listing.
    pub number: u64,
    /// The present time.
    pub now: Timestamp,
    /// Cost of the crawl so far.
    pub usage: RequestUsage,
    /// What it costs to repeat the request after a crash, if the page may be committed later together
    /// with others.
    pub batch: Option<Duration>,
}

impl Vault {
    /// Stores a page of decoded records, like [`Vault::put_matches`].
    pub fn put_page(
        &mut self,
        page: &CrawledPage,
        records: &[DecodedRecord<'_>],
        seen: &RoaringTreemap,
        note: impl FnOnce(&WriteResult) -> String,
    ) -> Result<WriteResult, VaultError> {
        let records = records.iter().cloned();
        let mut records: Vec<_> = records.map(|it| TemplateMatch::new(page.resource, it)).collect();
        self.put_matches(page, &mut records, seen, note)
    }

    /// Stores a page of records. `seen` contains the rows of the listing's earlier pages. `note`
    /// returns the text that the crawler reads when it resumes.
    pub fn put_matches(
        &mut self,
        page: &CrawledPage,
        records: &mut [TemplateMatch<'_>],
        seen: &RoaringTreemap,
        note: impl FnOnce(&WriteResult) -> String,
    ) -> Result<WriteResult, VaultError> {
        let store = |tx: &Transaction<'_>, templates: &mut TemplateCache| {
            let mut put = WriteResult::default();
            let mut writer = RecordWriter::new(tx, page.snapshot, page.resource)?;
            writer.put_all(templates, records, seen, &mut put)?;
            drop(writer);
            put.rows.optimize();
            let (added, changed) = (signed(put.added), put.changed);
            let tally = Tally { delta: put.delta, added, changed, removed: 0 };
            add_tally(tx, page.snapshot, page.resource, &tally)?;
            let mut rows = Vec::with_capacity(put.rows.serialized_size());
            put.rows.serialize_into(&mut rows).map_err(|_| damaged_rows())?;
            tx.prepare_cached(
                "INSERT OR REPLACE INTO listing_page(resource, parent, page, evidence, seen)
                 VALUES(?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((
                page.resource.name(),
                page.parent.unwrap_or(0),
                signed(page.number),
                note(&put),
                rows,
            ))?;
            touch(tx, page.snapshot, page.now, page.usage)?;
            Ok(put)
        };
        let batch = page.batch.map(|cost| Batch { begun: page.now, cost });
        self.transact_page(page.snapshot, batch, store)
    }

    /// Marks the versions in `rows` as removed by the running snapshot.
    pub fn remove(
        &mut self,
        snapshot: SnapshotId,
        resource: Resource,
        rows: &[i64],
    ) -> Result<(), VaultError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.transact_page(snapshot, None, |tx, templates| {
            remove(tx, templates, snapshot, resource, rows)
        })
    }

    /// Reverts the running snapshot `number` and finishes it: it shows the records of the snapshot
    /// before, and each requested resource has failed with the message `why`.
    ///
    /// # Errors
    /// [`VaultError::Finished`] if the snapshot is not running.
    pub fn discard(
        &mut self,
        number: SnapshotId,
        why: &str,
        now: Timestamp,
        usage: RequestUsage,
    ) -> Result<Snapshot, VaultError> {
        // The open batch belongs to the reverted pages.
        self.drop_batch();
        let deleted_forgotten = self.transact(|tx, templates| {
            require_running(tx, number)?;
            revert(tx, templates, number, why)?;
            end(tx, templates, number, now, usage)
        })?;
        self.after_finish(number, deleted_forgotten)
    }
}

/// Reverts the running snapshot `number`: it shows the records of the snapshot before, and each
/// requested resource has failed.
fn revert(
    tx: &Transaction<'_>,
    templates: &mut TemplateCache,
    number: SnapshotId,
    why: &str,
) -> Result<(), TransactionError> {
    for resource in Resource::ALL {
        let table = version_table(resource);
        tx.execute(&format!("DELETE FROM {table} WHERE since = ?1"), [number])?;
        let reopen = format!(
            "UPDATE {table} SET until = NULL, extra = coalesce(extra, ?2) WHERE until = ?1"
        );
        tx.execute(&reopen, (number, RESERVED_SPACE))?;
        if resource.spec().counter().is_some() {
            let table = format!("sample_{}", resource.name());
            tx.execute(&format!("DELETE FROM {table} WHERE snapshot = ?1"), [number])?;
        }
        let (records, sum) = previous_counts(tx, Some(number.previous()), resource)?;
        tx.execute(
            "UPDATE snapshot_resource SET records = ?3, sum = ?4, added = 0, changed = 0,
               removed = 0 WHERE snapshot = ?1 AND resource = ?2",
            (number, resource.name(), records, sum),
        )?;
    }
    tx.execute("DELETE FROM statistics_qr_codes WHERE snapshot = ?1", [number])?;
    tx.execute(
        "UPDATE snapshot_resource SET state = 'failed', message = ?2
         WHERE snapshot = ?1 AND state NOT IN ('skipped', 'excluded')",
        (number, why),
    )?;
    drop_unused_templates(tx)?;
    templates.clear();
    Ok(())
}

/// Closes the versions in `rows` at `snapshot`, and updates its counts and checksum.
pub(super) fn remove(
    tx: &Transaction<'_>,
    templates: &mut TemplateCache,
    snapshot: SnapshotId,
    resource: Resource,
    rows: &[i64],
) -> Result<(), TransactionError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut tally = Tally::default();
    let mut changed = None;
    let mut writer = RecordWriter::new(tx, snapshot, resource)?;
    let find = format!(
        "SELECT {} FROM {} v WHERE v.version = ?1 AND v.until IS NULL",
        StoredVersion::select(resource),
        version_table(resource)
    );
    let mut find = tx.prepare(&find)?;
    for row in rows {
        let found = find.query_row([row], |row| Ok(StoredVersion::read(resource, row)));
        let Some(mut stored) = found.optional()?.transpose()? else { continue };
        tally.delta.sub(stored_hash(tx, templates, resource, &mut stored)?);
        if stored.since < snapshot {
            writer.close(stored.version)?;
            tally.removed += 1;
            continue;
        }
        // An earlier reading of this snapshot added the version.
        writer.delete(stored.version)?;
        let changed: &mut HashMap<_, _> = match &mut changed {
            Some(changed) => changed,
            none => none.insert(closed_in(tx, snapshot, resource)?),
        };
        if let Some(before) = changed.get_mut(&stored_key(resource, &stored)) {
            let changed_fields =
                !equal_stored_fields(tx, templates, resource, before, &mut stored)?;
            tally.changed -= i64::from(changed_fields);
            tally.removed += 1;
        } else {
            tally.added -= 1;
        }
    }
    drop(writer);
    add_tally(tx, snapshot, resource, &tally)
}

fn damaged_rows() -> TransactionError {
    TransactionError::Damaged("a set of rows could not be written".to_owned())
}

/// The versions that `snapshot` closed, by key.
fn closed_in(
    tx: &Transaction<'_>,
    snapshot: SnapshotId,
    resource: Resource,
) -> Result<HashMap<RecordKey, StoredVersion>, TransactionError> {
    let (select, table) = (StoredVersion::select(resource), version_table(resource));
    let mut find = tx.prepare(&format!("SELECT {select} FROM {table} v WHERE v.until = ?1"))?;
    let mut rows = find.query([snapshot])?;
    let mut ended = HashMap::new();
    while let Some(row) = rows.next()? {
        let stored = StoredVersion::read(resource, row)?;
        ended.insert(stored_key(resource, &stored), stored);
    }
    Ok(ended)
}

/// The change of one resource's counts and checksum in one transaction.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    delta: DigestSum,
    added: i64,
    changed: i64,
    removed: i64,
}

/// Adds `tally` to the counts and checksum of the resource.
fn add_tally(
    tx: &Transaction<'_>,
    snapshot: SnapshotId,
    resource: Resource,
    tally: &Tally,
) -> Result<(), TransactionError> {
    if *tally == Tally::default() {
        return Ok(());
    }
    add_to_sum(tx, snapshot, resource, tally.delta)?;
    tx.prepare_cached(
        "UPDATE snapshot_resource SET records = records + ?3 - ?5, added = added + ?3,
           changed = changed + ?4, removed = removed + ?5
         WHERE snapshot = ?1 AND resource = ?2",
    )?
    .execute((snapshot, resource.name(), tally.added, tally.changed, tally.removed))?;
    Ok(())
}

/// Adds `delta` to the checksum of `resource` in the snapshot.
pub(super) fn add_to_sum(
    tx: &Transaction<'_>,
    snapshot: SnapshotId,
    resource: Resource,
    delta: DigestSum,
) -> Result<(), TransactionError> {
    let key = (snapshot, resource.name());
    let bytes: [u8; 32] = tx
        .prepare_cached("SELECT sum FROM snapshot_resource WHERE snapshot = ?1 AND resource = ?2")?
        .query_row(key, |row| row.get(0))?;
    let mut sum = DigestSum::from_bytes(bytes);
    sum.plus(delta);
    tx.prepare_cached(
        "UPDATE snapshot_resource SET sum = ?3 WHERE snapshot = ?1 AND resource = ?2",
    )?
    .execute((key.0, key.1, sum.bytes()))?;
    Ok(())
}

/// Stores when the crawl last made progress, and its cost so far.
pub(super) fn touch(
    tx: &Transaction<'_>,
    snapshot: SnapshotId,
    now: Timestamp,
    usage: RequestUsage,
) -> Result<(), TransactionError> {
    tx.prepare_cached(
        "UPDATE snapshot SET touched = ?2, requests = ?3, throttled = ?4, waited = ?5
         WHERE snapshot = ?1",
    )?
    .execute((
        snapshot,
        now.0,
        signed(usage.requests),
        signed(usage.throttled),
        signed(u64::try_from(usage.waited.as_millis()).unwrap_or(u64::MAX)),
    ))?;
    Ok(())
}
