//! Matches a page's items with the stored rows.

use crate::vault::writer::item::{StoredRecord, WriteItem};

/// Goes through the items and the rows, both in the order of ids.
pub(super) struct VersionCursor<'w, 'p, 'a> {
    items: &'w mut [WriteItem<'p, 'a>],
    at: usize,
    /// Number of rows that may still be read.
    left: usize,
}

impl<'w, 'p, 'a> VersionCursor<'w, 'p, 'a> {
    pub fn new(items: &'w mut [WriteItem<'p, 'a>], max_rows: usize) -> Self {
        Self { items, at: 0, left: max_rows }
    }

    fn id(&self, at: usize) -> Option<i64> {
        self.items.get(at).map(|item| item.matched.record.key.id())
    }

    /// The item of row `id`: `Some(None)` for a row without an item, `None` to end the scan.
    #[allow(clippy::option_option)]
    pub fn advance_to(&mut self, id: i64) -> Option<Option<&mut WriteItem<'p, 'a>>> {
        self.left = self.left.checked_sub(1)?;
        while self.id(self.at).is_some_and(|own| own < id) {
            self.at += 1;
        }
        let found = self.id(self.at) == Some(id);
        Some(if found { self.items.get_mut(self.at) } else { None })
    }

    /// Marks the items that the scan passed without a row as not stored. Of items with the same id,
    /// only the first is marked.
    pub fn finish<T>(
        self,
        known: impl for<'i> Fn(&'i mut WriteItem<'p, 'a>) -> &'i mut StoredRecord<T>,
    ) {
        let end = if self.left > 0 { self.items.len() } else { self.at };
        if let Some(item) = self.items.get_mut(end) {
            // The scan may not have reached the last row of this item.
            *known(item) = StoredRecord::NotLoaded;
        }
        let mut before = None;
        for item in &mut self.items[..end] {
            let id = item.matched.record.key.id();
            if before != Some(id) && matches!(known(item), StoredRecord::NotLoaded) {
                *known(item) = StoredRecord::Loaded(None);
            }
            before = Some(id);
        }
    }
}
