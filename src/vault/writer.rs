//! Stores the records of one page: looks up what is known of them, compares,
//! and writes what is new.

mod cursor;
mod result;

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use roaring::RoaringTreemap;
use rusqlite::{CachedStatement, OptionalExtension};

pub use self::result::WriteResult;
use super::digest::DigestSum;
use super::schema::{counter_place, key_columns, version_table};
use super::statements::{MANY, SeriesStatements, Statements};
use super::{Transaction, TransactionError, digest};
use crate::model::differences::equal_fields;
use crate::model::{FieldValue, RecordKey, Resource};
use crate::vault::template_match::TemplateMatch;
use crate::vault::version_rows::{
    Column, ROOM, StoredVersion, TemplateCache, extra, same, stored_alike, stored_hash, with_room,
};
use crate::vault::writer::cursor::VersionCursor;

/// How a stored version compares with what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// The very text, but for the counter.
    Same,
    /// Another text with the same fields.
    Alike,
    Different,
}

/// The statements that store one record, prepared once a page.
pub(super) struct RecordWriter<'t> {
    snapshot: i64,
    resource: Resource,
    counter: Option<usize>,
    find: CachedStatement<'t>,
    walk: CachedStatement<'t>,
    insert: CachedStatement<'t>,
    insert_alike: CachedStatement<'t>,
    overwrite: CachedStatement<'t>,
    close: CachedStatement<'t>,
    delete: CachedStatement<'t>,
    series: Option<Series<'t>>,
    tx: &'t Transaction<'t>,
}

/// The statements that keep a counter's series.
struct Series<'t> {
    newest: CachedStatement<'t>,
    walk: CachedStatement<'t>,
    store: CachedStatement<'t>,
    begin: CachedStatement<'t>,
}

impl<'t> Series<'t> {
    fn new(tx: &'t Transaction<'t>, sql: &SeriesStatements) -> Result<Self, TransactionError> {
        Ok(Self {
            newest: tx.prepare_cached(&sql.newest)?,
            walk: tx.prepare_cached(&sql.walk)?,
            store: tx.prepare_cached(&sql.store)?,
            begin: tx.prepare_cached(&sql.begin)?,
        })
    }

