//! Rows of the version tables: binding, reading and comparing them.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, Row, ToSql};

use crate::model::differences::equal_fields;
use crate::model::{Field, FieldKind, FieldValue, RecordKey, Resource, Role, SnapshotId};
use crate::vault::template;
use crate::vault::template_match::TemplateMatch;
use crate::vault::{Transaction, TransactionError, digest};

/// The templates that were used so far, by number, and their numbers.
#[derive(Debug, Default)]
pub struct TemplateCache {
    numbers: HashMap<String, i64>,
    templates: HashMap<i64, String>,
    /// Number of templates in the vault, once counted.
    stored: Option<i64>,
}

/// Maximum number of templates in a vault, and of those kept in memory. Above it, records with a
/// new template are stored verbatim.
const MAX_TEMPLATES: usize = 4096;

impl TemplateCache {
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.templates.clear();
        self.stored = None;
    }

    fn is_full(&mut self, tx: &Transaction<'_>) -> Result<bool, TransactionError> {
        let stored = match self.stored {
            Some(stored) => stored,
            None => tx.query_row("SELECT count(*) FROM shape", [], |row| row.get(0))?,
        };
        self.stored = Some(stored);
        Ok(stored >= MAX_TEMPLATES as i64)
    }

    /// The number of the record's template, which is stored if it is new. Above the maximum, the
    /// record becomes verbatim instead.
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
            None if &*split.template != template::VERBATIM && self.is_full(tx)? => {
                split.make_verbatim();
                return self.number(tx, split);
            }
            None => {
                tx.execute("INSERT INTO shape(template) VALUES(?1)", [&*split.template])?;
                self.stored = self.stored.map(|stored| stored + 1);
                tx.last_insert_rowid()
            }
        };
        if self.numbers.len() < MAX_TEMPLATES {
            self.numbers.insert(split.template.as_ref().to_owned(), number);
        }
        Ok(number)
    }

    /// The template with this number.
    pub(super) fn template(
        &mut self,
        db: &rusqlite::Connection,
        number: i64,
    ) -> Result<&str, TransactionError> {
        if self.templates.len() >= MAX_TEMPLATES {
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

/// Binds a value to its column. A value that does not fit its kind is NULL there, and its text is
/// in `extra`.
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

/// Placeholder in `extra` of an open version, with room for `until`. A row that grows when its
/// version is closed could split a full page.
pub(super) const RESERVED_SPACE: &str = "\x02";

/// The value to store in `extra` while the version is open.
pub(super) fn with_reserved_space(extra: Option<&str>) -> &str {
    extra.unwrap_or(RESERVED_SPACE)
}

/// The value of the column `extra`, without the placeholder.
pub(super) fn extra<'a>(row: &'a Row<'_>, at: usize) -> Result<Option<&'a str>, TransactionError> {
    let damaged = |_| TransactionError::Damaged("column extra holds no text".to_owned());
    Ok(row.get_ref(at)?.as_str_or_null().map_err(damaged)?.filter(|extra| *extra != RESERVED_SPACE))
}

/// Whether the column contains exactly this value.
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
    let damaged = || {
        TransactionError::Damaged(format!("column {} holds a value of another kind", field.name))
    };
    Ok(match (row.get_ref(at)?, field.kind) {
        (ValueRef::Null, _) => FieldValue::Null,
        (ValueRef::Integer(number), FieldKind::Int) => FieldValue::Int(number),
        (ValueRef::Integer(number @ (0 | 1)), FieldKind::Bool) => FieldValue::Bool(number == 1),
        (ValueRef::Text(_), FieldKind::Int | FieldKind::Bool) => return Err(damaged()),
        (ValueRef::Text(text), _) => {
            let text = std::str::from_utf8(text).map_err(|_| damaged())?;
            FieldValue::Text(Cow::Owned(text.to_owned()))
        }
        _ => return Err(damaged()),
    })
}

/// A row of a version table. `values` are in the order of the read fields; the counter is `Null`.
#[derive(Debug)]
pub(super) struct StoredVersion {
    pub version: i64,
    pub since: SnapshotId,
    pub until: Option<SnapshotId>,
    pub template_id: i64,
    pub values: Vec<FieldValue<'static>>,
    pub extra: Option<String>,
}

impl StoredVersion {
    /// SQL: the columns that [`StoredVersion::read`] reads, in order.
    pub fn select(resource: Resource) -> String {
        let columns: Vec<_> = crate::vault::columns::columns(resource)
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
            template_id: row.get(3)?,
            extra: extra(row, 4)?.map(ToOwned::to_owned),
            values,
        })
    }

    /// The record's JSON text with this counter.
    pub fn raw(
        &mut self,
        resource: Resource,
        template: &str,
        counter: Option<i64>,
    ) -> Result<String, template::TemplateMismatch> {
        if let Some((place, counter)) = crate::vault::columns::counter_place(resource).zip(counter)
        {
            self.values[place] = FieldValue::Int(counter);
        }
        template::unpack(template, &self.values, self.extra.as_deref())
    }
}

/// Reads the key from the columns that start at `at`.
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

/// The bytes of a column of any type, after one byte for the type. Input of hashes.
pub(super) fn bytes(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    append_bytes(row.get_ref(at)?, &mut bytes);
    Ok(bytes)
}

/// Appends one byte for the type of a value, and its bytes.
pub(super) fn append_bytes(value: ValueRef<'_>, to: &mut Vec<u8>) {
    let (number, kind, content);
    (kind, content) = match value {
        ValueRef::Null => (0, &[][..]),
        ValueRef::Integer(integer) => {
            number = integer.to_le_bytes();
            (1, &number[..])
        }
        ValueRef::Real(real) => {
            number = real.to_le_bytes();
            (2, &number[..])
        }
        ValueRef::Text(text) => (3, text),
        ValueRef::Blob(blob) => (4, blob),
    };
    to.push(kind);
    to.extend_from_slice(content);
}

/// The hash of a stored version's text, with the counter set to zero.
pub(super) fn stored_hash(
    db: &rusqlite::Connection,
    templates: &mut TemplateCache,
    resource: Resource,
    stored: &mut StoredVersion,
) -> Result<blake3::Hash, TransactionError> {
    let template = templates.template(db, stored.template_id)?;
    let text = stored.raw(resource, template, Some(0))?;
    Ok(digest::version(resource, &stored_key(resource, stored), &text))
}

/// Whether two stored versions of one record have the same fields.
pub(super) fn equal_stored_fields(
    db: &rusqlite::Connection,
    templates: &mut TemplateCache,
    resource: Resource,
    one: &mut StoredVersion,
    other: &mut StoredVersion,
) -> Result<bool, TransactionError> {
    let text = one.raw(resource, templates.template(db, one.template_id)?, Some(0))?;
    let other_text = other.raw(resource, templates.template(db, other.template_id)?, Some(0))?;
    Ok(equal_fields(resource, &stored_key(resource, other), &text, &other_text))
}

/// The key of a stored version.
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
