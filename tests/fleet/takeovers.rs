//! Machines that take an account over from each other, with the operations of a worker on simulated
//! time: the service refuses nothing for its rate limit, and each backup is completed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use linkvault::api::http::{ApiKey, FinishedRead, Request, Response, Transport, TransportError};
use linkvault::clock::{Clock, SimulatedClock, SleepOutcome, Timestamp};
use linkvault::config::Home;
use linkvault::health::attempt::AttemptOutcome;
use linkvault::ops::{Env, NoEvents};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use linkvault::sandbox::{Behaviour, SandboxService, SandboxTransport};
use linkvault::vault::Vault;
use linkvault::worker::WorkerMetrics;
use linkvault::worker::operations::attempt;
use tempfile::TempDir;

use crate::sim::seed_runner::run_seeds;
use crate::sim::world::BEGIN;

/// The clock of a machine during one activity.
struct MachineClock {
    time: Arc<SimulatedClock>,
    fleet: Arc<Fleet>,
    /// How far its wall clock is ahead, in milliseconds.
    ahead: i64,
    /// Whether the activity must stop.
    is_over: Arc<AtomicBool>,
}

/// The flags of an activity.
#[derive(Clone, Default)]
struct Flags {
    /// It must stop.
    is_over: Arc<AtomicBool>,
    /// Its lease is lost.
    is_lost: Arc<AtomicBool>,
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.time.now().0 + self.ahead)
    }

    fn monotonic(&self) -> Duration {
        self.time.monotonic()
    }

    fn sleep(&self, time: Duration) -> SleepOutcome {
        if self.interrupted() {
            return SleepOutcome::Interrupted;
        }
        let overtakes = self.fleet.overtakes.lock().unwrap().take_if(|_| time >= LONG);
        if let Some(nth) = overtakes {
            assert_eq!(self.fleet.activity(nth, None), Some(AttemptOutcome::Complete));
        }
        self.time.sleep(time)
    }

    fn interrupted(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// What ends an activity before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// SIGTERM: it stops after the request under way.
    Told,
    /// `kill -9`, before or after the request is sent.
    Killed { sends: bool },
    /// SIGSTOP, before or after it decided to send the request. Another machine works meanwhile.
    Suspended { sends: bool },
    /// The store is not reached any more.
    CutOff,
}

/// The account, its store and its machines.
struct Fleet {
    time: Arc<SimulatedClock>,
    service: Arc<Mutex<SandboxService>>,
    machines: Vec<Machine>,
    store: TempDir,
    lanes: usize,
    rng: Mutex<Rng>,
    /// The requests that suspended machines had under way, and sent later.
    late: AtomicU64,
    /// The machine that makes a backup while another one waits for a window.
    overtakes: Mutex<Option<usize>>,
}

/// A wait that is not that between two requests.
const LONG: Duration = Duration::from_secs(30);

struct Machine {
    home: TempDir,
    ahead: i64,
    /// The process, until it is killed.
    process: Mutex<Option<Env>>,
}

/// A process that was killed.
struct Killed;

impl Fleet {
    fn new(seed: u64) -> Arc<Self> {
        let mut rng = Rng::with_seed(seed);
        let limit = rng.choice(["5", "12", "30", "zero"]).unwrap();
        let window = rng.choice(["fixed", "aligned", "sliding"]).unwrap();
        Self::with(seed, rng, limit, window)
    }

