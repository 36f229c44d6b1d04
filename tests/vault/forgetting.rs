//! `forget`: what it deletes, what it keeps, and that the next backup works.

use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::vault::snapshot::Snapshot;
use linkvault::vault::{Vault, VaultError};

use crate::vault::snapshot_builder::{TestService, assert_sound, campaigns, day};

fn counts(snapshot: &Snapshot) -> [u64; 4] {
    let it = snapshot.outcome(Resource::Campaigns).unwrap();
    [it.records, it.added, it.changed, it.removed]
}

fn names(vault: &mut Vault, number: SnapshotId) -> Vec<String> {
    let mut names = Vec::new();
    let take = |record: linkvault::model::Record<'_>| names.push(record.values[1].cell().into());
    vault.for_each_record(number, Resource::Campaigns, take).unwrap();
    names
}

#[test]
fn changes_are_counted_against_the_previous_snapshot_even_if_forgotten() {
    for running in [false, true] {
        let mut vault = Vault::in_memory().unwrap();
        campaigns(&mut vault, day(0), &[(1, "a"), (2, "b")]);
        campaigns(&mut vault, day(1), &[(1, "a"), (3, "only in the second"), (4, "d")]);
        let mut service = if running {
            let mut service = TestService::begin(&mut vault, day(2));
            service.put(Resource::Campaigns, &[r#"{"id":5,"name":"e"}"#]);
            service.vault.forget(&[SnapshotId(2)], day(2)).unwrap();
            service
        } else {
            vault.forget(&[SnapshotId(2)], day(2)).unwrap();
            let mut service = TestService::begin(&mut vault, day(2));
            service.put(Resource::Campaigns, &[r#"{"id":5,"name":"e"}"#]);
            service
        };
        assert_sound(service.vault);
        service.put(Resource::Campaigns, &[r#"{"id":4,"name":"D"}"#]);
        service.remove(Resource::Campaigns, &[RecordKey::Id(3)]);
        let snapshot = service.finish();
        assert_eq!(counts(&snapshot), [3, 1, 1, 1], "running: {running}");
        assert_eq!(names(&mut vault, SnapshotId(1)), ["a", "b"]);
        assert_eq!(names(&mut vault, SnapshotId(3)), ["a", "D", "e"]);
        assert_sound(&mut vault);
        // Versions that only the forgotten snapshot showed are deleted.
        assert!(vault.history(Resource::Campaigns, &RecordKey::Id(3)).unwrap().is_empty());
        let versions = vault.history(Resource::Campaigns, &RecordKey::Id(4)).unwrap();
        let spans: Vec<_> = versions.iter().map(|it| (it.since.0, it.until)).collect();
        assert_eq!(spans, [(3, None)]);
    }
}

#[test]
fn records_only_in_forgotten_snapshots_are_in_no_history() {
    let mut vault = Vault::in_memory().unwrap();
    campaigns(&mut vault, day(0), &[(1, "a")]);
    campaigns(&mut vault, day(1), &[(1, "b")]);
    vault.forget(&[SnapshotId(2)], day(2)).unwrap();
    let versions = vault.history(Resource::Campaigns, &RecordKey::Id(1)).unwrap();
    let told: Vec<_> = versions.iter().map(|it| (it.since.0, it.until, &*it.record.raw)).collect();
    assert_eq!(told, [(1, None, r#"{"id":1,"name":"a"}"#)]);
}

#[test]
fn backups_continue_after_every_snapshot_is_forgotten() {
    let mut vault = Vault::in_memory().unwrap();
    campaigns(&mut vault, day(0), &[(1, "a"), (2, "b")]);
    campaigns(&mut vault, day(1), &[(1, "A")]);
    vault.forget(&[1, 2].map(SnapshotId), day(2)).unwrap();
    assert_sound(&mut vault);
    assert!(vault.snapshots().unwrap().is_empty());
    assert_eq!(campaigns(&mut vault, day(3), &[(1, "A"), (2, "b")]), SnapshotId(3));
    assert_eq!(counts(&vault.snapshot(SnapshotId(3)).unwrap()), [2, 1, 0, 0]);
    assert_eq!(names(&mut vault, SnapshotId(3)), ["A", "b"]);
    assert_sound(&mut vault);
}

#[test]
fn a_forgotten_snapshot_keeps_its_digest_in_the_chain_and_cannot_be_read() {
    let mut vault = Vault::in_memory().unwrap();
    for number in 0..3 {
        campaigns(&mut vault, day(number), &[(1, &format!("name {number}"))]);
    }
    let digest = vault.snapshot(SnapshotId(2)).unwrap().digest;
    vault.forget(&[SnapshotId(2)], day(3)).unwrap();
    assert_eq!(vault.snapshot(SnapshotId(2)).unwrap().digest, digest);
    assert!(matches!(
        vault.state(SnapshotId(2), &Resource::ALL),
        Err(VaultError::NoSnapshot(SnapshotId(2)))
    ));
    assert_sound(&mut vault);
}

#[test]
fn no_snapshot_is_forgotten_if_one_cannot_be() {
    let mut vault = Vault::in_memory().unwrap();
    campaigns(&mut vault, day(0), &[(1, "a")]);
    campaigns(&mut vault, day(1), &[(1, "b")]);
    vault.forget(&[SnapshotId(1)], day(2)).unwrap();
    let running = TestService::begin(&mut vault, day(2)).number;
    for bad in [SnapshotId(1), running, SnapshotId(99)] {
        let refused = vault.forget(&[SnapshotId(2), bad], day(3)).unwrap_err();
        assert!(matches!(refused, VaultError::NoSnapshot(number) if number == bad));
        assert_eq!(vault.snapshots().unwrap().len(), 1);
        assert_sound(&mut vault);
    }
}

#[test]
fn forgetting_releases_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    let names = |round: i64| -> Vec<String> {
        (0..2000).map(|id| format!("{round} {id} {}", "x".repeat(100))).collect()
    };
    for round in 0..3 {
        let names = names(round);
        let all: Vec<_> = (1..).zip(names.iter().map(String::as_str)).collect();
        campaigns(&mut vault, day(round), &all);
    }
    let before = vault.size();
    assert_eq!(vault.forget(&[1, 2].map(SnapshotId), day(3)).unwrap(), 4000);
    assert!(vault.size() < before / 2, "{} of {before}", vault.size());
    assert_sound(&mut vault);
}

#[test]
fn a_full_disk_while_pages_are_released_does_not_revert_forget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    campaigns(&mut vault, day(0), &[(1, &"x".repeat(600_000))]);
    campaigns(&mut vault, day(1), &[(1, "y")]);
    vault.limit_pages(1).unwrap();
    assert_eq!(vault.forget(&[SnapshotId(1)], day(2)).unwrap(), 1);
    assert_eq!(vault.snapshots().unwrap().len(), 1);
    assert_sound(&mut vault);
}

/// The names of forgotten records that remain in the bytes of any file in `folder`.
fn traces(folder: &std::path::Path, word: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let found = files.filter(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(word.len()).any(|part| part == word.as_bytes())
    });
    found.map(|path| path.display().to_string()).collect()
}

#[test]
fn forgotten_records_are_in_no_page_log_or_copy() {
    for (last, closed) in [(false, false), (false, true), (true, false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        let mut vault = Vault::open_or_create(&path).unwrap();
        let name = |word: &str, id: i64| format!("{word} {id} {}", "y".repeat(id as usize % 300));
        let names = |word: &'static str, step: usize| {
            let all = (1..400).step_by(step).map(|id| (id, name(word, id)));
            all.collect::<Vec<_>>()
        };
        let backup = |vault: &mut Vault, at: i64, all: &[(i64, String)]| {
            let all: Vec<_> = all.iter().map(|(id, name)| (*id, name.as_str())).collect();
            campaigns(vault, day(at), &all)
        };
        backup(&mut vault, 0, &names("kept", 2));
        // Some records are new, so that pages are split; the length of others changes.
        let mixed = [names("kept", 2), names("vanished", 3)].concat();
        let mixed: std::collections::BTreeMap<_, _> = mixed.into_iter().collect();
        let secret = backup(&mut vault, 1, &mixed.into_iter().collect::<Vec<_>>());
        assert!(!traces(folder.path(), "vanished").is_empty());
        if closed {
            vault.close().unwrap();
            vault = Vault::open(&path).unwrap();
        }
        if last {
            // No later snapshot exists yet, so the rest waits for the next one.
            vault.forget(&[secret], day(2)).unwrap();
            backup(&mut vault, 3, &names("kept", 2));
        } else {
            backup(&mut vault, 3, &names("kept", 2));
            vault.forget(&[secret], day(2)).unwrap();
        }
        vault.copy_to(&folder.path().join("copy.db")).unwrap();
        assert_eq!(traces(folder.path(), "vanished"), Vec::<String>::new(), "{last} {closed}");
        assert!(!traces(folder.path(), "kept").is_empty());
        assert_sound(&mut vault);
        vault.close().unwrap();
        assert_eq!(traces(folder.path(), "vanished"), Vec::<String>::new(), "{last} {closed}");
    }
}
