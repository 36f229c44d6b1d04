//! A set of records, from a snapshot, the live account, files or another account.

use std::collections::BTreeMap;

use super::record::{Record, RecordKey};
use super::resource::Resource;
use super::sent_values::{SentFields, SentValues};
use super::spec::Field;

/// Whether only the sent values hold the value of `field`. A campaign's slug is not hidden: its
/// rotator contains it. Passwords are never kept.
#[must_use]
pub fn is_hidden(field: &Field) -> bool {
    !field.is_read() && !["password", "slug"].contains(&field.name)
}

/// Records of some resources. A resource that is absent was not read; a resource that is present
/// and empty has no records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    resources: BTreeMap<Resource, BTreeMap<RecordKey, Record<'static>>>,
    /// The sent values valid in this state; `None` if the source of the state does not record
    /// them.
    pub sent: Option<SentValues>,
}

impl State {
    /// Marks `resource` as read, and returns its records.
    pub fn resource_mut(
        &mut self,
        resource: Resource,
    ) -> &mut BTreeMap<RecordKey, Record<'static>> {
        self.resources.entry(resource).or_default()
    }

    /// The records of `resource` by key; `None` when it was not read.
    #[must_use]
    pub fn get(&self, resource: Resource) -> Option<&BTreeMap<RecordKey, Record<'static>>> {
        self.resources.get(&resource)
    }

    /// Removes a resource, as if it had not been read.
    pub fn remove(&mut self, resource: Resource) {
        self.resources.remove(&resource);
    }

    /// The same state with other sent values.
    #[must_use]
    pub fn with_sent(self, sent: Option<SentValues>) -> Self {
        Self { sent, ..self }
    }

    /// A sent value of a record; `None` if it is unknown.
    #[must_use]
    pub fn sent(
        &self,
        resource: Resource,
        key: &RecordKey,
        field: &str,
    ) -> Option<&serde_json::Value> {
        self.sent_of(resource, key)?.get(field)
    }

    /// The sent values of a record, if they are known.
    #[must_use]
    pub fn sent_of(&self, resource: Resource, key: &RecordKey) -> Option<&SentFields> {
        self.sent.as_ref()?.get(&(resource, key.clone()))
    }

    /// The sent values of a record that its list does not return, with their index in the table's
    /// row. Excludes a campaign's slug: its rotator contains it.
    pub fn unlisted_sent_values<'s>(
        &'s self,
        resource: Resource,
        key: &RecordKey,
    ) -> impl Iterator<Item = (usize, &'static Field, &'s serde_json::Value)> + use<'s> {
        let sent = self.sent_of(resource, key);
        sent.into_iter().flatten().filter_map(move |(name, value)| {
            let (place, field) = resource.spec().field(name)?;
            is_hidden(field).then_some((place, field, value))
        })
    }

    /// Ids of the links that linkvault assigned to a campaign.
    pub fn links(&self, campaign: &RecordKey) -> impl Iterator<Item = i64> + use<'_> {
        let links = self.sent(Resource::Campaigns, campaign, "links");
        let links = links.and_then(serde_json::Value::as_array);
        links.into_iter().flatten().filter_map(serde_json::Value::as_i64)
    }

    /// Every resource that was read, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (Resource, &BTreeMap<RecordKey, Record<'static>>)> {
        self.resources.iter().map(|(resource, records)| (*resource, records))
    }
}
