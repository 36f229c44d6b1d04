//! Crawls whose vault is put into a store while they run: another machine continues them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use linkvault::clock::{SimulatedClock, Timestamp};
use linkvault::crawl::CrawlError;
use linkvault::fleet::error::StoreErrorKind;
use linkvault::fleet::vault_store::{FetchReport, PutOver, PutReport};
use linkvault::model::{Resource, SnapshotId};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::vault::snapshot::{Snapshot, SnapshotStatus};
use linkvault::vault::{Vault, VaultError};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::faulty_store::FaultyStore;
use super::stored_machine::{StoredMachine, stored, stored_vault};
use crate::sim::invariants;
use crate::sim::seed_runner::run_seeds;
use crate::sim::world::World;

fn world(seed: u64) -> World {
    let counts = GeneratedCounts { channels: 2, qr_codes: 5, ..GeneratedCounts::each(5) };
    let world = World::of(generate(seed, counts), "max-limit=2,result=total,rate-limit=zero");
    world.change(|store| {
        store.qr_codes.iter_mut().for_each(|(_, code)| code.scans.period = 0);
    });
    world
}

/// Whenever a machine is lost, another one repeats at most what was read since the last checkpoint.
#[test]
fn another_machine_continues_a_crawl_at_its_last_checkpoint() {
    let every = Duration::from_secs(1);
    let mut whole = world(11);
    whole.in_flight = 1;
    whole.backup();
    let (moments, least) = (*whole.moments.lock().unwrap(), whole.requested_paths().len());
    let expected = whole.shown(SnapshotId(1));
    let mut continued = 0;
    for moment in (1..moments).step_by(3) {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut lost = StoredMachine::new(world(11), &objects, every);
        lost.world.dies_after = Some(moment);
        assert_eq!(lost.fetch().unwrap(), FetchReport::Empty);
        lost.world.start().unwrap_err();
        let sent = lost.world.requested_paths().len();
        let kept = lost.log.lock().unwrap().made.last().copied().unwrap_or(0);
        assert!(sent - kept <= 20, "at {moment}: {kept} of {sent}");
        let mut other = StoredMachine::new(lost.world.another_machine(), &objects, every);
        other.fetch().unwrap();
        let report = other.world.backup();
        let repeated = sent + other.world.requested_paths().len() - least;
        // The account, a page that overlaps, and the proof of one list.
        assert!(repeated <= sent - kept + 5, "at {moment}: {repeated} after {kept} of {sent}");
        assert_eq!(report.resumed, kept > 0, "at {moment}");
        assert_eq!(report.snapshot.status, SnapshotStatus::Complete, "at {moment}");
        assert_eq!(report.snapshot.number, SnapshotId(1), "at {moment}");
        assert_eq!(other.world.shown(SnapshotId(1)), expected, "at {moment}");
        invariants::is_sound(&mut other.world.open());
        continued += usize::from(kept > 0);
    }
    assert!(continued > 10, "{continued}");
}

/// The clock of each machine is wrong by hours, ahead or behind.
#[test]
fn machines_whose_clocks_differ_extend_the_same_vault() {
    const HOUR: i64 = 3_600_000;
    for hours in [-30, -3, 3, 30] {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let every = Duration::from_millis(300);
        let mut lost = StoredMachine::new(world(11), &objects, every);
        (lost.world.in_flight, lost.world.dies_after) = (1, Some(60));
        lost.fetch().unwrap();
        lost.world.start().unwrap_err();
        assert!(!lost.log.lock().unwrap().made.is_empty());
        for hours in [hours, 0, hours] {
            let mut world = lost.world.another_machine();
            world.clock =
                Arc::new(SimulatedClock::new(Timestamp(lost.world.now().0 + hours * HOUR)));
            let mut machine = StoredMachine::new(world, &objects, every);
            machine.fetch().unwrap();
            let report = machine.world.backup();
            assert_eq!(report.snapshot.status, SnapshotStatus::Complete, "{hours}");
            let number = report.snapshot.number;
            let (shown, has) = (machine.world.shown(number), machine.world.content());
            let ids = |records: BTreeMap<_, _>| records.into_keys().collect::<Vec<_>>();
            for (resource, records) in has {
                assert_eq!(ids(shown[&resource].clone()), ids(records), "{hours} {resource:?}");
            }
            invariants::is_sound(&mut machine.world.open());
            machine.world.close();
            machine.store.put(PutOver::Fetched).unwrap();
            machine.world.change(|store| {
                let first = store.campaigns.iter().next().map(|(id, _)| id);
                store.campaigns.remove(first.unwrap());
            });
        }
    }
}

