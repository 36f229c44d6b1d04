//! Decides which snapshots to keep, by rules like those of restic. Pure.

use std::time::Duration;

use chrono::{DateTime, Datelike as _, FixedOffset, Timelike as _};

use super::snapshot::{Snapshot, SnapshotStatus};
use crate::clock::Timestamp;
use crate::model::SnapshotId;

/// The rules for keeping snapshots. Without any rule all are kept. A snapshot is kept if at least
/// one rule selects it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Number of newest backups to keep.
    pub last: u64,
    /// Number of hours with a snapshot of which the newest is kept.
    pub hourly: u64,
    /// The same for days.
    pub daily: u64,
    /// The same for ISO weeks.
    pub weekly: u64,
    /// The same for months.
    pub monthly: u64,
    /// The same for years.
    pub yearly: u64,
    /// Keeps every snapshot younger than this.
    pub within: Option<Duration>,
    /// Keeps every snapshot with one of these tags.
    pub tags: Vec<String>,
}

impl RetentionPolicy {
    /// Whether no rule is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The decision on one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionDecision {
    /// Number of the snapshot.
    pub number: SnapshotId,
    /// When the snapshot began.
    pub time: Timestamp,
    /// The names of the rules that keep it; empty if it is to be forgotten.
    pub reasons: Vec<String>,
}

/// Maps a time to its calendar unit, as numbers that are equal within the unit.
type Bucket = fn(DateTime<FixedOffset>) -> (i32, u32, u32);

/// Decides on `snapshots`, which must be finished and oldest first. Calendar units begin as in
/// `zone`. Always kept are the newest complete snapshot, or the newest of all if none is complete,
/// and those in `needed`, each with the reason.
#[must_use]
pub fn decide(
    snapshots: &[Snapshot],
    keep: &RetentionPolicy,
    needed: &[(SnapshotId, &str)],
    now: Timestamp,
    zone: &dyn Fn(Timestamp) -> Option<DateTime<FixedOffset>>,
) -> Vec<RetentionDecision> {
    let mut decisions: Vec<_> = snapshots
        .iter()
        .map(|snapshot| RetentionDecision {
            number: snapshot.number,
            time: snapshot.started,
            reasons: always(snapshots, snapshot, keep, needed, now),
        })
        .collect();
    // Snapshots of runs are not counted. They are kept with the backups around them, because
    // undoing a run needs them.
    let mut remaining = keep.last;
    for (decision, snapshot) in decisions.iter_mut().zip(snapshots).rev() {
        if remaining == 0 {
            break;
        }
        decision.reasons.push("last".to_owned());
        remaining -= u64::from(!snapshot.of_run);
    }
    let rules: [(u64, &str, Bucket); 5] = [
        (keep.hourly, "hourly", |time| (time.num_days_from_ce(), time.hour(), 0)),
        (keep.daily, "daily", |time| (time.num_days_from_ce(), 0, 0)),
        (keep.weekly, "weekly", |time| (time.iso_week().year(), time.iso_week().week(), 0)),
        (keep.monthly, "monthly", |time| (time.year(), time.month(), 0)),
        (keep.yearly, "yearly", |time| (time.year(), 0, 0)),
    ];
    for (count, name, bucket) in rules {
        for at in newest_per_bucket(snapshots, count, bucket, zone) {
            decisions[at].reasons.push(name.to_owned());
        }
    }
    decisions
}

fn always(
    all: &[Snapshot],
    snapshot: &Snapshot,
    keep: &RetentionPolicy,
    needed: &[(SnapshotId, &str)],
    now: Timestamp,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if keep.is_empty() {
        reasons.push("no rule".to_owned());
    }
    let mut complete = all.iter().rev().filter(|it| it.status == SnapshotStatus::Complete);
    match complete.clone().find(|it| !it.of_run).or_else(|| complete.next()) {
        Some(newest) if newest.number == snapshot.number => {
            reasons.push("newest complete".to_owned());
        }
        None if all.last().is_some_and(|newest| newest.number == snapshot.number) => {
            reasons.push("newest; no snapshot is complete".to_owned());
        }
        _ => {}
    }
    for (_, why) in needed.iter().filter(|(number, _)| *number == snapshot.number) {
        reasons.push((*why).to_owned());
    }
    if keep.within.is_some_and(|within| now.since(snapshot.started) <= within) {
        reasons.push("within".to_owned());
    }
    if let Some(tag) = snapshot.tag.as_ref().filter(|tag| keep.tags.contains(tag)) {
        reasons.push(format!("tag {tag}"));
    }
    reasons
}

