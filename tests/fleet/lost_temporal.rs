//! Recovery after the loss of Temporal and its database: `fleet apply` makes the schedules again, and
//! the workers that run go on.

use super::workers::{Fleet, Worker, YEARLY, until_status};
use crate::support::{TestEnvironment, until};

const ACCOUNTS: [(&str, &str); 2] = [("interrupted", YEARLY), ("main", YEARLY)];

/// Runs a backup of `account`, and waits until it is complete.
fn complete(machine: &TestEnvironment, account: &str) {
    machine.run(&["fleet", "run", account]).succeeds().stdout_has("was requested");
    until_status(machine, "the backup is complete", |shown| {
        let accounts = shown["accounts"].as_array().unwrap();
        accounts.iter().any(|it| it["account"] == account && it["state"] == "good")
    });
}

fn snapshots(machine: &TestEnvironment, account: &str) -> serde_json::Value {
    machine.run(&["snapshots", account, "--json"]).succeeds().json()["snapshots"].take()
}

#[test]
fn fleet_apply_restores_a_fleet_whose_temporal_was_lost() {
    let Some(mut fleet) = Fleet::start("max-limit=2,result=total,rate-limit=zero") else { return };
    let machine = fleet.machine(&ACCOUNTS);
    // The state in the store knows that there is no limit, so that no worker waits a minute.
    machine.run(&["doctor"]).succeeds();
    machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    let worker = Worker::start(&machine);
    complete(&machine, "main");
    let first = snapshots(&machine, "main");
    // Temporal is lost during the backup of the other account, which takes longer than its lease.
    fleet.service.new_requests();
    fleet.service.faults("latency=300ms");
    machine.run(&["fleet", "run", "interrupted"]).succeeds();
    let before = fleet.service.request_count();
    until("the crawl is under way", || fleet.service.request_count() > before + 10);
    fleet.temporal.lose();
    let log = || machine.text("worker.log");
    until("the lease ends", || log().contains("the lease ended"));
    let head = || std::fs::read(fleet.store.path().join("interrupted/HEAD")).ok();
    let (put, read) = (head(), fleet.service.new_requests());
    machine.run(&["fleet", "status"]).exits_with(1).stderr_has("start the server");
    until("the worker says so", || log().contains("no answer"));
    // A new server has no schedule, and the worker connects to it.
    fleet.temporal.restart();
    machine.run(&["fleet", "status"]).exits_with(3).stderr_has("`linkvault fleet apply FILE`");
    machine.run(&["fleet", "run", "main"]).exits_with(1).stderr_has("`linkvault fleet apply FILE`");
    until("the worker is connected", || log().contains("Temporal answers again, after "));
    let late = fleet.service.new_requests();
    // The request that was under way may be repeated by the transport.
    assert!(late.len() <= 1, "{late:?}");
    assert_eq!(head(), put);
    let applied = machine.run(&["fleet", "apply", "config.toml", "--yes"]).succeeds();
    applied.stdout_has("2 changes made");
    // The next backup is a further snapshot of the same vault.
    fleet.service.faults("latency=0ms");
    complete(&machine, "main");
    let both = snapshots(&machine, "main");
    assert_eq!((&both[0], both.as_array().unwrap().len()), (&first[0], 2));
    fleet.service.new_requests();
    // The backup that was under way is continued.
    complete(&machine, "interrupted");
    assert!(log().contains("backup continues account=\"interrupted\""), "{}", log());
    let is_list = |it: &&String| !it.contains("/account");
    let again = fleet.service.new_requests();
    let repeated = again.iter().filter(is_list).filter(|it| read.contains(it)).count();
    assert!(repeated <= 5, "{read:?}, then {again:?}");
    drop(worker);
    // Another machine finds both vaults whole.
    let other = fleet.machine(&ACCOUNTS);
    other.run(&["check", "main"]).succeeds().stdout_has("2 snapshots");
    other.run(&["check", "interrupted"]).succeeds().stdout_has("1 snapshot");
}
