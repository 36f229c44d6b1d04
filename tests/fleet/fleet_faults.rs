//! A fleet with real servers and three workers, under faults in an order drawn from a seed: workers
//! that are killed or stopped for longer than the heartbeat time-out, Temporal killed and restarted,
//! and a store that is killed, stops, refuses, loses answers or serves stale reads. Every run has
//! every kind of fault.
//!
//! `LINKVAULT_FLEET_SEED` repeats a run, as far as processes repeat. `LINKVAULT_FLEET_ACCOUNTS` sets
//! the number of accounts.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use fastrand::Rng;
use linkvault::clock::{Clock as _, Interrupt, SystemClock, Timestamp};
use linkvault::sandbox::service::LogEntry;
use serde_json::Value;

use super::fault_proxy::{FaultProxy, StoreFault};
use super::s3_servers::{DurableS3Server, http};
use super::temporal_server::TemporalServer;
use crate::support::{KEY, LiveService, TestEnvironment};

/// The most requests of a slow account in a window of 5 s, which is the time between two checkpoints.
const SLOW_LIMIT: u64 = 15;
/// The answers of these services take this time, while there are faults.
const LATENCY: &str = "latency=100ms";
/// Every other account is backed up several times while there are faults.
const FAST: &str = "rate-limit=100,rate-window=5";
const WORKERS: usize = 3;
const ACCOUNTS: usize = 12;
/// The fewest and the most accounts that a worker works on at the same time.
const SLOTS: (usize, usize) = (4, 16);
/// The faults of a round, besides those of single requests to the store.
const ROUND: [FleetFault; 8] = [
    FleetFault::KillWorker,
    FleetFault::KillWorker,
    FleetFault::KillWorker,
    FleetFault::StopWorker,
    FleetFault::StopWorker,
    FleetFault::KillTemporal,
    FleetFault::KillStore,
    FleetFault::StopStore,
];
/// The kinds of faults of requests to the store.
const STORE_FAULTS: [StoreFault; 5] = [
    StoreFault::Refused,
    StoreFault::TimedOut,
    StoreFault::AnswerLost,
    StoreFault::Late,
    StoreFault::Stale,
];
/// The most requests that a worker sends to a service at the same time, by default.
const AT_ONCE: u64 = 4;
/// The most requests to a slow account between two checkpoints, if the store does not delay them: the
/// time between them touches two windows. A backup has more.
const MOST_BETWEEN: usize = (2 * SLOW_LIMIT + AT_ONCE) as usize;
/// How long a worker is stopped: longer than the heartbeat time-out of 5 s.
const STOPPED: Duration = Duration::from_secs(7);
const SECOND: Duration = Duration::from_secs(1);

/// A fault of a process.
#[derive(Debug, Clone, Copy)]
enum FleetFault {
    KillWorker,
    StopWorker,
    KillTemporal,
    KillStore,
    StopStore,
}

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap())
}

/// Accounts with a service each, and the servers.
struct Fleet {
    clock: SystemClock,
    temporal: TemporalServer,
    store: DurableS3Server,
    proxy: FaultProxy,
    services: Vec<LiveService>,
    /// The snapshots that `HEAD` had, with their digests, by account: the complete ones.
    seen: Vec<BTreeMap<u64, String>>,
    /// The last content of each `HEAD`.
    heads: Vec<String>,
    /// Reads the store without faults.
    observer: TestEnvironment,
}

impl Fleet {
    fn start(accounts: usize, seed: u64) -> Option<Self> {
        // Each takes seconds to start.
        let store = DurableS3Server::start()?;
        let temporal = TemporalServer::start()?;
        store.wait();
        let proxy = FaultProxy::start(&store.url, seed, 2 * SECOND);
        // Small pages and a low limit, so that a backup takes longer than two checkpoints.
        let slow = format!("max-limit=2,result=total,rate-limit={SLOW_LIMIT},rate-window=5");
        let start = |account| match account % 2 {
            0 => LiveService::start(FAST, ""),
            _ => LiveService::start(&slow, LATENCY),
        };
        let services: Vec<_> = (0..accounts).map(start).collect();
        let observer = machine(&temporal, &services, &store.url);
        let (seen, heads) = (vec![BTreeMap::new(); accounts], vec![String::new(); accounts]);
        let clock = SystemClock::new(Interrupt::default());
        Some(Self { clock, temporal, store, proxy, services, seen, heads, observer })
    }

    fn snapshots(&self, account: usize) -> Vec<Value> {
        let name = name(account);
        let shown = self.observer.run(&["snapshots", &name, "--json"]).succeeds().json();
        shown["snapshots"].as_array().unwrap().clone()
    }

