//! Machines that share a vault in a store with faults: each acknowledged change is in the vault, and
//! no machine overwrites a change of another one.

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use age::secrecy::ExposeSecret as _;
use age::x25519;
use fastrand::Rng;
use linkvault::fleet::bucket::Bucket;
use linkvault::fleet::encryption::Identity;
use linkvault::fleet::error::StoreErrorKind;
use linkvault::fleet::local_copies::remove_least_recently_used;
use linkvault::fleet::objects::Objects;
use linkvault::fleet::vault_store::{FetchReport, PutOver, PutReport, VaultStore};
use linkvault::vault::{AccountIdentity, Vault};
use object_store::memory::InMemory;
use tempfile::TempDir;

use super::faulty_store::{Fault, FaultyStore};
use crate::sim::seed_runner::run_seeds;

/// A machine, with its local copy.
struct Machine {
    folder: TempDir,
    store: VaultStore,
}

impl Machine {
    fn new(objects: Arc<dyn object_store::ObjectStore>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bucket = Bucket::new(objects, "prefix/main").unwrap();
        let store = VaultStore::new(Objects::Bucket(bucket), &folder.path().join("main.db"));
        Self { folder, store }
    }

    /// Encrypts objects from now on.
    fn encrypt(self, identity: &Arc<Identity>) -> Self {
        Self { store: self.store.with_identity(Some(Arc::clone(identity))), ..self }
    }

    /// Removes the local copy, if the store has its content. Returns whether it did.
    fn remove_copy(&self) -> bool {
        let later = UNIX_EPOCH + Duration::from_secs(1 << 40);
        let copy = self.copy();
        let copies = std::iter::once((copy.as_path(), false));
        let before = copy.exists();
        remove_least_recently_used(copies, 0, later, |_| Some(()), |_, error| panic!("{error}"));
        before && !copy.exists()
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("main.db")
    }

    /// The number of changes of the vault, which its identity holds.
    fn changes(&self) -> u64 {
        match Vault::open_if_there(&self.copy()).unwrap() {
            Some(vault) => number(&vault),
            None => 0,
        }
    }

    /// Changes the vault. Returns the number of its changes.
    fn change(&self) -> u64 {
        let mut vault = Vault::open_or_create(&self.copy()).unwrap();
        let changes = number(&vault) + 1;
        let service = format!("https://links.example.com/{changes}");
        vault.claim(&AccountIdentity { service, account: 7 }, true).unwrap();
        vault.close().unwrap();
        changes
    }

