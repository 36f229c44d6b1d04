//! Stores the records of one page: looks up their open versions, compares, and writes new versions.

mod cursor;
mod item;
mod result;

use std::slice;
use std::sync::Arc;

use roaring::RoaringTreemap;
use rusqlite::{CachedStatement, OptionalExtension};

pub use self::result::WriteResult;
use super::digest::DigestSum;
use super::schema::{counter_place, key_columns, version_table};
use super::statements::{INSERT_ROWS, SeriesStatements, Statements};
use super::{Transaction, TransactionError, digest};
use crate::model::differences::equal_fields;
use crate::model::{RecordKey, Resource, SnapshotId};
use crate::vault::template_match::TemplateMatch;
use crate::vault::version_rows::{
    Column, RESERVED_SPACE, StoredVersion, TemplateCache, equal_stored_fields, extra, same,
    stored_hash, with_reserved_space,
};
use crate::vault::writer::cursor::VersionCursor;
use crate::vault::writer::item::{Open, StoredRecord, WriteItem};

/// How a stored version compares with a received record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionMatch {
    /// The same text, except for the counter.
    Same,
    /// Other text with the same fields.
    SameFields,
    Different,
}

/// The statements that store one record, prepared once for each page.
pub(super) struct RecordWriter<'t> {
    snapshot: SnapshotId,
    resource: Resource,
    counter: Option<usize>,
    find: CachedStatement<'t>,
    scan: CachedStatement<'t>,
    insert: CachedStatement<'t>,
    insert_alike: CachedStatement<'t>,
    overwrite: CachedStatement<'t>,
    close: CachedStatement<'t>,
    delete: CachedStatement<'t>,
    series: Option<Series<'t>>,
    tx: &'t Transaction<'t>,
}

/// The statements on a counter's series.
struct Series<'t> {
    newest: CachedStatement<'t>,
    scan: CachedStatement<'t>,
    store: CachedStatement<'t>,
    begin: CachedStatement<'t>,
}

impl<'t> Series<'t> {
    fn new(tx: &'t Transaction<'t>, sql: &SeriesStatements) -> Result<Self, TransactionError> {
        Ok(Self {
            newest: tx.prepare_cached(&sql.newest)?,
            scan: tx.prepare_cached(&sql.scan)?,
            store: tx.prepare_cached(&sql.store)?,
            begin: tx.prepare_cached(&sql.begin)?,
        })
    }

    /// Stores the first sample of each series.
    fn begin(
        &mut self,
        snapshot: SnapshotId,
        samples: &[(i64, i64)],
    ) -> Result<(), TransactionError> {
        let (many, rest) = samples.as_chunks::<INSERT_ROWS>();
        for samples in many {
            self.begin.raw_bind_parameter(1, snapshot)?;
            for (nth, (id, value)) in samples.iter().enumerate() {
                self.begin.raw_bind_parameter(2 + 2 * nth, id)?;
                self.begin.raw_bind_parameter(3 + 2 * nth, value)?;
            }
            self.begin.raw_execute()?;
        }
        for (id, value) in rest {
            self.store.execute((id, snapshot, value))?;
        }
        Ok(())
    }
}

impl<'t> RecordWriter<'t> {
    pub fn new(
        tx: &'t Transaction<'t>,
        snapshot: SnapshotId,
        resource: Resource,
    ) -> Result<Self, TransactionError> {
        let sql = Statements::of(resource);
        Ok(Self {
            snapshot,
            resource,
            counter: counter_place(resource),
            find: tx.prepare_cached(&sql.find)?,
            scan: tx.prepare_cached(&sql.scan)?,
            insert: tx.prepare_cached(&sql.insert)?,
            insert_alike: tx.prepare_cached(&sql.insert_alike)?,
            overwrite: tx.prepare_cached(&sql.overwrite)?,
            close: tx.prepare_cached(&sql.close)?,
            delete: tx.prepare_cached(&sql.delete)?,
            series: sql.series.as_ref().map(|sql| Series::new(tx, sql)).transpose()?,
            tx,
        })
    }