    fn with(seed: u64, mut rng: Rng, limit: &str, window: &str) -> Arc<Self> {
        let counts = GeneratedCounts { channels: 2, qr_codes: 5, ..GeneratedCounts::each(5) };
        let behaviour = format!("max-limit=2,result=total,rate-limit={limit},window={window}");
        let behaviour = Behaviour::parse(&behaviour).unwrap();
        let service = SandboxService::new(generate(seed, counts), ApiKey::new(KEY), behaviour);
        let store = tempfile::tempdir().unwrap();
        std::fs::create_dir(store.path().join("main")).unwrap();
        let machines = (0..3).map(|_| Machine::new(store.path(), rng.i64(-1000..=1000))).collect();
        Arc::new(Self {
            time: Arc::new(SimulatedClock::new(Timestamp(BEGIN.0 + rng.i64(0..60_000)))),
            service: Arc::new(Mutex::new(service.with_log_limit(0))),
            machines,
            store,
            lanes: *rng.choice(&[1, 4]).unwrap(),
            rng: Mutex::new(rng),
            late: AtomicU64::new(0),
            overtakes: Mutex::new(None),
        })
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap())
    }

    /// A machine other than those that are suspended makes or continues a backup. `end` happens at
    /// the request with its number.
    fn activity(self: &Arc<Self>, nth: usize, end: Option<(End, u64)>) -> Option<AttemptOutcome> {
        let machine = &self.machines[nth];
        let flags = Flags::default();
        let mut process = machine.process.lock().unwrap();
        let env = process.get_or_insert_with(|| machine.start(self));
        let clock = MachineClock {
            time: Arc::clone(&self.time),
            fleet: Arc::clone(self),
            ahead: machine.ahead,
            is_over: Arc::clone(&flags.is_over),
        };
        let is_lost = Arc::clone(&flags.is_lost);
        let fleet = Arc::clone(self);
        let connector = move |_: &_| {
            let service = Arc::clone(&fleet.service);
            let inner = SandboxTransport::new(service, Arc::clone(&fleet.time) as _)
                .with_latency(Duration::from_millis(80))
                .with_lanes(fleet.lanes);
            let (fleet, flags) = (Arc::clone(&fleet), flags.clone());
            let wire = EndingTransport {
                inner,
                fleet,
                nth,
                end,
                sent: 0,
                running: 0,
                is_silent: false,
                flags,
            };
            Ok((Box::new(wire) as Box<dyn Transport>, ApiKey::new(KEY)))
        };
        let work = || {
            let env = env
                .with_clock(Arc::new(clock), Arc::new(NoEvents))
                .with_permission(Arc::new(move || !is_lost.load(Ordering::Relaxed)))
                .with_connector(Box::new(connector));
            let account = env.config().unwrap().account("main").unwrap();
            attempt(&env, &account, &WorkerMetrics::default()).ok().map(|it| it.outcome)
        };
        let done = catch_unwind(AssertUnwindSafe(work));
        self.reach_store(true);
        match done {
            Ok(outcome) => outcome,
            Err(panic) if panic.is::<Killed>() => {
                *process = None;
                None
            }
            Err(panic) => {
                drop(process);
                resume_unwind(panic)
            }
        }
    }

    /// Lets the machines reach the store or not: a file is where its folder was.
    fn reach_store(&self, reached: bool) {
        let folder = self.store.path().join("main");
        let aside = self.store.path().join("aside");
        if reached && aside.exists() {
            std::fs::remove_file(&folder).unwrap();
            std::fs::rename(&aside, &folder).unwrap();
        } else if !reached && !aside.exists() {
            std::fs::rename(&folder, &aside).unwrap();
            std::fs::write(&folder, "").unwrap();
        }
    }

    /// Another machine than `suspended` works, perhaps until it is lost, too.
    fn take_over(self: &Arc<Self>, suspended: usize) {
        let (other, end) = self.draw(|rng| {
            let other = (suspended + rng.usize(1..self.machines.len())) % self.machines.len();
            let end = [End::Told, End::Killed { sends: rng.bool() }];
            (other, rng.bool().then(|| (end[rng.usize(..2)], rng.u64(1..40))))
        });
        self.pass(5..200);
        self.activity(other, end);
        self.pass(0..100);
    }

    fn pass(&self, seconds: std::ops::Range<u64>) {
        let time = self.draw(|rng| rng.u64(seconds.start * 1000..seconds.end * 1000));
        self.time.sleep(Duration::from_millis(time));
    }
}

const KEY: &str = "the-key-of-the-simulated-account";

impl Machine {
    fn new(store: &Path, ahead: i64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let text = format!(
            "[accounts.main]\nurl = \"https://links.example\"\nkey_env = \"LINKS_KEY\"\n\
             vault = \"file://{}/main\"\n[fleet]\ncheckpoint = \"20s\"\n",
            store.display()
        );
        let file = home.path().join("config.toml");
        linkvault::files::write_private(&file, text.as_bytes()).unwrap();
        Self { home, ahead, process: Mutex::default() }
    }

    fn start(&self, fleet: &Fleet) -> Env {
        let time = Arc::clone(&fleet.time) as _;
        Env::new(time, Arc::new(NoEvents)).with_home(Home::at(self.home.path()))
    }
}

/// A transport that ends its activity at a request.
struct EndingTransport {
    inner: SandboxTransport,
    fleet: Arc<Fleet>,
    nth: usize,
    end: Option<(End, u64)>,
    sent: u64,
    /// The reads under way.
    running: u64,
    /// Whether it begins no further request.
    is_silent: bool,
    flags: Flags,
}

