//! Rows of the version tables: how they are bound, read, and told apart.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, Row, ToSql};

use crate::model::differences::equal_fields;
use crate::model::{Field, FieldKind, FieldValue, RecordKey, Resource, Role};
use crate::vault::template;
use crate::vault::template_match::TemplateMatch;
use crate::vault::{Transaction, TransactionError, digest};

/// Templates by number and numbers by template, as far as they were met.
#[derive(Debug, Default)]
pub struct TemplateCache {
    numbers: HashMap<String, i64>,
    templates: HashMap<i64, String>,
    /// How many the vault holds, once it was asked.
    stored: Option<i64>,
}

/// The most templates that a vault holds, and that are kept in memory. An account
/// whose every record has a template of its own is kept verbatim from there on.
const MANY_SHAPES: usize = 4096;

impl TemplateCache {
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.templates.clear();
        self.stored = None;
    }

    fn are_many(&mut self, tx: &Transaction<'_>) -> Result<bool, TransactionError> {
        let stored = match self.stored {
            Some(stored) => stored,
            None => tx.query_row("SELECT count(*) FROM shape", [], |row| row.get(0))?,
        };
        self.stored = Some(stored);
        Ok(stored >= MANY_SHAPES as i64)
    }

    /// The number of `split`'s template, made if it is new. Where there are too
    /// many, `split` becomes verbatim instead.
    pub(super) fn number(
        &mut self,
        tx: &Transaction<'_>,
        split: &mut TemplateMatch<'_>,
    ) -> Result<i64, TransactionError> {
        if let Some(number) = self.numbers.get(&*split.template) {
            return Ok(*number);
        }
        let find = "SELECT shape FROM shape WHERE template = ?1";
        let known = tx.prepare_cached(find)?.query_row([&*split.template], |row| row.get(0));
        let number = match known.optional()? {
            Some(number) => number,
            None if &*split.template != template::VERBATIM && self.are_many(tx)? => {
                split.make_verbatim();
                return self.number(tx, split);
            }
            None => {
                tx.execute("INSERT INTO shape(template) VALUES(?1)", [&*split.template])?;
                self.stored = self.stored.map(|stored| stored + 1);
                tx.last_insert_rowid()
            }
        };
        if self.numbers.len() < MANY_SHAPES {
            self.numbers.insert(split.template.as_ref().to_owned(), number);
        }
        Ok(number)
    }

    /// The template of that number.
    pub(super) fn template(
        &mut self,
        db: &rusqlite::Connection,
        number: i64,
    ) -> Result<&str, TransactionError> {
        if self.templates.len() >= MANY_SHAPES {
            self.templates.clear();
        }
        match self.templates.entry(number) {
            std::collections::hash_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let sql = "SELECT template FROM shape WHERE shape = ?1";
                let template = db
                    .prepare_cached(sql)?
                    .query_row([number], |row| row.get(0))
                    .optional()?
                    .ok_or_else(|| {
                        TransactionError::Damaged(format!("template {number} is missing"))
                    })?;
                Ok(entry.insert(template))
            }
        }
    }
}

/// One value as a column: what does not fit its kind stands in `extra` instead.
pub(super) struct Column<'a>(pub &'a FieldValue<'a>);

impl ToSql for Column<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            FieldValue::Null | FieldValue::Json(_) => ToSqlOutput::Borrowed(ValueRef::Null),
            FieldValue::Bool(value) => ToSqlOutput::from(*value),
            FieldValue::Int(value) => ToSqlOutput::from(*value),
            FieldValue::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

/// What stands in `extra` while a version is open and needs none: room for its
/// `until`. A row that grew when it is closed would split its full page.
pub(super) const ROOM: &str = "\x02";

/// What `extra` holds, as it is stored while the version is open.
pub(super) fn with_room(extra: Option<&str>) -> &str {
    extra.unwrap_or(ROOM)
}

/// What the column `extra` holds.
pub(super) fn extra<'a>(row: &'a Row<'_>, at: usize) -> Result<Option<&'a str>, TransactionError> {
    let odd = |_| TransactionError::Damaged("column extra holds no text".to_owned());
    Ok(row.get_ref(at)?.as_str_or_null().map_err(odd)?.filter(|extra| *extra != ROOM))
}

/// Whether the column holds just this value.
pub(super) fn same(column: ValueRef<'_>, value: &FieldValue<'_>) -> bool {
    match (column, value) {
        (ValueRef::Null, FieldValue::Null | FieldValue::Json(_)) => true,
        (ValueRef::Integer(column), FieldValue::Int(value)) => column == *value,
        (ValueRef::Integer(column), FieldValue::Bool(value)) => column == i64::from(*value),
        (ValueRef::Text(column), FieldValue::Text(value)) => column == value.as_bytes(),
        _ => false,
    }
}

