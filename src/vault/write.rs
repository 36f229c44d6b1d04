//! Puts one page of records into the running snapshot, in one transaction with
//! the progress it stands for.

use roaring::RoaringTreemap;
use rusqlite::{CachedStatement, OptionalExtension, Transaction};

use super::digest::{Content, Sum, content};
use super::row::{Column, Shapes, Stored, same};
use super::schema::{columns, counter_place, version_table};
use super::shape::{self, Packed};
use super::snapshot::{Usage, signed};
use super::{Failure, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{Decoded, Key, Resource, Value};

/// Which page of which listing this is.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    pub snapshot: i64,
    pub resource: Resource,
    pub parent: Option<i64>,
    pub number: u64,
    pub now: Timestamp,
    pub usage: Usage,
}

/// What became of a page's records.
#[derive(Debug, Default)]
pub struct Put {
    /// The versions that the page's records are now, by row number.
    pub rows: RoaringTreemap,
    /// Records that this page or an earlier one of the listing had already.
    pub twice: u64,
    pub added: u64,
    pub changed: u64,
    /// Counters that moved.
    pub moved: u64,
    /// The change of the resource's sum.
    delta: Sum,
}

impl Vault {
    /// Stores a page's records. `seen` holds the rows of the listing's earlier
    /// pages; `note`, told how many records came twice, gives what the crawler
    /// wants to be told of the page when it resumes.
    ///
    /// # Errors
    /// When the vault cannot be written; nothing of the page is then kept.
    pub fn put_page(
        &mut self,
        page: &Page,
        records: &[Decoded<'_>],
        seen: &RoaringTreemap,
        note: impl FnOnce(u64) -> String,
    ) -> Result<Put, VaultError> {
        self.transact(|tx, shapes| {
            let mut put = Put::default();
            let mut writer = Writer::new(tx, page.snapshot, page.resource)?;
            for decoded in records {
                writer.put(shapes, decoded, seen, &mut put)?;
            }
            account(tx, page.snapshot, page.resource, &put, 0)?;
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
                note(put.twice),
                rows,
            ))?;
            touch(tx, page.snapshot, page.now, page.usage)?;
            Ok(put)
        })
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
        self.transact(|tx, shapes| {
            let mut put = Put::default();
            let mut removed = 0;
            let mut writer = Writer::new(tx, snapshot, resource)?;
            let find = format!(
                "SELECT {} FROM {} v WHERE v.version = ?1 AND v.until IS NULL",
                Stored::select(resource),
                version_table(resource)
            );
            let mut find = tx.prepare(&find)?;
            let mut replaced = tx.prepare(&replaced(resource))?;
            for row in rows {
                let found = find.query_row([row], |row| Ok(Stored::read(resource, row)));
                let Some(mut stored) = found.optional()?.transpose()? else { continue };
                put.delta.sub(stored_hash(tx, shapes, resource, &mut stored)?);
                if stored.since == snapshot {
                    // Seen by an earlier reading of this very snapshot only.
                    let changed = replaced.exists((stored.version, snapshot))?;
                    writer.delete(stored.version)?;
                    if changed {
                        // What went is what that reading had replaced.
                        put.changed = put.changed.wrapping_sub(1);
                        removed += 1;
                    } else {
                        put.added = put.added.wrapping_sub(1);
                    }
                } else {
                    writer.close(stored.version)?;
                    removed += 1;
                }
            }
            drop((writer, replaced));
            account(tx, snapshot, resource, &put, removed)
        })
    }
}

/// Finds the version that the snapshot `?2` closed in favour of version `?1`.
fn replaced(resource: Resource) -> String {
    let table = version_table(resource);
    let keys: Vec<_> = super::schema::key_columns(resource)
        .map(|name| format!("o.\"{name}\" = v.\"{name}\""))
        .collect();
    format!(
        "SELECT 1 FROM {table} v JOIN {table} o ON {} WHERE v.version = ?1 AND o.until = ?2",
        keys.join(" AND ")
    )
}

fn damaged_rows() -> Failure {
    Failure::Damaged("a set of rows could not be written".to_owned())
}

