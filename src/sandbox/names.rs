//! An index of names, so that a new name is not compared with every existing one.

use std::collections::{BTreeSet, HashMap};

/// A row that has a name.
pub trait HasName {
    /// The name.
    fn name(&self) -> &str;
}

/// Ids by name, ignoring case. Changed rows are recorded and read again by the next query.
#[derive(Debug, Clone, Default)]
pub(super) struct NameIndex {
    /// Whether the index contains all rows except the changed ones.
    complete: bool,
    changed: BTreeSet<u64>,
    ids: BTreeSet<(String, u64)>,
    names: HashMap<u64, String>,
}

impl NameIndex {
    /// Records that the row `id` was added, removed or may be renamed.
    pub fn touch(&mut self, id: u64) {
        if self.complete {
            self.changed.insert(id);
        }
    }

    /// Records that any row may be renamed.
    pub fn touch_all(&mut self) {
        *self = Self::default();
    }

    /// Whether a row other than `own` has `name`. `all` are the ids of all rows, and `get` returns
    /// a row.
    pub fn is_taken<'a, T: HasName + 'a>(
        &mut self,
        name: &str,
        own: Option<u64>,
        all: impl Iterator<Item = u64>,
        get: impl Fn(u64) -> Option<&'a T>,
    ) -> bool {
        if !std::mem::replace(&mut self.complete, true) {
            self.changed.extend(all);
        }
        for id in std::mem::take(&mut self.changed) {
            if let Some(old) = self.names.remove(&id) {
                self.ids.remove(&(old, id));
            }
            if let Some(row) = get(id) {
                let name = folded(row.name());
                self.ids.insert((name.clone(), id));
                self.names.insert(id, name);
            }
        }
        let name = folded(name);
        let found = self.ids.range((name.clone(), 0)..=(name, u64::MAX));
        found.into_iter().any(|(_, id)| Some(*id) != own)
    }
}

/// The name in lower case.
fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::super::store::{StoreTable, StoredChannel};

    fn channel(name: &str) -> StoredChannel {
        StoredChannel { name: name.to_owned(), ..StoredChannel::default() }
    }

    #[test]
    fn names_are_compared_without_case() {
        let mut table = StoreTable::default();
        let id = table.add(channel("Größe"));
        assert!(table.has_name("GRÖßE", None, false) && !table.has_name("GRÖßE", Some(id), false));
        assert!(!table.has_name("Größen", None, false) && !table.has_name("", None, false));
    }

    #[test]
    fn a_name_is_free_after_its_record_is_removed_or_renamed() {
        let mut table = StoreTable::default();
        let (one, other) = (table.add(channel("a")), table.add(channel("A")));
        assert!(table.has_name("a", Some(one), false));
        table.remove(other);
        assert!(!table.has_name("a", Some(one), false));
        table.get_mut(one).unwrap().name = "b".to_owned();
        assert!(table.has_name("B", None, false) && !table.has_name("a", None, false));
        table.iter_mut().for_each(|(_, row)| row.name = "c".to_owned());
        assert!(table.has_name("c", None, false) && !table.has_name("b", None, false));
        table.put(one, channel("d"));
        assert!(table.has_name("d", None, false) && !table.has_name("c", None, false));
    }
}