    /// Stores a page of records in the order of their keys, so that the tables grow at their ends
    /// in whatever order the service lists records.
    pub fn put_all(
        &mut self,
        templates: &mut TemplateCache,
        records: &mut [TemplateMatch<'_>],
        seen: &RoaringTreemap,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let mut items = Vec::with_capacity(records.len());
        let mut last: Option<(Arc<str>, i64)> = None;
        for matched in records {
            let known =
                last.as_ref().filter(|(template, _)| Arc::ptr_eq(template, &matched.template));
            let template_id = match known {
                Some((_, template_id)) => *template_id,
                None => {
                    let template_id = templates.number(self.tx, matched)?;
                    last = Some((Arc::clone(&matched.template), template_id));
                    template_id
                }
            };
            items.push(WriteItem {
                matched,
                template_id,
                open: StoredRecord::NotLoaded,
                counter: StoredRecord::NotLoaded,
            });
        }
        items.sort_by(|one, other| one.matched.record.key.cmp(&other.matched.record.key));
        self.drop_repeats(&mut items, put);
        if self.resource != Resource::ChannelItems {
            self.scan(&mut items)?;
        }
        let mut fresh = Vec::new();
        for item in items {
            match &item.open {
                StoredRecord::Loaded(None) => fresh.push(item),
                StoredRecord::Loaded(Some(_)) => self.put(templates, item, seen, put)?,
                StoredRecord::NotLoaded => {
                    // Its version may be one of those in `fresh`.
                    self.add(&mut fresh, put)?;
                    self.put(templates, item, seen, put)?;
                }
            }
        }
        self.add(&mut fresh, put)
    }

    /// Of records that are on the page more than once, keeps the last.
    fn drop_repeats(&self, items: &mut Vec<WriteItem<'_, '_>>, put: &mut WriteResult) {
        let key = |item: &WriteItem<'_, '_>| item.matched.record.key.clone();
        let again =
            |pair: &[WriteItem<'_, '_>]| pair[0].matched.record.key == pair[1].matched.record.key;
        if !items.windows(2).any(again) {
            return;
        }
        let mut kept: Vec<WriteItem<'_, '_>> = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            match kept.last_mut() {
                Some(last) if last.matched.record.key == item.matched.record.key => {
                    let texts = [&last.matched.record.raw, &item.matched.record.raw];
                    let is_alike = equal_fields(self.resource, &key(&item), texts[0], texts[1]);
                    put.repeated(&key(&item), is_alike);
                    *last = item;
                }
                _ => kept.push(item),
            }
        }
        *items = kept;
    }

    /// Stores records without an open version. From [`MIN_THREAD_ITEMS`] records on, another thread
    /// hashes them during the inserts.
    fn add(
        &mut self,
        fresh: &mut Vec<WriteItem<'_, '_>>,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let (resource, snapshot, counter) = (self.resource, self.snapshot, self.counter);
        let items = fresh.as_slice();
        let mut sum = DigestSum::default();
        if items.len() >= MIN_THREAD_ITEMS {
            rayon::in_place_scope(|scope| {
                scope.spawn(|_| sum = first_sum(resource, snapshot, counter, items));
                self.add_rows(items, put)
            })?;
        } else {
            self.add_rows(items, put)?;
            sum = first_sum(resource, snapshot, counter, items);
        }
        put.delta.plus(sum);
        for item in fresh.drain(..) {
            if !item.begins_series() {
                self.sample(&item, put)?;
            }
        }
        Ok(())
    }

    /// Inserts the versions, and the first sample of each series.
    fn add_rows(
        &mut self,
        items: &[WriteItem<'_, '_>],
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        for items in items.chunks(INSERT_ROWS) {
            let last = self.insert(items)?.cast_unsigned();
            put.rows.insert_range(last + 1 - items.len() as u64..=last);
            put.added += items.len() as u64;
        }
        let Some(series) = &mut self.series else { return Ok(()) };
        let firsts = items.iter().filter(|item| item.begins_series());
        let count = |item: &WriteItem<'_, '_>| item.count(self.counter);
        let samples = firsts.filter_map(|item| Some((item.matched.record.key.id(), count(item)?)));
        series.begin(self.snapshot, &samples.collect::<Vec<_>>())
    }

