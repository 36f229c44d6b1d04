//! Stores the records of one page: looks up what is known of them, compares,
//! and writes what is new.

use std::ops::Range;
use std::slice;

use roaring::RoaringTreemap;
use rusqlite::{CachedStatement, OptionalExtension, Transaction};

use super::row::{Column, ROOM, Shapes, Stored, extra, same, with_room};
use super::schema::{columns, counter_place, key_columns, version_table};
use super::split::Split;
use super::write::{Put, stored_hash};
use super::{Failure, digest};
use crate::model::{Key, Resource, Value};

/// The statements that store one record, prepared once a page.
pub(super) struct Writer<'t> {
    snapshot: i64,
    resource: Resource,
    counter: Option<usize>,
    find: CachedStatement<'t>,
    walk: CachedStatement<'t>,
    insert: CachedStatement<'t>,
    insert_many: CachedStatement<'t>,
    overwrite: CachedStatement<'t>,
    close: CachedStatement<'t>,
    delete: CachedStatement<'t>,
    series: Option<Series<'t>>,
    tx: &'t Transaction<'t>,
    buffer: String,
}

/// The statements that keep a counter's series.
struct Series<'t> {
    newest: CachedStatement<'t>,
    walk: CachedStatement<'t>,
    store: CachedStatement<'t>,
    begin: CachedStatement<'t>,
}

impl<'t> Series<'t> {
    fn new(tx: &'t Transaction<'t>, resource: Resource) -> Result<Option<Self>, Failure> {
        if resource.spec().counter().is_none() {
            return Ok(None);
        }
        let table = format!("sample_{resource}");
        Ok(Some(Self {
            newest: tx.prepare_cached(&format!(
                "SELECT snapshot, value FROM {table} WHERE id = ?1 ORDER BY snapshot DESC LIMIT 1"
            ))?,
            walk: tx.prepare_cached(&format!(
                "SELECT id, snapshot, value FROM {table} WHERE id BETWEEN ?1 AND ?2
                 ORDER BY id, snapshot"
            ))?,
            store: tx.prepare_cached(&format!(
                "INSERT INTO {table} VALUES(?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET value = excluded.value"
            ))?,
            begin: tx.prepare_cached(&insert(&format!("{table}(snapshot, id, value)"), 2, MANY))?,
        }))
    }

