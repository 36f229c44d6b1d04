//! A set of records, wherever it came from: a snapshot, the live account,
//! files, another account.

use std::collections::BTreeMap;

use super::record::{Key, Record};
use super::resource::Resource;

/// Records of some resources. A resource that is absent was not read, which is
/// not the same as one that is there and empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    resources: BTreeMap<Resource, BTreeMap<Key, Record<'static>>>,
}

impl State {
    /// Marks `resource` as read, and returns its records.
    pub fn resource_mut(&mut self, resource: Resource) -> &mut BTreeMap<Key, Record<'static>> {
        self.resources.entry(resource).or_default()
    }

    /// The records of `resource` by key; `None` when it was not read.
    #[must_use]
    pub fn get(&self, resource: Resource) -> Option<&BTreeMap<Key, Record<'static>>> {
        self.resources.get(&resource)
    }

    /// Takes a resource away, as if it had not been read.
    pub fn remove(&mut self, resource: Resource) {
        self.resources.remove(&resource);
    }

    /// Every resource that was read, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (Resource, &BTreeMap<Key, Record<'static>>)> {
        self.resources.iter().map(|(resource, records)| (*resource, records))
    }
}
