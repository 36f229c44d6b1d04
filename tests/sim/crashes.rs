//! Crawls that are killed at every commit, and restarted.

use std::collections::BTreeMap;
use std::time::Duration;

use linkvault::crawl::{CrawlError, RESUMABLE};
use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::vault::VaultError;
use linkvault::vault::snapshot::{ReadState, SnapshotStatus};

use super::world::World;
use crate::sim::invariants;

/// Every resource on more than one page, codes with statistics to fetch, and a snapshot with other
/// content before.
fn world() -> World {
    let counts = GeneratedCounts { channels: 2, qr_codes: 5, ..GeneratedCounts::each(5) };
    let mut world = World::of(generate(11, counts), "max-limit=2,result=total");
    world.change(|store| {
        store.qr_codes.iter_mut().for_each(|(_, code)| code.scans.period = 0);
    });
    world.backup();
    world.change(|store| {
        store.domains.remove(3);
        store.campaigns.get_mut(2).unwrap().name = "renamed".to_owned();
        store.channels.remove(1);
        for (_, code) in store.qr_codes.iter_mut().take(3) {
            code.scans.base += 7;
        }
    });
    world.requested_paths();
    *world.moments.lock().unwrap() = 0;
    world
}

fn stopped(outcome: Result<linkvault::crawl::CrawlReport, CrawlError>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, CrawlError::Vault(VaultError::Stopped)), "{error}");
}

#[test]
fn a_vault_is_sound_after_a_kill_at_any_commit_and_the_crawl_continues() {
    let mut whole = world();
    whole.backup();
    let (moments, least) = (*whole.moments.lock().unwrap(), whole.requested_paths().len());
    let expected = whole.shown(SnapshotId(2));
    assert!(moments > 60, "{moments}");
    for moment in 1..=moments {
        let mut world = world();
        let first = world.shown(SnapshotId(1));
        world.dies_after = Some(moment);
        stopped(world.start());
        invariants::is_sound(&mut world.open());
        world.pass(Duration::from_secs(60));
        let resumed = world.backup();
        let asked = world.requested_paths();
        if moment < moments {
            assert_eq!(resumed.snapshot.number, SnapshotId(2), "at {moment}");
            // The account, a page that overlaps, and what the crash interrupted: one request, or
            // the proof of one list, which is page 1, the last page, an edge page, and the account.
            assert!(asked.len() <= least + 6, "at {moment}: {} for {least}", asked.len());
            fetched_once(&asked);
        }
        assert_eq!(resumed.snapshot.status, SnapshotStatus::Complete, "at {moment}");
        assert_eq!(world.shown(resumed.snapshot.number), expected, "at {moment}");
        assert_eq!(world.shown(SnapshotId(1)), first, "at {moment}");
        invariants::is_sound(&mut world.open());
        assert_eq!(world.service().totals().throttled, 0);
    }
}

/// No statistics are requested twice, except for those interrupted by the crash.
fn fetched_once(asked: &[String]) {
    let mut times = BTreeMap::new();
    for path in asked.iter().filter(|path| path.starts_with("/api/qr/")) {
        *times.entry(path).or_insert(0) += 1;
    }
    let twice = times.values().filter(|times| **times > 1).count();
    assert!(twice <= 1, "{asked:#?}");
}

/// A listing removes records and becomes complete in one commit, so that a crash in between cannot
/// make a failed read remove records.
#[test]
fn a_crawl_killed_at_any_commit_removes_no_unread_record() {
    let mut whole = world();
    whole.backup();
    let moments = *whole.moments.lock().unwrap();
    for moment in 1..moments {
        // Continued with every list redirected, or discarded because of its age.
        for (rest, faults) in [(60, "redirect@/api/domains,redirect@/api/channel"), (4000, "")] {
            let mut world = world();
            let before = world.shown(SnapshotId(1));
            world.dies_after = Some(moment);
            stopped(world.start());
            world.pass(Duration::from_secs(rest));
            world.set_faults(faults, 0);
            world.backup();
            let snapshot = world.open().snapshot(SnapshotId(2)).unwrap();
            let shown = world.shown(SnapshotId(2));
            for outcome in snapshot.outcomes.iter().filter(|it| it.state != ReadState::Complete) {
                let (before, shown) = (&before[&outcome.resource], &shown[&outcome.resource]);
                // The items of channel 1 are deleted with it, by the list of channels.
                let of_channel_1 =
                    |key: &&RecordKey| matches!(key, RecordKey::Item { channel: 1, .. });
                let missing = before.keys().filter(|key| !shown.contains_key(key));
                let gone: Vec<_> = missing.filter(|key| !of_channel_1(key)).collect();
                assert!(gone.is_empty(), "killed at {moment}: {gone:?} gone by {outcome:?}");
            }
        }
    }
}

#[test]
fn a_crawl_older_than_an_hour_is_not_continued() {
    for (rest, resumes) in [(RESUMABLE, true), (RESUMABLE + Duration::from_secs(60), false)] {
        let mut world = world();
        world.dies_after = Some(30);
        stopped(world.start());
        let touched = world.open().running().unwrap().unwrap().0.touched;
        let passed = world.now().since(touched);
        // The account is read first, which takes time.
        world.pass(rest.saturating_sub(passed + Duration::from_secs(30)));
        let summary = world.backup();
        assert_eq!(summary.resumed, resumes);
        assert_eq!(summary.snapshot.number, SnapshotId(if resumes { 2 } else { 3 }));
        assert_eq!(summary.snapshot.status, SnapshotStatus::Complete);
        assert_eq!(
            world.open().snapshot(SnapshotId(2)).unwrap().status == SnapshotStatus::Complete,
            resumes
        );
    }
}

#[test]
fn a_fresh_backup_does_not_continue_a_crawl() {
    let mut world = world();
    world.dies_after = Some(30);
    stopped(world.start());
    world.options.fresh = true;
    let summary = world.backup();
    assert!(!summary.resumed);
    assert_eq!(summary.snapshot.number, SnapshotId(3));
}

#[test]
fn a_list_that_changed_between_two_processes_is_read_again() {
    let mut world = World::codes(30, "max-limit=10,result=total");
    // The second page of QR codes is stored, and the third is not.
    world.limits.max_requests = Some(7);
    assert!(world.start().is_err());
    world.limits.max_requests = None;
    world.change(|store| drop(store.remove_qr(12)));
    let summary = world.backup();
    assert!(summary.resumed);
    assert_eq!(summary.snapshot.status, SnapshotStatus::Complete);
    assert_eq!(world.shown(SnapshotId(1))[&Resource::QrCodes].len(), 29);
}

#[test]
fn a_backup_in_small_parts_becomes_complete() {
    let mut world = world();
    let expected = {
        let mut whole = self::world();
        whole.backup();
        whole.shown(SnapshotId(2))
    };
    world.limits.max_requests = Some(5);
    let ended = (0..100).find_map(|_| world.start().ok()).unwrap();
    assert_eq!(ended.snapshot.number, SnapshotId(2));
    assert_eq!(ended.snapshot.status, SnapshotStatus::Complete);
    assert_eq!(world.shown(SnapshotId(2)), expected);
}