#[test]
fn a_checkpoint_for_which_the_store_has_no_time_is_tried_again_later() {
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let objects: Arc<dyn ObjectStore> = Arc::clone(&faulty) as _;
    let tries = Arc::new(AtomicUsize::new(0));
    let refusing = {
        let (tries, faulty) = (Arc::clone(&tries), Arc::clone(&faulty));
        move || match tries.fetch_add(1, Ordering::Relaxed) {
            0..2 => faulty.cut_off(),
            _ => faulty.reconnect(),
        }
    };
    let mut machine = StoredMachine::acting(
        world(11),
        &objects,
        Duration::from_millis(300),
        Arc::new(refusing),
        Arc::new(|| {}),
    );
    machine.fetch().unwrap();
    let report = machine.world.backup();
    assert_eq!(report.snapshot.status, SnapshotStatus::Complete);
    let log = machine.log.lock().unwrap();
    assert_eq!(log.postponed.len(), 2, "{log:?}");
    assert!(log.postponed[0].contains("503 Service Unavailable"), "{log:?}");
    assert!(!log.made.is_empty());
}

/// Another machine puts a vault while a crawl runs. The crawl stops at its next checkpoint, and its
/// copy is set aside.
#[test]
fn a_crawl_stops_when_another_machine_has_put_a_newer_vault() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut first = StoredMachine::new(world(11), &objects, Duration::from_secs(3600));
    first.fetch().unwrap();
    first.world.backup();
    first.world.close();
    first.store.put(PutOver::Fetched).unwrap();
    let intruder = Arc::new(Mutex::new(Intruder::default()));
    let interrupting = {
        let (intruder, objects) = (Arc::clone(&intruder), Arc::clone(&objects));
        move || intruder.lock().unwrap().put(&objects)
    };
    let mut second = StoredMachine::acting(
        first.world,
        &objects,
        Duration::from_secs(1),
        Arc::new(interrupting),
        Arc::new(|| {}),
    );
    second.fetch().unwrap();
    second.world.requested_paths();
    let error = second.world.start().unwrap_err();
    assert!(
        matches!(&error, CrawlError::Vault(VaultError::Checkpoint(it)) if it.is_lost),
        "{error}"
    );
    assert_eq!(error.to_string(), "another machine put a newer vault meanwhile");
    assert!(second.world.requested_paths().len() < 20);
    second.world.close();
    let lost = second.store.put(PutOver::Fetched).unwrap_err();
    assert_eq!(lost.kind, StoreErrorKind::Lost, "{lost}");
    let aside = second.world.vault_path().with_file_name("sim.db.lost");
    assert!(Vault::open_read_only(&aside).unwrap().running().unwrap().is_some());
    let copy = Vault::open_read_only(&second.world.vault_path()).unwrap();
    assert_eq!(copy.learned_page_size(Resource::Overlays).unwrap(), Some(77));
}

/// A machine that changes the vault once.
#[derive(Default)]
struct Intruder {
    done: bool,
}

impl Intruder {
    fn put(&mut self, objects: &Arc<dyn ObjectStore>) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("main.db");
        let store = stored_vault(objects, &copy);
        store.fetch().unwrap();
        let mut vault = Vault::open(&copy).unwrap();
        vault.learn_page_size(Resource::Overlays, 77).unwrap();
        vault.close().unwrap();
        store.put(PutOver::Fetched).unwrap();
    }
}

/// The answer to a put was lost, and so was the answer to the question whether it was done.
#[test]
fn a_put_after_one_of_unknown_outcome_continues_with_what_the_store_has() {
    use super::faulty_store::Fault;
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let objects: Arc<dyn ObjectStore> = Arc::clone(&faulty) as _;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("main.db");
    let store = stored_vault(&objects, &copy);
    let change = |number: u64| {
        let mut vault = Vault::open_or_create(&copy).unwrap();
        let service = format!("https://links.example.com/{number}");
        let identity = linkvault::vault::AccountIdentity { service, account: 7 };
        vault.claim(&identity, true).unwrap();
        vault.close().unwrap();
    };
    store.fetch().unwrap();
    change(1);
    store.put(PutOver::Fetched).unwrap();
    for number in 2..6 {
        change(number);
        faulty.plan([Fault::AnswerLost, Fault::Refused]);
        store.put(PutOver::Fetched).unwrap_err();
        change(number + 100);
        assert!(matches!(store.put(PutOver::Fetched), Ok(PutReport::Put(_))), "{number}");
        let (_folder, vault) = stored(faulty.inner()).unwrap();
        let service = vault.identity().unwrap().unwrap().service;
        assert!(service.ends_with(&format!("/{}", number + 100)), "{service}");
    }
}

/// The backups that were put, and of which a machine was told so.
type Acknowledged = Arc<Mutex<Vec<Snapshot>>>;

/// A backup by a machine that works while another one is suspended.
fn take_over(mut machine: StoredMachine, acknowledged: &Acknowledged) {
    if machine.fetch().is_err() {
        return;
    }
    let Ok(report) = machine.world.start() else { return };
    machine.world.close();
    if machine.store.put(PutOver::Fetched).is_ok() {
        acknowledged.lock().unwrap().push(report.snapshot);
    }
}