    /// Removes all files of the machine.
    fn wipe(&self) {
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

fn number(vault: &Vault) -> u64 {
    let identity = vault.identity().unwrap();
    identity.map_or(0, |it| it.service.rsplit('/').next().unwrap().parse().unwrap())
}

/// The number of changes that the store has, read by another machine.
fn stored(inner: InMemory) -> Option<u64> {
    stored_for(inner, None)
}

fn stored_for(inner: InMemory, identity: Option<&Arc<Identity>>) -> Option<u64> {
    let reader = Machine::new(Arc::new(inner));
    let reader = match identity {
        Some(identity) => reader.encrypt(identity),
        None => reader,
    };
    match reader.store.fetch().unwrap() {
        FetchReport::Empty => None,
        _ => {
            let mut vault = Vault::open(&reader.copy()).unwrap();
            assert_eq!(vault.check().unwrap().problems, [""; 0]);
            Some(number(&vault))
        }
    }
}

fn simulate(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let faulty = Arc::new(FaultyStore::new(seed));
    let mut machines: Vec<_> = (0..3).map(|_| Machine::new(Arc::clone(&faulty) as _)).collect();
    let mut acknowledged = BTreeSet::new();
    // In half of the simulations the machines encrypt from some time on.
    let key = x25519::Identity::generate().to_string();
    let identity = Arc::new(Identity::parse([key.expose_secret()]).unwrap());
    let encrypts_from = rng.usize(..32);
    let stored = |inner| stored_for(inner, Some(&identity));
    for time in 0..16 {
        if time == encrypts_from {
            machines = machines.into_iter().map(|machine| machine.encrypt(&identity)).collect();
        }
        let machine = &machines[rng.usize(..machines.len())];
        faulty.reconnect();
        if rng.u8(..3) == 0 {
            let changes = machine.changes();
            if machine.remove_copy() {
                assert!(stored(faulty.inner()).is_some_and(|it| it >= changes));
            } else {
                assert_eq!(machine.changes(), changes);
            }
        }
        if rng.u8(..12) == 0 {
            machine.wipe();
        }
        let before = machine.changes();
        match machine.store.fetch() {
            Ok(FetchReport::SetAside(aside)) => {
                assert_eq!(number(&Vault::open_read_only(&aside).unwrap()), before);
            }
            Ok(_) => {}
            // Nothing was overwritten.
            Err(error) => {
                assert_eq!(machine.changes(), before, "{error}");
                continue;
            }
        }
        let changes = machine.change();
        match machine.store.put(PutOver::Fetched) {
            Ok(PutReport::Put(_)) => {
                let newest = acknowledged.last().copied().unwrap_or(0);
                assert!(changes > newest, "{changes} after {newest} was acknowledged");
                assert!(stored(faulty.inner()).is_some_and(|it| it >= changes));
                acknowledged.insert(changes);
            }
            Ok(PutReport::Unchanged) => panic!("the change was not put"),
            Err(error) if error.kind == StoreErrorKind::Lost => {
                assert!(machine.folder.path().join("main.db.lost").exists(), "{error}");
            }
            // The change remains, and is put the next time, unless another machine is faster.
            Err(error) => assert!(machine.changes() == changes, "{error}"),
        }
        let stored = stored(faulty.inner()).unwrap_or(0);
        let newest = acknowledged.last().copied().unwrap_or(0);
        assert!(stored >= newest, "the store has {stored} of {newest} changes");
    }
    // After the faults every machine works again.
    faulty.heal();
    for machine in &machines {
        machine.store.fetch().unwrap();
        let changes = machine.change();
        assert!(matches!(machine.store.put(PutOver::Fetched), Ok(PutReport::Put(_))));
        assert_eq!(stored(faulty.inner()), Some(changes));
        assert!(acknowledged.insert(changes));
    }
}

#[test]
fn an_acknowledged_change_is_never_lost_or_overwritten() {
    run_seeds(40, simulate);
}

#[test]
fn the_machine_that_puts_second_loses_and_gets_the_newer_vault() {
    let inner = Arc::new(InMemory::new());
    let [first, second] = [(); 2].map(|()| Machine::new(Arc::clone(&inner) as _));
    assert_eq!(first.store.fetch().unwrap(), FetchReport::Empty);
    first.change();
    assert!(matches!(first.store.put(PutOver::Fetched), Ok(PutReport::Put(_))));
    assert_eq!(first.store.put(PutOver::Fetched).unwrap(), PutReport::Unchanged);
    assert_eq!(second.store.fetch().unwrap(), FetchReport::Downloaded);
    assert_eq!(second.store.fetch().unwrap(), FetchReport::Current);
    first.change();
    first.change();
    assert!(matches!(first.store.put(PutOver::Fetched), Ok(PutReport::Put(_))));
    second.change();
    let error = second.store.put(PutOver::Fetched).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Lost, "{error}");
    assert_eq!((second.changes(), stored(inner.fork())), (3, Some(3)));
    let lost = Vault::open_read_only(&second.folder.path().join("main.db.lost")).unwrap();
    assert_eq!(number(&lost), 2);
    second.change();
    assert!(matches!(second.store.put(PutOver::Fetched), Ok(PutReport::Put(_))));
    assert_eq!(stored(inner.fork()), Some(4));
}

#[test]
fn an_old_head_after_a_lost_answer_does_not_undo_the_put() {
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let machine = Machine::new(Arc::clone(&faulty) as _);
    for _ in 0..3 {
        machine.store.fetch().unwrap();
        machine.change();
        machine.store.put(PutOver::Fetched).unwrap();
    }
    for _ in 0..20 {
        machine.store.fetch().unwrap();
        let changes = machine.change();
        faulty.plan([Fault::AnswerLost, Fault::Stale]);
        machine.store.put(PutOver::Fetched).unwrap_err();
        assert_eq!(stored(faulty.inner()), Some(changes));
        assert_eq!(machine.store.fetch().unwrap(), FetchReport::Current);
        assert_eq!(machine.store.put(PutOver::Fetched).unwrap(), PutReport::Unchanged);
    }
}

#[test]
fn a_vault_that_grows_and_is_put_often_keeps_two_objects() {
    let inner = Arc::new(InMemory::new());
    let machine = Machine::new(Arc::clone(&inner) as _);
    for _ in 0..5 {
        machine.store.fetch().unwrap();
        machine.change();
        machine.store.put(PutOver::Fetched).unwrap();
    }
    let names = names_in(&inner);
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[0].contains("/0000000004-") && names[1].contains("/0000000005-"), "{names:?}");
    assert!(names[2].ends_with("/HEAD"), "{names:?}");
}

#[test]
fn an_object_that_head_never_named_is_removed_by_the_next_put() {
    let faulty = Arc::new(FaultyStore::new(1));
    faulty.heal();
    let machine = Machine::new(Arc::clone(&faulty) as _);
    for _ in 0..4 {
        machine.store.fetch().unwrap();
        machine.change();
        faulty.plan([Fault::Refused]);
        machine.store.put(PutOver::Fetched).unwrap_err();
        machine.store.put(PutOver::Fetched).unwrap();
    }
    let names = names_in(&faulty.inner());
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_put_removes_the_copy_of_a_process_that_was_killed_during_its_put() {
    let machine = Machine::new(Arc::new(InMemory::new()));
    machine.change();
    let killed = machine.folder.path().join(".main.db.restore-killed");
    std::fs::create_dir(&killed).unwrap();
    std::fs::copy(machine.copy(), killed.join("vault.db")).unwrap();
    assert!(matches!(machine.store.put(PutOver::Fetched), Ok(PutReport::Put(_))));
    assert!(!killed.exists());
}

#[test]
fn an_object_of_several_parts_is_stored_whole() {
    let bucket = Bucket::new(Arc::new(InMemory::new()), "prefix/main").unwrap();
    let mut bytes = vec![0; 20 << 20];
    Rng::with_seed(1).fill(&mut bytes);
    for size in [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 16 << 20, bytes.len()] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes[..size]).unwrap();
        file.rewind().unwrap();
        bucket.upload("object", &mut file).unwrap();
        let mut back = tempfile::tempfile().unwrap();
        assert!(bucket.download("object", &mut back, size as u64).unwrap());
        back.rewind().unwrap();
        let mut read = Vec::new();
        back.read_to_end(&mut read).unwrap();
        assert!(read == bytes[..size], "{size}");
        if let Some(less) = size.checked_sub(1) {
            let mut cut = tempfile::tempfile().unwrap();
            let error = bucket.download("object", &mut cut, less as u64).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Damaged);
            assert!(cut.metadata().unwrap().len() <= size as u64);
        }
    }
}

fn names_in(store: &InMemory) -> Vec<String> {
    use futures_util::StreamExt as _;
    use object_store::ObjectStore as _;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut listed = store.list(None);
    let mut names = Vec::new();
    while let Some(found) = runtime.block_on(listed.next()) {
        names.push(found.unwrap().location.to_string());
    }
    names.sort();
    names
}