    /// Inserts up to [`INSERT_ROWS`] versions and returns the row number of the last. Row numbers are
    /// consecutive.
    fn insert(&mut self, items: &[WriteItem<'_, '_>]) -> Result<i64, TransactionError> {
        if let Some(first) = items.first().filter(|first| first.are_alike(items)) {
            bind(&mut self.insert_alike, self.snapshot, first, items, self.counter)?;
            self.insert_alike.raw_execute()?;
        } else {
            for item in items {
                bind(&mut self.insert, self.snapshot, item, slice::from_ref(item), self.counter)?;
                self.insert.raw_execute()?;
            }
        }
        Ok(self.tx.last_insert_rowid())
    }

    /// Looks up all items in one scan over the range of their ids. If the range contains many other
    /// rows, the scan stops, and the remaining items are looked up one by one later.
    fn scan(&mut self, items: &mut [WriteItem<'_, '_>]) -> Result<(), TransactionError> {
        let Some((first, last)) = items.first().zip(items.last()) else { return Ok(()) };
        let span = [first, last].map(|item| item.matched.record.key.id());
        let max_rows = 2 * items.len() + 64;
        let counter = self.counter;
        let mut rows = self.scan.query(span)?;
        let mut scan = VersionCursor::new(items, max_rows);
        while let Some(row) = rows.next()? {
            let Some(item) = scan.advance_to(row.get(5)?) else { break };
            if let Some(item) = item {
                item.open = StoredRecord::Loaded(Some(compare(row, item, counter)?));
            }
        }
        scan.finish(|item| &mut item.open);
        let Some(series) = &mut self.series else { return Ok(()) };
        let mut rows = series.scan.query(span)?;
        let mut scan = VersionCursor::new(items, max_rows);
        while let Some(row) = rows.next()? {
            let Some(item) = scan.advance_to(row.get(0)?) else { break };
            if let Some(item) = item {
                item.counter = StoredRecord::Loaded(Some((row.get(1)?, row.get(2)?)));
            }
        }
        scan.finish(|item| &mut item.counter);
        Ok(())
    }

    fn put(
        &mut self,
        templates: &mut TemplateCache,
        mut item: WriteItem<'_, '_>,
        seen: &RoaringTreemap,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let open = match std::mem::replace(&mut item.open, StoredRecord::NotLoaded) {
            StoredRecord::Loaded(open) => open,
            StoredRecord::NotLoaded => self.find(&item)?,
        };
        let (row, is_alike) = match &open {
            Some(open) if open.same => (open.version, true),
            Some(open) => {
                let mut old = self.load(open.version)?;
                let matched = self.compare_version(templates, &mut old, &item)?;
                if matched == VersionMatch::Same {
                    (open.version, true)
                } else {
                    put.delta.sub(stored_hash(self.tx, templates, self.resource, &mut old)?);
                    put.delta.add(item.hash(self.resource));
                    let is_alike = matched == VersionMatch::SameFields;
                    (self.replace(templates, &mut old, &item, is_alike, put)?, is_alike)
                }
            }
            None => return self.add(&mut vec![item], put),
        };
        let before = open.map_or(row, |open| open.version).cast_unsigned();
        let row = row.cast_unsigned();
        if seen.contains(before) {
            put.repeated(&item.matched.record.key, is_alike);
            put.cross_page_repeats += 1;
        }
        // Rows are mostly in ascending order, and a push is faster.
        let _ = put.rows.try_push(row).is_ok() || put.rows.insert(row);
        self.sample(&item, put)
    }

