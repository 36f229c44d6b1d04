//! Stores the records of one page: looks up what is known of them, compares,
//! and writes what is new.

use std::ops::Range;

use roaring::RoaringTreemap;
use rusqlite::{CachedStatement, OptionalExtension, Transaction};

use super::Failure;
use super::digest::{Content, content};
use super::row::{Column, Shapes, Stored, same};
use super::schema::{columns, counter_place, key_columns, version_table};
use super::split::Split;
use super::write::{Put, stored_hash};
use crate::model::{Key, Resource, Value};

/// The statements that store one record, prepared once a page.
pub(super) struct Writer<'t> {
    snapshot: i64,
    resource: Resource,
    counter: Option<usize>,
    find: CachedStatement<'t>,
    walk: CachedStatement<'t>,
    insert: CachedStatement<'t>,
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
}

impl<'t> Series<'t> {
    fn new(tx: &'t Transaction<'t>, resource: Resource) -> Result<Option<Self>, Failure> {
        if resource.spec().counter().is_none() {
            return Ok(None);
        }
        let table = format!("sample_{resource}");
        Ok(Some(Self {
            newest: tx.prepare_cached(&format!(
                "SELECT value FROM {table} WHERE id = ?1 ORDER BY snapshot DESC LIMIT 1"
            ))?,
            walk: tx.prepare_cached(&format!(
                "SELECT id, value FROM {table} WHERE id BETWEEN ?1 AND ?2 ORDER BY id, snapshot"
            ))?,
            store: tx.prepare_cached(&format!(
                "INSERT INTO {table} VALUES(?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET value = excluded.value"
            ))?,
        }))
    }
}

/// One record of the page, split, with what the vault knows of it.
struct Item<'p, 'a> {
    split: &'p Split<'a>,
    shape: i64,
    open: Known<Open>,
    counter: Known<i64>,
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
        let marks: Vec<_> = (5..5 + columns.len()).map(|nth| format!("?{nth}")).collect();
        let sets: Vec<_> =
            columns.iter().zip(&marks).map(|(column, mark)| format!("{column} = {mark}")).collect();
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
        let insert = format!(
            "INSERT INTO {table}(since, shape, extra, {}) VALUES(?2, ?3, ?4, {})",
            columns.join(", "),
            marks.join(", ")
        );
        let overwrite = format!(
            "UPDATE {table} SET since = ?2, shape = ?3, extra = ?4, {} WHERE version = ?1",
            sets.join(", ")
        );
        Ok(Self {
            snapshot,
            resource,
            counter: counter_place(resource),
            find: tx.prepare_cached(&find)?,
            walk: tx.prepare_cached(&walk)?,
            insert: tx.prepare_cached(&insert)?,
            overwrite: tx.prepare_cached(&overwrite)?,
            close: tx
                .prepare_cached(&format!("UPDATE {table} SET until = ?2 WHERE version = ?1"))?,
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
        for item in items {
            self.put(shapes, item, seen, put)?;
        }
        Ok(())
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
                item.counter = Known::Is(Some(row.get(1)?));
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
                put.delta.sub(stored_hash(self.tx, shapes, self.resource, &mut old)?);
                put.delta.add(self.hash(&item));
                if open.since == self.snapshot {
                    self.write(Some(open.version), &item)?
                } else {
                    put.changed += 1;
                    self.close(open.version)?;
                    self.write(None, &item)?
                }
            }
            None => {
                put.added += 1;
                put.delta.add(self.hash(&item));
                self.write(None, &item)?
            }
        };
        let before = open.map_or(row, |open| open.version).cast_unsigned();
        let row = row.cast_unsigned();
        let again = seen.contains(before) || put.rows.contains(before) || put.rows.contains(row);
        put.twice += u64::from(again);
        put.rows.insert(row);
        if item.split.counter.is_some() {
            self.sample(&item, put)?;
        }
        Ok(())
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
        let hash = |text: &str| content(Content::Version, self.resource, &record.key, text);
        let Some(Range { start, end }) = item.split.counter else { return hash(&record.raw) };
        let text = record.raw.get(start..end).unwrap_or_default();
        let zero = if text.starts_with('"') { "\"0\"" } else { "0" };
        self.buffer.clear();
        self.buffer.push_str(record.raw.get(..start).unwrap_or_default());
        self.buffer.push_str(zero);
        self.buffer.push_str(record.raw.get(end..).unwrap_or_default());
        hash(&self.buffer)
    }

    fn write(&mut self, over: Option<i64>, item: &Item<'_, '_>) -> Result<i64, Failure> {
        let statement = if over.is_some() { &mut self.overwrite } else { &mut self.insert };
        if let Some(version) = over {
            statement.raw_bind_parameter(1, version)?;
        }
        statement.raw_bind_parameter(2, self.snapshot)?;
        statement.raw_bind_parameter(3, item.shape)?;
        statement.raw_bind_parameter(4, item.split.extra.as_deref())?;
        let counter = self.counter;
        let values = item.split.record.values.iter().enumerate();
        let stored = values.filter(|(place, _)| Some(*place) != counter);
        for (at, (_, value)) in stored.enumerate() {
            statement.raw_bind_parameter(5 + at, Column(value))?;
        }
        statement.raw_execute()?;
        Ok(over.unwrap_or_else(|| self.tx.last_insert_rowid()))
    }

    pub fn close(&mut self, version: i64) -> Result<(), Failure> {
        self.close.execute((version, self.snapshot))?;
        Ok(())
    }

    pub fn delete(&mut self, version: i64) -> Result<(), Failure> {
        self.delete.execute([version])?;
        Ok(())
    }

    fn sample(&mut self, item: &Item<'_, '_>, put: &mut Put) -> Result<(), Failure> {
        let record = &item.split.record;
        let place = self.counter.and_then(|place| record.values.get(place));
        let Some(Value::Int(value)) = place else { return Ok(()) };
        let Some(series) = &mut self.series else { return Ok(()) };
        let known = match item.counter {
            Known::Is(known) => known,
            Known::Unasked => {
                series.newest.query_row([record.key.id()], |row| row.get(0)).optional()?
            }
        };
        if known == Some(*value) {
            return Ok(());
        }
        let hash =
            |value: i64| content(Content::Sample, self.resource, &record.key, &value.to_string());
        if let Some(known) = known {
            put.delta.sub(hash(known));
            put.moved += 1;
        }
        put.delta.add(hash(*value));
        series.store.execute((record.key.id(), self.snapshot, value))?;
        Ok(())
    }
}

/// How the version in `row` compares with what came.
fn compare(
    row: &rusqlite::Row<'_>,
    item: &Item<'_, '_>,
    counter: Option<usize>,
) -> Result<Open, Failure> {
    let extra = row.get_ref(4)?.as_str_or_null();
    let mut equal = row.get::<_, i64>(3)? == item.shape
        && extra.is_ok_and(|stored| stored == item.split.extra.as_deref());
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