/// The value of a field's column.
pub(super) fn value(
    row: &Row<'_>,
    at: usize,
    field: &Field,
) -> Result<FieldValue<'static>, TransactionError> {
    let odd = || {
        TransactionError::Damaged(format!("column {} holds a value of another kind", field.name))
    };
    Ok(match (row.get_ref(at)?, field.kind) {
        (ValueRef::Null, _) => FieldValue::Null,
        (ValueRef::Integer(number), FieldKind::Int) => FieldValue::Int(number),
        (ValueRef::Integer(number @ (0 | 1)), FieldKind::Bool) => FieldValue::Bool(number == 1),
        (ValueRef::Text(_), FieldKind::Int | FieldKind::Bool) => return Err(odd()),
        (ValueRef::Text(text), _) => {
            let text = std::str::from_utf8(text).map_err(|_| odd())?;
            FieldValue::Text(Cow::Owned(text.to_owned()))
        }
        _ => return Err(odd()),
    })
}

/// A stored version, with its values in the order of the read fields; a
/// counter's place is empty.
#[derive(Debug)]
pub(super) struct StoredVersion {
    pub version: i64,
    pub since: i64,
    pub until: Option<i64>,
    pub shape: i64,
    pub values: Vec<FieldValue<'static>>,
    pub extra: Option<String>,
}

impl StoredVersion {
    /// The columns that [`StoredVersion::read`] wants, in order.
    pub fn select(resource: Resource) -> String {
        let columns: Vec<_> = crate::vault::schema::columns(resource)
            .map(|field| format!("v.\"{}\"", field.name))
            .collect();
        format!("v.version, v.since, v.until, v.shape, v.extra, {}", columns.join(", "))
    }

    pub fn read(resource: Resource, row: &Row<'_>) -> Result<Self, TransactionError> {
        let mut values = Vec::with_capacity(8);
        let mut at = 5;
        for field in resource.spec().read_fields() {
            if field.role == Role::Counter {
                values.push(FieldValue::Null);
            } else {
                values.push(value(row, at, field)?);
                at += 1;
            }
        }
        Ok(Self {
            version: row.get(0)?,
            since: row.get(1)?,
            until: row.get(2)?,
            shape: row.get(3)?,
            extra: extra(row, 4)?.map(ToOwned::to_owned),
            values,
        })
    }

    /// The record's text, with `counter` at the counter's place.
    pub fn raw(
        &mut self,
        resource: Resource,
        template: &str,
        counter: Option<i64>,
    ) -> Result<String, template::TemplateMismatch> {
        if let Some((place, counter)) = crate::vault::schema::counter_place(resource).zip(counter) {
            self.values[place] = FieldValue::Int(counter);
        }
        template::unpack(template, &self.values, self.extra.as_deref())
    }
}

/// The key that stands in a resource's first columns, starting at `at`.
pub(super) fn key(
    resource: Resource,
    row: &Row<'_>,
    at: usize,
) -> Result<RecordKey, TransactionError> {
    Ok(if resource == Resource::ChannelItems {
        RecordKey::Item { channel: row.get(at)?, kind: row.get(at + 1)?, id: row.get(at + 2)? }
    } else {
        RecordKey::Id(row.get(at)?)
    })
}

/// A column's bytes, whatever its kind, with the kind in front.
pub(super) fn bytes(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => vec![0],
        ValueRef::Integer(number) => [&[1], number.to_le_bytes().as_slice()].concat(),
        ValueRef::Real(number) => [&[2], number.to_le_bytes().as_slice()].concat(),
        ValueRef::Text(text) => [&[3], text].concat(),
        ValueRef::Blob(blob) => [&[4], blob].concat(),
    })
}

/// The hash of a stored version: of its text with the counter at zero.
pub(super) fn stored_hash(
    db: &rusqlite::Connection,
    shapes: &mut TemplateCache,
    resource: Resource,
    stored: &mut StoredVersion,
) -> Result<blake3::Hash, TransactionError> {
    let template = shapes.template(db, stored.shape)?;
    let text = stored.raw(resource, template, Some(0))?;
    Ok(digest::version(resource, &stored_key(resource, stored), &text))
}

/// Whether two stored versions of one record have the same fields.
pub(super) fn stored_alike(
    db: &rusqlite::Connection,
    shapes: &mut TemplateCache,
    resource: Resource,
    one: &mut StoredVersion,
    other: &mut StoredVersion,
) -> Result<bool, TransactionError> {
    let text = one.raw(resource, shapes.template(db, one.shape)?, Some(0))?;
    let other_text = other.raw(resource, shapes.template(db, other.shape)?, Some(0))?;
    Ok(equal_fields(resource, &stored_key(resource, other), &text, &other_text))
}

/// The key in a stored version's columns.
pub(super) fn stored_key(resource: Resource, stored: &StoredVersion) -> RecordKey {
    let int = |place: usize| match stored.values.get(place) {
        Some(FieldValue::Int(value)) => *value,
        _ => 0,
    };
    match (resource, stored.values.get(1)) {
        (Resource::ChannelItems, Some(FieldValue::Text(kind))) => {
            RecordKey::Item { channel: int(0), kind: kind.to_string(), id: int(2) }
        }
        _ => RecordKey::Id(int(0)),
    }
}
