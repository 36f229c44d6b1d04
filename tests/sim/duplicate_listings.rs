//! Lists that contain one record more than once.

use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::sandbox::Store;
use linkvault::sandbox::store::{Campaign, Item, QrCode, StoredChannel};
use linkvault::vault::browse::{ChangeCount, PageRange};
use linkvault::vault::snapshot::{ReadState, SnapshotStatus};

use super::world::World;
use crate::sim::invariants;

fn warnings(summary: &linkvault::crawl::CrawlReport) -> Vec<String> {
    summary.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn an_item_listed_twice_counts_once_and_is_reported_once() {
    let mut world = World::with_sample_account();
    let mut key = None;
    world.change(|store| {
        let (channel, row) = store.channels.iter_mut().next().unwrap();
        let twin = row.items[0].clone();
        let (channel, id) = (channel.cast_signed(), twin.id.cast_signed());
        key = Some(RecordKey::Item { channel, kind: twin.kind.clone(), id });
        row.items.push(twin);
    });
    for _ in 0..2 {
        let summary = world.backup();
        let found = summary.snapshot.outcome(Resource::ChannelItems).unwrap();
        assert_eq!(found.state, ReadState::Complete, "{found:?}");
        assert_eq!(summary.snapshot.status, SnapshotStatus::Complete);
        let (key, shown) = (key.as_ref().unwrap(), world.shown(summary.snapshot.number));
        let listed = shown[&Resource::ChannelItems].keys().filter(|it| *it == key).count();
        assert_eq!(listed, 1);
        assert_eq!(found.changed, 0);
        let told =
            format!("channel_items {key}: is listed more than once; each counts as one record");
        assert_eq!(warnings(&summary), [told]);
    }
    invariants::is_sound(&mut world.open());
}

#[test]
fn duplicates_are_proven_with_every_paging_behaviour() {
    for twins in ["beside", "last"] {
        for order in ["ascending", "descending", "by-name"] {
            for envelope in ["full", "no-maxpage", "no-perpage", "records-only"] {
                for (result, most) in [("total", 10), ("page", 10), ("total", 50), ("absent", 7)] {
                    let behaviour = format!(
                        "twins={twins},order={order},envelope={envelope},result={result},max-limit={most}"
                    );
                    let mut world = World::codes(25, &behaviour);
                    let summary = world.backup();
                    let found = &summary.snapshot;
                    assert_eq!(found.status, SnapshotStatus::Complete, "{behaviour}: {found:?}");
                    assert_eq!(
                        world.shown(SnapshotId(1))[&Resource::QrCodes].len(),
                        25,
                        "{behaviour}"
                    );
                    // A warning for the codes, and one for every other list that has records.
                    let told = warnings(&summary);
                    let codes = told.iter().filter(|it| it.starts_with("qr_codes ")).count();
                    assert_eq!(codes, 1, "{behaviour}: {told:?}");
                    world.change(|store| drop(store.remove_qr(13)));
                    let second = world.backup().snapshot;
                    assert_eq!(second.status, SnapshotStatus::Complete, "{behaviour}");
                    assert_eq!(
                        second.outcome(Resource::QrCodes).unwrap().removed,
                        1,
                        "{behaviour}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_removed_record_is_noticed_despite_a_duplicate_in_two_spellings() {
    // The first campaign has its name under `name` on page 1 and under `domain` on page 4.
    let mut world = World::of(Store::default(), "twins=last,campaign-list=documented,max-limit=5");
    world.change(|store| {
        for n in 0..17 {
            store.campaigns.add(Campaign { name: format!("c{n}"), ..Campaign::default() });
        }
    });
    world.backup();
    world.change(|store| drop(store.campaigns.remove(2)));
    let found = world.backup().snapshot;
    let told = found.outcome(Resource::Campaigns).unwrap();
    assert_eq!((told.records, told.removed, told.changed), (16, 1, 0), "{told:?}");
    invariants::is_sound(&mut world.open());
}

#[test]
fn the_last_of_differing_duplicates_is_kept_with_a_warning() {
    let mut world = World::of(Store::default(), "max-limit=2,result=total");
    world.change(|store| {
        store.channels.add(StoredChannel { name: "Blog".to_owned(), ..StoredChannel::default() });
        let row = store.channels.iter_mut().next().unwrap().1;
        for (id, title) in [(1, "first"), (2, "between"), (3, "also"), (1, "last")] {
            let title = title.to_owned();
            row.items.push(Item { kind: "links".to_owned(), id, title, ..Item::default() });
        }
    });
    for expected in [0, 0] {
        let summary = world.backup();
        let found = summary.snapshot.outcome(Resource::ChannelItems).unwrap();
        assert_eq!((found.state, found.records), (ReadState::Complete, 3), "{found:?}");
        assert_eq!(found.changed, expected);
        let shown = world.shown(summary.snapshot.number);
        let key = RecordKey::Item { channel: 1, kind: "links".to_owned(), id: 1 };
        assert!(shown[&Resource::ChannelItems][&key].contains("\"last\""));
        let told = "channel_items 1/links/1: is listed more than once with different values; \
                    the last one is kept";
        assert_eq!(warnings(&summary), [told]);
    }
    invariants::is_sound(&mut world.open());
}

#[test]
fn a_record_that_moved_over_a_page_edge_is_not_a_duplicate() {
    for result in ["page", "total", "absent"] {
        for envelope in ["full", "no-maxpage"] {
            for after in 1..=3 {
                let behaviour =
                    format!("max-limit=10,order=descending,result={result},envelope={envelope}");
                let mut world = World::codes(30, &behaviour);
                world.before_each_request(move |store, nth| {
                    if nth == 5 + after {
                        store.qr_codes.add(QrCode::default());
                    }
                });
                let summary = world.backup();
                assert_eq!(warnings(&summary), [""; 0], "{behaviour}, after page {after}");
                let shown = world.shown(SnapshotId(1))[&Resource::QrCodes].len();
                assert_eq!(shown, 31, "{behaviour}, after page {after}");
            }
        }
    }
}

#[test]
fn a_name_under_another_json_key_is_not_a_change() {
    let mut world = World::of(Store::default(), "campaign-list=documented");
    world.change(|store| {
        for n in 0..6 {
            store.campaigns.add(Campaign { name: format!("c{n}"), ..Campaign::default() });
        }
    });
    world.backup();
    // The second record of the page is a different one now.
    world.change(|store| drop(store.campaigns.remove(1)));
    world.backup();
    world.change(|store| store.campaigns.get_mut(5).unwrap().name = "renamed".to_owned());
    world.backup();
    let content = world.content();
    let mut vault = world.open();
    let told = |number| {
        let snapshot = vault.snapshot(number).unwrap();
        let outcome = snapshot.outcome(Resource::Campaigns).unwrap();
        (outcome.added, outcome.changed, outcome.removed)
    };
    assert_eq!((told(SnapshotId(2)), told(SnapshotId(3))), ((0, 0, 1), (0, 1, 0)));
    for ((from, to), expected) in [
        ((1, 2), ChangeCount { added: 0, changed: 0, removed: 1 }),
        ((2, 3), ChangeCount { added: 0, changed: 1, removed: 0 }),
        ((1, 3), ChangeCount { added: 0, changed: 1, removed: 1 }),
    ] {
        let counted =
            vault.count_changes(Resource::Campaigns, SnapshotId(from), SnapshotId(to)).unwrap();
        assert_eq!(counted, expected, "#{from} to #{to}");
        let slice = PageRange { skip: 0, take: 100 };
        let found =
            vault.changes_of(Resource::Campaigns, SnapshotId(from), SnapshotId(to), slice).unwrap();
        assert_eq!(found.len() as u64, expected.all(), "#{from} to #{to}");
    }
    // The texts are stored unchanged.
    assert_eq!(world.shown(SnapshotId(3))[&Resource::Campaigns], content[&Resource::Campaigns]);
    invariants::is_sound(&mut vault);
}

#[test]
fn a_key_that_moves_twice_within_one_crawl_is_counted_right() {
    // The first attempt sees other names under other keys than the second.
    let mut world = World::of(Store::default(), "max-limit=3,result=total");
    world.change(|store| {
        for n in 0..9 {
            store.campaigns.add(Campaign { name: format!("c{n}"), ..Campaign::default() });
        }
    });
    world.backup();
    world.change(|store| store.campaigns.get_mut(3).unwrap().name = "renamed".to_owned());
    world.before_each_request(|store, nth| match nth {
        4 => drop(store.campaigns.remove(1)),
        6 => {
            store.campaigns.remove(4);
            store.campaigns.get_mut(3).unwrap().name = "c2".to_owned();
        }
        _ => {}
    });
    let found = world.backup().snapshot;
    let told = found.outcome(Resource::Campaigns).unwrap();
    assert_eq!((told.added, told.changed, told.removed), (0, 0, 2), "{told:?}");
    invariants::is_sound(&mut world.open());
}
