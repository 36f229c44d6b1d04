//! Removed records: which removals are large enough to be a problem, and until when. Pure.
//!
//! `status`, alerts, `backup` and retention ask the same functions.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::model::count_or_percent::MIN_RECORDS_FOR_PERCENT;
use crate::model::{CountOrPercent, Resource, SnapshotId};

/// How long a removal is a problem if it is not acknowledged and the records do not come back.
pub const HELD: Duration = Duration::from_secs(30 * 24 * 3600);

/// Records that were removed from one list between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRemoval {
    /// Id of the snapshot without them.
    pub snapshot: SnapshotId,
    /// When it ended.
    pub at: Timestamp,
    /// Id of the newest readable snapshot before it.
    pub kept: Option<SnapshotId>,
    /// The resource.
    pub resource: Resource,
    /// Records that are gone.
    pub removed: u64,
    /// Records in the list before.
    pub before: u64,
    /// Records in all lists before.
    pub all_before: u64,
}

/// Records removed from one list between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedCount {
    /// Records that are gone.
    pub removed: u64,
    /// Records in the list before.
    pub before: u64,
}

/// More removed records between two snapshots than the settings allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MassRemoval {
    /// When the snapshot without them ended.
    pub at: Timestamp,
    /// Id of the newest readable snapshot that has them.
    pub kept: Option<SnapshotId>,
    /// The lists by resource name. `None` stands for all lists together, if no single list is above
    /// the limit.
    pub lists: Vec<(Option<String>, RemovedCount)>,
}

/// A list that is empty and had records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptiedList {
    /// Name of the resource.
    pub resource: String,
    /// The most records that it had.
    pub had: u64,
    /// Id of the newest readable snapshot before the removal of the most records.
    pub snapshot: Option<SnapshotId>,
    /// When the first snapshot with the empty list ended.
    pub since: Timestamp,
}

/// The removals of the recent snapshots of a vault that are a problem until they are acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenRemovals {
    /// Removals of many records, oldest first.
    pub mass: Vec<MassRemoval>,
    /// Lists that became empty.
    pub emptied: Vec<EmptiedList>,
}

/// Whether more records were removed than `most` allows.
fn exceeded(most: CountOrPercent, RemovedCount { removed, before }: RemovedCount) -> bool {
    let few = matches!(most, CountOrPercent::Percent(_)) && removed < MIN_RECORDS_FOR_PERCENT;
    !few && most.allows(before).is_some_and(|allowed| removed > allowed)
}

impl OpenRemovals {
    /// Finds those of `removals` (oldest first) that are above `most`. `missing` counts the records
    /// of a removal that are still missing, and `is_empty` tells whether a list is empty now.
    ///
    /// # Errors
    /// Those of `missing`.
    pub fn find<E>(
        removals: &[ListRemoval],
        most: CountOrPercent,
        mut missing: impl FnMut(&ListRemoval) -> Result<u64, E>,
        is_empty: impl Fn(Resource) -> bool,
    ) -> Result<Self, E> {
        let mut mass = Vec::new();
        for of_snapshot in removals.chunk_by(|one, other| one.snapshot == other.snapshot) {
            // Counting is slow in a large list, and most removals are small.
            let found = exceeding(of_snapshot, most, |it| Ok(it.removed))?;
            if found.is_empty() {
                continue;
            }
            let still = |it: &ListRemoval| missing(it).map(|missing| missing.min(it.removed));
            if !exceeding(of_snapshot, most, still)?.is_empty() {
                let ListRemoval { at, kept, .. } = of_snapshot[0];
                mass.push(MassRemoval { at, kept, lists: found });
            }
        }
        Ok(Self { mass, emptied: emptied(removals, is_empty) })
    }

    /// Leaves only those that are problems at `now`, if all until `acknowledged` are acknowledged.
    #[must_use]
    pub fn unacknowledged(&self, acknowledged: Option<Timestamp>, now: Timestamp) -> Self {
        let is_open =
            |at: Timestamp| acknowledged.is_none_or(|until| at > until) && now.since(at) <= HELD;
        Self {
            mass: self.mass.iter().filter(|it| is_open(it.at)).cloned().collect(),
            emptied: self.emptied.iter().filter(|it| is_open(it.since)).cloned().collect(),
        }
    }

