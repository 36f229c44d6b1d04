//! A simulated service, a clock that only moves by waits, a vault in a folder of its own, and the
//! state that one process leaves for the next.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use linkvault::api::client::{Client, ClientLimits, ExchangePacerState};
use linkvault::api::http::{ApiKey, Method, Transport};
use linkvault::api::pacer::{Pacer, PacerState, StoreOutcome};
use linkvault::api::read_only::ReadOnlyTransport;
use linkvault::api::redact::Redactor;
use linkvault::apply::{self, ApplyError, RunReport};
use linkvault::change::plan::Plan;
use linkvault::clock::{Clock, SimulatedClock, Timestamp};
use linkvault::crawl::{self, CrawlError, CrawlOptions, CrawlReport};
use linkvault::model::{RunId, SnapshotId};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::service::LogEntry;
use linkvault::sandbox::{
    Behaviour, Faults, SandboxService, SandboxTransport, Store, sample_account,
};
use linkvault::vault::checkpoints::Checkpoints;
use linkvault::vault::{CommitPhase, Vault, VaultError};
use tempfile::TempDir;

use super::oracle::{self, Content};
use super::secrets::{Echoes, Log, tells};
use crate::sim::account_swap::{MARK, OtherAccount};
use crate::sim::recorded_transport::{EventRecorder, RecordedTraffic, RecordingTransport};
use crate::sim::reordered_transport::ReorderedTransport;

/// The API key: long enough to be redacted, unlike all other text, and with characters that
/// services escape.
pub const KEY: &str = "k3y/of+the=simulated-account";

/// 2026-11-01T00:00:00Z.
pub const BEGIN: Timestamp = Timestamp(1_793_491_200_000);

/// Another user, who acts before each request.
type RequestHook = Arc<Mutex<dyn FnMut(&mut SandboxService, u64) + Send>>;

/// Makes the checkpoints of one process.
type MakeCheckpoints = Box<dyn Fn() -> Box<dyn Checkpoints> + Send>;

pub struct World {
    pub clock: Arc<SimulatedClock>,
    pub service: Arc<Mutex<SandboxService>>,
    pub faults: Arc<Mutex<Faults>>,
    pub traffic: Arc<Mutex<RecordedTraffic>>,
    pub events: Arc<EventRecorder>,
    pub options: CrawlOptions,
    pub reserve: u64,
    pub limits: ClientLimits,
    /// Number of reads that may overlap.
    pub in_flight: usize,
    pub latency: Duration,
    /// Which responses contain the key.
    pub echoes: Echoes,
    /// The log at level trace, if it is recorded.
    pub log: Option<Log>,
    /// Another account that may respond to the URL.
    pub other_account: Option<Arc<Mutex<OtherAccount>>>,
    /// Whether the transport refuses writes.
    pub only_read: bool,
    /// A path prefix, and the response to each such path.
    pub canned: Option<(String, String)>,
    pub before_request: Option<RequestHook>,
    /// Makes the checkpoints of the vault, if it lives in a store.
    pub checkpoints: Option<MakeCheckpoints>,
    /// The number of commit phases after which the process is killed.
    pub dies_after: Option<u64>,
    /// Whether the process was killed.
    died: Arc<AtomicBool>,
    /// Number of commit phases so far.
    pub moments: Arc<Mutex<u64>>,
    /// The requests that changed the account, as recorded by the service.
    pub wrote: Arc<Mutex<Vec<LogEntry>>>,
    seed: AtomicU64,
    kept: Arc<Mutex<Option<PacerState>>>,
    /// Vault logs that contained secrets when a process was killed.
    leaked: Arc<Mutex<Vec<PathBuf>>>,
    redactor: Redactor,
    /// The vault that the last process left open.
    left: Arc<Mutex<Option<Vault>>>,
    folder: TempDir,
}