/// Adds what a page did to the snapshot's account of the resource.
fn account(
    tx: &Transaction<'_>,
    snapshot: i64,
    resource: Resource,
    put: &Put,
    removed: i64,
) -> Result<(), Failure> {
    // What an earlier reading counted may be taken back.
    let (added, changed) = (put.added.cast_signed(), put.changed.cast_signed());
    if put.delta == Sum::default() && added == 0 && changed == 0 && removed == 0 {
        return Ok(());
    }
    add_to_sum(tx, snapshot, resource, put.delta)?;
    tx.prepare_cached(
        "UPDATE snapshot_resource SET records = records + ?3 - ?5, added = added + ?3,
           changed = changed + ?4, removed = removed + ?5
         WHERE snapshot = ?1 AND resource = ?2",
    )?
    .execute((snapshot, resource.name(), added, changed, removed))?;
    Ok(())
}

/// Adds `delta` to the sum of what the snapshot shows of `resource`.
pub(super) fn add_to_sum(
    tx: &Transaction<'_>,
    snapshot: i64,
    resource: Resource,
    delta: Sum,
) -> Result<(), Failure> {
    let key = (snapshot, resource.name());
    let bytes: [u8; 32] = tx
        .prepare_cached("SELECT sum FROM snapshot_resource WHERE snapshot = ?1 AND resource = ?2")?
        .query_row(key, |row| row.get(0))?;
    let mut sum = Sum::from_bytes(bytes);
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
    usage: Usage,
) -> Result<(), Failure> {
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

/// The hash of a stored version: of its text with the counter at zero.
pub(super) fn stored_hash(
    db: &rusqlite::Connection,
    shapes: &mut Shapes,
    resource: Resource,
    stored: &mut Stored,
) -> Result<blake3::Hash, Failure> {
    let template = shapes.template(db, stored.shape)?;
    let text = stored.raw(resource, template, Some(0))?;
    Ok(content(Content::Version, resource, &stored_key(resource, stored), &text))
}

/// The key in a stored version's columns.
pub(super) fn stored_key(resource: Resource, stored: &Stored) -> Key {
    let int = |place: usize| match stored.values.get(place) {
        Some(Value::Int(value)) => *value,
        _ => 0,
    };
    match (resource, stored.values.get(1)) {
        (Resource::ChannelItems, Some(Value::Text(kind))) => {
            Key::Item { channel: int(0), kind: kind.to_string(), id: int(2) }
        }
        _ => Key::Id(int(0)),
    }
}

/// The statements that store one record, prepared once a page.
struct Writer<'t> {
    snapshot: i64,
    resource: Resource,
    counter: Option<usize>,
    find: CachedStatement<'t>,
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
            store: tx.prepare_cached(&format!(
                "INSERT INTO {table} VALUES(?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET value = excluded.value"
            ))?,
        }))
    }
}

/// The open version of a record, and how it compares with what came.
struct Open {
    version: i64,
    since: i64,
    same: bool,
}

