//! Pages that share a commit: which of them a crash loses.

use std::path::Path;

use linkvault::clock::Timestamp;
use linkvault::model::Resource;
use linkvault::vault::Vault;
use linkvault::vault::snapshot::ReadState;

use crate::vault::snapshot_builder::{TestService, day};

fn campaign(id: u32) -> [String; 1] {
    [format!(r#"{{"id":{id},"name":"n{id}","public":true,"rotator":false,"list":"l"}}"#)]
}

/// Opens the vault as after a crash, and returns the number of stored pages.
fn pages_after_crash(path: &Path) -> usize {
    let mut vault = Vault::open(path).unwrap();
    assert_eq!(vault.check().unwrap().problems, Vec::<String>::new());
    vault.listing_pages(Resource::Campaigns, None).unwrap().len()
}

/// Stores pages at these milliseconds in a batch, calls `then`, and crashes.
fn crash_after(times: &[i64], then: impl FnOnce(&mut TestService<'_>)) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    let mut service = TestService::begin(&mut vault, day(0));
    service.batch = true;
    for (id, at) in (1..).zip(times) {
        service.now = Timestamp(day(0).0 + at);
        service.put(Resource::Campaigns, &campaign(id));
    }
    then(&mut service);
    drop(vault);
    pages_after_crash(&path)
}

#[test]
fn a_crash_loses_only_the_current_batch() {
    assert_eq!(crash_after(&[0, 40, 80], |_| ()), 0);
    assert_eq!(crash_after(&[0, 40, 100], |_| ()), 3);
    assert_eq!(crash_after(&[0, 40, 100, 150], |_| ()), 3);
}

#[test]
fn a_clock_that_was_set_back_does_not_delay_commits_forever() {
    assert_eq!(crash_after(&[0, -5_000], |_| ()), 2);
}

#[test]
fn flush_conclude_and_unbatched_writes_commit_a_batch() {
    assert_eq!(crash_after(&[0, 1], |service| service.vault.flush().unwrap()), 2);
    let concluded = crash_after(&[0, 1], |service| {
        let number = service.number;
        service.vault.conclude(number, Resource::Account, ReadState::Complete, None).unwrap();
    });
    assert_eq!(concluded, 2);
    let unheld = crash_after(&[0], |service| {
        service.batch = false;
        service.put(Resource::Campaigns, &campaign(9));
    });
    assert_eq!(unheld, 2);
}
