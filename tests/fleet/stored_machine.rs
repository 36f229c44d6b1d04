//! A simulated machine that works on a vault in a store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::fleet::bucket::Bucket;
use linkvault::fleet::error::StoreError;
use linkvault::fleet::objects::Objects;
use linkvault::fleet::store_checkpoints::{CheckpointEvents, StoreCheckpoints};
use linkvault::fleet::vault_store::{FetchReport, VaultStore};
use linkvault::vault::Vault;
use linkvault::vault::checkpoints::{CheckpointError, Checkpoints};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

use crate::sim::recorded_transport::RecordedTraffic;
use crate::sim::world::World;

/// The vault of the machine with its copy at `copy`.
pub fn stored_vault(objects: &Arc<dyn ObjectStore>, copy: &std::path::Path) -> VaultStore {
    let bucket = Bucket::new(Arc::clone(objects), "prefix/main").unwrap();
    VaultStore::new(Objects::Bucket(bucket), copy)
}

/// What the checkpoints of a machine did.
#[derive(Debug, Default)]
pub struct CheckpointLog {
    /// The number of requests to the service before each that succeeded.
    pub made: Vec<usize>,
    /// Those that failed and were postponed.
    pub postponed: Vec<String>,
}

/// What happens at a moment of a machine.
pub type Act = Arc<dyn Fn() + Send + Sync>;

/// A machine that makes checkpoints.
pub struct StoredMachine {
    pub world: World,
    pub store: VaultStore,
    pub log: Arc<Mutex<CheckpointLog>>,
}

impl StoredMachine {
    /// `world`, with its vault in `objects`.
    pub fn new(world: World, objects: &Arc<dyn ObjectStore>, every: Duration) -> Self {
        Self::acting(world, objects, every, Arc::new(|| {}), Arc::new(|| {}))
    }

    /// Calls `before` before each checkpoint, and `asked` before each question about them.
    pub fn acting(
        mut world: World,
        objects: &Arc<dyn ObjectStore>,
        every: Duration,
        before: Act,
        asked: Act,
    ) -> Self {
        let log: Arc<Mutex<CheckpointLog>> = Arc::default();
        let store = stored_vault(objects, &world.vault_path());
        let (objects, copy, clock) =
            (Arc::clone(objects), world.vault_path(), Arc::clone(&world.clock));
        let (traffic, kept) = (Arc::clone(&world.traffic), Arc::clone(&log));
        world.checkpoints = Some(Box::new(move || {
            let store = stored_vault(&objects, &copy);
            let events = Box::new(LoggedEvents(Arc::clone(&kept)));
            let inner = StoreCheckpoints::new(store, clock.clone(), every, events);
            let traffic = Arc::clone(&traffic);
            let (before, asked) = (Arc::clone(&before), Arc::clone(&asked));
            Box::new(LoggedCheckpoints { inner, traffic, before, asked, log: Arc::clone(&kept) })
        }));
        Self { world, store, log }
    }

    /// Fetches the vault, as a command does before its work.
    pub fn fetch(&self) -> Result<FetchReport, StoreError> {
        self.world.close();
        self.store.fetch()
    }
}

struct LoggedEvents(Arc<Mutex<CheckpointLog>>);

impl CheckpointEvents for LoggedEvents {
    fn text(&self, error: &StoreError) -> String {
        error.to_string()
    }

    fn postponed(&self, text: &str) {
        self.0.lock().unwrap().postponed.push(text.to_owned());
    }
}

struct LoggedCheckpoints {
    inner: StoreCheckpoints,
    traffic: Arc<Mutex<RecordedTraffic>>,
    before: Act,
    asked: Act,
    log: Arc<Mutex<CheckpointLog>>,
}

impl Checkpoints for LoggedCheckpoints {
    fn is_due(&self) -> bool {
        (self.asked)();
        self.inner.is_due()
    }

    fn put(&mut self) -> Result<(), CheckpointError> {
        (self.before)();
        let put = self.inner.put();
        if put.is_ok() {
            let requests = self.traffic.lock().unwrap().paths.len();
            self.log.lock().unwrap().made.push(requests);
        }
        put
    }

    fn is_unconfirmed(&self) -> bool {
        (self.asked)();
        self.inner.is_unconfirmed()
    }

    fn confirm(&mut self) -> Result<(), CheckpointError> {
        self.inner.confirm()
    }

    fn postpone(&mut self, error: &CheckpointError) {
        self.inner.postpone(error);
    }
}

/// The vault that `HEAD` names, as a machine without faults fetches it; `None` for an empty store.
/// It is sound.
pub fn stored(inner: InMemory) -> Option<(TempDir, Vault)> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("main.db");
    let objects: Arc<dyn ObjectStore> = Arc::new(inner);
    if stored_vault(&objects, &copy).fetch().unwrap() == FetchReport::Empty {
        return None;
    }
    let mut vault = Vault::open(&copy).unwrap();
    assert_eq!(vault.check().unwrap().problems, [""; 0]);
    Some((folder, vault))
}