    /// Replaces the open version `old`. If only the spelling differs, the new text is stored, but
    /// does not count as a change.
    fn replace(
        &mut self,
        templates: &mut TemplateCache,
        old: &mut StoredVersion,
        item: &WriteItem<'_, '_>,
        is_alike: bool,
        put: &mut WriteResult,
    ) -> Result<i64, TransactionError> {
        if old.since < self.snapshot {
            put.changed += i64::from(!is_alike);
            self.close(old.version)?;
            return self.insert(slice::from_ref(item));
        }
        // An earlier reading of this snapshot stored the version.
        if let Some(mut before) = self.replaced(item)? {
            let changed_fields =
                !equal_stored_fields(self.tx, templates, self.resource, &mut before, old)?;
            put.changed -= i64::from(changed_fields);
            match self.compare_version(templates, &mut before, item)? {
                VersionMatch::Same => {
                    self.delete(old.version)?;
                    return self.reopen(before.version);
                }
                VersionMatch::SameFields => {}
                VersionMatch::Different => put.changed += 1,
            }
        }
        self.overwrite(old.version, item)
    }

    /// The version that this snapshot closed when it stored another.
    fn replaced(
        &self,
        item: &WriteItem<'_, '_>,
    ) -> Result<Option<StoredVersion>, TransactionError> {
        let keys: Vec<_> = key_columns(self.resource)
            .enumerate()
            .map(|(nth, name)| format!("v.\"{name}\" = ?{}", nth + 2))
            .collect();
        let sql = format!(
            "SELECT {} FROM {} v WHERE v.until = ?1 AND {}",
            StoredVersion::select(self.resource),
            version_table(self.resource),
            keys.join(" AND ")
        );
        let mut find = self.tx.prepare_cached(&sql)?;
        let mut rows = match &item.matched.record.key {
            RecordKey::Id(id) => find.query((self.snapshot, id))?,
            RecordKey::Item { channel, kind, id } => {
                find.query((self.snapshot, channel, kind, id))?
            }
        };
        rows.next()?.map(|row| StoredVersion::read(self.resource, row)).transpose()
    }

    /// Compares a stored version with the received record. Their columns may differ although the
    /// text is the same: a record that was stored verbatim before may share a template now.
    fn compare_version(
        &self,
        templates: &mut TemplateCache,
        old: &mut StoredVersion,
        item: &WriteItem<'_, '_>,
    ) -> Result<VersionMatch, TransactionError> {
        let template = templates.template(self.tx, old.template_id)?;
        let counter = item.count(self.counter).unwrap_or(0);
        let Ok(text) = old.raw(self.resource, template, Some(counter)) else {
            return Ok(VersionMatch::Different);
        };
        let record = &item.matched.record;
        Ok(match text == record.raw {
            true => VersionMatch::Same,
            false if equal_fields(self.resource, &record.key, &text, &record.raw) => {
                VersionMatch::SameFields
            }
            false => VersionMatch::Different,
        })
    }

    fn find(&mut self, item: &WriteItem<'_, '_>) -> Result<Option<Open>, TransactionError> {
        let mut rows = match &item.matched.record.key {
            RecordKey::Id(id) => self.find.query([id])?,
            RecordKey::Item { channel, kind, id } => self.find.query((channel, kind, id))?,
        };
        rows.next()?.map(|row| compare(row, item, self.counter)).transpose()
    }

    fn load(&self, version: i64) -> Result<StoredVersion, TransactionError> {
        let sql = format!(
            "SELECT {} FROM {} v WHERE v.version = ?1",
            StoredVersion::select(self.resource),
            version_table(self.resource)
        );
        self.tx
            .prepare_cached(&sql)?
            .query_row([version], |row| Ok(StoredVersion::read(self.resource, row)))?
    }

    fn overwrite(
        &mut self,
        version: i64,
        item: &WriteItem<'_, '_>,
    ) -> Result<i64, TransactionError> {
        bind(&mut self.overwrite, self.snapshot, item, slice::from_ref(item), self.counter)?;
        let last = self.overwrite.parameter_count();
        self.overwrite.raw_bind_parameter(last, version)?;
        self.overwrite.raw_execute()?;
        Ok(version)
    }

    pub fn close(&mut self, version: i64) -> Result<(), TransactionError> {
        self.close.execute((version, self.snapshot, RESERVED_SPACE))?;
        Ok(())
    }

