//! A fleet with real servers and three workers, under faults drawn from a seed: workers that are
//! killed or stopped for longer than the heartbeat time-out, Temporal killed and restarted, and a
//! store that stops, refuses, loses answers or serves stale reads.
//!
//! `LINKVAULT_FLEET_SEED` repeats a run, as far as processes repeat. `LINKVAULT_FLEET_ACCOUNTS` sets
//! the number of accounts.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use fastrand::Rng;
use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use serde_json::Value;

use super::fault_proxy::FaultProxy;
use super::s3_servers::{S3Server, create_bucket, http};
use super::temporal_server::TemporalServer;
use crate::support::{KEY, LiveService, TestEnvironment};

/// Small pages and a limit of 30 requests in 5 s, so that a backup takes as long as some faults.
const SLOW: &str = "max-limit=2,result=total,rate-limit=30,rate-window=5";
/// The answers of these services take this time, while there are faults.
const LATENCY: &str = "latency=100ms";
/// Every other account is backed up several times while there are faults.
const FAST: &str = "rate-limit=100,rate-window=5";
/// The most requests after a checkpoint: within the 5 s until the next one, and the 2 s by which the
/// store delays it.
const MOST_LOST: u64 = 42;
const WORKERS: usize = 3;
const ACCOUNTS: usize = 12;
/// The fewest and the most accounts that a worker works on at the same time.
const SLOTS: (usize, usize) = (2, 16);
/// For how long faults happen, with [`ACCOUNTS`].
const FAULTS: Duration = Duration::from_secs(15);
/// How long a worker is stopped: longer than the heartbeat time-out of 5 s.
const STOPPED: Duration = Duration::from_secs(7);
const SECOND: Duration = Duration::from_secs(1);

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap())
}

/// Accounts with a service each, and the servers.
struct Fleet {
    clock: SystemClock,
    temporal: TemporalServer,
    store: S3Server,
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
        let (temporal, store) = (TemporalServer::start()?, S3Server::moto()?);
        create_bucket(&store.url, "vaults");
        let proxy = FaultProxy::start(&store.url, seed, 2 * SECOND);
        let start = |account| match account % 2 {
            0 => LiveService::start(FAST, ""),
            _ => LiveService::start(SLOW, LATENCY),
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
    fn settle(&self, limit: Duration) -> usize {
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

    fn run_all(&self) {
        for account in 0..self.services.len() {
            self.observer.run(&["fleet", "run", &name(account), "-q"]).succeeds();
        }
    }
}

fn name(account: usize) -> String {
    format!("a{account}")
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
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes faults for some time. Returns the largest number of backups that they interrupted.
fn make_faults(fleet: &mut Fleet, workers: &mut [Worker], rng: &mut Rng, time: Duration) -> u64 {
    let end = fleet.clock.monotonic() + time;
    let mut interrupted = 0;
    while fleet.clock.monotonic() < end {
        fleet.clock.sleep(Duration::from_millis(rng.u64(500..2000)));
        let now = fleet.clock.monotonic();
        for worker in workers.iter_mut().filter(|it| it.resumes.is_some_and(|at| at <= now)) {
            worker.resume();
        }
        for _ in 0..2 {
            let account = name(rng.usize(..fleet.services.len()));
            fleet.observer.run(&["fleet", "run", &account, "-q"]).succeeds();
        }
        let nth = rng.usize(..workers.len());
        let worker = &mut workers[nth];
        let event = match rng.u8(..8) {
            0..3 => {
                worker.kill();
                interrupted += worker.slots;
                "a worker is killed"
            }
            3..5 if worker.resumes.is_none() => {
                worker.stop_until(now + STOPPED);
                interrupted += worker.slots;
                "a worker is stopped"
            }
            5 => {
                fleet.temporal.restart();
                "Temporal was killed"
            }
            6 => {
                fleet.store.signal("-STOP");
                fleet.clock.sleep(2 * SECOND);
                fleet.store.signal("-CONT");
                "the store was stopped"
            }
            _ => "nothing",
        };
        println!("{:6.1} s left: {event}", end.saturating_sub(now).as_secs_f64());
        fleet.observe();
    }
    workers.iter_mut().filter(|it| it.resumes.is_some()).for_each(Worker::resume);
    fleet.proxy.heal();
    fleet.services.iter().for_each(|it| it.faults("latency=0ms"));
    interrupted as u64
}

#[test]
fn a_fleet_loses_nothing_under_faults() {
    let accounts = number("LINKVAULT_FLEET_ACCOUNTS").map_or(ACCOUNTS, |it| it as usize);
    let seed = number("LINKVAULT_FLEET_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("LINKVAULT_FLEET_SEED={seed} LINKVAULT_FLEET_ACCOUNTS={accounts}");
    let scale = accounts.div_ceil(4 * ACCOUNTS) as u32;
    let slots = (accounts / (2 * WORKERS)).clamp(SLOTS.0, SLOTS.1);
    let Some(mut fleet) = Fleet::start(accounts, seed) else { return };
    fleet.observer.run(&["fleet", "apply", "config.toml", "--yes", "-q"]).succeeds();
    let machines =
        (0..WORKERS).map(|_| machine(&fleet.temporal, &fleet.services, &fleet.proxy.url));
    let mut workers: Vec<_> = machines.map(|it| Worker::start(it, slots)).collect();
    fleet.run_all();
    let mut rng = Rng::with_seed(seed);
    let interrupted = make_faults(&mut fleet, &mut workers, &mut rng, FAULTS * scale);
    println!("{:?}; {interrupted} backups interrupted at most", fleet.proxy.counts());
    let ended = fleet.settle(120 * SECOND * scale);
    println!("{ended} backups waited for a repetition");
    fleet.observe();

    // Every account is backed up again.
    let before: Vec<_> = fleet.seen.iter().map(|it| it.keys().max().copied()).collect();
    fleet.run_all();
    assert_eq!(fleet.settle(120 * SECOND * scale), 0, "backups failed after the faults");
    let (mut requests, mut recorded) = (0, 0);
    for (account, before) in before.iter().enumerate() {
        fleet.observer.run(&["check", &name(account)]).succeeds();
        let snapshots = fleet.snapshots(account);
        let numbers: Vec<_> = snapshots.iter().map(|it| it["snapshot"].as_u64().unwrap()).collect();
        assert!(numbers.iter().zip(1..).all(|(number, nth)| *number == nth), "{numbers:?}");
        let complete = complete(&snapshots);
        fleet.contains_all_seen(account, &complete);
        let newest = complete.keys().max().copied();
        assert!(newest > *before, "{} was not backed up again", name(account));
        requests += fleet.services[account].request_count();
        recorded += snapshots.iter().filter_map(|it| it["requests"].as_u64()).sum::<u64>();
        assert_eq!(fleet.services[account].throttled(), 0, "{} was throttled", name(account));
    }
    let lost = requests - recorded;
    println!("{lost} of {requests} requests are in no snapshot");
    assert!(lost <= interrupted * MOST_LOST, "{lost} requests were lost");
    let defects: String = workers.iter().map(Worker::log).collect();
    let defects: Vec<_> = defects.lines().filter(|it| it.contains("a defect")).collect();
    assert_eq!(defects, [""; 0]);
}