    /// Notes the complete snapshots of the vaults whose `HEAD` has changed. Each vault must be whole.
    fn observe(&mut self) {
        if !self.store.is_ready() {
            return;
        }
        for account in 0..self.services.len() {
            let url = format!("{}/vaults/fleet/{}/HEAD", self.store.url, name(account));
            let (status, head) = http("GET", &url);
            if status != 200 || head == self.heads[account] {
                continue;
            }
            let complete = complete(&self.snapshots(account));
            self.contains_all_seen(account, &complete);
            self.seen[account].extend(complete);
            self.heads[account] = head;
        }
    }

    #[track_caller]
    fn contains_all_seen(&self, account: usize, complete: &BTreeMap<u64, String>) {
        for (number, digest) in &self.seen[account] {
            let found = complete.get(number);
            assert_eq!(found, Some(digest), "snapshot {number} of {} is lost", name(account));
        }
    }

    /// The workflows of the backups that run.
    fn running(&self) -> Vec<String> {
        let query = "ExecutionStatus = 'Running' AND WorkflowType = 'back_up_account'";
        let list = ["workflow", "list", "-o", "json", "--limit", "1000", "--query", query];
        let listed: Value = serde_json::from_str(&self.temporal.command(&list)).unwrap();
        let id = |it: &Value| it["execution"]["workflowId"].as_str().unwrap().to_owned();
        listed.as_array().unwrap().iter().map(id).collect()
    }