    /// The snapshots that the removed records can be restored from.
    #[must_use]
    pub fn needed_snapshots(&self) -> Vec<SnapshotId> {
        let mass = self.mass.iter().filter_map(|it| it.kept);
        mass.chain(self.emptied.iter().filter_map(|it| it.snapshot)).collect()
    }
}

/// The lists above `most`, or all lists together if none is, by the counts of `removed`.
fn exceeding<E>(
    of_snapshot: &[ListRemoval],
    most: CountOrPercent,
    mut removed: impl FnMut(&ListRemoval) -> Result<u64, E>,
) -> Result<Vec<(Option<String>, RemovedCount)>, E> {
    let (mut lists, mut all) = (Vec::new(), RemovedCount { removed: 0, before: 0 });
    for list in of_snapshot {
        let count = RemovedCount { removed: removed(list)?, before: list.before };
        if exceeded(most, count) {
            lists.push((Some(list.resource.name().to_owned()), count));
        }
        all.removed += count.removed;
        all.before = list.all_before;
    }
    if lists.is_empty() && exceeded(most, all) {
        lists.push((None, all));
    }
    Ok(lists)
}

/// The lists with at least [`MIN_RECORDS_FOR_PERCENT`] records that are empty now.
fn emptied(removals: &[ListRemoval], is_empty: impl Fn(Resource) -> bool) -> Vec<EmptiedList> {
    let mut lists: BTreeMap<&str, EmptiedList> = BTreeMap::new();
    for it in removals.iter().filter(|it| is_empty(it.resource)) {
        let list = lists.entry(it.resource.name()).or_insert_with(|| EmptiedList {
            resource: it.resource.name().to_owned(),
            had: 0,
            snapshot: None,
            since: it.at,
        });
        list.since = it.at;
        if it.before > list.had {
            (list.had, list.snapshot) = (it.before, it.kept);
        }
    }
    lists.into_values().filter(|it| it.had >= MIN_RECORDS_FOR_PERCENT).collect()
}

/// A removal as a sentence: `10 of 16 campaigns were removed from the account`.
#[must_use]
pub fn removed_text(removal: &MassRemoval) -> String {
    let parts = removal.lists.iter().map(|(resource, it)| {
        let what = resource.as_deref().unwrap_or("records");
        format!("{} of {} {what}", it.removed, it.before)
    });
    format!("{} were removed from the account", parts.collect::<Vec<_>>().join(", "))
}

