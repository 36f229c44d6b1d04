//! Leaves out the records that the filter of the desired state does not admit.

use super::matching::RecordMatch;
use super::planner::Planner;
use super::request::ResolvedRef;
use crate::change::desired::{DesiredRecord, RecordRef};
use crate::change::record_filter::FilteredRecord;
use crate::model::equality::fold_case;
use crate::model::natural_key::value_text;
use crate::model::{Record, RecordKey, Resource};

impl Planner<'_> {
    /// Whether the filter leaves a desired record out: it admits neither its desired values nor the
    /// existing record that it matches. References to such a record stay possible.
    pub fn filters_out(
        &mut self,
        resource: Resource,
        row: &DesiredRecord,
        found: &RecordMatch,
        by_name: bool,
    ) -> bool {
        let filter = &self.desired.filter;
        if filter.is_empty() {
            return false;
        }
        let existing = match found {
            RecordMatch::Existing(id) => Some(*id),
            _ => None,
        };
        let by_row = filter.admits(&FilteredRecord::of_fields(
            resource,
            row.id.map(RecordKey::Id),
            &row.fields,
        ));
        if by_row || existing.is_some_and(|id| self.admits_id(resource, id)) {
            self.selected.extend(existing.map(|id| (resource, id)));
            return false;
        }
        self.filtered_rows.extend(row.source.clone());
        match existing {
            Some(id) => self.register_reference(resource, row, ResolvedRef::Id(id), by_name),
            None => {
                let name = row.value(resource, "name");
                let name = name.map(|name| RecordRef::Name(fold_case(&value_text(name))));
                let refs = row.id.map(RecordRef::Id).into_iter().chain(name);
                self.filtered_out.extend(refs.map(|it| (resource, it)));
            }
        }
        true
    }

    /// Whether a reference means a new record that the filter leaves out.
    pub fn is_filtered_out(&self, resource: Resource, record: Option<&RecordRef>) -> bool {
        let record = match record {
            Some(RecordRef::Name(name)) => RecordRef::Name(fold_case(name)),
            Some(id) => id.clone(),
            None => return false,
        };
        self.filtered_out.contains(&(resource, record))
    }

    /// Whether the filter admits an existing record.
    pub fn admits_live(&self, resource: Resource, record: &Record<'_>) -> bool {
        let filter = &self.desired.filter;
        let sent = || self.current.memory.sent.get(&(resource, record.key.clone()));
        filter.is_empty() || filter.admits(&FilteredRecord::of_record(resource, record, sent()))
    }

    fn admits_id(&self, resource: Resource, id: i64) -> bool {
        let live = self.current.state.get(resource).and_then(|it| it.get(&RecordKey::Id(id)));
        live.is_some_and(|record| self.admits_live(resource, record))
    }

    /// Whether the filter admits the record of a reference.
    pub fn admits_resolved(&self, resource: Resource, record: ResolvedRef) -> bool {
        match record {
            _ if self.desired.filter.is_empty() => true,
            ResolvedRef::Step(_) => true,
            ResolvedRef::Id(id) => {
                self.selected.contains(&(resource, id)) || self.admits_id(resource, id)
            }
        }
    }

    /// Whether the filter admits the item `kind` `id` of a channel.
    pub fn admits_item(
        &self,
        row: &DesiredRecord,
        channel: ResolvedRef,
        kind: &str,
        id: ResolvedRef,
    ) -> bool {
        if self.desired.filter.is_empty() {
            return true;
        }
        let key = match (channel, id) {
            (ResolvedRef::Id(channel), ResolvedRef::Id(id)) => {
                Some(RecordKey::Item { channel, kind: kind.to_owned(), id })
            }
            _ => None,
        };
        let item = FilteredRecord::of_fields(Resource::ChannelItems, key, &row.fields);
        let with_channel = self.admits_resolved(Resource::Channels, channel);
        self.desired.filter.admits_item(&item, with_channel)
    }
}