    /// Whether a workflow has something to do now. If not, it waits for a repetition.
    fn is_active(&self, workflow: &str) -> bool {
        let shown = self.temporal.command(&["workflow", "describe", "-w", workflow, "-o", "json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let ended = shown["workflowExecutionInfo"]["status"] != "WORKFLOW_EXECUTION_STATUS_RUNNING";
        let works = shown["pendingActivities"].as_array().is_some_and(|it| !it.is_empty());
        ended || works || shown["pendingWorkflowTask"].is_object()
    }

    /// Waits until no backup is under way. One that failed is repeated minutes later; it is ended
    /// instead. Returns the number of these.
    fn wait_until_idle(&self, limit: Duration) -> usize {
        let end = self.clock.monotonic() + limit;
        loop {
            let running = self.running();
            assert!(self.clock.monotonic() < end, "backups do not end: {running:?}");
            if !running.iter().any(|it| self.is_active(it)) {
                for workflow in &running {
                    self.temporal.command(&["workflow", "terminate", "-w", workflow]);
                }
                return running.len();
            }
            self.clock.sleep(SECOND / 2);
        }
    }

    /// The requests to the service of an account, divided by the puts of `HEAD`. Those before `since`
    /// are left out.
    fn between_puts(&self, account: usize, since: Timestamp) -> Vec<Vec<LogEntry>> {
        let puts = self.puts(account);
        let mut between = vec![Vec::new(); puts.len() + 1];
        for request in self.services[account].sandbox().log().iter().filter(|it| it.at >= since) {
            between[puts.partition_point(|put| *put < request.at)].push(request.clone());
        }
        between
    }

    /// The number of requests to the service of an account that are in none of its complete
    /// snapshots. They must have been sent after the last checkpoint of a session that was
    /// interrupted: at most one checkpoint's requests are repeated.
    fn repeated(&self, account: usize, snapshots: &[Value]) -> u64 {
        let between = self.between_puts(account, Timestamp(0));
        let requests = between.iter().map(Vec::len).sum::<usize>() as u64;
        let complete = snapshots.iter().filter(|it| it["status"] == "complete");
        let recorded = complete.clone().filter_map(|it| it["requests"].as_u64()).sum::<u64>();
        let lost = requests.saturating_sub(recorded);
        let unsaved = between.iter().map(|it| unsaved(it)).sum::<usize>() as u64;
        let sessions = between.iter().flatten().filter(|it| begins_session(it)).count();
        // A request that was under way during a checkpoint is not in it.
        let interrupted = (sessions - complete.count()) as u64;
        let (most, name) = (unsaved + interrupted * AT_ONCE, name(account));
        if lost > 0 {
            println!("{name}: {interrupted} sessions lost {lost} requests, at most {most}");
        }
        let numbers: Vec<_> = between.iter().map(Vec::len).collect();
        assert!(lost <= most, "{name} lost {lost} requests, more than {most}: {numbers:?}");
        lost
    }

    /// When the store got each `HEAD` of an account. Each must have been made from the one before.
    fn puts(&self, account: usize) -> Vec<Timestamp> {
        let mut stored = self.proxy.stored(&format!("/vaults/fleet/{}/HEAD", name(account)));
        stored.sort_by_key(|it| it.head.sequence);
        for pair in stored.windows(2) {
            let [before, after] = [&pair[0].head, &pair[1].head];
            // The answer to a put may be lost with the store.
            let is_next = after.sequence == before.sequence + 1;
            assert!(after.sequence > before.sequence, "{before:?} was overwritten by {after:?}");
            assert!(!is_next || after.follows(before), "{after:?} does not follow {before:?}");
        }
        let mut times: Vec<_> = stored.iter().map(|it| it.at).collect();
        times.sort();
        times
    }

    /// Lets some time pass, and begins two backups.
    fn go_on(&self, rng: &mut Rng) {
        self.clock.sleep(Duration::from_millis(rng.u64(200..1500)));
        for _ in 0..2 {
            self.run(rng.usize(..self.services.len()));
        }
    }

    fn run(&self, account: usize) {
        self.observer.run(&["fleet", "run", &name(account), "-q"]).succeeds();
    }

    fn run_all(&self) {
        (0..self.services.len()).for_each(|account| self.run(account));
    }
}

fn name(account: usize) -> String {
    format!("a{account}")
}

/// Whether it is the request for the account, with which each session begins. A second one in a
/// session is only sent after a minute.
fn begins_session(request: &LogEntry) -> bool {
    request.path == "/api/account"
}

/// How many of the requests between two puts were sent by sessions that another one followed.
fn unsaved(between: &[LogEntry]) -> usize {
    between.iter().rposition(begins_session).unwrap_or(0)
}

/// The complete snapshots with their digests, by number.
fn complete(snapshots: &[Value]) -> BTreeMap<u64, String> {
    let complete = snapshots.iter().filter(|it| it["status"] == "complete");
    complete.map(|it| (it["snapshot"].as_u64().unwrap(), it["digest"].to_string())).collect()
}

/// A machine that reaches the store at `endpoint`.
fn machine(temporal: &TemporalServer, services: &[LiveService], endpoint: &str) -> TestEnvironment {
    let mut text = format!(
        "[fleet]\ntemporal = \"{}\"\ncheckpoint = \"5s\"\n\
         [defaults]\nschedule = \"0 0 1 1 *\"\ntimezone = \"UTC\"\n",
        temporal.url()
    );
    for (account, service) in services.iter().enumerate() {
        let (name, url) = (name(account), service.url());
        text += &format!(
            "[accounts.{name}]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n\
             vault = \"s3://vaults/fleet/{name}\"\n"
        );
    }
    TestEnvironment::new()
        .config(&text)
        .variable("LINKS_KEY", KEY)
        .variable("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .variable("AWS_SECRET_ACCESS_KEY", "s3cr3t-0f-the-st0re")
        .variable("AWS_REGION", "us-east-1")
        .variable("AWS_ENDPOINT_URL", endpoint)
}

/// A worker on a machine of its own, which restarts it.
struct Worker {
    machine: TestEnvironment,
    process: Child,
    slots: usize,
    starts: usize,
    /// When it goes on, if it is stopped.
    resumes: Option<Duration>,
}

impl Worker {
    fn start(machine: TestEnvironment, slots: usize) -> Self {
        let process = Self::process(&machine, slots, 0);
        Self { machine, process, slots, starts: 1, resumes: None }
    }

    fn process(machine: &TestEnvironment, slots: usize, nth: usize) -> Child {
        let (slots, log) = (slots.to_string(), format!("worker.{nth}.log"));
        let mut command = machine.command(&["worker", "--slots", &slots, "--log-file", &log]);
        let null = std::process::Stdio::null;
        command.stdout(null()).stderr(null()).spawn().unwrap()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = Self::process(&self.machine, self.slots, self.starts);
        (self.starts, self.resumes) = (self.starts + 1, None);
    }

    fn stop_until(&mut self, time: Duration) {
        self.machine.signal("-STOP", &self.process);
        self.resumes = Some(time);
    }

    fn is_stopped(&self) -> bool {
        self.resumes.is_some()
    }

    fn resume(&mut self) {
        self.machine.signal("-CONT", &self.process);
        self.resumes = None;
    }

    fn log(&self) -> String {
        (0..self.starts).map(|nth| self.machine.text(&format!("worker.{nth}.log"))).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes the faults of some rounds.
fn make_faults(fleet: &mut Fleet, workers: &mut [Worker], rng: &mut Rng, rounds: usize) {
    for round in 0..rounds {
        let mut faults = ROUND;
        rng.shuffle(&mut faults);
        for fault in faults {
            fleet.go_on(rng);
            println!("round {round}: {fault:?}");
            make_fault(fleet, workers, rng, fault);
            fleet.observe();
        }
    }
    fleet.store.wait();
    while workers.iter().any(Worker::is_stopped) || !fleet.proxy.had(&STORE_FAULTS) {
        fleet.go_on(rng);
        resume_due(fleet, workers);
    }
    println!("{:?}", fleet.proxy.counts());
    fleet.proxy.heal();
    fleet.services.iter().for_each(|it| it.faults("latency=0ms"));
}

fn make_fault(fleet: &mut Fleet, workers: &mut [Worker], rng: &mut Rng, fault: FleetFault) {
    let run = loop {
        resume_due(fleet, workers);
        let running: Vec<_> = workers.iter_mut().filter(|it| !it.is_stopped()).collect();
        if !running.is_empty() {
            break running;
        }
        fleet.clock.sleep(SECOND / 10);
    };
    let nth = rng.usize(..run.len());
    let worker = run.into_iter().nth(nth).unwrap();
    match fault {
        FleetFault::KillWorker => worker.kill(),
        FleetFault::StopWorker => worker.stop_until(fleet.clock.monotonic() + STOPPED),
        FleetFault::KillTemporal => fleet.temporal.restart(),
        FleetFault::KillStore => fleet.store.kill(),
        FleetFault::StopStore => {
            fleet.store.signal("-STOP");
            fleet.clock.sleep(2 * SECOND);
            fleet.store.signal("-CONT");
        }
    }
}

fn resume_due(fleet: &Fleet, workers: &mut [Worker]) {
    let now = fleet.clock.monotonic();
    workers.iter_mut().filter(|it| it.resumes.is_some_and(|at| at <= now)).for_each(Worker::resume);
}

#[test]
fn a_fleet_loses_nothing_under_faults() {
    let accounts = number("LINKVAULT_FLEET_ACCOUNTS").map_or(ACCOUNTS, |it| it as usize);
    let seed = number("LINKVAULT_FLEET_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("LINKVAULT_FLEET_SEED={seed} LINKVAULT_FLEET_ACCOUNTS={accounts}");
    let scale = accounts.div_ceil(4 * ACCOUNTS);
    // A backup may be taken over several times, and each time waits for a window of the rate limit.
    let limit = 300 * SECOND * scale as u32;
    let slots = (accounts / (2 * WORKERS)).clamp(SLOTS.0, SLOTS.1);
    let Some(mut fleet) = Fleet::start(accounts, seed) else { return };
    fleet.observer.run(&["fleet", "apply", "config.toml", "--yes", "-q"]).succeeds();
    let machines =
        (0..WORKERS).map(|_| machine(&fleet.temporal, &fleet.services, &fleet.proxy.url));
    let mut workers: Vec<_> = machines.map(|it| Worker::start(it, slots)).collect();
    fleet.run_all();
    make_faults(&mut fleet, &mut workers, &mut Rng::with_seed(seed), scale);
    let ended = fleet.wait_until_idle(limit);
    println!("{ended} backups waited for a repetition");
    fleet.observe();

    // Every account is backed up again.
    let before: Vec<_> = fleet.seen.iter().map(|it| it.keys().max().copied()).collect();
    let healed = fleet.clock.now();
    fleet.run_all();
    assert_eq!(fleet.wait_until_idle(limit), 0, "backups failed after the faults");
    let (mut requests, mut lost) = (0, 0);
    for (account, before) in before.iter().enumerate() {
        fleet.observer.run(&["check", &name(account)]).succeeds();
        let snapshots = fleet.snapshots(account);
        let numbers: Vec<_> = snapshots.iter().map(|it| it["snapshot"].as_u64().unwrap()).collect();
        assert!(numbers.iter().zip(1..).all(|(number, nth)| *number == nth), "{numbers:?}");
        let complete = complete(&snapshots);
        fleet.contains_all_seen(account, &complete);
        let newest = complete.keys().max().copied();
        assert!(newest > *before, "{} was not backed up again", name(account));
        lost += fleet.repeated(account, &snapshots);
        let between = fleet.between_puts(account, healed);
        let most = between.iter().map(Vec::len).max().unwrap();
        assert!(most <= MOST_BETWEEN, "{}: {most} requests after a checkpoint", name(account));
        requests += fleet.services[account].request_count();
        assert_eq!(fleet.services[account].throttled(), 0, "{} was throttled", name(account));
    }
    println!("{lost} of {requests} requests are in no snapshot");
    let defects: String = workers.iter().map(Worker::log).collect();
    let defects: Vec<_> = defects.lines().filter(|it| it.contains("a defect")).collect();
    assert_eq!(defects, [""; 0]);
}
