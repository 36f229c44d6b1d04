//! A record of a page, with what is stored about it.

use std::ops::Range;

use crate::model::{FieldValue, Resource, SnapshotId};
use crate::vault::digest;
use crate::vault::statements::INSERT_ROWS;
use crate::vault::template_match::TemplateMatch;

/// One record of the page, with what is stored about it.
pub(super) struct WriteItem<'p, 'a> {
    pub matched: &'p TemplateMatch<'a>,
    pub template_id: i64,
    pub open: StoredRecord<Open>,
    /// The newest sample: its snapshot and value.
    pub counter: StoredRecord<(SnapshotId, Option<i64>)>,
}

impl WriteItem<'_, '_> {
    /// The hash of the received record, equal to [`stored_hash`](crate::vault::version_rows::stored_hash) once it is stored.
    pub fn hash(&self, resource: Resource) -> blake3::Hash {
        let record = &self.matched.record;
        let part = |range: Range<usize>| record.raw.get(range).unwrap_or_default();
        let Some(Range { start, end }) = self.matched.counter else {
            return digest::version(resource, &record.key, &record.raw);
        };
        let zero = if part(start..end).starts_with('"') { "\"0\"" } else { "0" };
        let parts = [part(0..start), zero, part(end..record.raw.len())];
        digest::version_of(resource, &record.key, &parts)
    }

    /// Whether there are [`INSERT_ROWS`] `items` with the same template and without `extra`, so that one
    /// statement can insert them.
    pub fn are_alike(&self, items: &[WriteItem<'_, '_>]) -> bool {
        let alike = |item: &WriteItem<'_, '_>| {
            item.template_id == self.template_id && item.matched.extra.is_none()
        };
        items.len() == INSERT_ROWS && items.iter().all(alike)
    }

    /// Whether a lookup found no sample of its counter.
    pub fn begins_series(&self) -> bool {
        matches!(self.counter, StoredRecord::Loaded(None))
    }

    /// The counter's value, if the record has one.
    pub fn count(&self, counter: Option<usize>) -> Option<i64> {
        match self.matched.record.values.get(counter?) {
            Some(FieldValue::Int(value)) => Some(*value),
            _ => None,
        }
    }
}

/// Result of a lookup in the vault.
pub(super) enum StoredRecord<T> {
    /// Not looked up yet.
    NotLoaded,
    Loaded(Option<T>),
}

/// The open version of a record, and whether it equals the received record.
pub(super) struct Open {
    pub version: i64,
    pub same: bool,
}