impl EndingTransport {
    fn before(&mut self, request: &Request) {
        self.sent += 1;
        let Some((end, _)) = self.end.filter(|(_, at)| *at == self.sent) else { return };
        match end {
            End::Told => self.flags.is_over.store(true, Ordering::Relaxed),
            End::Killed { sends } => {
                if sends {
                    let _ = self.inner.send(request);
                }
                resume_unwind(Box::new(Killed));
            }
            End::Suspended { sends } => {
                self.fleet.take_over(self.nth);
                let late = self.running + u64::from(sends);
                self.fleet.late.fetch_add(late, Ordering::Relaxed);
                self.is_silent = !sends;
                self.flags.is_lost.store(true, Ordering::Relaxed);
                self.flags.is_over.store(true, Ordering::Relaxed);
            }
            End::CutOff => self.fleet.reach_store(false),
        }
    }
}

impl Transport for EndingTransport {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        self.before(request);
        if self.is_silent {
            return Err(TransportError::NotSent("it was suspended".into()));
        }
        self.inner.send(request)
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        self.before(request);
        let is_begun = !self.is_silent && self.inner.begin_read(id, request);
        self.running += u64::from(is_begun);
        is_begun
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        let read = self.inner.next_read();
        self.running -= u64::from(read.is_some());
        read
    }

    fn try_next_read(&mut self) -> Option<FinishedRead> {
        let read = self.inner.try_next_read();
        self.running -= u64::from(read.is_some());
        read
    }
}

fn simulate(seed: u64) {
    let fleet = Fleet::new(seed);
    let mut complete = 0;
    for _ in 0..fleet.draw(|rng| rng.usize(3..8)) {
        let (nth, end) = fleet.draw(|rng| {
            let end = match rng.u8(..6) {
                0 => Some(End::Told),
                1 => Some(End::Killed { sends: rng.bool() }),
                2 => Some(End::Suspended { sends: rng.bool() }),
                3 => Some(End::CutOff),
                _ => None,
            };
            (rng.usize(..fleet.machines.len()), end.map(|end| (end, rng.u64(1..40))))
        });
        let outcome = fleet.activity(nth, end);
        complete += u64::from(outcome == Some(AttemptOutcome::Complete));
        match end {
            // Temporal waits for heartbeats before it gives the account to another machine.
            Some((End::Killed { .. }, _)) if outcome.is_none() => fleet.pass(5..200),
            _ => fleet.pass(0..100),
        }
    }
    let before = fleet.service.lock().unwrap().totals();
    let outcome = fleet.activity(0, None);
    assert_eq!(outcome, Some(AttemptOutcome::Complete));
    let totals = fleet.service.lock().unwrap().totals();
    assert_eq!(totals.throttled, before.throttled, "of the last backup");
    let late = fleet.late.load(Ordering::Relaxed);
    assert!(totals.throttled <= late, "{} refused, {late} late", totals.throttled);
    let copy = fleet.machines[0].home.path().join("vaults/main.db");
    let mut vault = Vault::open(&copy).unwrap();
    assert_eq!(vault.check().unwrap().problems, [""; 0]);
    assert!(vault.snapshots().unwrap().len() as u64 > complete);
}

#[test]
fn the_service_refuses_nothing_whichever_machine_takes_an_account_over() {
    run_seeds(20, simulate);
}

#[test]
fn a_vault_that_was_put_during_the_wait_for_a_window_is_fetched_before_the_crawl() {
    let fleet = Fleet::with(1, Rng::with_seed(1), "30", "fixed");
    assert_eq!(fleet.activity(0, None), Some(AttemptOutcome::Complete));
    // A session whose end is not known: the next machine waits for a window.
    fleet.activity(2, Some((End::Killed { sends: true }, 3)));
    *fleet.overtakes.lock().unwrap() = Some(1);
    assert_eq!(fleet.activity(0, None), Some(AttemptOutcome::Complete));
    assert_eq!(*fleet.overtakes.lock().unwrap(), None, "no machine waited");
    let vaults = fleet.machines[0].home.path().join("vaults");
    let names = std::fs::read_dir(&vaults).unwrap().map(|it| it.unwrap().file_name());
    let lost: Vec<_> = names.filter(|it| it.to_string_lossy().contains(".lost")).collect();
    assert_eq!(lost, [""; 0]);
    let vault = Vault::open(&vaults.join("main.db")).unwrap();
    assert_eq!(vault.snapshots().unwrap().len(), 3);
}