    fn reopen(&self, version: i64) -> Result<i64, TransactionError> {
        let table = version_table(self.resource);
        let sql = format!(
            "UPDATE {table} SET until = NULL, extra = coalesce(extra, ?2) WHERE version = ?1"
        );
        self.tx.prepare_cached(&sql)?.execute((version, RESERVED_SPACE))?;
        Ok(version)
    }

    pub fn delete(&mut self, version: i64) -> Result<(), TransactionError> {
        self.delete.execute([version])?;
        Ok(())
    }

    fn sample_hash(
        &self,
        item: &WriteItem<'_, '_>,
        snapshot: SnapshotId,
        value: Option<i64>,
    ) -> blake3::Hash {
        digest::sample(self.resource, item.matched.record.key.id(), snapshot, value)
    }

    fn sample(
        &mut self,
        item: &WriteItem<'_, '_>,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let value = item.count(self.counter);
        let Some(series) = &mut self.series else { return Ok(()) };
        let id = item.matched.record.key.id();
        let known: Option<(SnapshotId, Option<i64>)> = match item.counter {
            StoredRecord::Loaded(known) => known,
            StoredRecord::NotLoaded => {
                let found = series.newest.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)));
                found.optional()?
            }
        };
        if known.and_then(|(_, value)| value) == value {
            return Ok(());
        }
        series.store.execute((id, self.snapshot, value))?;
        if let Some((snapshot, before)) = known {
            put.delta.sub(self.sample_hash(item, snapshot, before));
            put.changed_counters += u64::from(before.is_some() && value.is_some());
        }
        put.delta.add(self.sample_hash(item, self.snapshot, value));
        Ok(())
    }
}

/// The checksum of records that are stored for the first time.
fn first_sum(
    resource: Resource,
    snapshot: SnapshotId,
    counter: Option<usize>,
    items: &[WriteItem<'_, '_>],
) -> DigestSum {
    let mut sum = DigestSum::default();
    for item in items {
        sum.add(item.hash(resource));
        if let Some(value) = item.count(counter).filter(|_| item.begins_series()) {
            let id = item.matched.record.key.id();
            sum.add(digest::sample(resource, id, snapshot, Some(value)));
        }
    }
    sum
}

/// Number of records from which on another thread hashes them. Measured with `cargo bench --bench
/// backup` in five alternating runs, medians: with the thread 0.170 s for the first backup of
/// 100,000 records at 1000 a page and 1.59 s for 1,000,000; without it 0.201 s and 1.98 s.
const MIN_THREAD_ITEMS: usize = 64;

/// Binds the columns of each item. All items have the template and `extra` of `first`.
fn bind(
    statement: &mut CachedStatement<'_>,
    snapshot: SnapshotId,
    first: &WriteItem<'_, '_>,
    items: &[WriteItem<'_, '_>],
    counter: Option<usize>,
) -> Result<(), TransactionError> {
    statement.raw_bind_parameter(1, snapshot)?;
    statement.raw_bind_parameter(2, first.template_id)?;
    statement.raw_bind_parameter(3, with_reserved_space(first.matched.extra.as_deref()))?;
    let mut at = 4;
    for item in items {
        for (place, value) in item.matched.record.values.iter().enumerate() {
            if Some(place) != counter {
                statement.raw_bind_parameter(at, Column(value))?;
                at += 1;
            }
        }
    }
    Ok(())
}

/// Compares the version in `row` with the received record.
fn compare(
    row: &rusqlite::Row<'_>,
    item: &WriteItem<'_, '_>,
    counter: Option<usize>,
) -> Result<Open, TransactionError> {
    let mut equal = row.get::<_, i64>(3)? == item.template_id
        && extra(row, 4)? == item.matched.extra.as_deref();
    let mut at = 5;
    for (place, value) in item.matched.record.values.iter().enumerate() {
        if Some(place) != counter {
            equal = equal && same(row.get_ref(at)?, value);
            at += 1;
        }
    }
    Ok(Open { version: row.get(0)?, same: equal })
}
