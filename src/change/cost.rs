//! Estimates the requests and the time of a plan at an account's rate limit.

use std::collections::BTreeMap;

use super::plan::request::ResolvedRef;
use super::plan::{Plan, PlanCost, PlanStep};
use super::staleness::{StalenessLimit, WINDOW};
use crate::model::paging::Paging;
use crate::model::{RecordKey, Resource, State, Verb};

/// The cost of a run without errors: `before` requests of the first crawl, one for each step, those
/// that check the account and read lists again meanwhile, and `after` requests of the last crawl.
/// `limit` is in requests per minute, 0 for no limit; `reserve` of them are left to others.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::tests::steps;
    use crate::change::staleness::DEFAULT;

    #[test]
    fn the_first_window_takes_no_time_and_each_further_one_a_minute() {
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
        // The account is checked before the second and the third write.
        assert_eq!(cost(3, 0, 5, 9), PlanCost { rereads: 2, ..is(5, 240.0) });
    }
}
