//! Which rows of a table bear a name, so that a new one need not be compared
//! with each that is there.

use std::collections::{BTreeSet, HashMap};

/// A row that has a name.
pub trait HasName {
    fn name(&self) -> &str;
}

/// Ids by name, in whatever case. It is told which rows may have changed, and
/// looks at those when it is next asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// Whether it knows every row but the changed ones.
    whole: bool,
    changed: BTreeSet<u64>,
    ids: BTreeSet<(String, u64)>,
    names: HashMap<u64, String>,
}

impl Names {
    /// The row of `id` came, went or may have another name.
    pub fn touch(&mut self, id: u64) {
        if self.whole {
            self.changed.insert(id);
        }
    }

    /// Any row may have another name.
    pub fn touch_all(&mut self) {
        *self = Self::default();
    }

    /// Whether a row other than `own` bears `name`, of which `get` gives the rows
    /// and `all` their ids.
    pub fn is_taken<'a, T: HasName + 'a>(
        &mut self,
        name: &str,
        own: Option<u64>,
        all: impl Iterator<Item = u64>,
        get: impl Fn(u64) -> Option<&'a T>,
    ) -> bool {
        if !std::mem::replace(&mut self.whole, true) {
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
        let bearers = self.ids.range((name.clone(), 0)..=(name, u64::MAX));
        bearers.into_iter().any(|(_, id)| Some(*id) != own)
    }
}

/// What is equal for names that are equal without case.
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
        assert!(table.has_name("GRÖßE", None) && !table.has_name("GRÖßE", Some(id)));
        assert!(!table.has_name("Größen", None) && !table.has_name("", None));
    }

    #[test]
    fn a_name_is_free_again_once_no_record_has_it() {
        let mut table = StoreTable::default();
        let (one, other) = (table.add(channel("a")), table.add(channel("A")));
        assert!(table.has_name("a", Some(one)));
        table.remove(other);
        assert!(!table.has_name("a", Some(one)));
        table.get_mut(one).unwrap().name = "b".to_owned();
        assert!(table.has_name("B", None) && !table.has_name("a", None));
        table.iter_mut().for_each(|(_, row)| row.name = "c".to_owned());
        assert!(table.has_name("c", None) && !table.has_name("b", None));
        table.put(one, channel("d"));
        assert!(table.has_name("d", None) && !table.has_name("c", None));
    }
}
