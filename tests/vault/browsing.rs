//! Compares reading page by page with reading everything.

use std::collections::BTreeMap;

use linkvault::change::diff::diff;
use linkvault::model::{RecordKey, Resource, SnapshotId, State};
use linkvault::sandbox::Store;
use linkvault::vault::Vault;
use linkvault::vault::browse::{ChangeCount, PageRange, RecordSlice};

use crate::support::vault_with_history;

/// Changes of every kind, on some days of the same record twice.
fn work(day: u32, store: &mut Store) {
    store.channels.get_mut(1 + u64::from(day % 2)).unwrap().name = format!("Channel of day {day}");
    match day {
        2 => drop(store.remove_qr(3)),
        3 => {
            store.add_campaign("100% _new_", None, true);
        }
        4 => drop(store.pixels.remove(1)),
        _ => {}
    }
}

/// A vault with backups of six days; that of the fourth is forgotten.
fn vault(folder: &tempfile::TempDir) -> Vault {
    let path = folder.path().join("lived.db");
    vault_with_history(&path, 6, "", work);
    let mut vault = Vault::open(&path).unwrap();
    let now = vault.snapshot(SnapshotId(6)).unwrap().touched;
    vault.forget(&[SnapshotId(4)], now).unwrap();
    drop(vault);
    let vault = Vault::open_read_only(&path).unwrap();
    vault.read_transaction().unwrap();
    vault
}

type Raw = Option<String>;

/// The records that differ between two states, by key, as received texts.
fn expected(before: &State, after: &State, resource: Resource) -> BTreeMap<RecordKey, (Raw, Raw)> {
    let raw = |state: &State, key: &RecordKey| {
        state.get(resource).unwrap().get(key).map(|record| uncounted(&record.raw))
    };
    let keys = [before, after].into_iter().flat_map(|it| it.get(resource).unwrap().keys());
    let pairs = keys.map(|key| (key.clone(), (raw(before, key), raw(after, key))));
    pairs.filter(|(_, (one, other))| one != other).collect()
}

/// A record's text without its counter, which changes by itself.
fn uncounted(raw: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(raw).unwrap();
    value.as_object_mut().unwrap().remove("scans");
    value.to_string()
}

#[test]
fn comparing_versions_equals_comparing_states() {
    let folder = tempfile::tempdir().unwrap();
    let mut vault = vault(&folder);
    let mut found_some = 0;
    for from in [1, 2, 3, 5, 6] {
        for to in [1, 2, 3, 5, 6].into_iter().filter(|to| *to >= from) {
            let before = vault.state(SnapshotId(from), &Resource::ALL).unwrap();
            let after = vault.state(SnapshotId(to), &Resource::ALL).unwrap();
            assert!(from == to || !diff(&before, &after).changes.is_empty());
            for resource in Resource::ALL {
                let expected = expected(&before, &after, resource);
                let counted =
                    vault.count_changes(resource, SnapshotId(from), SnapshotId(to)).unwrap();
                let count = |what: fn(&(Raw, Raw)) -> bool| {
                    expected.values().filter(|it| what(it)).count() as u64
                };
                let wanted = ChangeCount {
                    added: count(|it| it.0.is_none()),
                    changed: count(|it| it.0.is_some() && it.1.is_some()),
                    removed: count(|it| it.1.is_none()),
                };
                assert_eq!(counted, wanted, "{resource} of #{from} and #{to}");
                let mut found = BTreeMap::new();
                // Pages of one record: each is in its place.
                for skip in 0..=counted.all() {
                    let page = PageRange { skip, take: 1 };
                    for it in
                        vault.changes_of(resource, SnapshotId(from), SnapshotId(to), page).unwrap()
                    {
                        let raw = |record: Option<linkvault::model::Record<'_>>| {
                            record.map(|record| uncounted(&record.raw))
                        };
                        found.insert(it.key, (raw(it.before), raw(it.after)));
                    }
                }
                found_some += found.len();
                assert_eq!(found, expected, "{resource} of #{from} and #{to}");
            }
        }
    }
    assert!(found_some > 20);
    vault
        .changes_of(
            Resource::Channels,
            SnapshotId(1),
            SnapshotId(4),
            PageRange { skip: 0, take: 1 },
        )
        .unwrap_err();
}

#[test]
fn record_pages_cover_the_list_and_can_be_searched() {
    let folder = tempfile::tempdir().unwrap();
    let mut vault = vault(&folder);
    for number in [1, 6].map(SnapshotId) {
        for resource in Resource::ALL {
            let mut whole = Vec::new();
            vault.for_each_record(number, resource, |record| whole.push(record)).unwrap();
            let mut found = Vec::new();
            for skip in (0..20).step_by(3) {
                let page = PageRange { skip, take: 3 };
                let RecordSlice { records: page, total: count } =
                    vault.records_of(number, resource, None, page).unwrap();
                assert_eq!(count, whole.len() as u64);
                found.extend(page);
            }
            assert_eq!(found, whole, "{resource} of #{number}");
        }
    }
    let mut count = |text: &str| {
        let page = PageRange { skip: 0, take: 50 };
        let RecordSlice { records: found, total: count } =
            vault.records_of(SnapshotId(6), Resource::Campaigns, Some(text), page).unwrap();
        assert_eq!(found.len() as u64, count);
        count
    };
    assert_eq!((count("100% _NEW_"), count("100%__new"), count("%")), (1, 0, 1));
    assert_eq!(count("no such thing"), 0);
}

#[test]
fn series_have_the_values_of_each_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let mut vault = vault(&folder);
    let records = vault.records_over_time().unwrap();
    let scans = vault.scans_over_time().unwrap();
    assert_eq!((records.len(), scans.len()), (6, 6));
    for snapshot in vault.snapshots().unwrap() {
        let at = |all: &[linkvault::vault::read::SeriesSample<i64>]| {
            all.iter().find(|it| it.snapshot == snapshot.number).unwrap().value
        };
        assert_eq!(at(&records), i64::try_from(snapshot.records()).unwrap());
        if snapshot.number <= SnapshotId(2) {
            // Before a code is deleted, the sum is that of the records.
            let mut sum = 0;
            let place = Resource::QrCodes.spec().read_fields().position(|it| it.name == "scans");
            vault
                .for_each_record(snapshot.number, Resource::QrCodes, |code| {
                    if let linkvault::model::FieldValue::Int(value) = code.values[place.unwrap()] {
                        sum += value;
                    }
                })
                .unwrap();
            assert_eq!(at(&scans), sum);
        }
    }
    assert!(scans.windows(2).all(|pair| pair[0].value <= pair[1].value));
    assert_eq!(vault.snapshot_before(SnapshotId(5)).unwrap(), Some(SnapshotId(3)));
    assert_eq!(vault.count_snapshots().unwrap(), 5);
    assert_eq!(vault.newest_complete().unwrap().unwrap().number, SnapshotId(6));
}
