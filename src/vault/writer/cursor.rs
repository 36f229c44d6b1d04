//! A page's items beside the rows that the vault has of them.

use crate::vault::writer::{StoredRecord, WriteItem};

/// Goes through items in the order of their ids, beside rows in the same order.
pub(super) struct VersionCursor<'w, 'p, 'a> {
    items: &'w mut [WriteItem<'p, 'a>],
    at: usize,
    /// How many rows may still come.
    left: usize,
}

impl<'w, 'p, 'a> VersionCursor<'w, 'p, 'a> {
    pub fn new(items: &'w mut [WriteItem<'p, 'a>], most: usize) -> Self {
        Self { items, at: 0, left: most }
    }

    fn id(&self, at: usize) -> Option<i64> {
        self.items.get(at).map(|item| item.split.record.key.id())
    }

    /// The item that row `id` is of, if there is one; `None` ends the walk.
    #[allow(clippy::option_option)]
    pub fn to(&mut self, id: i64) -> Option<Option<&mut WriteItem<'p, 'a>>> {
        self.left = self.left.checked_sub(1)?;
        while self.id(self.at).is_some_and(|own| own < id) {
            self.at += 1;
        }
        let found = self.id(self.at) == Some(id);
        Some(if found { self.items.get_mut(self.at) } else { None })
    }

    /// What the walk came past without a row is known not to be there. Of items
    /// that came twice, only the first was looked for.
    pub fn finish<T>(
        self,
        known: impl for<'i> Fn(&'i mut WriteItem<'p, 'a>) -> &'i mut StoredRecord<T>,
    ) {
        let end = if self.left > 0 { self.items.len() } else { self.at };
        if let Some(item) = self.items.get_mut(end) {
            // Of its rows, more may follow.
            *known(item) = StoredRecord::Unasked;
        }
        let mut before = None;
        for item in &mut self.items[..end] {
            let id = item.split.record.key.id();
            if before != Some(id) && matches!(known(item), StoredRecord::Unasked) {
                *known(item) = StoredRecord::Is(None);
            }
            before = Some(id);
        }
    }
}
