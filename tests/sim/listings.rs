//! Difficult cases of paging, one by one.

use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::sandbox::Store;
use linkvault::sandbox::store::{Campaign, Item, QrCode, StoredChannel};
use linkvault::vault::snapshot::{ReadState, SnapshotStatus};

use super::world::World;
use crate::sim::invariants;

/// The ids of the QR codes that a snapshot shows.
fn codes(world: &World, snapshot: SnapshotId) -> Vec<i64> {
    world.shown(snapshot)[&Resource::QrCodes].keys().map(RecordKey::id).collect()
}

/// The pages of QR codes requested since the last call, in order.
fn pages(world: &World) -> Vec<String> {
    let asked = world.requested_paths().into_iter();
    let page = |path: String| path.strip_prefix("/api/qr?limit=").map(str::to_owned);
    asked.filter_map(|path| page(path).map(|page| page.replace("&page=", "/"))).collect()
}

fn delete(store: &mut Store, codes: &[u64]) {
    for code in codes {
        store.remove_qr(*code);
    }
}

/// Deletes `code` after `after` pages of QR codes were read.
fn delete_after_pages(world: &mut World, after: u64, code: u64) {
    // The account, domains, campaigns and channels come first, a request each.
    world.before_each_request(move |store, nth| {
        if nth == 5 + after {
            delete(store, &[code]);
        }
    });
}

/// Like [`delete_after_pages`], and creates another code at the same time, so that the count stays
/// equal.
fn swap_after_pages(world: &mut World, after: u64, code: u64) {
    world.before_each_request(move |store, nth| {
        if nth == 5 + after {
            delete(store, &[code]);
            store.qr_codes.add(QrCode::default());
        }
    });
}

#[test]
fn a_deletion_at_a_page_edge_removes_no_other_record() {
    no_neighbour_is_removed(delete_after_pages);
}

#[test]
fn a_deletion_without_reported_counts_removes_no_other_record() {
    no_neighbour_is_removed(swap_after_pages);
}

fn no_neighbour_is_removed(before_each_request: fn(&mut World, u64, u64)) {
    for order in ["ascending", "descending", "by-name"] {
        for result in ["page", "total"] {
            for code in [1, 10, 11, 20, 21, 30] {
                for after in 1..=2 {
                    let behaviour = format!("max-limit=10,order={order},result={result}");
                    let mut world = World::codes(30, &behaviour);
                    world.backup();
                    before_each_request(&mut world, after, code);
                    let found = world.backup().snapshot;
                    let shown = codes(&world, found.number);
                    let stay = (1..=30).filter(|id| *id != code.cast_signed());
                    let lost: Vec<_> = stay.filter(|id| !shown.contains(id)).collect();
                    assert_eq!(lost, [0; 0], "{behaviour}, {code} deleted after page {after}");
                }
            }
        }
    }
}

#[test]
fn a_first_backup_that_missed_a_record_is_not_complete() {
    for envelope in ["full", "no-perpage", "no-maxpage", "no-currentpage", "records-only"] {
        for result in ["page", "total"] {
            for code in [1, 10, 11, 15, 21, 40] {
                for after in 1..=3 {
                    let behaviour = format!("max-limit=10,envelope={envelope},result={result}");
                    let mut world = World::codes(40, &behaviour);
                    delete_after_pages(&mut world, after, code);
                    let found = world.backup().snapshot;
                    let shown = codes(&world, found.number);
                    let stay = (1..=40).filter(|id| *id != code.cast_signed());
                    let lost: Vec<_> = stay.filter(|id| !shown.contains(id)).collect();
                    let whole = found.status == SnapshotStatus::Complete;
                    let at = format!("{behaviour}, {code} deleted after page {after}");
                    assert!(!whole || lost.is_empty(), "{at}: {lost:?} are lost");
                }
            }
        }
    }
}

#[test]
fn a_first_backup_that_missed_a_record_despite_an_equal_count_is_not_complete() {
    for order in ["ascending", "descending"] {
        for envelope in ["full", "no-maxpage", "records-only"] {
            for result in ["page", "total"] {
                for code in [1, 11, 15, 30] {
                    for after in 1..=5 {
                        let behaviour = format!(
                            "max-limit=10,order={order},envelope={envelope},result={result}"
                        );
                        let mut world = World::codes(40, &behaviour);
                        swap_after_pages(&mut world, after, code);
                        let found = world.backup().snapshot;
                        let shown = codes(&world, found.number);
                        let stay = (1..=40).filter(|id| *id != code.cast_signed());
                        let lost: Vec<_> = stay.filter(|id| !shown.contains(id)).collect();
                        let whole = found.status == SnapshotStatus::Complete;
                        let at = format!("{behaviour}, {code} replaced after request {after}");
                        assert!(!whole || lost.is_empty(), "{at}: {lost:?} are lost");
                    }
                }
            }
        }
    }
}

