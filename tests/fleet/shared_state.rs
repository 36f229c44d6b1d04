//! Machines that share the recorded state of an account in a store with faults: no attempt and no
//! alert is lost, and what one machine delivered is not sent by another.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use linkvault::clock::{Clock as _, SimulatedClock, Timestamp};
use linkvault::fleet::bucket::Bucket;
use linkvault::fleet::error::StoreErrorKind;
use linkvault::fleet::objects::Objects;
use linkvault::fleet::shared_state::{KnownState, SharedState};
use linkvault::fleet::state_document::StateDocument;
use linkvault::health::attempt::{
    Alert, AlertEvent, AttemptOutcome, BackupAttempt, HealthProblem, ProblemKind,
};
use linkvault::health::pending_alerts::{AlertChannel, PendingAlerts, enqueue};
use linkvault::health::persisted_state::PersistedState;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use tempfile::TempDir;

use super::faulty_store::{Fault, FaultyStore};
use crate::sim::seed_runner::run_seeds;

const BEGIN: Timestamp = Timestamp(1_793_491_200_000);

struct Machine {
    folder: TempDir,
    state: SharedState,
}

impl Machine {
    fn new(objects: Arc<dyn ObjectStore>, id: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bucket = Bucket::new(objects, "prefix/main").unwrap();
        let copy = folder.path().join("main.db");
        let state = SharedState::new(Objects::Bucket(bucket), &copy, &format!("{id:016x}"));
        Self { folder, state }
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("main.db")
    }

    fn record(&self, attempt: &BackupAttempt) -> KnownState {
        self.state.update(Some(attempt), false, attempt.ended, &mut |_| ()).unwrap()
    }

    /// The state as `status` on this machine shows it, without the store.
    fn known(&self) -> PersistedState {
        PersistedState::known(&self.copy()).unwrap_or_default()
    }
}

fn failed(at: Timestamp) -> BackupAttempt {
    BackupAttempt::new(at, at, AttemptOutcome::Failed)
}

/// Evaluates the account as a machine does that found it `failing`.
fn evaluate(document: &mut StateDocument, failing: bool, at: Timestamp) {
    let problems = &mut document.state.problems;
    if failing != problems.is_empty() {
        return;
    }
    let (kind, message) = (ProblemKind::Failed, String::new());
    let event = if failing { AlertEvent::Begun } else { AlertEvent::Ended };
    problems.clear();
    if failing {
        problems.push(HealthProblem {
            kind,
            since: at,
            message: message.clone(),
            hint: None,
            newest: None,
        });
    }
    let alert = Alert { kind, event, since: at, at, message, hint: None };
    enqueue(&mut document.state.outbox, &[alert], &[AlertChannel::Webhook]);
}

fn times(state: &PersistedState) -> BTreeSet<i64> {
    state.outbox.iter().map(|it| it.alert.at.0).collect()
}

fn simulate(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let faulty = Arc::new(FaultyStore::new(seed));
    let clock = SimulatedClock::new(BEGIN);
    let machines: Vec<_> = (0..3).map(|id| Machine::new(Arc::clone(&faulty) as _, id)).collect();
    let (mut attempts, mut sent) = (0, Vec::new());
    // The alerts that the store has acknowledged, and those that may be sent again, because the
    // store did not answer after they were sent.
    let (mut acknowledged, mut again) = (BTreeSet::new(), BTreeSet::<i64>::new());
    let mut deliver = |machine: &Machine, rng: &mut Rng| {
        let mut now_sent = Vec::new();
        let known = machine.state.deliver(&clock, &mut |pending: &mut PendingAlerts| {
            pending.outbox.retain_mut(|item| {
                let is_sent = rng.u8(..4) > 0;
                if is_sent {
                    now_sent.push(item.alert.at.0);
                } else {
                    item.tries += 1;
                    item.next = clock.now().plus(Duration::from_secs(10));
                }
                !is_sent
            });
        });
        if known.unwrap().unshared.is_some() {
            again.extend(&now_sent);
        }
        for at in now_sent {
            assert!(again.contains(&at) || !sent.contains(&at), "{at} was sent twice");
            sent.push(at);
        }
    };
    for step in 0..40 {
        clock.sleep(Duration::from_secs(rng.u64(1..900)));
        let machine = &machines[rng.usize(..machines.len())];
        faulty.reconnect();
        match rng.u8(..5) {
            0 => drop(machine.state.refresh()),
            1 => deliver(machine, &mut rng),
            _ => {
                attempts += 1;
                let (failing, now) = (rng.bool(), clock.now());
                let attempt =
                    BackupAttempt { message: Some(step.to_string()), ..failed(clock.now()) };
                let known = machine
                    .state
                    .update(Some(&attempt), false, now, &mut |it| evaluate(it, failing, now))
                    .unwrap();
                assert_eq!(known.warning, None);
                if known.unshared.is_none() {
                    acknowledged.extend(times(&known.document.state));
                    assert_eq!(known.document.state.problems.is_empty(), !failing);
                }
                assert_eq!(known.document.state.last, Some(attempt.clone()));
                assert_eq!(machine.known().last, Some(attempt));
            }
        }
    }
    // After the faults, the next change of each machine adds what the store lacks.
    faulty.heal();
    for machine in &machines {
        attempts += 1;
        clock.sleep(Duration::from_secs(1200));
        let known = machine.record(&failed(clock.now()));
        assert!(known.unshared.is_none());
        acknowledged.extend(times(&known.document.state));
    }
    for _ in 0..40 {
        clock.sleep(Duration::from_secs(1200));
        deliver(&machines[0], &mut rng);
    }
    for machine in &machines {
        machine.state.refresh().unwrap();
        let state = machine.known();
        assert_eq!((state.totals.backups, state.totals.failures), (attempts, attempts));
        assert_eq!(state.outbox, []);
    }
    let sent = BTreeSet::from_iter(sent);
    assert!(acknowledged.is_subset(&sent), "{acknowledged:?} {sent:?}");
}