impl World {
    pub fn of(store: Store, behaviour: &str) -> Self {
        let behaviour = Behaviour::parse(behaviour).unwrap();
        let service = SandboxService::new(store, ApiKey::new(KEY), behaviour).with_log_limit(0);
        Self {
            clock: Arc::new(SimulatedClock::new(BEGIN)),
            service: Arc::new(Mutex::new(service)),
            faults: Arc::default(),
            traffic: Arc::default(),
            events: Arc::default(),
            options: CrawlOptions::new("http://sandbox"),
            reserve: 0,
            limits: ClientLimits::default(),
            in_flight: 1,
            latency: Duration::from_millis(80),
            echoes: Echoes::None,
            log: None,
            other_account: None,
            only_read: false,
            canned: None,
            before_request: None,
            checkpoints: None,
            dies_after: None,
            died: Arc::default(),
            moments: Arc::default(),
            wrote: Arc::default(),
            seed: AtomicU64::new(1),
            kept: Arc::default(),
            leaked: Arc::default(),
            redactor: Redactor::default(),
            left: Arc::default(),
            folder: folder(),
        }
    }

    /// A small realistic account.
    pub fn with_sample_account() -> Self {
        Self::of(sample_account::sample_account(BEGIN), "")
    }

    /// An account with only `number` QR codes, which are not scanned.
    pub fn codes(number: u64, behaviour: &str) -> Self {
        let counts = GeneratedCounts { qr_codes: number, ..GeneratedCounts::default() };
        let mut store = generate(7, counts);
        for (_, code) in store.qr_codes.iter_mut() {
            code.scans.base = 0;
            code.scans.period = 0;
        }
        Self::of(store, behaviour)
    }

    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = AtomicU64::new(seed);
        self.in_flight = *fastrand::Rng::with_seed(seed).choice(&[1, 2, 4, 8]).unwrap();
        self
    }

    /// Calls `act` before the n-th request from now, for each n from 1.
    pub fn before_each_request(&mut self, mut act: impl FnMut(&mut Store, u64) + Send + 'static) {
        self.before_request =
            Some(Arc::new(Mutex::new(move |service: &mut SandboxService, nth| {
                service.mutate(|store| act(store, nth));
            })));
    }

    pub fn service(&self) -> MutexGuard<'_, SandboxService> {
        self.service.lock().unwrap()
    }

    pub fn change(&self, change: impl FnOnce(&mut Store)) {
        self.service().mutate(change);
    }

    pub fn set_faults(&self, text: &str, seed: u64) {
        let faults = format!("{text},seed={seed}");
        *self.faults.lock().unwrap() = faults.trim_start_matches(',').parse().unwrap();
    }

    pub fn vault_path(&self) -> PathBuf {
        self.folder.path().join("sim.db")
    }

    /// The vault, possibly still open from the last process: opening it takes longer than most
    /// operations on it.
    pub fn open(&self) -> Opened {
        let left = self.left.lock().unwrap().take();
        let vault = left.unwrap_or_else(|| Vault::open_or_create(&self.vault_path()).unwrap());
        Opened { vault: Some(vault), left: Arc::clone(&self.left) }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn pass(&self, time: Duration) {
        self.clock.sleep(time);
    }

    /// Waits until every late request was executed.
    pub fn execute_late(&self) {
        self.pass(Duration::from_secs(20));
        self.service().execute_late(self.clock.now());
    }

    /// Closes the vault that the last process left open.
    #[cfg(feature = "fleet")]
    pub fn close(&self) {
        *self.left.lock().unwrap() = None;
    }

    /// Another machine at the same time and for the same account, without a vault.
    #[cfg(feature = "fleet")]
    pub fn another_machine(&self) -> Self {
        let seed = self.seed.fetch_add(1000, Ordering::Relaxed) + 500;
        let nothing = Self::of(Store::default(), "").seeded(seed);
        Self {
            clock: Arc::clone(&self.clock),
            service: Arc::clone(&self.service),
            faults: Arc::clone(&self.faults),
            wrote: Arc::clone(&self.wrote),
            options: self.options.clone(),
            in_flight: self.in_flight,
            latency: self.latency,
            before_request: self.before_request.clone(),
            ..nothing
        }
    }

    /// The present content of the service.
    pub fn content(&self) -> Content {
        oracle::content(&self.service(), &ApiKey::new(KEY), self.now())
    }

    /// The content of a snapshot.
    pub fn shown(&self, number: SnapshotId) -> Content {
        oracle::shown(&mut self.open(), number)
    }

    /// Asserts that the key is in nothing stored, printed or logged, and no record of another
    /// account in anything stored.
    #[track_caller]
    pub fn assert_no_secret_leaks(&self) {
        let heard = self.events.take();
        assert!(!tells(heard.as_bytes()), "{heard}");
        let log = self.log.as_ref().map(Log::take).unwrap_or_default();
        assert!(!tells(&log), "{}", String::from_utf8_lossy(&log));
        let kept = format!("{:?}", self.kept.lock().unwrap());
        assert!(!tells(kept.as_bytes()), "{kept}");
        let mut leaked = std::mem::take(&mut *self.leaked.lock().unwrap());
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let file = entry.unwrap().path();
            leaked
                .extend(Some(&file).filter(|it| has_secrets(&std::fs::read(it).unwrap())).cloned());
        }
        assert_eq!(leaked, Vec::<PathBuf>::new());
    }

    /// The paths requested since the last call.
    pub fn requested_paths(&self) -> Vec<String> {
        let mut traffic = self.traffic.lock().unwrap();
        traffic.times.clear();
        std::mem::take(&mut traffic.paths)
    }

    /// Simulates a process that crawls: opens the vault, crawls, and ends.
    pub fn start(&mut self) -> Result<CrawlReport, CrawlError> {
        let mut vault = self.open_for_killed_process();
        let outcome = self.crawl(&mut vault, &self.options);
        vault.end(self.closes_vault(outcome.is_err()));
        self.restore_own_account();
        outcome
    }

    /// Simulates a process that applies a plan.
    pub fn apply(
        &mut self,
        plan: &Plan,
        options: &apply::ApplyOptions,
    ) -> Result<RunReport, ApplyError> {
        let mut vault = self.open_for_killed_process();
        let clock = self.clock.clone();
        let events = self.events.clone();
        let mut client = self.client();
        let outcome = self
            .with_log(|| apply::apply(&mut client, &mut vault, &*clock, &*events, options, plan));
        vault.end(self.closes_vault(outcome.is_err()));
        self.restore_own_account();
        outcome
    }

    /// Simulates a process that resumes a run.
    pub fn resume(
        &mut self,
        run: RunId,
        options: &apply::ApplyOptions,
    ) -> Result<RunReport, ApplyError> {
        let mut vault = self.open_for_killed_process();
        let clock = self.clock.clone();
        let events = self.events.clone();
        let mut client = self.client();
        let outcome = self
            .with_log(|| apply::resume(&mut client, &mut vault, &*clock, &*events, options, run));
        vault.end(self.closes_vault(outcome.is_err()));
        self.restore_own_account();
        outcome
    }

    /// Whether a process closes its vault: each that is killed, one in six that fail, and one in
    /// twenty of the others. Then the next process must open the file, which takes most of its
    /// time.
    fn closes_vault(&self, failed: bool) -> bool {
        let often = if failed { 6 } else { 20 };
        let is_drawn = self.seed.load(Ordering::Relaxed).is_multiple_of(often);
        self.died.load(Ordering::Relaxed) || is_drawn
    }

    /// Restores our account at the URL.
    fn restore_own_account(&self) {
        if let Some(other_account) = &self.other_account {
            other_account.lock().unwrap().leave(&mut self.service());
        }
    }

    fn with_log<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.log {
            Some(log) => log.over(work),
            None => work(),
        }
    }

    /// The vault for a process that may be killed.
    fn open_for_killed_process(&mut self) -> Opened {
        let mut vault = self.open();
        let mut left = self.dies_after.take();
        self.died.store(false, Ordering::Relaxed);
        let died = Arc::clone(&self.died);
        let moments = Arc::clone(&self.moments);
        let (leaked, log) = (Arc::clone(&self.leaked), self.vault_path().with_extension("db-wal"));
        if let Some(checkpoints) = &self.checkpoints {
            vault.set_checkpoints(checkpoints());
        }
        vault.on_commit(Box::new(move |_: CommitPhase| {
            *moments.lock().unwrap() += 1;
            left = left.map(|left| left.saturating_sub(1));
            if left != Some(0) {
                return Ok(());
            }
            died.store(true, Ordering::Relaxed);
            let is_told = |path: &&PathBuf| has_secrets(&std::fs::read(path).unwrap_or_default());
            leaked.lock().unwrap().extend(Some(&log).filter(is_told).cloned());
            Err(VaultError::Stopped)
        }));
        vault
    }

    /// A crawl into a vault that the caller opens and closes.
    pub fn crawl(
        &self,
        vault: &mut Vault,
        options: &CrawlOptions,
    ) -> Result<CrawlReport, CrawlError> {
        let mut client = self.client();
        self.with_log(|| crawl::crawl(&mut client, vault, &*self.clock, &*self.events, options))
    }

    /// A crawl that must succeed; panics otherwise.
    #[track_caller]
    pub fn backup(&mut self) -> CrawlReport {
        self.start().unwrap()
    }

    fn client(&self) -> Client {
        let (now, wall) = (self.clock.monotonic(), self.clock.now());
        let pacer = match &*self.kept.lock().unwrap() {
            Some(kept) => Pacer::restore(self.reserve, kept, now, wall),
            None => Pacer::new(self.reserve),
        };
        let kept = Arc::clone(&self.kept);
        let mut transport = SandboxTransport::new(Arc::clone(&self.service), self.clock.clone())
            .with_faults(Arc::clone(&self.faults))
            .with_latency(self.latency);
        let wrote = Arc::clone(&self.wrote);
        transport = transport.with_on_write(move |service| {
            // A request that is executed late is in the log since it was accepted.
            let newest = service.log().iter().rev().find(|entry| entry.method != Method::Get);
            let mut wrote = wrote.lock().unwrap();
            let is_new = wrote.last() != newest;
            wrote.extend(newest.filter(|_| is_new).cloned());
        });
        let (mut before_request, other_account) =
            (self.before_request.clone(), self.other_account.clone());
        if let Some(other_account) = &other_account {
            other_account.lock().unwrap().begin();
        }
        let there = other_account.clone();
        if before_request.is_some() || other_account.is_some() {
            let (mut nth, clock) = (0, self.clock.clone());
            transport = transport.with_hook(move |service, _| {
                nth += 1;
                let is_there = other_account.as_ref().is_some_and(|other_account| {
                    let mut other_account = other_account.lock().unwrap();
                    other_account.before_request(service, clock.monotonic());
                    other_account.is_active()
                });
                if let Some(before_request) = before_request.as_mut().filter(|_| !is_there) {
                    (*before_request.lock().unwrap())(service, nth);
                }
            });
        }
        let traffic = Arc::clone(&self.traffic);
        let (echoes, canned) = (self.echoes, self.canned.clone());
        let clock = self.clock.clone();
        let wire = RecordingTransport {
            inner: transport,
            traffic,
            echoes,
            canned,
            other_account: there,
            clock,
        };
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        let wire = ReorderedTransport::new(wire, seed, self.clock.clone());
        let transport: Box<dyn Transport> =
            if self.only_read { Box::new(ReadOnlyTransport(wire)) } else { Box::new(wire) };
        Client::new(transport, self.clock.clone(), pacer)
            .with_redactor(self.redactor.clone())
            .with_key(ApiKey::new(KEY))
            .with_seed(seed)
            .with_limits(ClientLimits { max_in_flight: self.in_flight, ..self.limits })
            .with_progress(self.events.clone())
            .with_shared_pacer(shared_pacer(kept))
    }
}