/// The newest snapshot of each of the newest `count` buckets that have one. A complete snapshot is
/// preferred to a partial one, and a backup to a run's snapshot.
fn newest_per_bucket(
    snapshots: &[Snapshot],
    count: u64,
    bucket: Bucket,
    zone: &dyn Fn(Timestamp) -> Option<DateTime<FixedOffset>>,
) -> Vec<usize> {
    let mut picks: Vec<((i32, u32, u32), usize)> = Vec::new();
    for (at, snapshot) in snapshots.iter().enumerate().rev() {
        let Some(bucket) = zone(snapshot.started).map(bucket) else { continue };
        let known = picks.iter().position(|(known, _)| *known == bucket);
        match known {
            Some(known) => {
                let picked = &mut picks[known].1;
                let rank = |it: &Snapshot| (it.status == SnapshotStatus::Complete, !it.of_run);
                if rank(snapshot) > rank(&snapshots[*picked]) {
                    *picked = at;
                }
            }
            None if (picks.len() as u64) < count => picks.push((bucket, at)),
            None => {}
        }
    }
    picks.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::snapshot::RequestUsage;

    const DAY: i64 = 86_400_000;

    fn snapshots(days: &[(i64, SnapshotStatus)]) -> Vec<Snapshot> {
        let one = |(nth, (day, status)): (usize, &(i64, SnapshotStatus))| Snapshot {
            number: SnapshotId(nth as i64 + 1),
            status: *status,
            started: Timestamp(day * DAY),
            touched: Timestamp(day * DAY),
            finished: Some(Timestamp(day * DAY)),
            forgotten: None,
            tag: (nth == 0).then(|| "first".to_owned()),
            usage: RequestUsage::default(),
            digest: None,
            outcomes: Vec::new(),
            of_run: false,
        };
        days.iter().enumerate().map(one).collect()
    }

    fn kept(days: &[(i64, SnapshotStatus)], keep: &RetentionPolicy) -> Vec<i64> {
        let all = snapshots(days);
        let utc = |time: Timestamp| time.utc().map(|time| time.fixed_offset());
        let now = all.last().unwrap().started;
        let decisions = decide(&all, keep, &[], now, &utc);
        decisions.into_iter().filter(|it| !it.reasons.is_empty()).map(|it| it.number.0).collect()
    }

    use SnapshotStatus::{Complete, Partial};

    #[test]
    fn a_complete_snapshot_is_preferred_to_a_partial_one_of_its_day() {
        let days = [(1, Complete), (1, Partial), (2, Complete), (2, Partial)];
        assert_eq!(
            kept(&days, &RetentionPolicy { daily: 2, ..RetentionPolicy::default() }),
            [1, 3]
        );
    }

    #[test]
    fn snapshots_of_runs_displace_no_backup() {
        let mut all = snapshots(&[1, 2, 2, 2, 3, 3].map(|day| (day, Complete)));
        for at in [2, 3, 5] {
            all[at].of_run = true;
        }
        let utc = |time: Timestamp| time.utc().map(|time| time.fixed_offset());
        let kept = |keep: &RetentionPolicy| -> Vec<i64> {
            let decisions = decide(&all, keep, &[], all[5].started, &utc);
            decisions
                .into_iter()
                .filter(|it| !it.reasons.is_empty())
                .map(|it| it.number.0)
                .collect()
        };
        assert_eq!(kept(&RetentionPolicy { last: 1, ..RetentionPolicy::default() }), [5, 6]);
        assert_eq!(
            kept(&RetentionPolicy { last: 2, ..RetentionPolicy::default() }),
            [2, 3, 4, 5, 6]
        );
        assert_eq!(kept(&RetentionPolicy { daily: 2, ..RetentionPolicy::default() }), [2, 5]);
    }

    #[test]
    fn the_newest_complete_snapshot_is_always_kept() {
        let days = [(1, Complete), (2, Partial), (3, Partial)];
        assert_eq!(kept(&days, &RetentionPolicy { last: 1, ..RetentionPolicy::default() }), [1, 3]);
    }

    #[test]
    fn buckets_are_counted_where_there_are_snapshots() {
        let days: Vec<_> = [1, 2, 40, 41, 400].iter().map(|day| (*day, Complete)).collect();
        assert_eq!(
            kept(&days, &RetentionPolicy { monthly: 2, ..RetentionPolicy::default() }),
            [4, 5]
        );
        assert_eq!(
            kept(&days, &RetentionPolicy { yearly: 9, ..RetentionPolicy::default() }),
            [4, 5]
        );
        let within = Some(Duration::from_secs(361 * 86_400));
        assert_eq!(
            kept(&days, &RetentionPolicy { within, ..RetentionPolicy::default() }),
            [3, 4, 5]
        );
        let tags = vec!["first".to_owned()];
        assert_eq!(kept(&days, &RetentionPolicy { tags, ..RetentionPolicy::default() }), [1, 5]);
    }
}
