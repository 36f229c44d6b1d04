//! Pages that are read at the same time, while records are created and deleted between them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use linkvault::model::{RecordKey, Resource};
use linkvault::sandbox::Store;
use linkvault::sandbox::store::QrCode;
use linkvault::vault::snapshot::ReadState;

use super::seed_runner::run_seeds;
use super::world::World;

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