#[test]
fn no_attempt_and_no_alert_is_lost_or_doubled() {
    run_seeds(200, simulate);
}

#[test]
fn a_lost_answer_does_not_count_an_attempt_twice() {
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let [one, other] = [1, 2].map(|id| Machine::new(Arc::clone(&faulty) as _, id));
    one.record(&failed(Timestamp(1)));
    for nth in 2..20 {
        // The store is not reached again before the next attempt, which another machine overtakes.
        let read = (nth > 2).then_some(Fault::None);
        faulty.plan(read.into_iter().chain([Fault::AnswerLost, Fault::Refused]));
        assert!(one.record(&failed(Timestamp(nth))).unshared.is_some());
        let known = other.record(&failed(Timestamp(nth)));
        assert_eq!(known.document.state.totals.backups, 2 * (nth as u64 - 1) + 1);
    }
    let known = one.record(&failed(Timestamp(20)));
    assert_eq!(known.document.state.totals.backups, 1 + 2 * 18 + 1);
}

#[test]
fn an_alert_that_a_machine_sends_is_not_sent_by_another_one_meanwhile() {
    let inner = Arc::new(InMemory::new());
    let clock = SimulatedClock::new(BEGIN);
    let [one, other] = [1, 2].map(|id| Machine::new(Arc::clone(&inner) as _, id));
    let now = clock.now();
    one.state.update(None, false, now, &mut |it| evaluate(it, true, now)).unwrap();
    let mut sent = 0;
    one.state
        .deliver(&clock, &mut |pending| {
            other.state.deliver(&clock, &mut |pending| sent += pending.outbox.len()).unwrap();
            sent += 10 * pending.outbox.len();
            pending.outbox.clear();
        })
        .unwrap();
    other.state.deliver(&clock, &mut |pending| sent += pending.outbox.len()).unwrap();
    assert_eq!(sent, 10);
    // A machine that died while it sent leaves them for ten minutes.
    let now = clock.now();
    one.state.update(None, false, now, &mut |it| evaluate(it, false, now)).unwrap();
    let died = std::panic::AssertUnwindSafe(|| one.state.deliver(&clock, &mut |_| panic!("dies")));
    std::panic::catch_unwind(died).unwrap_err();
    let takes = |clock: &SimulatedClock| {
        let mut taken = 0;
        other
            .state
            .deliver(clock, &mut |pending| taken = std::mem::take(&mut pending.outbox).len())
            .unwrap();
        taken
    };
    assert_eq!(takes(&clock), 0);
    clock.sleep(Duration::from_secs(601));
    assert_eq!(takes(&clock), 1);
}