#[test]
fn only_a_list_of_three_pages_in_ascending_order_is_read_from_its_end_too() {
    for (order, number, expected) in [
        ("ascending", 10, &["10/1"][..]),
        ("ascending", 20, &["10/1", "10/2", "10/1"]),
        ("ascending", 30, &["10/1", "10/3", "10/2", "10/3", "10/1"]),
        ("descending", 30, &["10/1", "10/2", "10/3", "10/1"]),
    ] {
        let behaviour = format!("max-limit=10,result=total,order={order}");
        let mut world = World::codes(number, &behaviour);
        world.backup();
        pages(&world);
        assert_eq!(world.backup().snapshot.status, SnapshotStatus::Complete);
        let asked: Vec<_> = pages(&world).iter().map(|page| page.replace("1000/", "10/")).collect();
        assert_eq!(asked, expected, "{order} {number}");
    }
}

/// The service lists the second item twice and not the first, for one request.
#[test]
fn a_page_that_lists_one_record_twice_in_place_of_another_is_read_again() {
    for items in 2..=5_u64 {
        let mut world = World::of(Store::default(), "result=total");
        world.change(|store| {
            store.channels.add(StoredChannel { name: "Blog".to_owned(), ..Default::default() });
            let row = store.channels.iter_mut().next().unwrap().1;
            let item = |id| Item { kind: "links".to_owned(), id, ..Item::default() };
            row.items.extend((1..=items).map(item));
        });
        world.before_each_request(|store, nth| {
            let Some((_, row)) = store.channels.iter_mut().next() else { return };
            match nth {
                5 => row.items[0].id = 2,
                6 => row.items[0].id = 1,
                _ => {}
            }
        });
        let found = world.backup().snapshot;
        let shown = world.shown(found.number)[&Resource::ChannelItems].len() as u64;
        let whole = found.status == SnapshotStatus::Complete;
        assert!(!whole || shown == items, "{shown} of {items} are complete");
    }
}

#[test]
fn a_list_without_a_total_is_read_twice_before_records_are_removed() {
    for (behaviour, more) in [("result=absent", &["1000/1"][..]), ("result=total", &[])] {
        let mut world = World::codes(5, &format!("{behaviour},envelope=no-maxpage"));
        world.backup();
        world.change(|store| delete(store, &[3]));
        pages(&world);
        let found = world.backup().snapshot;
        assert_eq!(codes(&world, found.number), [1, 2, 4, 5]);
        assert_eq!(pages(&world), [&["1000/1"], more].concat(), "{behaviour}");
    }
}

#[test]
fn a_list_without_a_reported_page_size_is_read_completely() {
    for beyond in ["empty", "clamp", "repeat"] {
        for number in [1, 9, 10, 11, 20, 25] {
            let behaviour = format!("envelope=records-only,max-limit=10,beyond-last={beyond}");
            let mut world = World::codes(number, &behaviour);
            let found = world.backup().snapshot;
            assert_eq!(found.status, SnapshotStatus::Complete);
            assert_eq!(codes(&world, found.number).len() as u64, number, "{behaviour}");
        }
    }
}

#[test]
fn a_list_that_always_changes_is_drifted_and_loses_no_record() {
    let mut world = World::codes(30, "max-limit=10,result=total");
    world.backup();
    world.before_each_request(|store, _| {
        store.qr_codes.add(QrCode::default());
    });
    let found = world.backup().snapshot;
    assert_eq!(found.outcome(Resource::QrCodes).unwrap().state, ReadState::Drifted);
    assert_eq!(found.status, SnapshotStatus::Partial);
    let shown = codes(&world, found.number);
    assert!((1..=30).all(|id| shown.contains(&id)));
}

#[test]
fn a_list_that_changed_once_is_read_again_and_complete() {
    let mut world = World::codes(30, "max-limit=10,result=total");
    delete_after_pages(&mut world, 1, 2);
    let found = world.backup().snapshot;
    assert_eq!(found.status, SnapshotStatus::Complete);
    assert_eq!(codes(&world, found.number).len(), 29);
}

#[test]
fn a_smaller_page_size_is_learned_and_remembered() {
    let mut world = World::codes(60, "max-limit=50,over-limit=refuse,result=total");
    world.backup();
    assert_eq!(pages(&world), ["1000/1", "500/1", "100/1", "50/1", "50/2", "50/1"]);
    world.backup();
    assert_eq!(pages(&world), ["50/1", "50/2", "50/1"]);
}

#[test]
fn a_failing_page_is_read_as_smaller_pages_from_the_same_offset() {
    let mut world = World::codes(2500, "result=total");
    world.set_faults("server-error@/api/qr?limit=1000&page=2", 0);
    let found = world.backup().snapshot;
    assert_eq!(found.status, SnapshotStatus::Complete);
    assert_eq!(codes(&world, found.number).len(), 2500);
    let asked =
        ["1000/1", "1000/3", "1000/2", "1000/2", "500/3", "500/4", "500/5", "1000/1", "1000/3"];
    assert_eq!(pages(&world), asked);
}

