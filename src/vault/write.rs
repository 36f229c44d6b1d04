//! Puts one page of records into the running snapshot, in one transaction with
//! the progress it stands for.

use std::collections::HashMap;

use roaring::RoaringTreemap;
use rusqlite::OptionalExtension;

use super::digest::DigestSum;
use super::forget::drop_unused_templates;
use super::schema::version_table;
use super::snapshot::{RequestUsage, carried, signed};
use super::writer::RecordWriter;
pub use super::writer::WriteResult;
use super::{Transaction, TransactionError, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{DecodedRecord, RecordKey, Resource};
use crate::vault::template_match::TemplateMatch;
use crate::vault::version_rows::{
    ROOM, StoredVersion, TemplateCache, stored_alike, stored_hash, stored_key,
};

/// Which page of which listing this is.
#[derive(Debug, Clone, Copy)]
pub struct CrawledPage {
    pub snapshot: i64,
    pub resource: Resource,
    pub parent: Option<i64>,
    pub number: u64,
    pub now: Timestamp,
    pub usage: RequestUsage,
    /// Whether the page may be committed a moment later, with others: where
    /// reading it again costs nothing of a limit.
    pub batch: bool,
}

impl Vault {
    /// Stores a page's decoded records, as [`Vault::put_split`] does.
    ///
    /// # Errors
    /// As [`Vault::put_split`].
    pub fn put_page(
        &mut self,
        page: &CrawledPage,
        records: &[DecodedRecord<'_>],
        seen: &RoaringTreemap,
        note: impl FnOnce(&WriteResult) -> String,
    ) -> Result<WriteResult, VaultError> {
        let records = records.iter().cloned();
        let mut records: Vec<_> = records.map(|it| TemplateMatch::new(page.resource, it)).collect();
        self.put_split(page, &mut records, seen, note)
    }

    /// Stores a page's records. `seen` holds the rows of the listing's earlier
    /// pages; `note`, told what became of the page, gives what the crawler
    /// wants to be told of the page when it resumes.
    ///
    /// # Errors
    /// When the vault cannot be written; nothing of the page is then kept.
    pub fn put_split(
        &mut self,
        page: &CrawledPage,
        records: &mut [TemplateMatch<'_>],
        seen: &RoaringTreemap,
        note: impl FnOnce(&WriteResult) -> String,
    ) -> Result<WriteResult, VaultError> {
        let store = |tx: &Transaction<'_>, shapes: &mut TemplateCache| {
            let mut put = WriteResult::default();
            let mut writer = RecordWriter::new(tx, page.snapshot, page.resource)?;
            writer.put_all(shapes, records, seen, &mut put)?;
            drop(writer);
            put.rows.optimize();
            let (added, changed) = (signed(put.added), put.changed);
            let tally = Tally { delta: put.delta, added, changed, removed: 0 };
            account(tx, page.snapshot, page.resource, &tally)?;
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
        self.transact_page(page.snapshot, page.batch.then_some(page.now), store)
    }

    /// Marks the versions in `rows` as removed by the running snapshot.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn remove(
        &mut self,
        snapshot: i64,
        resource: Resource,
        rows: &[i64],
    ) -> Result<(), VaultError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.transact_page(snapshot, None, |tx, shapes| {
            remove(tx, shapes, snapshot, resource, rows)
        })
    }
}

/// Takes back all that was put into the running snapshot `number`: it shows what the one
/// before showed, and each resource that it was to hold counts as failed.
pub(super) fn take_back(
    tx: &Transaction<'_>,
    shapes: &mut TemplateCache,
    number: i64,
    why: &str,
) -> Result<(), TransactionError> {
    for resource in Resource::ALL {
        let table = version_table(resource);
        tx.execute(&format!("DELETE FROM {table} WHERE since = ?1"), [number])?;
        let reopen = format!(
            "UPDATE {table} SET until = NULL, extra = coalesce(extra, ?2) WHERE until = ?1"
        );
        tx.execute(&reopen, (number, ROOM))?;
        if resource.spec().counter().is_some() {
            let table = format!("sample_{}", resource.name());
            tx.execute(&format!("DELETE FROM {table} WHERE snapshot = ?1"), [number])?;
        }
        let (records, sum) = carried(tx, Some(number - 1), resource)?;
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
    shapes.clear();
    Ok(())
}

/// Closes the versions in `rows` at `snapshot`, and accounts for them.
pub(super) fn remove(
    tx: &Transaction<'_>,
    shapes: &mut TemplateCache,
    snapshot: i64,
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
        tally.delta.sub(stored_hash(tx, shapes, resource, &mut stored)?);
        if stored.since < snapshot {
            writer.close(stored.version)?;
            tally.removed += 1;
            continue;
        }
        // This very snapshot put it there, by an earlier reading.
        writer.delete(stored.version)?;
        let changed: &mut HashMap<_, _> = match &mut changed {
            Some(changed) => changed,
            none => none.insert(ended_in(tx, snapshot, resource)?),
        };
        if let Some(before) = changed.get_mut(&stored_key(resource, &stored)) {
            let counted = !stored_alike(tx, shapes, resource, before, &mut stored)?;
            tally.changed -= i64::from(counted);
            tally.removed += 1;
        } else {
            tally.added -= 1;
        }
    }
    drop(writer);
    account(tx, snapshot, resource, &tally)
}

fn damaged_rows() -> TransactionError {
    TransactionError::Damaged("a set of rows could not be written".to_owned())
}

/// The versions that ended in `snapshot`, by their records.
fn ended_in(
    tx: &Transaction<'_>,
    snapshot: i64,
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

/// What one transaction changes in the snapshot's account of a resource.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    delta: DigestSum,
    added: i64,
    changed: i64,
    removed: i64,
}

/// Adds `tally` to the snapshot's account of the resource.
fn account(
    tx: &Transaction<'_>,
    snapshot: i64,
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

/// Adds `delta` to the sum of what the snapshot shows of `resource`.
pub(super) fn add_to_sum(
    tx: &Transaction<'_>,
    snapshot: i64,
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

/// Records that the crawl is alive, and what it cost so far.
pub(super) fn touch(
    tx: &Transaction<'_>,
    snapshot: i64,
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
