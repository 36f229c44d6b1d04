//! Runs whose journal is put into a store before each write: whichever machine is lost, another one
//! continues, and each record is created once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use linkvault::apply::step_request::set_password;
use linkvault::apply::{ApplyError, ApplyOptions, RunReport, StepSecrets};
use linkvault::change::plan::Plan;
use linkvault::clock::{SimulatedClock, Timestamp};
use linkvault::fleet::error::StoreErrorKind;
use linkvault::fleet::vault_store::{FetchReport, PutOver};
use linkvault::model::{Resource, Verb};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::vault::journal::StepState;
use linkvault::vault::snapshot::Snapshot;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::json;

use super::faulty_store::FaultyStore;
use super::stored_machine::{StoredMachine, stored};
use crate::sim::apply_runs::{BEHAVIOURS, FAULTS, campaigns, options};
use crate::sim::expected_account::{
    add, assert_matches_journal, assert_no_duplicates, change_as_other_user, draw, rows, touched,
};
use crate::sim::seed_runner::run_seeds;
use crate::sim::seeded_choices::few;
use crate::sim::world::{BEGIN, World};

const HOUR: Duration = Duration::from_secs(3600);

fn world(behaviour: &str) -> World {
    let world = World::of(generate(5, GeneratedCounts::each(4)), behaviour);
    {
        let mut service = world.service();
        *service = service.clone().with_log_limit(usize::MAX);
    }
    world
}

fn codes(plan: &mut Plan, data: &[&str]) {
    for data in data {
        let body = Some(json!({"type": "text", "data": data}));
        add(plan, Resource::QrCodes, Verb::Create, "/api/qr/add", body);
    }
}

fn memory() -> (Arc<InMemory>, Arc<dyn ObjectStore>) {
    let inner = Arc::new(InMemory::new());
    (Arc::clone(&inner), inner)
}

/// What one process does: it applies the plan, or continues the run.
fn work(world: &mut World, plan: &Plan) -> Result<RunReport, ApplyError> {
    let open = world.open().unfinished_run().unwrap();
    let ended = match open {
        Some(run) => world.resume(run.number, &options()),
        None => world.apply(plan, &options()),
    };
    match ended {
        Err(ApplyError::Used(run)) => world.resume(run, &options()),
        ended => ended,
    }
}

/// Fetches, continues the run until it is finished, and puts.
fn finish(machine: &mut StoredMachine, plan: &Plan) -> RunReport {
    for _ in 0..20 {
        machine.world.pass(Duration::from_secs(90));
        machine.fetch().unwrap();
        let ended = work(&mut machine.world, plan);
        machine.world.close();
        let put = machine.store.put(PutOver::Fetched);
        assert_no_duplicates(machine.world.service().store(), plan);
        match (ended, put) {
            (Ok(report), Ok(_)) => return report,
            // A put of a lost machine arrived late.
            (_, Err(error)) if error.kind != StoreErrorKind::Lost => panic!("{error}"),
            _ => {}
        }
    }
    panic!("the run never ends")
}

