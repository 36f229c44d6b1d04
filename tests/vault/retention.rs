//! Properties of the retention rules for random snapshots and policies.

use std::time::Duration;

use chrono::{DateTime, FixedOffset};
use linkvault::clock::Timestamp;
use linkvault::model::SnapshotId;
use linkvault::vault::retention::{RetentionPolicy, decide};
use linkvault::vault::snapshot::{RequestUsage, Snapshot, SnapshotStatus};
use proptest::prelude::*;

use crate::vault::snapshot_builder::day;

const HOUR: i64 = 3_600_000;

fn snapshots() -> impl Strategy<Value = Vec<Snapshot>> {
    let one = (prop_oneof![0..30_i64, 0..2000_i64], any::<bool>(), 0..4_u8);
    prop::collection::vec(one, 0..40).prop_map(|all| {
        let mut time = day(0).0;
        let mut snapshots = Vec::new();
        for (nth, (hours, complete, tag)) in all.into_iter().enumerate() {
            time += hours * HOUR;
            snapshots.push(Snapshot {
                number: SnapshotId(i64::try_from(nth).unwrap() + 1),
                status: if complete { SnapshotStatus::Complete } else { SnapshotStatus::Partial },
                started: Timestamp(time),
                touched: Timestamp(time),
                finished: Some(Timestamp(time)),
                forgotten: None,
                tag: (tag < 2).then(|| format!("tag{tag}")),
                usage: RequestUsage::default(),
                digest: None,
                outcomes: Vec::new(),
                of_run: false,
            });
        }
        snapshots
    })
}

fn keep() -> impl Strategy<Value = RetentionPolicy> {
    let count = || prop_oneof![3 => Just(0), 2 => 0..6_u64, 1 => Just(u64::MAX)];
    let counts = (count(), count(), count(), count(), count(), count());
    let within =
        prop::option::of((0..5000_u64).prop_map(|hours| Duration::from_secs(hours * 3600)));
    let tags = prop_oneof![Just(Vec::new()), Just(vec!["tag1".to_owned()])];
    (counts, within, tags).prop_map(
        |((last, hourly, daily, weekly, monthly, yearly), within, tags)| RetentionPolicy {
            last,
            hourly,
            daily,
            weekly,
            monthly,
            yearly,
            within,
            tags,
        },
    )
}

fn zone(time: Timestamp) -> Option<DateTime<FixedOffset>> {
    let zone = FixedOffset::east_opt(9 * 3600)?;
    Some(time.utc()?.with_timezone(&zone))
}

/// The numbers of the snapshots that are kept.
fn kept(snapshots: &[Snapshot], keep: &RetentionPolicy, needed: &[SnapshotId]) -> Vec<SnapshotId> {
    let now = Timestamp(snapshots.last().map_or(0, |it| it.started.0) + HOUR);
    let needed: Vec<_> = needed.iter().map(|number| (*number, "needed")).collect();
    let verdicts = decide(snapshots, keep, &needed, now, &zone);
    assert_eq!(verdicts.len(), snapshots.len());
    verdicts.into_iter().filter(|it| !it.reasons.is_empty()).map(|it| it.number).collect()
}

fn more(one: &RetentionPolicy, other: &RetentionPolicy) -> RetentionPolicy {
    RetentionPolicy {
        last: one.last.max(other.last),
        hourly: one.hourly.max(other.hourly),
        daily: one.daily.max(other.daily),
        weekly: one.weekly.max(other.weekly),
        monthly: one.monthly.max(other.monthly),
        yearly: one.yearly.max(other.yearly),
        within: one.within.max(other.within),
        tags: [one.tags.as_slice(), &other.tags].concat(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_newest_complete_and_the_needed_snapshots_are_always_kept(
        all in snapshots(), keep in keep(), needed in prop::collection::vec((1..40_i64).prop_map(SnapshotId), 0..4),
    ) {
        let kept = kept(&all, &keep, &needed);
        let complete = all.iter().rfind(|it| it.status == SnapshotStatus::Complete);
        if let Some(newest) = complete.or(all.last()) {
            prop_assert!(kept.contains(&newest.number));
        }
        for number in needed.iter().filter(|number| number.0 <= all.len() as i64) {
            prop_assert!(kept.contains(number));
        }
    }

    #[test]
    fn no_rules_at_all_keep_everything(all in snapshots()) {
        prop_assert_eq!(kept(&all, &RetentionPolicy::default(), &[]).len(), all.len());
    }

    #[test]
    fn more_rules_never_keep_less(all in snapshots(), one in keep(), other in keep()) {
        prop_assume!(!one.is_empty() && !other.is_empty());
        let both = kept(&all, &more(&one, &other), &[]);
        for number in [kept(&all, &one, &[]), kept(&all, &other, &[])].concat() {
            prop_assert!(both.contains(&number));
        }
    }

    #[test]
    fn forgetting_twice_drops_nothing_more(all in snapshots(), keep in keep()) {
        let now = Timestamp(all.last().map_or(0, |it| it.started.0) + HOUR);
        let stays = |all: &[Snapshot]| -> Vec<Snapshot> {
            let verdicts = decide(all, &keep, &[], now, &zone);
            let both = all.iter().zip(verdicts).filter(|(_, verdict)| !verdict.reasons.is_empty());
            both.map(|(snapshot, _)| snapshot.clone()).collect()
        };
        let once = stays(&all);
        prop_assert_eq!(stays(&once), once);
    }

    #[test]
    fn a_daily_backup_kept_by_days_has_one_for_each_of_the_last_days(days in 1..60_i64, daily in 1..40_u64) {
        let all: Vec<Snapshot> = (0..days).map(|nth| Snapshot {
            number: SnapshotId(nth + 1),
            status: SnapshotStatus::Complete,
            started: day(nth),
            touched: day(nth),
            finished: Some(day(nth)),
            forgotten: None,
            tag: None,
            usage: RequestUsage::default(),
            digest: None,
            outcomes: Vec::new(),
            of_run: false,
        }).collect();
        let kept = kept(&all, &RetentionPolicy { daily, ..RetentionPolicy::default() }, &[]);
        let first = (days - i64::try_from(daily).unwrap()).max(0) + 1;
        prop_assert_eq!(kept, (first..=days).map(SnapshotId).collect::<Vec<_>>());
    }
}
