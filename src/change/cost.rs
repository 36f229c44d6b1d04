//! What a plan costs at an account's limit, before anything is sent.

use std::collections::BTreeMap;

use super::plan::request::ResolvedRef;
use super::plan::{Plan, PlanCost, PlanStep};
use super::staleness::{StalenessLimit, WINDOW};
use crate::model::paging::Paging;
use crate::model::{RecordKey, Resource, State, Verb};

/// What a run without mishap needs: `before` requests to look, one for each step,
/// those that prove the account and read lists again on the way, and `after` requests to look at the end.
/// `limit` requests fit into a minute, of which `reserve` are left to others; a limit
/// of 0 is none.
#[must_use]
pub fn cost(
    plan: &Plan,
    (before, after): (u64, u64),
    limit: u64,
    reserve: u64,
    staleness: &StalenessLimit,
) -> PlanCost {
    let steps = plan.steps.len() as u64;
    if steps == 0 {
        return PlanCost::default();
    }
    let again = staleness.rereads(plan, before);
    let requests = before.saturating_add(after).saturating_add(steps);
    let requests = requests.saturating_add(again.requests);
    let share = limit.saturating_sub(reserve).max(1);
    let windows = if limit == 0 { 1 } else { requests.div_ceil(share) };
    let waited = windows.saturating_sub(1).saturating_mul(WINDOW.as_secs());
    PlanCost {
        requests,
        seconds: waited as f64,
        rereads: again.requests,
        rereads_lists: again.lists,
        staleness: again.oldest.as_secs_f64(),
    }
}

/// The lists of an account, as far as their lengths tell what reading them costs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lists {
    paging: BTreeMap<Resource, Paging>,
    /// The lists of resources, and those of each channel's items.
    lengths: BTreeMap<(Resource, Option<ResolvedRef>), Length>,
    /// The channels that have each QR code as an item.
    channels: BTreeMap<i64, Vec<i64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Length {
    records: u64,
    /// Records that were deleted since the list was read last.
    gone: u64,
}

impl Length {
    fn lose(&mut self) {
        self.records = self.records.saturating_sub(1);
        self.gone += 1;
    }
}

impl Lists {
    /// The lists that show `state`.
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

    /// Requests that read `resource`, beside the one for the account.
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

    /// Notes that `resource` was read.
    pub fn read(&mut self, resource: Resource) {
        for ((of, _), length) in &mut self.lengths {
            if *of == resource {
                length.gone = 0;
            }
        }
    }

    /// Notes that `step` was done.
    pub fn carry_out(&mut self, step: &PlanStep) {
        match (step.verb, step.resource) {
            (Verb::Create, resource) => {
                self.list(resource, None).records += 1;
                if resource == Resource::Channels {
                    self.list(Resource::ChannelItems, Some(ResolvedRef::Step(step.step)));
                }
            }
            (Verb::Delete, resource) => {
                self.list(resource, None).lose();
                let id = step.id.unwrap_or_default();
                if resource == Resource::Channels {
                    self.lengths.remove(&(Resource::ChannelItems, Some(ResolvedRef::Id(id))));
                }
                let codes = resource == Resource::QrCodes;
                for channel in self.channels.remove(&id).filter(|_| codes).into_iter().flatten() {
                    let list = (Resource::ChannelItems, Some(ResolvedRef::Id(channel)));
                    self.lengths.get_mut(&list).map(Length::lose);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::tests::steps;
    use crate::change::staleness::DEFAULT;

    #[test]
    fn the_first_windows_share_goes_at_once_and_each_other_takes_a_minute() {
        let cost = |count, looks, limit, reserve| {
            let staleness = StalenessLimit::new(DEFAULT, limit, reserve, Lists::default());
            let cost = cost(&steps(count), (looks, looks), limit, reserve, &staleness);
            PlanCost { staleness: 0.0, ..cost }
        };
        let is = |requests, seconds| PlanCost { requests, seconds, ..PlanCost::default() };
        assert_eq!(cost(0, 5, 30, 5), PlanCost::default());
        assert_eq!(cost(23, 1, 30, 5), is(25, 0.0));
        assert_eq!(cost(24, 1, 30, 5), is(26, 60.0));
        assert_eq!(cost(25, 1, 30, 5), PlanCost { rereads: 1, ..is(28, 60.0) });
        assert_eq!(cost(100, 0, 0, 5), is(100, 0.0));
        // Before the second and the third write, it is asked whose account it is.
        assert_eq!(cost(3, 0, 5, 9), PlanCost { rereads: 2, ..is(5, 240.0) });
    }
}