/// The number of puts that a run takes: one for each 64 steps, and one for each QR code.
#[test]
fn a_run_puts_its_journal_before_each_group_of_steps_and_each_code() {
    for (created, made, puts) in [(10, 0, 1), (64, 0, 1), (65, 0, 2), (3, 5, 6), (0, 2, 2)] {
        let (_, objects) = memory();
        let mut machine = StoredMachine::new(world("rate-limit=none"), &objects, HOUR);
        let names: Vec<_> = (0..created).map(|it| format!("Name {it}")).collect();
        let mut plan = campaigns(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let data: Vec<_> = (0..made).map(|it| format!("data {it}")).collect();
        codes(&mut plan, &data.iter().map(String::as_str).collect::<Vec<_>>());
        machine.fetch().unwrap();
        let report = work(&mut machine.world, &plan).unwrap();
        assert_eq!(report.done, created + made);
        assert_eq!(machine.log.lock().unwrap().made.len(), puts, "{created} and {made}");
    }
    // Each put takes three requests to the store: the object, `HEAD`, and a removal.
    let requests = |made: &[&str]| {
        let faulty = Arc::new(FaultyStore::new(1));
        faulty.heal();
        let objects: Arc<dyn ObjectStore> = Arc::clone(&faulty) as _;
        let mut machine = StoredMachine::new(world("rate-limit=zero"), &objects, HOUR);
        let mut plan = Plan::default();
        codes(&mut plan, made);
        machine.fetch().unwrap();
        work(&mut machine.world, &plan).unwrap();
        faulty.requests()
    };
    assert_eq!(requests(&["1", "2", "3", "4"]), requests(&["1", "2", "3"]) + 3);
}

/// Before a write request leaves, the store has its step as sent.
#[test]
fn the_store_has_each_step_as_sent_before_its_request() {
    let (inner, objects) = memory();
    let mut machine = StoredMachine::new(world("rate-limit=60"), &objects, HOUR);
    let mut plan = campaigns(&["One", "Two"]);
    codes(&mut plan, &["three", "four"]);
    let body = Some(json!({"description": "new"}));
    add(&mut plan, Resource::Channels, Verb::Update, "/api/channel/2/update", body);
    let (wrote, seen) = (Arc::clone(&machine.world.wrote), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&seen);
    machine.world.before_each_request(move |_, _| {
        let Some((_folder, vault)) = stored(inner.fork()) else { return };
        let sent = rows(&vault).iter().filter(|row| row.state != StepState::Planned).count();
        // All steps but the last have taken effect; the next one is sent now.
        let next = wrote.lock().unwrap().len() + 1;
        assert!(sent >= next.min(5), "{sent} of {next}");
        counted.fetch_add(1, Ordering::Relaxed);
    });
    machine.fetch().unwrap();
    assert_eq!(work(&mut machine.world, &plan).unwrap().done, 5);
    assert!(seen.load(Ordering::Relaxed) >= 5);
}

#[test]
fn nothing_is_written_while_the_journal_cannot_be_put() {
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let objects: Arc<dyn ObjectStore> = Arc::clone(&faulty) as _;
    let cutting = Arc::clone(&faulty);
    let before = Arc::new(move || cutting.cut_off());
    let mut machine = StoredMachine::acting(world(""), &objects, HOUR, before, Arc::new(|| {}));
    machine.fetch().unwrap();
    let plan = campaigns(&["One"]);
    let error = work(&mut machine.world, &plan).unwrap_err();
    assert!(matches!(error, ApplyError::NotStored { wrote: false, .. }), "{error}");
    assert!(error.to_string().starts_with("run 1 stopped before its first write: "), "{error}");
    assert!(error.to_string().ends_with("503 Service Unavailable"), "{error}");
    assert_eq!(machine.world.wrote.lock().unwrap().len(), 0);
    assert_eq!(rows(&machine.world.open())[0].state, StepState::Planned);
    faulty.reconnect();
    machine.world.close();
    machine.store.put(PutOver::Fetched).unwrap();
    let mut other = StoredMachine::new(machine.world.another_machine(), &objects, HOUR);
    assert_eq!(finish(&mut other, &plan).done, 1);
}

/// A password that was not sent yet is not taken for one that may be set.
#[test]
fn a_password_is_marked_as_sent_alone() {
    for moment in 1..60 {
        let (_, objects) = memory();
        let mut plan = campaigns(&["One", "Two"]);
        set_password(&mut plan, None);
        let secrets = StepSecrets { password: Some("correct horse".to_owned()) };
        let mut lost = StoredMachine::new(world("rate-limit=60"), &objects, HOUR);
        lost.world.dies_after = Some(moment);
        lost.fetch().unwrap();
        let _ = lost.world.apply(&plan, &ApplyOptions { secrets, ..options() });
        let wrote = lost.world.wrote.lock().unwrap().len();
        let mut other = StoredMachine::new(lost.world.another_machine(), &objects, HOUR);
        other.fetch().unwrap();
        if wrote == 1 {
            let _ = work(&mut other.world, &plan);
            let state = rows(&other.world.open())[2].state;
            assert_ne!(state, StepState::Unknown, "at {moment}");
        }
    }
}

/// A machine that was believed lost goes on after another one has continued its run.
#[test]
fn a_machine_that_was_paused_sends_nothing_after_another_one_continued_its_run() {
    let (mut pauses_after_puts, mut stopped) = (0, 0);
    for at in 1..20 {
        let (_, objects) = memory();
        let plan = Arc::new({
            let mut plan = campaigns(&["One", "Two"]);
            codes(&mut plan, &["three"]);
            plan
        });
        let world = world("rate-limit=60");
        let other = StoredMachine::new(world.another_machine(), &objects, HOUR);
        let other = Arc::new(Mutex::new(other));
        let (asked, paused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let pauses = {
            let (plan, other, paused) =
                (Arc::clone(&plan), Arc::clone(&other), Arc::clone(&paused));
            move || {
                if asked.fetch_add(1, Ordering::Relaxed) + 1 == at {
                    let other = &mut *other.lock().unwrap();
                    other.world.pass(Duration::from_secs(20));
                    if other.fetch().unwrap() != FetchReport::Empty {
                        finish(other, &plan);
                        paused.store(1, Ordering::Relaxed);
                    }
                }
            }
        };
        let mut machine =
            StoredMachine::acting(world, &objects, HOUR, Arc::new(|| {}), Arc::new(pauses));
        machine.fetch().unwrap();
        let ended = work(&mut machine.world, &plan);
        assert_no_duplicates(machine.world.service().store(), &plan);
        let created = machine.world.wrote.lock().unwrap().len();
        assert_eq!(created, 3, "at {at}: {ended:?}");
        if paused.load(Ordering::Relaxed) == 1 {
            // All its writes may have been sent before.
            machine.world.close();
            let lost = machine.store.put(PutOver::Fetched).unwrap_err();
            assert_eq!(lost.kind, StoreErrorKind::Lost, "{lost}");
            if let Err(error) = ended {
                let text = error.to_string();
                assert!(text.contains("another machine put a newer vault"), "{text}");
                stopped += 1;
            }
            pauses_after_puts += 1;
        }
    }
    assert!(pauses_after_puts > 2 && stopped > 2, "{stopped} of {pauses_after_puts}");
}

/// A machine whose clock is behind continues the run of a lost one.
#[test]
fn a_clock_that_is_behind_hides_no_created_record() {
    for moment in 1..40 {
        let (_, objects) = memory();
        let mut lost = StoredMachine::new(world(""), &objects, HOUR);
        let mut plan = Plan::default();
        codes(&mut plan, &["one", "two"]);
        lost.world.dies_after = Some(moment);
        lost.fetch().unwrap();
        let _ = work(&mut lost.world, &plan);
        // It backs the account up, is lost too, and a third one continues.
        let behind = || Arc::new(SimulatedClock::new(Timestamp(BEGIN.0 - 3_600_000)));
        let mut other = StoredMachine::new(lost.world.another_machine(), &objects, HOUR);
        other.world.clock = behind();
        other.fetch().unwrap();
        other.world.backup();
        other.world.close();
        other.store.put(PutOver::Fetched).unwrap();
        let mut third = StoredMachine::new(lost.world.another_machine(), &objects, HOUR);
        third.world.clock = behind();
        finish(&mut third, &plan);
        assert_no_duplicates(third.world.service().store(), &plan);
    }
}

/// Machines that are lost at random, a store with faults, and a service with faults.
#[allow(clippy::print_stdout)]
fn simulate(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut behaviour = Vec::new();
    for (name, values) in BEHAVIOURS {
        if rng.bool() {
            behaviour.push(format!("{name}={}", rng.choice(*values).unwrap()));
        }
    }
    let faults: Vec<_> = (0..rng.usize(..3))
        .map(|_| {
            let chance = format!("{:.3}", rng.f64().powi(2) * 0.4);
            rng.choice(FAULTS).unwrap().replace("{}", &chance)
        })
        .collect();
    let drift = if rng.u8(..4) == 0 { rng.f64() * 0.3 } else { 0.0 };
    let store = generate(seed, GeneratedCounts::each(few(&mut rng, 4)));
    let plan = draw(&store, &mut rng, drift == 0.0, 6);
    println!("LINKVAULT_SIM_SEED={seed} {behaviour:?} {faults:?} drift {drift}");
    let faulty = Arc::new(FaultyStore::new(seed));
    if rng.bool() {
        faulty.heal();
    }
    let objects: Arc<dyn ObjectStore> = Arc::clone(&faulty) as _;
    let every = Duration::from_secs(1 + few(&mut rng, 600));
    let mut first = World::of(store.clone(), &behaviour.join(",")).seeded(seed);
    first.set_faults(&faults.join(","), seed);
    if drift > 0.0 {
        let (mut others, touched) = (rng.fork(), touched(&plan));
        first.before_each_request(move |store, _| {
            if others.f64() < drift {
                change_as_other_user(store, &touched, &mut others);
            }
        });
    }
    let mut machines = vec![StoredMachine::new(first, &objects, every)];
    let mut known = Vec::new();
    for _ in 0..rng.usize(1..6) {
        faulty.reconnect();
        let at = rng.usize(..=machines.len());
        if at == machines.len() {
            let another = machines[0].world.another_machine();
            machines.push(StoredMachine::new(another, &objects, every));
        }
        let machine = &mut machines[at];
        machine.world.pass(Duration::from_secs(20 + rng.u64(..200)));
        if machine.fetch().is_err() {
            continue;
        }
        machine.world.dies_after = (rng.u8(..5) > 0).then(|| 1 + few(&mut rng, 120));
        let is_killed = machine.world.dies_after.is_some();
        let ended = work(&mut machine.world, &plan);
        machine.world.dies_after = None;
        machine.world.close();
        assert_no_duplicates(machine.world.service().store(), &plan);
        if !(is_killed && ended.is_err()) {
            let _ = machine.store.put(PutOver::Fetched);
        }
        extends(&mut known, faulty.inner());
    }
    faulty.heal();
    machines[0].world.set_faults("", 0);
    let mut last = StoredMachine::new(machines[0].world.another_machine(), &objects, every);
    last.world.before_request = None;
    let report = finish(&mut last, &plan);
    extends(&mut known, faulty.inner());
    assert!(report.not_sent == 0 || report.unknown > 0, "{report:?}");
    if drift == 0.0 {
        let rows = rows(&last.world.open());
        assert_matches_journal(&store, last.world.service().store(), &plan, &rows);
    }
}

/// `HEAD` names a sound vault with all finished snapshots `known` from before.
fn extends(known: &mut Vec<Snapshot>, inner: InMemory) {
    let Some((_folder, vault)) = stored(inner) else {
        assert_eq!(*known, []);
        return;
    };
    let all = vault.snapshots().unwrap();
    let finished: Vec<_> = all.into_iter().filter(|it| it.finished.is_some()).collect();
    let numbers = |all: &[Snapshot]| all.iter().map(|it| it.number).collect::<Vec<_>>();
    assert!(numbers(&finished).starts_with(&numbers(known)), "{known:#?} in {finished:#?}");
    *known = finished;
}

#[test]
fn each_record_is_created_once_whichever_machine_is_lost() {
    run_seeds(60, simulate);
}