/// A machine that is suspended before its checkpoint number `at`. `other` makes a backup meanwhile.
fn suspended(
    world: World,
    objects: &Arc<dyn ObjectStore>,
    (every, at): (Duration, usize),
    other: StoredMachine,
    acknowledged: &Acknowledged,
) -> StoredMachine {
    let (count, other) = (AtomicUsize::new(0), Mutex::new(Some(other)));
    let acknowledged = Arc::clone(acknowledged);
    let before = move || {
        if count.fetch_add(1, Ordering::Relaxed) == at
            && let Some(other) = other.lock().unwrap().take()
        {
            take_over(other, &acknowledged);
        }
    };
    StoredMachine::acting(world, objects, every, Arc::new(before), Arc::new(|| {}))
}

/// Machines that are lost or suspended at random, and a store with faults.
fn simulate(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let faulty = Arc::new(FaultyStore::new(seed));
    let objects: Arc<dyn ObjectStore> = Arc::clone(&faulty) as _;
    let every = Duration::from_millis(rng.u64(100..1500));
    let base = world(seed).seeded(seed);
    let mut machines = vec![StoredMachine::new(base, &objects, every)];
    let mut known: Vec<Snapshot> = Vec::new();
    let acknowledged = Acknowledged::default();
    for _ in 0..rng.usize(2..6) {
        faulty.reconnect();
        let at = rng.usize(..=machines.len());
        if at == machines.len() {
            let another = machines[0].world.another_machine();
            machines.push(match rng.u8(..4) {
                0 => StoredMachine::new(another, &objects, every),
                _ => {
                    let other = machines[0].world.another_machine();
                    let other = StoredMachine::new(other, &objects, every);
                    let when = (every, rng.usize(..2));
                    suspended(another, &objects, when, other, &acknowledged)
                }
            });
        }
        let StoredMachine { world, store, .. } = &mut machines[at];
        world.pass(Duration::from_secs(rng.u64(1..120)));
        world.close();
        if store.fetch().is_err() {
            continue;
        }
        world.dies_after = (rng.u8(..4) > 0).then(|| rng.u64(1..120));
        let (is_killed, made) = match world.start() {
            Err(CrawlError::Vault(VaultError::Stopped)) => (true, None),
            // Another machine put a newer vault, or a late put of a lost one arrived.
            Err(CrawlError::Vault(VaultError::Checkpoint(error))) if error.is_lost => (false, None),
            Err(other) => panic!("{other}"),
            Ok(report) => (false, Some(report.snapshot)),
        };
        world.close();
        if !is_killed {
            let put = store.put(PutOver::Fetched);
            acknowledged.lock().unwrap().extend(made.filter(|_| put.is_ok()));
        }
        extends(&mut known, faulty.inner(), &acknowledged);
    }
    faulty.heal();
    let another = machines[0].world.another_machine();
    let mut last = StoredMachine::new(another, &objects, every);
    let report = (0..3).find_map(|_| {
        last.fetch().unwrap();
        let report = last.world.start().ok()?;
        last.world.close();
        match last.store.put(PutOver::Fetched) {
            Ok(PutReport::Put(_)) => Some(report),
            // A put of a machine that is lost arrived late.
            Err(error) if error.kind == StoreErrorKind::Lost => None,
            other => panic!("{other:?}"),
        }
    });
    let report = report.unwrap();
    assert_eq!(report.snapshot.status, SnapshotStatus::Complete);
    let mut whole = world(seed);
    whole.backup();
    let expected = whole.shown(SnapshotId(1));
    assert!(last.world.shown(report.snapshot.number) == expected, "another content");
    extends(&mut known, faulty.inner(), &acknowledged);
    assert_eq!(known.last().unwrap().number, report.snapshot.number);
}

/// `HEAD` names a sound vault with all finished snapshots `known` from before, and with all that were
/// acknowledged.
fn extends(known: &mut Vec<Snapshot>, inner: InMemory, acknowledged: &Acknowledged) {
    let acknowledged = acknowledged.lock().unwrap();
    let Some((_folder, vault)) = stored(inner) else {
        assert_eq!((&*known, &*acknowledged), (&vec![], &vec![]));
        return;
    };
    let all = vault.snapshots().unwrap();
    let finished: Vec<_> = all.into_iter().filter(|it| it.finished.is_some()).collect();
    assert!(finished.starts_with(known), "{known:#?} in {finished:#?}");
    for snapshot in acknowledged.iter() {
        let found = finished.iter().find(|it| it.number == snapshot.number);
        assert_eq!(found.map(|it| &it.digest), Some(&snapshot.digest), "{snapshot:#?}");
    }
    *known = finished;
}

#[test]
fn head_names_a_sound_vault_whichever_machine_is_lost_in_its_crawl() {
    run_seeds(40, simulate);
}