#[test]
fn an_alert_about_a_store_that_cannot_be_reached_is_sent() {
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let clock = SimulatedClock::new(BEGIN);
    let machine = Machine::new(Arc::clone(&faulty) as _, 1);
    machine.record(&failed(clock.now()));
    faulty.plan((0..8).map(|_| Fault::Refused));
    let now = clock.now();
    let known = machine.state.update(None, true, now, &mut |it| evaluate(it, true, now)).unwrap();
    assert!(known.unshared.is_some());
    let mut sent = 0;
    let mut send = |pending: &mut PendingAlerts| {
        sent += pending.outbox.len();
        pending.outbox.clear();
    };
    machine.state.deliver(&clock, &mut send).unwrap();
    machine.state.deliver(&clock, &mut send).unwrap();
    assert_eq!((sent, machine.known().problems.len()), (1, 1));
}

fn put(store: &InMemory, bytes: Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let name = Path::from("prefix/main/STATE");
    runtime.block_on(store.put(&name, PutPayload::from(bytes))).unwrap();
}

fn get(store: &InMemory) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let name = Path::from("prefix/main/STATE");
    let found = runtime.block_on(store.get(&name)).unwrap();
    runtime.block_on(found.bytes()).unwrap().to_vec()
}

#[test]
fn a_broken_state_is_a_warning_and_its_bytes_are_kept() {
    let inner = Arc::new(InMemory::new());
    let machine = Machine::new(Arc::clone(&inner) as _, 1);
    machine.record(&failed(Timestamp(1)));
    put(&inner, b"{\"format\":1,".to_vec());
    let warning = machine.state.refresh().unwrap().unwrap();
    assert!(warning.starts_with("STATE is not a document of linkvault: "), "{warning}");
    let known = machine.record(&failed(Timestamp(2)));
    assert_eq!((known.unshared.is_none(), known.document.state.totals.backups), (true, 2));
    assert!(known.warning.unwrap().contains("main.db.daemon.broken"));
    let kept = std::fs::read(machine.folder.path().join("main.db.daemon.broken")).unwrap();
    assert_eq!(kept, b"{\"format\":1,");
    let document = StateDocument::read(&get(&inner), None).unwrap();
    assert_eq!(document.state.totals.backups, 2);
}

#[test]
fn a_newer_or_too_large_state_is_never_overwritten() {
    let inner = Arc::new(InMemory::new());
    let machine = Machine::new(Arc::clone(&inner) as _, 1);
    machine.record(&failed(Timestamp(1)));
    let large = vec![b' '; (4 << 20) + 1];
    let cases = [
        (br#"{"format":2,"states":[]}"#.to_vec(), StoreErrorKind::Newer),
        (large, StoreErrorKind::Damaged),
    ];
    for (nth, (bytes, kind)) in (2..).zip(cases) {
        put(&inner, bytes.clone());
        let known = machine.record(&failed(Timestamp(nth)));
        assert_eq!(known.unshared.unwrap().kind, kind);
        assert_eq!(get(&inner), bytes);
        assert_eq!(machine.known().totals.backups, nth as u64, "kept on the machine");
        assert_eq!(machine.state.refresh().unwrap_err().kind, kind);
    }
}

#[test]
fn a_state_that_was_removed_is_put_again() {
    let inner = Arc::new(InMemory::new());
    let [one, other] = [1, 2].map(|id| Machine::new(Arc::clone(&inner) as _, id));
    one.record(&failed(Timestamp(1)));
    other.record(&failed(Timestamp(2)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(inner.delete(&Path::from("prefix/main/STATE"))).unwrap();
    let known = other.record(&failed(Timestamp(3)));
    assert_eq!(known.document.state.totals.backups, 3);
    one.state.refresh().unwrap();
    assert_eq!(one.known().totals.backups, 3);
}

/// An account whose vault was a file before.
#[test]
fn the_recorded_state_of_a_local_vault_moves_into_the_store() {
    let inner = Arc::new(InMemory::new());
    let machine = Machine::new(Arc::clone(&inner) as _, 1);
    PersistedState::record(&machine.copy(), &failed(Timestamp(1))).unwrap();
    let known = machine.record(&failed(Timestamp(2)));
    assert_eq!(known.document.state.totals.backups, 2);
}

#[test]
fn a_change_without_conflict_takes_one_request() {
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let machine = Machine::new(Arc::clone(&faulty) as _, 1);
    machine.record(&failed(Timestamp(1)));
    // A second request would be refused.
    for nth in 2..5 {
        faulty.plan([Fault::None, Fault::Refused]);
        assert!(machine.record(&failed(Timestamp(nth))).unshared.is_none());
        machine.state.update(None, false, Timestamp(nth), &mut |_| ()).unwrap();
        faulty.clear_plan();
    }
}