/// The state that all processes share.
fn shared_pacer(kept: Arc<Mutex<Option<PacerState>>>) -> ExchangePacerState {
    Box::new(move |change| {
        let mut kept = kept.lock().unwrap();
        let state = change(kept.take());
        *kept = Some(state);
        StoreOutcome::Stored
    })
}

/// An open vault that stays open for the next process.
pub struct Opened {
    vault: Option<Vault>,
    left: Arc<Mutex<Option<Vault>>>,
}

impl Opened {
    /// Ends its process. If `closes`, the next one has to open the file.
    fn end(mut self, closes: bool) {
        match self.vault.as_mut().filter(|_| !closes) {
            Some(vault) => vault.abandon(),
            None => self.vault = None,
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(vault) = self.vault.take() {
            *self.left.lock().unwrap() = Some(vault);
        }
    }
}

impl Deref for Opened {
    type Target = Vault;

    fn deref(&self) -> &Vault {
        self.vault.as_ref().unwrap()
    }
}

impl DerefMut for Opened {
    fn deref_mut(&mut self) -> &mut Vault {
        self.vault.as_mut().unwrap()
    }
}

/// Whether the bytes contain the key or data of another account.
fn has_secrets(bytes: &[u8]) -> bool {
    tells(bytes) || memchr::memmem::find(bytes, MARK.as_bytes()).is_some()
}

/// A temporary folder, in memory if possible: a simulation writes much that need not last.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