impl<'t> Writer<'t> {
    fn new(tx: &'t Transaction<'t>, snapshot: i64, resource: Resource) -> Result<Self, Failure> {
        let table = version_table(resource);
        let columns: Vec<_> =
            columns(resource).map(|field| format!("\"{}\"", field.name)).collect();
        let keys: Vec<_> = super::schema::key_columns(resource)
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

    fn put(
        &mut self,
        shapes: &mut Shapes,
        decoded: &Decoded<'_>,
        seen: &RoaringTreemap,
        put: &mut Put,
    ) -> Result<(), Failure> {
        let mut packed = shape::pack(self.resource, decoded);
        let shape = shapes.number(self.tx, &mut packed, &decoded.record.raw)?;
        let open = self.find(decoded, shape, packed.extra.as_deref())?;
        let row = match &open {
            Some(open) if open.same => open.version,
            Some(open) => {
                let mut old = self.load(open.version)?;
                put.delta.sub(stored_hash(self.tx, shapes, self.resource, &mut old)?);
                put.delta.add(self.hash(decoded, &packed)?);
                if open.since == self.snapshot {
                    self.write(Some(open.version), decoded, shape, &packed)?
                } else {
                    put.changed += 1;
                    self.close(open.version)?;
                    self.write(None, decoded, shape, &packed)?
                }
            }
            None => {
                put.added += 1;
                put.delta.add(self.hash(decoded, &packed)?);
                self.write(None, decoded, shape, &packed)?
            }
        };
        let before = open.map_or(row, |open| open.version).cast_unsigned();
        let row = row.cast_unsigned();
        let again = seen.contains(before) || put.rows.contains(before) || put.rows.contains(row);
        put.twice += u64::from(again);
        put.rows.insert(row);
        if packed.counts {
            self.sample(decoded, put)?;
        }
        Ok(())
    }

    fn find(
        &mut self,
        decoded: &Decoded<'_>,
        shape: i64,
        extra: Option<&str>,
    ) -> Result<Option<Open>, Failure> {
        let mut rows = match &decoded.record.key {
            Key::Id(id) => self.find.query([id])?,
            Key::Item { channel, kind, id } => self.find.query((channel, kind, id))?,
        };
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut equal = row.get::<_, i64>(3)? == shape
            && row.get_ref(4)?.as_str_or_null().is_ok_and(|stored| stored == extra);
        let mut at = 5;
        for (place, value) in decoded.record.values.iter().enumerate() {
            if Some(place) != self.counter {
                equal = equal && same(row.get_ref(at)?, value);
                at += 1;
            }
        }
        Ok(Some(Open { version: row.get(0)?, since: row.get(1)?, same: equal }))
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
    fn hash(&mut self, decoded: &Decoded<'_>, packed: &Packed) -> Result<blake3::Hash, Failure> {
        let record = &decoded.record;
        let hash = |text: &str| content(Content::Version, self.resource, &record.key, text);
        let counted = self.counter.filter(|_| packed.counts);
        let Some(place) = counted else { return Ok(hash(&record.raw)) };
        let member = decoded.places.iter().position(|found| *found == Some(place));
        let member = member.map(|at| &decoded.members[at]);
        let Some(member) = member else { return Ok(hash(&record.raw)) };
        let zero = if member.lexeme.starts_with('"') { "\"0\"" } else { "0" };
        let end = member.start + member.lexeme.len();
        self.buffer.clear();
        self.buffer.push_str(record.raw.get(..member.start).unwrap_or_default());
        self.buffer.push_str(zero);
        self.buffer.push_str(record.raw.get(end..).unwrap_or_default());
        Ok(hash(&self.buffer))
    }

    fn write(
        &mut self,
        over: Option<i64>,
        decoded: &Decoded<'_>,
        shape: i64,
        packed: &Packed,
    ) -> Result<i64, Failure> {
        let statement = if over.is_some() { &mut self.overwrite } else { &mut self.insert };
        if let Some(version) = over {
            statement.raw_bind_parameter(1, version)?;
        }
        statement.raw_bind_parameter(2, self.snapshot)?;
        statement.raw_bind_parameter(3, shape)?;
        statement.raw_bind_parameter(4, packed.extra.as_deref())?;
        let counter = self.counter;
        let values = decoded.record.values.iter().enumerate();
        let stored = values.filter(|(place, _)| Some(*place) != counter);
        for (at, (_, value)) in stored.enumerate() {
            statement.raw_bind_parameter(5 + at, Column(value))?;
        }
        statement.raw_execute()?;
        Ok(over.unwrap_or_else(|| self.tx.last_insert_rowid()))
    }

    fn close(&mut self, version: i64) -> Result<(), Failure> {
        self.close.execute((version, self.snapshot))?;
        Ok(())
    }

    fn delete(&mut self, version: i64) -> Result<(), Failure> {
        self.delete.execute([version])?;
        Ok(())
    }

    fn sample(&mut self, decoded: &Decoded<'_>, put: &mut Put) -> Result<(), Failure> {
        let place = self.counter.and_then(|place| decoded.record.values.get(place));
        let Some(Value::Int(value)) = place else { return Ok(()) };
        let Some(series) = &mut self.series else { return Ok(()) };
        let key = &decoded.record.key;
        let known = series.newest.query_row([key.id()], |row| row.get(0)).optional()?;
        if known == Some(*value) {
            return Ok(());
        }
        let hash = |value: i64| content(Content::Sample, self.resource, key, &value.to_string());
        if let Some(known) = known {
            put.delta.sub(hash(known));
            put.moved += 1;
        }
        put.delta.add(hash(*value));
        series.store.execute((key.id(), self.snapshot, value))?;
        Ok(())
    }
}
