//! A set of records, wherever it came from: a snapshot, the live account,
//! files, another account.

use std::collections::BTreeMap;

use super::record::{Record, RecordKey};
use super::resource::Resource;
use super::sent_values::SentValues;
use super::spec::Field;

/// Whether nothing but what was sent tells the values of `field`. A campaign's slug is told
/// by its rotator.
#[must_use]
pub fn is_hidden(field: &Field) -> bool {
    !field.is_read() && !["password", "slug"].contains(&field.name)
}

/// Records of some resources. A resource that is absent was not read, which is
/// not the same as one that is there and empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    resources: BTreeMap<Resource, BTreeMap<RecordKey, Record<'static>>>,
    /// The sent values that were true in this state; `None` where the source of
    /// the state does not tell them.
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

    /// Takes a resource away, as if it had not been read.
    pub fn remove(&mut self, resource: Resource) {
        self.resources.remove(&resource);
    }

    /// The same state, with the sent values that are true in it.
    #[must_use]
    pub fn with_sent(self, sent: Option<SentValues>) -> Self {
        Self { sent, ..self }
    }

    /// A sent value of a record; `None` where it is not known.
    #[must_use]
    pub fn sent(
        &self,
        resource: Resource,
        key: &RecordKey,
        field: &str,
    ) -> Option<&serde_json::Value> {
        self.sent.as_ref()?.get(&(resource, key.clone()))?.get(field)
    }

    /// The sent values of a record that its list does not show, with their places
    /// in the table's row. A campaign's slug is left out: its rotator tells it.
    pub fn unlisted_sent_values<'s>(
        &'s self,
        resource: Resource,
        key: &RecordKey,
    ) -> impl Iterator<Item = (usize, &'static Field, &'s serde_json::Value)> + use<'s> {
        let sent = self.sent.as_ref().and_then(|sent| sent.get(&(resource, key.clone())));
        sent.into_iter().flatten().filter_map(move |(name, value)| {
            let (place, field) = resource.spec().field(name)?;
            is_hidden(field).then_some((place, field, value))
        })
    }

    /// The links that linkvault assigned to a campaign.
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