    /// Begins series that have no sample yet.
    fn begin(&mut self, snapshot: i64, samples: &[(i64, i64)]) -> Result<(), TransactionError> {
        let (many, rest) = samples.as_chunks::<MANY>();
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

/// One record of the page, split, with what the vault knows of it.
struct WriteItem<'p, 'a> {
    split: &'p TemplateMatch<'a>,
    shape: i64,
    open: StoredRecord<Open>,
    /// The newest sample: the snapshot that saw it, and the value.
    counter: StoredRecord<(i64, Option<i64>)>,
}

impl WriteItem<'_, '_> {
    /// The hash of what came, as [`stored_hash`] gives it once it is stored.
    fn hash(&self, resource: Resource) -> blake3::Hash {
        let record = &self.split.record;
        let part = |range: Range<usize>| record.raw.get(range).unwrap_or_default();
        let Some(Range { start, end }) = self.split.counter else {
            return digest::version(resource, &record.key, &record.raw);
        };
        let zero = if part(start..end).starts_with('"') { "\"0\"" } else { "0" };
        let parts = [part(0..start), zero, part(end..record.raw.len())];
        digest::version_of(resource, &record.key, &parts)
    }

    /// Whether `items` are [`MANY`], have its shape, and need nothing extra.
    fn are_alike(&self, items: &[WriteItem<'_, '_>]) -> bool {
        let alike =
            |item: &WriteItem<'_, '_>| item.shape == self.shape && item.split.extra.is_none();
        items.len() == MANY && items.iter().all(alike)
    }

    /// Whether there is no sample of its counter yet, as far as was asked.
    fn begins_series(&self) -> bool {
        matches!(self.counter, StoredRecord::Is(None))
    }

    /// The counter's value, if the record tells one.
    fn count(&self, counter: Option<usize>) -> Option<i64> {
        match self.split.record.values.get(counter?) {
            Some(FieldValue::Int(value)) => Some(*value),
            _ => None,
        }
    }
}

/// What the vault knows of something.
enum StoredRecord<T> {
    /// It was not asked yet.
    Unasked,
    Is(Option<T>),
}

/// The open version of a record, and how it compares with what came.
struct Open {
    version: i64,
    same: bool,
}

impl<'t> RecordWriter<'t> {
    pub fn new(
        tx: &'t Transaction<'t>,
        snapshot: i64,
        resource: Resource,
    ) -> Result<Self, TransactionError> {
        let sql = Statements::of(resource);
        Ok(Self {
            snapshot,
            resource,
            counter: counter_place(resource),
            find: tx.prepare_cached(&sql.find)?,
            walk: tx.prepare_cached(&sql.walk)?,
            insert: tx.prepare_cached(&sql.insert)?,
            insert_alike: tx.prepare_cached(&sql.insert_alike)?,
            overwrite: tx.prepare_cached(&sql.overwrite)?,
            close: tx.prepare_cached(&sql.close)?,
            delete: tx.prepare_cached(&sql.delete)?,
            series: sql.series.as_ref().map(|sql| Series::new(tx, sql)).transpose()?,
            tx,
        })
    }

    /// Stores a page's records, in the order of their keys: so the tables grow
    /// at their ends, in whatever order the service tells its lists.
    pub fn put_all(
        &mut self,
        shapes: &mut TemplateCache,
        records: &mut [TemplateMatch<'_>],
        seen: &RoaringTreemap,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let mut items = Vec::with_capacity(records.len());
        let mut last: Option<(Arc<str>, i64)> = None;
        for split in records {
            let known =
                last.as_ref().filter(|(template, _)| Arc::ptr_eq(template, &split.template));
            let shape = match known {
                Some((_, shape)) => *shape,
                None => {
                    let shape = shapes.number(self.tx, split)?;
                    last = Some((Arc::clone(&split.template), shape));
                    shape
                }
            };
            items.push(WriteItem {
                split,
                shape,
                open: StoredRecord::Unasked,
                counter: StoredRecord::Unasked,
            });
        }
        items.sort_by(|one, other| one.split.record.key.cmp(&other.split.record.key));
        self.drop_repeats(&mut items, put);
        if self.resource != Resource::ChannelItems {
            self.walk(&mut items)?;
        }
        let mut fresh = Vec::new();
        for item in items {
            match &item.open {
                StoredRecord::Is(None) => fresh.push(item),
                StoredRecord::Is(Some(_)) => self.put(shapes, item, seen, put)?,
                StoredRecord::Unasked => {
                    // It may be one of those.
                    self.add(&mut fresh, put)?;
                    self.put(shapes, item, seen, put)?;
                }
            }
        }
        self.add(&mut fresh, put)
    }

    /// Of records that stand on the page more than once, keeps the last.
    fn drop_repeats(&self, items: &mut Vec<WriteItem<'_, '_>>, put: &mut WriteResult) {
        let key = |item: &WriteItem<'_, '_>| item.split.record.key.clone();
        let again =
            |pair: &[WriteItem<'_, '_>]| pair[0].split.record.key == pair[1].split.record.key;
        if !items.windows(2).any(again) {
            return;
        }
        let mut kept: Vec<WriteItem<'_, '_>> = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            match kept.last_mut() {
                Some(last) if last.split.record.key == item.split.record.key => {
                    let texts = [&last.split.record.raw, &item.split.record.raw];
                    let is_alike = equal_fields(self.resource, &key(&item), texts[0], texts[1]);
                    put.repeated(&key(&item), is_alike);
                    *last = item;
                }
                _ => kept.push(item),
            }
        }
        *items = kept;
    }

    /// Stores records of which there is no open version. Their hashes are taken
    /// beside the inserts, where there are enough of them to be worth a thread.
    fn add(
        &mut self,
        fresh: &mut Vec<WriteItem<'_, '_>>,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let (resource, snapshot, counter) = (self.resource, self.snapshot, self.counter);
        let items = fresh.as_slice();
        let mut sum = DigestSum::default();
        if items.len() >= WORTH_A_THREAD {
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

    /// Inserts the versions, and the samples that begin a series.
    fn add_rows(
        &mut self,
        items: &[WriteItem<'_, '_>],
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        for items in items.chunks(MANY) {
            let last = self.insert(items)?.cast_unsigned();
            put.rows.insert_range(last + 1 - items.len() as u64..=last);
            put.added += items.len() as u64;
        }
        let Some(series) = &mut self.series else { return Ok(()) };
        let firsts = items.iter().filter(|item| item.begins_series());
        let count = |item: &WriteItem<'_, '_>| item.count(self.counter);
        let samples = firsts.filter_map(|item| Some((item.split.record.key.id(), count(item)?)));
        series.begin(self.snapshot, &samples.collect::<Vec<_>>())
    }

    /// Inserts these versions, [`MANY`] at most, and gives the last one's row.
    /// Rows are numbered one by one.
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

    /// Looks up what is known of all items at once, in one walk over the span
    /// of their ids. Where that span holds much else, the rest stays unasked.
    fn walk(&mut self, items: &mut [WriteItem<'_, '_>]) -> Result<(), TransactionError> {
        let Some((first, last)) = items.first().zip(items.last()) else { return Ok(()) };
        let span = [first, last].map(|item| item.split.record.key.id());
        let most = 2 * items.len() + 64;
        let counter = self.counter;
        let mut rows = self.walk.query(span)?;
        let mut walk = VersionCursor::new(items, most);
        while let Some(row) = rows.next()? {
            let Some(item) = walk.to(row.get(5)?) else { break };
            if let Some(item) = item {
                item.open = StoredRecord::Is(Some(compare(row, item, counter)?));
            }
        }
        walk.finish(|item| &mut item.open);
        let Some(series) = &mut self.series else { return Ok(()) };
        let mut rows = series.walk.query(span)?;
        let mut walk = VersionCursor::new(items, most);
        while let Some(row) = rows.next()? {
            let Some(item) = walk.to(row.get(0)?) else { break };
            if let Some(item) = item {
                item.counter = StoredRecord::Is(Some((row.get(1)?, row.get(2)?)));
            }
        }
        walk.finish(|item| &mut item.counter);
        Ok(())
    }

    fn put(
        &mut self,
        shapes: &mut TemplateCache,
        mut item: WriteItem<'_, '_>,
        seen: &RoaringTreemap,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let open = match std::mem::replace(&mut item.open, StoredRecord::Unasked) {
            StoredRecord::Is(open) => open,
            StoredRecord::Unasked => self.find(&item)?,
        };
        let (row, is_alike) = match &open {
            Some(open) if open.same => (open.version, true),
            Some(open) => {
                let mut old = self.load(open.version)?;
                let likeness = self.likeness(shapes, &mut old, &item)?;
                if likeness == Likeness::Same {
                    (open.version, true)
                } else {
                    put.delta.sub(stored_hash(self.tx, shapes, self.resource, &mut old)?);
                    put.delta.add(item.hash(self.resource));
                    let is_alike = likeness == Likeness::Alike;
                    (self.replace(shapes, &mut old, &item, is_alike, put)?, is_alike)
                }
            }
            None => return self.add(&mut vec![item], put),
        };
        let before = open.map_or(row, |open| open.version).cast_unsigned();
        let row = row.cast_unsigned();
        if seen.contains(before) {
            put.repeated(&item.split.record.key, is_alike);
            put.across += 1;
        }
        put.rows.insert(row);
        self.sample(&item, put)
    }

    /// Puts another version in the place of the open one, `old`. What differs in
    /// its spelling alone is kept as it came, but is no change.
    fn replace(
        &mut self,
        shapes: &mut TemplateCache,
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
        // An earlier reading of this very snapshot put it there.
        if let Some(mut before) = self.replaced(item)? {
            let counted = !stored_alike(self.tx, shapes, self.resource, &mut before, old)?;
            put.changed -= i64::from(counted);
            match self.likeness(shapes, &mut before, item)? {
                Likeness::Same => {
                    self.delete(old.version)?;
                    return self.reopen(before.version);
                }
                Likeness::Alike => {}
                Likeness::Different => put.changed += 1,
            }
        }
        self.overwrite(old.version, item)
    }

    /// The version that this snapshot has closed in favour of another.
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
        let mut rows = match &item.split.record.key {
            RecordKey::Id(id) => find.query((self.snapshot, id))?,
            RecordKey::Item { channel, kind, id } => {
                find.query((self.snapshot, channel, kind, id))?
            }
        };
        rows.next()?.map(|row| StoredVersion::read(self.resource, row)).transpose()
    }

    /// How a stored version compares with what came. One that was split another
    /// way may have the record's very text: what is kept verbatim today may
    /// share a template tomorrow.
    fn likeness(
        &self,
        shapes: &mut TemplateCache,
        old: &mut StoredVersion,
        item: &WriteItem<'_, '_>,
    ) -> Result<Likeness, TransactionError> {
        let template = shapes.template(self.tx, old.shape)?;
        let counter = item.count(self.counter).unwrap_or(0);
        let Ok(text) = old.raw(self.resource, template, Some(counter)) else {
            return Ok(Likeness::Different);
        };
        let record = &item.split.record;
        Ok(match text == record.raw {
            true => Likeness::Same,
            false if equal_fields(self.resource, &record.key, &text, &record.raw) => {
                Likeness::Alike
            }
            false => Likeness::Different,
        })
    }

    fn find(&mut self, item: &WriteItem<'_, '_>) -> Result<Option<Open>, TransactionError> {
        let mut rows = match &item.split.record.key {
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
        self.close.execute((version, self.snapshot, ROOM))?;
        Ok(())
    }

    fn reopen(&self, version: i64) -> Result<i64, TransactionError> {
        let table = version_table(self.resource);
        let sql = format!(
            "UPDATE {table} SET until = NULL, extra = coalesce(extra, ?2) WHERE version = ?1"
        );
        self.tx.prepare_cached(&sql)?.execute((version, ROOM))?;
        Ok(version)
    }

    pub fn delete(&mut self, version: i64) -> Result<(), TransactionError> {
        self.delete.execute([version])?;
        Ok(())
    }

    fn sample_hash(
        &self,
        item: &WriteItem<'_, '_>,
        snapshot: i64,
        value: Option<i64>,
    ) -> blake3::Hash {
        digest::sample(self.resource, item.split.record.key.id(), snapshot, value)
    }

    fn sample(
        &mut self,
        item: &WriteItem<'_, '_>,
        put: &mut WriteResult,
    ) -> Result<(), TransactionError> {
        let value = item.count(self.counter);
        let Some(series) = &mut self.series else { return Ok(()) };
        let id = item.split.record.key.id();
        let known: Option<(i64, Option<i64>)> = match item.counter {
            StoredRecord::Is(known) => known,
            StoredRecord::Unasked => {
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
            put.moved += u64::from(before.is_some() && value.is_some());
        }
        put.delta.add(self.sample_hash(item, self.snapshot, value));
        Ok(())
    }
}

/// The sum of what is hashed when records are stored for the first time.
fn first_sum(
    resource: Resource,
    snapshot: i64,
    counter: Option<usize>,
    items: &[WriteItem<'_, '_>],
) -> DigestSum {
    let mut sum = DigestSum::default();
    for item in items {
        sum.add(item.hash(resource));
        if let Some(value) = item.count(counter).filter(|_| item.begins_series()) {
            let id = item.split.record.key.id();
            sum.add(digest::sample(resource, id, snapshot, Some(value)));
        }
    }
    sum
}

/// From this many records on, a thread of its own hashes them.
const WORTH_A_THREAD: usize = 64;

/// Binds what the version tables hold of each item; shape and extra are those
/// of `first`.
fn bind(
    statement: &mut CachedStatement<'_>,
    snapshot: i64,
    first: &WriteItem<'_, '_>,
    items: &[WriteItem<'_, '_>],
    counter: Option<usize>,
) -> Result<(), TransactionError> {
    statement.raw_bind_parameter(1, snapshot)?;
    statement.raw_bind_parameter(2, first.shape)?;
    statement.raw_bind_parameter(3, with_room(first.split.extra.as_deref()))?;
    let mut at = 4;
    for item in items {
        for (place, value) in item.split.record.values.iter().enumerate() {
            if Some(place) != counter {
                statement.raw_bind_parameter(at, Column(value))?;
                at += 1;
            }
        }
    }
    Ok(())
}

/// How the version in `row` compares with what came.
fn compare(
    row: &rusqlite::Row<'_>,
    item: &WriteItem<'_, '_>,
    counter: Option<usize>,
) -> Result<Open, TransactionError> {
    let mut equal =
        row.get::<_, i64>(3)? == item.shape && extra(row, 4)? == item.split.extra.as_deref();
    let mut at = 5;
    for (place, value) in item.split.record.values.iter().enumerate() {
        if Some(place) != counter {
            equal = equal && same(row.get_ref(at)?, value);
            at += 1;
        }
    }
    Ok(Open { version: row.get(0)?, same: equal })
}
