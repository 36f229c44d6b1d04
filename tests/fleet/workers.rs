//! Schedules and workers on a real Temporal server.

use std::process::Child;

use tempfile::TempDir;

use super::folder_store::suspend;
use super::temporal_server::TemporalServer;
use crate::support::{Host, KEY, LiveService, TestEnvironment, until};

/// Machines that share a Temporal server and a store.
pub struct Fleet {
    pub temporal: TemporalServer,
    pub store: TempDir,
    pub service: LiveService,
}

impl Fleet {
    pub fn start(behaviour: &str) -> Option<Self> {
        Some(Self {
            temporal: TemporalServer::start()?,
            store: tempfile::tempdir().unwrap(),
            service: LiveService::start(behaviour, ""),
        })
    }

    /// The configuration of accounts with these names and schedules.
    fn config(&self, accounts: &[(&str, &str)]) -> String {
        let mut text =
            format!("[fleet]\ntemporal = \"{}\"\ncheckpoint = \"5s\"\n", self.temporal.url());
        for (name, schedule) in accounts {
            let (url, store) = (self.service.url(), self.store.path().display());
            text += &format!(
                "[accounts.{name}]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n\
                 vault = \"file://{store}/{name}\"\nschedule = \"{schedule}\"\ntimezone = \"UTC\"\n\
                 max_in_flight = 1\n"
            );
        }
        text
    }

    /// A fleet whose service answers slowly and in small pages, with a backup under way.
    fn crawling() -> Option<(Self, TestEnvironment, Worker)> {
        let fleet = Self::start("max-limit=2,result=total,rate-limit=zero")?;
        let machine = fleet.machine(&[("main", YEARLY)]);
        // The state in the store knows that there is no limit, so that no worker waits a minute.
        machine.run(&["doctor", "main"]);
        fleet.service.new_requests();
        fleet.service.faults("latency=100ms");
        machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
        let worker = Worker::start(&machine);
        machine.run(&["fleet", "run", "main"]).succeeds();
        let before = fleet.service.request_count();
        until("the crawl is under way", || fleet.service.request_count() > before + 10);
        machine.run(&["fleet", "run", "main"]).succeeds().stdout_has("is under way");
        Some((fleet, machine, worker))
    }

    /// Another machine with a worker.
    fn second_worker(&self) -> (TestEnvironment, Worker) {
        let machine = self.machine(&[("main", YEARLY)]);
        let worker = Worker::start(&machine);
        (machine, worker)
    }

    pub fn machine(&self, accounts: &[(&str, &str)]) -> TestEnvironment {
        TestEnvironment::new().variable("LINKS_KEY", KEY).config(&self.config(accounts))
    }

    /// Waits until the newest backup ended, and returns its state.
    fn ended(&self) -> String {
        let newest = || self.temporal.workflows().into_iter().next();
        let running = |state: &str| state.ends_with("RUNNING");
        until("the backup ends", || newest().is_some_and(|(_, state)| !running(&state)));
        newest().unwrap().1
    }
}

/// A worker that is killed when it is dropped.
pub struct Worker(Child);

