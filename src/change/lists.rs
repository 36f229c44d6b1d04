//! The lengths of an account's lists, while the steps of a plan change them.

use std::collections::BTreeMap;

use super::plan::PlanStep;
use super::plan::request::ResolvedRef;
use crate::model::paging::Paging;
use crate::model::{RecordKey, Resource, State, Verb};

/// The lengths of an account's lists, to compute the cost of reading them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lists {
    paging: BTreeMap<Resource, Paging>,
    /// Lengths by resource, and by channel for channel items.
    lengths: BTreeMap<(Resource, Option<ResolvedRef>), Length>,
    /// For each QR code, the channels that have it as an item.
    channels: BTreeMap<i64, Vec<i64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Length {
    records: u64,
    /// Records deleted since the list was last read.
    gone: u64,
}

impl Length {
    fn remove_record(&mut self) {
        self.records = self.records.saturating_sub(1);
        self.gone += 1;
    }
}

impl Lists {
    /// The lists of an account with this state.
    #[must_use]
    pub fn of(state: &State, paging: BTreeMap<Resource, Paging>) -> Self {
        let mut lists = Self { paging, ..Self::default() };
        for (resource, records) in state.iter() {
            if resource != Resource::ChannelItems {
                lists.list(resource, None).records = records.len() as u64;
            }
            for key in records.keys() {
                match key {
                    RecordKey::Id(id) if resource == Resource::Channels => {
                        lists.list(Resource::ChannelItems, Some(ResolvedRef::Id(*id)));
                    }
                    RecordKey::Item { channel, kind, id } => {
                        lists.list(resource, Some(ResolvedRef::Id(*channel))).records += 1;
                        if kind == "qr" {
                            lists.channels.entry(*id).or_default().push(*channel);
                        }
                    }
                    RecordKey::Id(_) => {}
                }
            }
        }
        lists
    }

    fn list(&mut self, resource: Resource, channel: Option<ResolvedRef>) -> &mut Length {
        self.lengths.entry((resource, channel)).or_default()
    }

    /// The requests that read `resource`, without the one for the account.
    #[must_use]
    pub fn requests(&self, resource: Resource) -> u64 {
        let paging = self.paging.get(&resource).copied().unwrap_or_default();
        let of = |length: &Length| paging.requests(length.records, length.gone);
        match resource {
            Resource::Account => 0,
            Resource::ChannelItems => {
                let items = self.lengths.iter().filter(|((of, _), _)| *of == resource);
                items.map(|(_, length)| of(length)).fold(0, u64::saturating_add)
            }
            _ => of(&self.lengths.get(&(resource, None)).copied().unwrap_or_default()),
        }
    }

    /// Records that `resource` was read.
    pub fn read(&mut self, resource: Resource) {
        for ((of, _), length) in &mut self.lengths {
            if *of == resource {
                length.gone = 0;
            }
        }
    }

    /// Applies `step` to the lengths.
    pub fn apply_step(&mut self, step: &PlanStep) {
        match (step.verb, step.resource) {
            (Verb::Create, resource) => {
                self.list(resource, None).records += 1;
                if resource == Resource::Channels {
                    self.list(Resource::ChannelItems, Some(ResolvedRef::Step(step.step)));
                }
            }
            (Verb::Delete, resource) => {
                self.list(resource, None).remove_record();
                let id = step.id.unwrap_or_default();
                if resource == Resource::Channels {
                    self.lengths.remove(&(Resource::ChannelItems, Some(ResolvedRef::Id(id))));
                }
                let codes = resource == Resource::QrCodes;
                for channel in self.channels.remove(&id).filter(|_| codes).into_iter().flatten() {
                    let list = (Resource::ChannelItems, Some(ResolvedRef::Id(channel)));
                    self.lengths.get_mut(&list).map(Length::remove_record);
                }
            }
            (Verb::Assign, Resource::ChannelItems) => {
                let channel = step.after.as_ref().and_then(|after| after.get("channel"));
                if let Some(channel) = channel.and_then(ResolvedRef::from_json) {
                    self.list(Resource::ChannelItems, Some(channel)).records += 1;
                }
            }
            _ => {}
        }
    }
}