    /// Begins series that have no sample yet.
    fn begin(&mut self, snapshot: i64, samples: &[(i64, i64)]) -> Result<(), Failure> {
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
struct Item<'p, 'a> {
    split: &'p Split<'a>,
    shape: i64,
    open: Known<Open>,
    /// The newest sample: the snapshot that saw it, and the value.
    counter: Known<(i64, Option<i64>)>,
}

impl Item<'_, '_> {
    /// The counter's value, if the record tells one.
    fn count(&self, counter: Option<usize>) -> Option<i64> {
        match self.split.record.values.get(counter?) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }
}

/// What the vault knows of something.
enum Known<T> {
    /// It was not asked yet.
    Unasked,
    Is(Option<T>),
}

/// The open version of a record, and how it compares with what came.
struct Open {
    version: i64,
    since: i64,
    same: bool,
}

impl<'t> Writer<'t> {
    pub fn new(
        tx: &'t Transaction<'t>,
        snapshot: i64,
        resource: Resource,
    ) -> Result<Self, Failure> {
        let table = version_table(resource);
        let columns: Vec<_> =
            columns(resource).map(|field| format!("\"{}\"", field.name)).collect();
        let keys: Vec<_> = key_columns(resource)
            .enumerate()
            .map(|(nth, name)| format!("v.\"{name}\" = ?{}", nth + 1))
            .collect();
        let sets: Vec<_> = columns.iter().map(|column| format!("{column} = ?")).collect();
        let find = format!(
            "SELECT {} FROM {table} v WHERE {} AND v.until IS NULL",
            Stored::select(resource),
            keys.join(" AND ")
        );
        let key = key_columns(resource).next().unwrap_or("id");
        let walk = format!(
            "SELECT {} FROM {table} v WHERE v.\"{key}\" BETWEEN ?1 AND ?2 AND v.until IS NULL
             ORDER BY v.\"{key}\"",
            Stored::select(resource),
        );
        let insert = |rows: usize| {
            let into = format!("{table}(since, shape, extra, {})", columns.join(", "));
            insert(&into, columns.len() + 2, rows)
        };
        let overwrite = format!(
            "UPDATE {table} SET since = ?1, shape = ?, extra = ?, {} WHERE version = ?",
            sets.join(", ")
        );
        Ok(Self {
            snapshot,
            resource,
            counter: counter_place(resource),
            find: tx.prepare_cached(&find)?,
            walk: tx.prepare_cached(&walk)?,
            insert: tx.prepare_cached(&insert(1))?,
            insert_many: tx.prepare_cached(&insert(MANY))?,
            overwrite: tx.prepare_cached(&overwrite)?,
            close: tx.prepare_cached(&format!(
                "UPDATE {table} SET until = ?2, extra = nullif(extra, ?3) WHERE version = ?1"
            ))?,
            delete: tx.prepare_cached(&format!("DELETE FROM {table} WHERE version = ?1"))?,
            series: Series::new(tx, resource)?,
            tx,
            buffer: String::new(),
        })
    }

    /// Stores a page's records, in the order of their keys: so the tables grow
    /// at their ends, in whatever order the service tells its lists.
    pub fn put_all(
        &mut self,
        shapes: &mut Shapes,
        records: &mut [Split<'_>],
        seen: &RoaringTreemap,
        put: &mut Put,
    ) -> Result<(), Failure> {
        let mut items = Vec::with_capacity(records.len());
        for split in records {
            let shape = shapes.number(self.tx, split)?;
            items.push(Item { split, shape, open: Known::Unasked, counter: Known::Unasked });
        }
        items.sort_by(|one, other| one.split.record.key.cmp(&other.split.record.key));
        if self.resource != Resource::ChannelItems {
            self.walk(&mut items)?;
        }
        let mut fresh = Vec::new();
        for item in items {
            match &item.open {
                Known::Is(None) => fresh.push(item),
                Known::Is(Some(_)) => self.put(shapes, item, seen, put)?,
                Known::Unasked => {
                    // It may be one of those.
                    self.add(&mut fresh, put)?;
                    self.put(shapes, item, seen, put)?;
                }
            }
        }
        self.add(&mut fresh, put)
    }

    /// Stores records of which there is no open version.
    fn add(&mut self, fresh: &mut Vec<Item<'_, '_>>, put: &mut Put) -> Result<(), Failure> {
        for items in fresh.chunks(MANY) {
            let last = self.insert(items)?.cast_unsigned();
            put.rows.insert_range(last + 1 - items.len() as u64..=last);
            put.added += items.len() as u64;
        }
        let mut first_samples = Vec::new();
        for item in fresh.drain(..) {
            put.delta.add(self.hash(&item));
            match (item.count(self.counter), &item.counter) {
                (Some(value), Known::Is(None)) => {
                    put.delta.add(self.sample_hash(&item, self.snapshot, Some(value)));
                    first_samples.push((item.split.record.key.id(), value));
                }
                _ => self.sample(&item, put)?,
            }
        }
        self.series.iter_mut().try_for_each(|series| series.begin(self.snapshot, &first_samples))
    }

    /// Inserts so many versions, [`MANY`] at most, and gives the last one's row.
    /// Rows are numbered one by one.
    fn insert(&mut self, items: &[Item<'_, '_>]) -> Result<i64, Failure> {
        if items.len() == MANY {
            bind(&mut self.insert_many, self.snapshot, items, self.counter)?;
            self.insert_many.raw_execute()?;
        } else {
            for item in items {
                bind(&mut self.insert, self.snapshot, slice::from_ref(item), self.counter)?;
                self.insert.raw_execute()?;
            }
        }
        Ok(self.tx.last_insert_rowid())
    }

    /// Looks up what is known of all items at once, in one walk over the span
    /// of their ids. Where that span holds much else, the rest stays unasked.
    fn walk(&mut self, items: &mut [Item<'_, '_>]) -> Result<(), Failure> {
        let Some((first, last)) = items.first().zip(items.last()) else { return Ok(()) };
        let span = [first, last].map(|item| item.split.record.key.id());
        let most = 2 * items.len() + 64;
        let counter = self.counter;
        let mut rows = self.walk.query(span)?;
        let mut walk = Walk::new(items, most);
        while let Some(row) = rows.next()? {
            let Some(item) = walk.to(row.get(5)?) else { break };
            if let Some(item) = item {
                item.open = Known::Is(Some(compare(row, item, counter)?));
            }
        }
        walk.finish(|item| &mut item.open);
        let Some(series) = &mut self.series else { return Ok(()) };
        let mut rows = series.walk.query(span)?;
        let mut walk = Walk::new(items, most);
        while let Some(row) = rows.next()? {
            let Some(item) = walk.to(row.get(0)?) else { break };
            if let Some(item) = item {
                item.counter = Known::Is(Some((row.get(1)?, row.get(2)?)));
            }
        }
        walk.finish(|item| &mut item.counter);
        Ok(())
    }

    fn put(
        &mut self,
        shapes: &mut Shapes,
        mut item: Item<'_, '_>,
        seen: &RoaringTreemap,
        put: &mut Put,
    ) -> Result<(), Failure> {
        let open = match std::mem::replace(&mut item.open, Known::Unasked) {
            Known::Is(open) => open,
            Known::Unasked => self.find(&item)?,
        };
        let row = match &open {
            Some(open) if open.same => open.version,
            Some(open) => {
                let mut old = self.load(open.version)?;
                if self.says_the_same(shapes, &mut old, &item)? {
                    open.version
                } else {
                    put.delta.sub(stored_hash(self.tx, shapes, self.resource, &mut old)?);
                    put.delta.add(self.hash(&item));
                    self.replace(shapes, open, &item, put)?
                }
            }
            None => return self.add(&mut vec![item], put),
        };
        let before = open.map_or(row, |open| open.version).cast_unsigned();
        let row = row.cast_unsigned();
        let again = seen.contains(before) || put.rows.contains(before) || put.rows.contains(row);
        put.twice += u64::from(again);
        put.rows.insert(row);
        self.sample(&item, put)
    }

    /// Puts another version in the place of the open one.
    fn replace(
        &mut self,
        shapes: &mut Shapes,
        open: &Open,
        item: &Item<'_, '_>,
        put: &mut Put,
    ) -> Result<i64, Failure> {
        if open.since < self.snapshot {
            put.changed += 1;
            self.close(open.version)?;
            return self.insert(slice::from_ref(item));
        }
        // An earlier reading of this very snapshot put it there.
        if let Some(mut before) = self.replaced(item)?
            && self.says_the_same(shapes, &mut before, item)?
        {
            put.changed -= 1;
            self.delete(open.version)?;
            return self.reopen(before.version);
        }
        self.overwrite(open.version, item)
    }

    /// The version that this snapshot has closed in favour of another.
    fn replaced(&self, item: &Item<'_, '_>) -> Result<Option<Stored>, Failure> {
        let keys: Vec<_> = key_columns(self.resource)
            .enumerate()
            .map(|(nth, name)| format!("v.\"{name}\" = ?{}", nth + 2))
            .collect();
        let sql = format!(
            "SELECT {} FROM {} v WHERE v.until = ?1 AND {}",
            Stored::select(self.resource),
            version_table(self.resource),
            keys.join(" AND ")
        );
        let mut find = self.tx.prepare_cached(&sql)?;
        let mut rows = match &item.split.record.key {
            Key::Id(id) => find.query((self.snapshot, id))?,
            Key::Item { channel, kind, id } => find.query((self.snapshot, channel, kind, id))?,
        };
        rows.next()?.map(|row| Stored::read(self.resource, row)).transpose()
    }

    /// Whether a version that was split another way has the record's very text:
    /// what is kept verbatim today may share a template tomorrow.
    fn says_the_same(
        &self,
        shapes: &mut Shapes,
        old: &mut Stored,
        item: &Item<'_, '_>,
    ) -> Result<bool, Failure> {
        let template = shapes.template(self.tx, old.shape)?;
        let counter = item.count(self.counter).unwrap_or(0);
        let text = old.raw(self.resource, template, Some(counter));
        Ok(text.is_ok_and(|text| text == item.split.record.raw))
    }

    fn find(&mut self, item: &Item<'_, '_>) -> Result<Option<Open>, Failure> {
        let mut rows = match &item.split.record.key {
            Key::Id(id) => self.find.query([id])?,
            Key::Item { channel, kind, id } => self.find.query((channel, kind, id))?,
        };
        rows.next()?.map(|row| compare(row, item, self.counter)).transpose()
    }

    fn load(&self, version: i64) -> Result<Stored, Failure> {
        let sql = format!(
            "SELECT {} FROM {} v WHERE v.version = ?1",
            Stored::select(self.resource),
            version_table(self.resource)
        );
        self.tx
            .prepare_cached(&sql)?
            .query_row([version], |row| Ok(Stored::read(self.resource, row)))?
    }

    /// The hash of what came, as [`stored_hash`] gives it once it is stored.
    fn hash(&mut self, item: &Item<'_, '_>) -> blake3::Hash {
        let record = &item.split.record;
        let hash = |text: &str| digest::version(self.resource, &record.key, text);
        let Some(Range { start, end }) = item.split.counter else { return hash(&record.raw) };
        let text = record.raw.get(start..end).unwrap_or_default();
        let zero = if text.starts_with('"') { "\"0\"" } else { "0" };
        self.buffer.clear();
        self.buffer.push_str(record.raw.get(..start).unwrap_or_default());
        self.buffer.push_str(zero);
        self.buffer.push_str(record.raw.get(end..).unwrap_or_default());
        hash(&self.buffer)
    }

    fn overwrite(&mut self, version: i64, item: &Item<'_, '_>) -> Result<i64, Failure> {
        bind(&mut self.overwrite, self.snapshot, slice::from_ref(item), self.counter)?;
        let last = self.overwrite.parameter_count();
        self.overwrite.raw_bind_parameter(last, version)?;
        self.overwrite.raw_execute()?;
        Ok(version)
    }

    pub fn close(&mut self, version: i64) -> Result<(), Failure> {
        self.close.execute((version, self.snapshot, ROOM))?;
        Ok(())
    }

    fn reopen(&self, version: i64) -> Result<i64, Failure> {
        let table = version_table(self.resource);
        let sql = format!(
            "UPDATE {table} SET until = NULL, extra = coalesce(extra, ?2) WHERE version = ?1"
        );
        self.tx.prepare_cached(&sql)?.execute((version, ROOM))?;
        Ok(version)
    }

    pub fn delete(&mut self, version: i64) -> Result<(), Failure> {
        self.delete.execute([version])?;
        Ok(())
    }

    fn sample_hash(&self, item: &Item<'_, '_>, snapshot: i64, value: Option<i64>) -> blake3::Hash {
        digest::sample(self.resource, item.split.record.key.id(), snapshot, value)
    }

    fn sample(&mut self, item: &Item<'_, '_>, put: &mut Put) -> Result<(), Failure> {
        let value = item.count(self.counter);
        let Some(series) = &mut self.series else { return Ok(()) };
        let id = item.split.record.key.id();
        let known: Option<(i64, Option<i64>)> = match item.counter {
            Known::Is(known) => known,
            Known::Unasked => {
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

/// So many rows are inserted by one statement: a statement has its own cost.
const MANY: usize = 16;

/// The statement that inserts so many rows. Its parameter 1 stands first in
/// every row; `each` more follow. A failure undoes the whole transaction, so
/// that the statement need not keep what it would take to undo itself.
fn insert(into: &str, each: usize, rows: usize) -> String {
    let row = format!("(?1{})", ", ?".repeat(each));
    format!("INSERT OR FAIL INTO {into} VALUES{}", vec![row; rows].join(", "))
}

/// Binds what the version tables hold of each item.
fn bind(
    statement: &mut CachedStatement<'_>,
    snapshot: i64,
    items: &[Item<'_, '_>],
    counter: Option<usize>,
) -> Result<(), Failure> {
    statement.raw_bind_parameter(1, snapshot)?;
    let mut at = 2;
    for item in items {
        statement.raw_bind_parameter(at, item.shape)?;
        statement.raw_bind_parameter(at + 1, with_room(item.split.extra.as_deref()))?;
        at += 2;
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
    item: &Item<'_, '_>,
    counter: Option<usize>,
) -> Result<Open, Failure> {
    let mut equal =
        row.get::<_, i64>(3)? == item.shape && extra(row, 4)? == item.split.extra.as_deref();
    let mut at = 5;
    for (place, value) in item.split.record.values.iter().enumerate() {
        if Some(place) != counter {
            equal = equal && same(row.get_ref(at)?, value);
            at += 1;
        }
    }
    Ok(Open { version: row.get(0)?, since: row.get(1)?, same: equal })
}

/// Goes through items in the order of their ids, beside rows in the same order.
struct Walk<'w, 'p, 'a> {
    items: &'w mut [Item<'p, 'a>],
    at: usize,
    /// So many rows may still come.
    left: usize,
}

impl<'w, 'p, 'a> Walk<'w, 'p, 'a> {
    fn new(items: &'w mut [Item<'p, 'a>], most: usize) -> Self {
        Self { items, at: 0, left: most }
    }

    fn id(&self, at: usize) -> Option<i64> {
        self.items.get(at).map(|item| item.split.record.key.id())
    }

    /// The item that row `id` is of, if there is one; `None` ends the walk.
    #[allow(clippy::option_option)]
    fn to(&mut self, id: i64) -> Option<Option<&mut Item<'p, 'a>>> {
        self.left = self.left.checked_sub(1)?;
        while self.id(self.at).is_some_and(|own| own < id) {
            self.at += 1;
        }
        let found = self.id(self.at) == Some(id);
        Some(if found { self.items.get_mut(self.at) } else { None })
    }

    /// What the walk came past without a row is known not to be there. Of items
    /// that came twice, only the first was looked for.
    fn finish<T>(self, known: impl for<'i> Fn(&'i mut Item<'p, 'a>) -> &'i mut Known<T>) {
        let end = if self.left > 0 { self.items.len() } else { self.at };
        if let Some(item) = self.items.get_mut(end) {
            // Of its rows, more may follow.
            *known(item) = Known::Unasked;
        }
        let mut before = None;
        for item in &mut self.items[..end] {
            let id = item.split.record.key.id();
            if before != Some(id) && matches!(known(item), Known::Unasked) {
                *known(item) = Known::Is(None);
            }
            before = Some(id);
        }
    }
}
