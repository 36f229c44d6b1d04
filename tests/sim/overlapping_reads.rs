//! Pages that are read at the same time, while records are created and deleted between them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use linkvault::model::{RecordKey, Resource};
use linkvault::sandbox::Store;
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::store::QrCode;
use linkvault::vault::snapshot::ReadState;

use super::seed_runner::run_seeds;
use super::world::{BEGIN, World};

/// The ids of the QR codes that existed during the whole crawl, and at any time of it.
#[derive(Default)]
struct Existed {
    always: BTreeSet<i64>,
    ever: BTreeSet<i64>,
}

impl Existed {
    fn note(&mut self, store: &Store) {
        let now: BTreeSet<_> = store.qr_codes.iter().map(|(id, _)| id.cast_signed()).collect();
        self.always.retain(|id| now.contains(id));
        self.ever.extend(&now);
    }
}

/// Backs up twice while codes are created or deleted before some requests. Where the service reports
/// totals, one crawl has only one of both: a deletion with a later creation keeps the total, and is
/// not noticed between pages that are read one after the other, either.
fn simulate(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let number = rng.u64(20..150);
    let order = rng.choice(["ascending", "descending"]).unwrap();
    let result = rng.choice(["page", "total"]).unwrap();
    let size = rng.choice(["3", "5", "10"]).unwrap();
    let behaviour = format!("max-limit={size},order={order},result={result},rate-limit=none");
    let mut world = World::codes(number, &behaviour).seeded(seed);
    world.in_flight = rng.usize(1..=8);
    let chance = rng.f64() * 0.1;
    for _ in 0..2 {
        let existed = Arc::new(Mutex::new(Existed::default()));
        let all: BTreeSet<_> =
            world.service().store().qr_codes.iter().map(|(id, _)| id.cast_signed()).collect();
        *existed.lock().unwrap() = Existed { always: all.clone(), ever: all };
        let (mut drawn, noted) = (rng.fork(), Arc::clone(&existed));
        let only = (result == "total").then(|| rng.bool());
        world.before_each_request(move |store, _| {
            while drawn.f64() < chance {
                let ids: Vec<_> = store.qr_codes.iter().map(|(id, _)| id).collect();
                match (only.unwrap_or_else(|| drawn.bool()), drawn.choice(ids)) {
                    (true, Some(id)) => drop(store.remove_qr(id)),
                    _ => drop(store.qr_codes.add(QrCode::default())),
                }
                noted.lock().unwrap().note(store);
            }
        });
        let snapshot = world.backup().snapshot;
        world.before_request = None;
        let state = snapshot.outcome(Resource::QrCodes).unwrap().state;
        let shown = &world.shown(snapshot.number)[&Resource::QrCodes];
        let shown: BTreeSet<_> = shown.keys().map(RecordKey::id).collect();
        let existed = existed.lock().unwrap();
        if state == ReadState::Complete {
            let lost: Vec<_> = existed.always.difference(&shown).collect();
            let extra: Vec<_> = shown.difference(&existed.ever).collect();
            let width = world.in_flight;
            assert!(
                lost.is_empty() && extra.is_empty(),
                "{behaviour}, {width} at once: lost {lost:?}, extra {extra:?}"
            );
        }
    }
}

#[test]
fn a_list_that_changes_between_overlapping_pages_is_complete_or_not_proven() {
    run_seeds(60, simulate);
}

#[test]
fn a_record_at_the_edge_of_a_page_that_was_read_before_the_page_before_it_is_not_removed() {
    let mut reversed = 0;
    for seed in 1..=12 {
        let world = World::codes(0, "max-limit=3,order=ascending,result=total,rate-limit=none");
        world.change(|store| (1..=12).for_each(|id| store.qr_codes.put(id * 2, QrCode::default())));
        let mut world = world.seeded(seed);
        world.in_flight = 1;
        world.backup();
        world.requested_paths();
        world.in_flight = 4;
        let (traffic, mut was_reversed) = (Arc::clone(&world.traffic), false);
        let noted = Arc::new(Mutex::new(false));
        let note = Arc::clone(&noted);
        // Another user restores a code that was deleted, and deletes one, between pages 3 and 2.
        world.before_each_request(move |store, _| {
            let traffic = traffic.lock().unwrap();
            let is_page = |path: &String, page: &str| path.ends_with(page);
            let was_third = traffic.paths.iter().any(|path| is_page(path, "limit=1000&page=3"));
            let is_second =
                traffic.paths.last().is_some_and(|path| is_page(path, "limit=1000&page=2"));
            if was_third && is_second && !std::mem::replace(&mut was_reversed, true) {
                *note.lock().unwrap() = true;
                store.qr_codes.put(7, QrCode::default());
                store.qr_codes.remove(16);
            }
        });
        let snapshot = world.backup().snapshot;
        let shown = world.shown(snapshot.number);
        assert!(shown[&Resource::QrCodes].contains_key(&RecordKey::Id(12)), "seed {seed}");
        reversed += u32::from(*noted.lock().unwrap());
    }
    assert!(reversed > 2, "{reversed}");
}

#[test]
fn a_limited_number_of_requests_is_not_spent_on_lists_that_the_next_process_reads_again() {
    let processes = |in_flight| {
        let mut store = sample_account(BEGIN);
        for _ in 0..40 {
            store.qr_codes.add(QrCode::default());
        }
        let mut world = World::of(store, "max-limit=10");
        world.in_flight = in_flight;
        world.limits.max_requests = Some(3);
        (1..100).find(|_| world.start().is_ok()).unwrap()
    };
    assert_eq!(processes(4), processes(1));
}

/// The numbers of the deleted records for which pages of two records, read in this order, show each
/// record once, keep their total, and lack a record that existed all the time. After the first `gap`
/// pages, one record is deleted and one is created at the end.
fn unnoticed(order: &[usize], gap: usize) -> Vec<usize> {
    let before: Vec<usize> = (0..order.len() * 2).collect();
    let is_unnoticed = |deleted: &usize| {
        let after: Vec<_> =
            before.iter().copied().filter(|id| id != deleted).chain([usize::MAX]).collect();
        let page = |list: &[usize], number: usize| list[number * 2..][..2].to_vec();
        let read: Vec<_> = order
            .iter()
            .enumerate()
            .flat_map(|(nth, number)| page(if nth < gap { &before } else { &after }, *number))
            .collect();
        let shown: BTreeSet<_> = read.iter().collect();
        let lacks = |id: &usize| id != deleted && !shown.contains(id);
        page(&after, 0) == page(&before, 0) && shown.len() == read.len() && before.iter().any(lacks)
    };
    before.iter().copied().filter(is_unnoticed).collect()
}

#[test]
fn pages_in_any_order_notice_no_fewer_changes_than_pages_one_after_the_other() {
    let in_order = [0, 1, 2, 3, 4, 5];
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let mut order = in_order;
        // The first page is read first, and the last one last.
        rng.shuffle(&mut order[1..5]);
        for gap in 1..=6 {
            let (any, one_by_one) = (unnoticed(&order, gap), unnoticed(&in_order, gap));
            assert!(any.len() <= one_by_one.len(), "{order:?} {gap}: {any:?}, {one_by_one:?}");
        }
    }
}