#[test]
fn a_list_whose_last_page_fails_is_read_as_smaller_pages() {
    let mut world = World::codes(2500, "result=total");
    world.set_faults("server-error@/api/qr?limit=1000&page=3", 0);
    let found = world.backup().snapshot;
    assert_eq!(found.status, SnapshotStatus::Complete);
    assert_eq!(codes(&world, found.number).len(), 2500);
    let asked = [
        "1000/1", "1000/3", "1000/3", "500/1", "500/5", "500/2", "500/3", "500/4", "500/5", "500/1",
    ];
    assert_eq!(pages(&world), asked);
    // The last page fails later, when it is read again.
    let mut world = World::codes(2500, "result=total");
    let later = ["page=2", "page=3#2", "page=3#3"]
        .map(|it| format!("server-error@/api/qr?limit=1000&{it}"));
    world.set_faults(&later.join(","), 0);
    let found = world.backup().snapshot;
    assert_eq!(found.status, SnapshotStatus::Complete);
    assert_eq!(codes(&world, found.number).len(), 2500);
}

#[test]
fn smaller_pages_do_not_end_a_list_without_totals() {
    let mut world = World::codes(120, "envelope=records-only,max-limit=25");
    world.backup();
    world.set_faults("server-error@/api/qr?limit=1000&page=3", 0);
    let found = world.backup().snapshot;
    assert_eq!(codes(&world, found.number).len(), 120);
    assert_eq!(found.status, SnapshotStatus::Complete);
}

#[test]
fn a_page_size_that_failed_too_is_not_learned() {
    let mut world = World::codes(20, "");
    world.set_faults("reset@/api/qr", 0);
    assert_eq!(world.backup().snapshot.status, SnapshotStatus::Partial);
    world.set_faults("", 0);
    pages(&world);
    assert_eq!(world.backup().snapshot.status, SnapshotStatus::Complete);
    assert_eq!(pages(&world), ["1000/1"]);
}

#[test]
fn the_items_of_a_removed_channel_are_removed() {
    let mut world = World::with_sample_account();
    let first = world.backup().snapshot.number;
    let of = |world: &World, snapshot, channel| {
        let items = &world.shown(snapshot)[&Resource::ChannelItems];
        let within =
            |key: &&RecordKey| matches!(key, RecordKey::Item { channel: at, .. } if *at == channel);
        items.keys().filter(within).count()
    };
    assert!(of(&world, first, 1) > 0);
    world.change(|store| drop(store.channels.remove(1)));
    let second = world.backup().snapshot;
    assert_eq!(second.status, SnapshotStatus::Complete);
    assert_eq!(of(&world, second.number, 1), 0);
    assert!(of(&world, first, 1) > 0, "history stays");
}

#[test]
fn a_channel_deleted_before_its_items_are_read_makes_the_items_drifted() {
    let mut world = World::with_sample_account();
    world.backup();
    let before = world.shown(SnapshotId(1))[&Resource::ChannelItems].clone();
    world.before_each_request(|store, nth| {
        if nth == 5 {
            store.channels.remove(1);
        }
    });
    let found = world.backup().snapshot;
    assert_eq!(found.outcome(Resource::ChannelItems).unwrap().state, ReadState::Drifted);
    assert_eq!(world.shown(found.number)[&Resource::ChannelItems], before);
}

#[test]
fn a_record_changed_and_removed_within_one_crawl_counts_as_removed() {
    let mut world = World::of(Store::default(), "max-limit=2,result=total,campaign-list=name");
    world.change(|store| {
        for n in 0..6 {
            store.campaigns.add(Campaign { name: format!("c{n}"), ..Campaign::default() });
        }
    });
    world.backup();
    world.change(|store| store.campaigns.get_mut(1).unwrap().name = "renamed".to_owned());
    world.before_each_request(|store, nth| {
        if nth == 4 {
            store.campaigns.remove(1);
        }
    });
    let found = world.backup().snapshot;
    let told = found.outcome(Resource::Campaigns).unwrap();
    assert_eq!((told.records, told.added, told.changed, told.removed), (5, 0, 0, 1));
}

#[test]
fn a_change_reverted_within_one_crawl_is_not_counted() {
    let mut world = World::of(Store::default(), "max-limit=2,result=total,campaign-list=name");
    let name = |store: &mut Store, name: &str| {
        name.clone_into(&mut store.campaigns.get_mut(1).unwrap().name);
    };
    world.change(|store| {
        for n in 0..6 {
            store.campaigns.add(Campaign { name: format!("c{n}"), ..Campaign::default() });
        }
    });
    world.backup();
    world.change(|store| name(store, "for a moment"));
    world.before_each_request(move |store, nth| {
        if nth == 4 {
            name(store, "c0");
            store.campaigns.remove(6);
        }
    });
    let found = world.backup().snapshot;
    let told = found.outcome(Resource::Campaigns).unwrap();
    assert_eq!((told.records, told.added, told.changed, told.removed), (5, 0, 0, 1));
    let history = world.open().history(Resource::Campaigns, &RecordKey::Id(1)).unwrap();
    assert_eq!(history.len(), 1);
    invariants::is_sound(&mut world.open());
}