/// The sentence about an emptied list.
#[must_use]
pub fn emptied_text(list: &EmptiedList) -> String {
    let EmptiedList { resource, had, snapshot, .. } = list;
    match snapshot {
        Some(number) => {
            format!("the list of {resource} is empty; snapshot #{number} has {had} records")
        }
        None => format!("the list of {resource} is empty; it had {had} records"),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn removal(snapshot: i64, resource: Resource, removed: u64, before: u64) -> ListRemoval {
        ListRemoval {
            snapshot: SnapshotId(snapshot),
            at: Timestamp(snapshot),
            kept: Some(SnapshotId(snapshot - 1)),
            resource,
            removed,
            before,
            all_before: 500,
        }
    }

    fn found(removals: &[ListRemoval], most: CountOrPercent, missing: u64) -> Vec<String> {
        let missing = |_: &ListRemoval| Ok::<_, Infallible>(missing);
        let open = OpenRemovals::find(removals, most, missing, |_| false).unwrap();
        open.mass.iter().map(removed_text).collect()
    }

    #[test]
    fn removals_above_the_limit_are_found() {
        use CountOrPercent::{Count, Percent};
        let all = |removed, before| [removal(2, Resource::Campaigns, removed, before)];
        for (most, removed, before, is_problem) in [
            (Count(10), 10, 100, false),
            (Count(10), 11, 100, true),
            (Percent(30.0), 30, 100, false),
            (Percent(30.0), 31, 100, true),
            (Percent(30.0), 9, 9, false),
            (Percent(30.0), 10, 10, true),
            (Percent(100.0), 10, 10, false),
            (Count(0), 1, 100, true),
        ] {
            let texts = found(&all(removed, before), most, removed);
            assert_eq!(!texts.is_empty(), is_problem, "{removed} of {before}, {most:?}: {texts:?}");
        }
    }

    /// 10 of 16 campaigns are above 30 %, 10 of 500 records are not.
    #[test]
    fn removed_records_are_counted_for_each_list_and_for_the_account() {
        let texts = |removals: &[ListRemoval]| found(removals, CountOrPercent::default(), u64::MAX);
        let one =
            texts(&[removal(2, Resource::Campaigns, 10, 16), removal(2, Resource::Pixels, 3, 200)]);
        assert_eq!(one, ["10 of 16 campaigns were removed from the account"]);
        let both = texts(&[
            removal(2, Resource::Campaigns, 10, 16),
            removal(2, Resource::Pixels, 100, 100),
        ]);
        assert_eq!(both, ["10 of 16 campaigns, 100 of 100 pixels were removed from the account"]);
        let few =
            [Resource::Campaigns, Resource::Pixels].map(|resource| removal(2, resource, 9, 20));
        assert_eq!(texts(&few), [""; 0]);
        let of_account = few.map(|it| ListRemoval { all_before: 40, ..it });
        assert_eq!(texts(&of_account), ["18 of 40 records were removed from the account"]);
        // Two backups are two removals.
        let two = [removal(2, Resource::Campaigns, 10, 16), removal(3, Resource::Pixels, 40, 50)];
        assert_eq!(texts(&two).len(), 2);
    }

    #[test]
    fn a_removal_ends_when_few_records_are_missing() {
        let removals = [removal(2, Resource::Campaigns, 40, 100)];
        let counts =
            [40, 31, 30, 0, 90].map(|missing| found(&removals, CountOrPercent::default(), missing));
        assert_eq!(counts.map(|it| it.len()), [1, 1, 0, 0, 1]);
    }

    #[test]
    fn a_removal_is_open_until_it_is_acknowledged_and_for_30_days() {
        let removals =
            [removal(2, Resource::Campaigns, 40, 100), removal(5, Resource::Campaigns, 60, 60)];
        let missing = |it: &ListRemoval| Ok::<_, Infallible>(it.removed);
        let most = CountOrPercent::default();
        let open = OpenRemovals::find(&removals, most, missing, |_| true).unwrap();
        let days = |days: i64| Timestamp(days * 86_400_000);
        let open_at = |acknowledged: Option<i64>, now| {
            let open = open.unacknowledged(acknowledged.map(Timestamp), now);
            (open.mass.len(), open.emptied.len(), open.needed_snapshots())
        };
        let snapshots = |numbers: &[i64]| numbers.iter().copied().map(SnapshotId).collect();
        assert_eq!(open_at(None, days(30)), (2, 1, snapshots(&[1, 4, 1])));
        assert_eq!(open_at(Some(2), days(30)), (1, 1, snapshots(&[4, 1])));
        assert_eq!(open_at(Some(5), days(1)), (0, 0, snapshots(&[])));
        assert_eq!(open_at(None, days(31)), (0, 0, snapshots(&[])));
    }

    #[test]
    fn a_list_is_emptied_by_one_removal_or_by_several() {
        let texts = |removals: &[ListRemoval]| {
            emptied(removals, |resource| resource != Resource::Pixels)
                .iter()
                .map(emptied_text)
                .collect()
        };
        let none: Vec<String> = Vec::new();
        let steps =
            [removal(3, Resource::Campaigns, 10, 16), removal(7, Resource::Campaigns, 6, 6)];
        let found: Vec<String> = texts(&steps);
        assert_eq!(found, ["the list of campaigns is empty; snapshot #2 has 16 records"]);
        assert_eq!(texts(&[removal(3, Resource::Campaigns, 9, 9)]), none, "it was short");
        assert_eq!(texts(&[removal(3, Resource::Pixels, 20, 20)]), none, "it has records again");
        assert_eq!(emptied(&steps, |_| true)[0].since, Timestamp(7));
    }
}