impl Worker {
    pub fn start(machine: &TestEnvironment) -> Self {
        Self(machine.start(&[
            "worker",
            "--slots",
            "2",
            "--listen",
            "127.0.0.1:0",
            "--log-file",
            "worker.log",
        ]))
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the lists of Temporal, which may be older than a change, show it.
pub fn until_status(
    machine: &TestEnvironment,
    what: &str,
    so: impl Fn(&serde_json::Value) -> bool,
) {
    until(what, || so(&machine.run(&["fleet", "status", "--json"]).json()));
}

const COMPLETED: &str = "WORKFLOW_EXECUTION_STATUS_COMPLETED";
pub const YEARLY: &str = "0 0 1 1 *";

#[test]
fn schedules_become_equal_to_a_declaration() {
    let Some(fleet) = Fleet::start("") else { return };
    let machine = fleet.machine(&[("main", YEARLY), ("other", "30 4 * * mon-fri")]);
    let apply = |more: &[&str]| machine.run(&[&["fleet", "apply", "config.toml"], more].concat());
    apply(&["-n"]).succeeds().stdout_has("create  main").fits();
    apply(&[]).exits_with(64).stderr_has("--yes");
    let written = apply(&["--yes", "--json"]).succeeds().json();
    assert_eq!(
        (&written["written"], written["changes"].as_array().unwrap().len()),
        (&true.into(), 2)
    );
    let as_declared = || {
        let shown = apply(&["-n", "--json"]).json();
        shown["changes"].as_array().is_some_and(Vec::is_empty)
    };
    until("the schedules are listed", as_declared);
    apply(&["--yes"]).succeeds().stdout_has("nothing to change; 2 schedules as declared");
    let shown = machine.run(&["fleet", "status", "--json"]).exits_with(3).json();
    assert_eq!((&shown["totals"]["new"], &shown["total"]), (&2.into(), &2.into()));
    assert!(shown["accounts"][0]["next"].as_str().unwrap().contains("-01-01T00:00:"), "{shown}");
    // An update keeps the pause.
    machine.run(&["fleet", "pause", "main", "--note", "moving"]).succeeds();
    machine.edit("config.toml", YEARLY, "0 6 1 1 *");
    apply(&["--yes"]).succeeds().stdout_has("update");
    until_status(&machine, "the pause is listed", |shown| {
        let main = &shown["accounts"][0];
        main["account"] == "main" && main["paused"] == true && main["note"] == "moving"
    });
    machine.run(&["fleet", "resume", "main"]).succeeds();
    machine.run(&["fleet", "status", "--limit", "1"]).stderr_has("`--skip 1` shows the next ones");
    let last = machine.run(&["fleet", "status", "--limit", "1", "--skip", "1"]);
    assert!(!String::from_utf8_lossy(&last.bytes()).contains("--skip"));
    // The declaration of another fleet changes nothing in this one.
    machine.write("another.toml", &format!("{}task_queue = \"another\"\n", fleet.config(&[])));
    let another = machine.run(&["fleet", "apply", "another.toml", "--yes"]).exits_with(1);
    another.stderr_has("another.toml declares another fleet: its `task_queue` is another");
    // An account that is not declared has no schedule.
    let fewer = fleet.config(&[("main", "0 6 1 1 *")]);
    machine.write("fewer.toml", &fewer);
    machine.run(&["fleet", "apply", "fewer.toml", "--yes", "--max-delete", "0"]).exits_with(5);
    machine.run(&["fleet", "apply", "fewer.toml", "--yes"]).succeeds().stdout_has("delete");
    machine
        .run(&["fleet", "run", "other"])
        .exits_with(1)
        .stderr_has("no schedule of the account `other`");
    until_status(&machine, "one is left", |shown| shown["total"] == 1);
}

#[test]
fn a_worker_backs_up_what_temporal_starts() {
    let Some(fleet) = Fleet::start("") else { return };
    let machine = fleet.machine(&[("main", YEARLY)]);
    machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    let worker = Worker::start(&machine);
    machine.run(&["fleet", "run", "main"]).succeeds();
    assert_eq!(fleet.ended(), COMPLETED);
    let log = machine.text("worker.log");
    let url = log.split("metrics are at ").nth(1).unwrap().split_whitespace().next().unwrap();
    let metrics = ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap();
    assert!(
        metrics.contains("linkvault_worker_attempts_total{outcome=\"complete\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("linkvault_worker_slots 2"), "{metrics}");
    drop(worker);
    // Another machine has the vault, and Temporal has no key.
    let other = fleet.machine(&[("main", YEARLY)]);
    other.run(&["check", "main"]).succeeds();
    let (workflow, _) = fleet.temporal.workflows().remove(0);
    let history = fleet.temporal.command(&["workflow", "show", "-w", &workflow, "-o", "json"]);
    assert!(history.contains("back_up") && !history.contains(KEY), "{history}");
    until_status(&machine, "it is listed", |shown| shown["totals"]["good"] == 1);
    machine.run(&["fleet", "status"]).succeeds().stdout_has("complete").fits();
}

#[test]
fn a_failed_backup_is_a_problem_of_the_fleet() {
    let Some(fleet) = Fleet::start("") else { return };
    let machine = fleet.machine(&[("main", YEARLY)]).variable("LINKS_KEY", "another-key");
    machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    let worker = Worker::start(&machine);
    machine.run(&["fleet", "run", "main"]).succeeds();
    assert_eq!(fleet.ended(), "WORKFLOW_EXECUTION_STATUS_FAILED");
    drop(worker);
    until_status(&machine, "it is listed", |shown| shown["totals"]["failed"] == 1);
    machine.run(&["fleet", "status"]).exits_with(1).stdout_has("failed").fits();
    machine.run(&["status", "main"]).exits_with(1).stdout_has("key");
}

#[test]
fn a_backup_that_waits_for_its_repetition_is_a_problem_of_the_fleet() {
    let Some(fleet) = Fleet::start("") else { return };
    let machine = fleet.machine(&[("main", YEARLY)]);
    machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    fleet.service.faults("html@/api/account");
    let worker = Worker::start(&machine);
    machine.run(&["fleet", "run", "main"]).succeeds();
    until_status(&machine, "it waits", |shown| {
        shown["totals"]["failed"] == 1 && shown["accounts"][0]["recent"][0]["state"] == "retrying"
    });
    machine.run(&["fleet", "status"]).exits_with(1).stdout_has("retrying").fits();
    // A person who has mended the cause need not wait for the repetition.
    fleet.service.faults("");
    machine.run(&["fleet", "run", "main"]).succeeds().stdout_has("was requested");
    until_status(&machine, "it is complete", |shown| shown["totals"]["good"] == 1);
    drop(worker);
}

#[test]
fn another_worker_goes_on_where_a_killed_one_stopped() {
    let Some((fleet, _machine, worker)) = Fleet::crawling() else { return };
    until("a checkpoint was made", || fleet.store.path().join("main/HEAD").exists());
    worker.kill();
    let before = fleet.service.new_requests().len();
    let (other, _worker) = fleet.second_worker();
    fleet.service.faults("latency=0ms");
    assert_eq!(fleet.ended(), COMPLETED);
    other.run(&["check", "main"]).succeeds();
    let after = fleet.service.new_requests().len();
    let whole = {
        let fresh = Fleet::start("max-limit=2,result=total,rate-limit=zero").unwrap();
        fresh.machine(&[("main", YEARLY)]).run(&["backup", "-q"]).succeeds();
        fresh.service.new_requests().len()
    };
    assert!(after < whole, "{before} requests, then {after}; a whole backup takes {whole}");
}

#[test]
fn a_worker_that_was_stopped_for_long_sends_nothing_more() {
    let Some((fleet, machine, mut worker)) = Fleet::crawling() else { return };
    suspend(&machine, &worker.0, &fleet.store.path().join("main"));
    fleet.service.faults("latency=0ms");
    let (other, second) = fleet.second_worker();
    assert_eq!(fleet.ended(), COMPLETED);
    drop(second);
    fleet.service.new_requests();
    let head = || std::fs::read(fleet.store.path().join("main/HEAD")).unwrap();
    let newest = head();
    machine.signal("-CONT", &worker.0);
    let gave_up = || machine.text("worker.log").contains("the lease ended");
    until("the worker gave the account up", gave_up);
    machine.signal("-TERM", &worker.0);
    assert!(worker.0.wait().unwrap().success());
    // The request that was under way may be repeated by the transport.
    let late = fleet.service.new_requests();
    assert!(late.len() <= 1, "{late:?}");
    assert_eq!(head(), newest);
    other.run(&["check", "main"]).succeeds();
}

/// It goes on before the other worker has put anything.
#[test]
fn a_worker_that_lost_its_account_puts_nothing() {
    let Some((fleet, machine, worker)) = Fleet::crawling() else { return };
    suspend(&machine, &worker.0, &fleet.store.path().join("main"));
    let (other, second) = fleet.second_worker();
    let begun = || other.text("worker.log").contains("backup ");
    until("the other worker has begun", || other.path("worker.log").exists() && begun());
    machine.signal("-CONT", &worker.0);
    assert_eq!(fleet.ended(), COMPLETED);
    let gave_up = || machine.text("worker.log").contains("the lease ended");
    until("the worker gave the account up", gave_up);
    drop((worker, second));
    let log = other.text("worker.log");
    assert!(!log.contains("another machine put a newer vault"), "{log}");
    other.run(&["check", "main"]).succeeds();
}

#[test]
fn a_worker_that_is_told_to_stop_leaves_the_rest_to_another() {
    let Some((fleet, machine, mut worker)) = Fleet::crawling() else { return };
    machine.signal("-TERM", &worker.0);
    assert!(worker.0.wait().unwrap().success());
    let before = fleet.service.new_requests();
    let (_other, _worker) = fleet.second_worker();
    fleet.service.faults("latency=0ms");
    assert_eq!(fleet.ended(), COMPLETED);
    let after = fleet.service.new_requests();
    let is_list = |it: &&String| !it.contains("/account");
    let repeated = after.iter().filter(is_list).filter(|it| before.contains(it)).count();
    assert!(repeated <= 5, "{before:?}, then {after:?}");
}

#[test]
fn a_cancelled_backup_stops_and_the_next_one_continues_it() {
    let Some((fleet, machine, _worker)) = Fleet::crawling() else { return };
    let (workflow, _) = fleet.temporal.workflows().remove(0);
    fleet.temporal.command(&["workflow", "cancel", "-w", &workflow]);
    assert_eq!(fleet.ended(), "WORKFLOW_EXECUTION_STATUS_CANCELED");
    assert!(machine.text("worker.log").contains("the backup was cancelled"));
    fleet.service.new_requests();
    until_status(&machine, "it is listed", |shown| shown["totals"]["stopped"] == 1);
    assert_eq!(fleet.service.new_requests(), [""; 0]);
    fleet.service.faults("latency=0ms");
    until_status(&machine, "the next one is complete", |shown| {
        shown["totals"]["good"] == 1 || {
            machine.run(&["fleet", "run", "main"]).succeeds();
            false
        }
    });
    let log = machine.text("worker.log");
    assert!(log.contains("backup continues"), "{log}");
    machine.run(&["check", "main"]).succeeds();
}

#[test]
fn a_worker_sends_the_alerts_of_its_backups() {
    let Some(fleet) = Fleet::start("") else { return };
    let listener = Host::status("200 X");
    let alerts = format!("[accounts.main.alerts]\nwebhook = \"{}/hook\"\n", listener.url());
    let machine = fleet.machine(&[("main", YEARLY)]);
    machine.write("config.toml", &(fleet.config(&[("main", YEARLY)]) + &alerts));
    machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    fleet.service.faults("html@/api/account");
    let worker = Worker::start(&machine);
    machine.run(&["fleet", "run", "main"]).succeeds();
    let begun: serde_json::Value = serde_json::from_str(&listener.next().1).unwrap();
    assert_eq!((&begun["event"], &begun["problem"]), (&"begun".into(), &"failed".into()));
    drop(worker);
}

#[test]
fn each_mistake_of_the_connection_is_one_clear_error() {
    let unreachable = TestEnvironment::new().config("[fleet]\ntemporal = \"http://127.0.0.1:1\"\n");
    for command in [&["fleet", "status"][..], &["worker"]] {
        let output = unreachable.run(command).exits_with(1);
        output.stderr_has("Temporal at http://127.0.0.1:1: ").stderr_has("start the server");
    }
    let Some(fleet) = Fleet::start("") else { return };
    let url = fleet.temporal.url();
    let text = format!("[fleet]\ntemporal = \"{url}\"\nnamespace = \"missing\"\n");
    let missing = TestEnvironment::new().config(&text);
    for command in [&["fleet", "status"][..], &["worker"]] {
        let output = missing.run(command).exits_with(1);
        output.stderr_has("temporal operator namespace create -n missing");
    }
    let text = format!("[fleet]\ntemporal = \"{}\"\n", url.replace("http:", "https:"));
    let plain = TestEnvironment::new().config(&text);
    plain.run(&["fleet", "status"]).exits_with(1).stderr_has("Temporal at https://127.0.0.1");
    let local =
        TestEnvironment::new().account_with(&fleet.service.url(), "schedule = \"@daily\"\n");
    local.run(&["fleet", "apply", "config.toml"]).exits_with(1).stderr_has("are local files");
}

#[test]
fn a_write_pauses_the_schedule_and_resumes_it() {
    let Some(fleet) = Fleet::start("") else { return };
    let machine = fleet.machine(&[("main", YEARLY)]);
    machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    machine.run(&["backup", "-q"]).succeeds();
    // A list of schedules may be older than a change.
    let is_paused = || {
        let describe = ["schedule", "describe", "-s", "linkvault/main", "-o", "json"];
        let text = fleet.temporal.command(&describe);
        let schedule: serde_json::Value = serde_json::from_str(&text).ok()?;
        Some(schedule["schedule"]["state"]["paused"] == true)
    };
    let paused = || until("the schedule is paused", || is_paused() == Some(true));
    let active = || until("the schedule is resumed", || is_paused() == Some(false));
    machine.write("campaigns.csv", "name\nSpring\n");
    let import = ["import", "campaigns.csv", "--to", "main", "--yes", "-q"];
    fleet.service.faults("latency=300ms");
    let importing = machine.start(&import);
    paused();
    let run = machine.run(&["fleet", "run", "main"]).exits_with(11);
    run.stderr_has("a command writes to main").stderr_has("linkvault fleet resume main");
    machine.wait(importing).succeeds();
    fleet.service.faults("latency=0ms");
    active();
    // A person's pause stays, also one of meanwhile.
    machine.write("campaigns.csv", "name\nWinter\n");
    fleet.service.faults("latency=300ms");
    let importing = machine.start(&import);
    paused();
    machine.run(&["fleet", "pause", "main", "--note", "moving"]).succeeds();
    machine.wait(importing).succeeds();
    fleet.service.faults("latency=0ms");
    paused();
    machine.run(&["fleet", "resume", "main"]).succeeds();
    machine.run(&["fleet", "pause", "main"]).succeeds();
    machine.write("campaigns.csv", "name\nSummer\n");
    machine.run(&import).succeeds();
    paused();
    machine.run(&["fleet", "resume", "main"]).succeeds();
    active();
    // Nothing is written while a worker works on the account.
    fleet.service.faults("latency=300ms");
    let worker = Worker::start(&machine);
    machine.run(&["fleet", "run", "main"]).succeeds();
    fleet.service.new_requests();
    until("a worker backs it up", || fleet.service.request_count() > 2);
    machine.write("campaigns.csv", "name\nAutumn\n");
    machine.run(&import).exits_with(11).stderr_has("a worker of the fleet backs main up now");
    active();
    drop(worker);
}

#[test]
fn a_backup_of_many_heartbeats_is_one_attempt() {
    let Some(fleet) = Fleet::start("max-limit=5,result=total,rate-limit=zero") else { return };
    let machine = fleet.machine(&[("main", YEARLY)]);
    machine.run(&["doctor", "main"]);
    machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    // The SDK gives an activity up 5 s after its heartbeat time-out, which is 5 s here.
    fleet.service.faults("latency=700ms");
    let worker = Worker::start(&machine);
    machine.run(&["fleet", "run", "main"]).succeeds();
    assert_eq!(fleet.ended(), COMPLETED);
    drop(worker);
    let (workflow, _) = fleet.temporal.workflows().remove(0);
    let history = fleet.temporal.command(&["workflow", "show", "-w", &workflow, "-o", "json"]);
    let history: serde_json::Value = serde_json::from_str(&history).unwrap();
    let begun = |event: &serde_json::Value| event["activityTaskStartedEventAttributes"].clone();
    let attempts: Vec<_> = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(begun)
        .filter(|it| !it.is_null())
        .collect();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0]["attempt"], 1);
    assert_eq!(
        machine.run(&["snapshots", "main", "--json"]).json()["snapshots"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn an_account_that_the_worker_does_not_know_fails_until_it_is_configured() {
    let Some(fleet) = Fleet::start("") else { return };
    let operator = fleet.machine(&[("main", YEARLY), ("other", YEARLY)]);
    operator.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    let machine = fleet.machine(&[("main", YEARLY)]).mode("config.toml", 0o644);
    let worker = Worker::start(&machine);
    operator.run(&["fleet", "run", "other"]).succeeds();
    assert_eq!(fleet.ended(), "WORKFLOW_EXECUTION_STATUS_FAILED");
    until_status(&operator, "it is listed", |shown| shown["totals"]["failed"] == 1);
    operator.run(&["fleet", "status"]).exits_with(1).stdout_has("other  ");
    // The worker reads the changed file, and warns once about its mode.
    machine.write("config.toml", &fleet.config(&[("main", YEARLY), ("other", YEARLY)]));
    for account in ["other", "main"] {
        // A schedule that does not know yet that a backup has ended starts no other one.
        until_status(&operator, "it is backed up", |shown| {
            let accounts = shown["accounts"].as_array().unwrap();
            let is_good =
                |it: &serde_json::Value| it["account"] == account && it["state"] == "good";
            accounts.iter().any(is_good) || {
                operator.run(&["fleet", "run", account]).succeeds();
                false
            }
        });
    }
    assert_eq!(machine.text("worker.log").matches("config.toml can be read").count(), 2);
    // A file that is being written is no reason to fail.
    let good = || operator.run(&["snapshots", "main", "--json"]).json()["snapshots"].clone();
    for (text, warning) in [
        ("[accounts.main]\nurl = [", "config.toml:2:"),
        ("", "the configuration has no accounts any more"),
    ] {
        machine.write("config.toml", text);
        // A backup that was begun before may still be under way.
        until("the worker warns", || {
            operator.run(&["fleet", "run", "main"]).succeeds();
            machine.text("worker.log").contains(warning)
        });
        let before = good();
        until("it is backed up again", || {
            operator.run(&["fleet", "run", "main"]).succeeds();
            good() != before
        });
    }
    drop(worker);
}
