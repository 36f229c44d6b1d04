//! The program on two machines: what one recorded of an account, the other shows, and alerts are
//! sent once.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Host, LiveService, TestEnvironment};

/// A store with the vault of one account, and machines that share it.
struct Shared {
    folder: TempDir,
    service: LiveService,
}

impl Shared {
    fn new(behaviour: &str, faults: &str) -> Self {
        let service = LiveService::start(behaviour, faults);
        Self { folder: tempfile::tempdir().unwrap(), service }
    }

    fn objects(&self) -> PathBuf {
        self.folder.path().join("main")
    }

    fn machine(&self, more: &str) -> TestEnvironment {
        let vault = format!("vault = \"file://{}\"\n{more}", self.objects().display());
        TestEnvironment::new().account_with(&self.service.url(), &vault)
    }

    fn state(&self) -> Value {
        serde_json::from_slice(&fs::read(self.objects().join("STATE")).unwrap()).unwrap()
    }
}

fn totals(machine: &TestEnvironment) -> Value {
    let output = machine.run(&["status", "--json"]);
    output.json()["accounts"][0]["totals"].clone()
}

#[test]
fn a_failed_first_backup_is_shown_on_other_machines() {
    let shared = Shared::new("", "html@/api/account");
    let [one, other] = [(); 2].map(|()| shared.machine(""));
    one.run(&["backup", "-q"]).exits_with(1);
    assert!(!shared.objects().join("HEAD").exists());
    other.run(&["status"]).exits_with(1).stdout_has("the backup failed");
    shared.service.faults("");
    other.run(&["backup", "-q"]).succeeds().stderr_is("");
    one.run(&["status"]).succeeds().stdout_has("good");
    let totals = totals(&one);
    assert_eq!((&totals["backups"], &totals["failures"]), (&json!(2), &json!(1)));
    let state = shared.state();
    assert_eq!((&state["format"], &state["account"]["id"]), (&json!(1), &json!(1)), "{state}");
    assert_eq!(state["machines"].as_object().unwrap().len(), 2);
}

#[test]
fn a_failure_is_shown_on_other_machines_although_the_vault_cannot_be_fetched() {
    let shared = Shared::new("", "");
    let [one, other] = [(); 2].map(|()| shared.machine(""));
    one.run(&["backup", "-q"]).succeeds();
    other.run(&["status"]).succeeds();
    fs::write(shared.objects().join("HEAD"), "").unwrap();
    one.run(&["backup", "-q"]).exits_with(1);
    for machine in [&other, &shared.machine("")] {
        let status = machine.run(&["status"]).exits_with(1);
        status.stdout_has("the backup failed").stderr_has("HEAD is not a document");
    }
}

#[test]
fn attempts_that_two_machines_record_at_once_are_counted() {
    let shared = Shared::new("", "");
    // Each backup fails before it sends a request.
    let machines = [(); 2].map(|()| shared.machine("").variable("LINKS_KEY", ""));
    const EACH: usize = 4;
    std::thread::scope(|scope| {
        for machine in &machines {
            scope.spawn(|| {
                for _ in 0..EACH {
                    machine.run(&["backup", "-q"]).exits_with(1);
                }
            });
        }
    });
    for machine in &machines {
        assert_eq!(totals(machine)["failures"], json!(2 * EACH));
    }
}

#[test]
fn an_alert_is_sent_by_one_of_two_machines() {
    let shared = Shared::new("rate-limit=zero", "html@/api/account");
    let listener = Host::status("200 X");
    let more = format!(
        "schedule = \"* * * * * *\"\n[accounts.main.alerts]\nwebhook = \"{}/hook\"\n",
        listener.url()
    );
    let machines = [(); 2].map(|()| shared.machine(&more));
    for machine in machines.iter().chain(&machines) {
        machine.run(&["daemon", "--once"]).exits_with(1);
    }
    let begun: Value = serde_json::from_str(&listener.next().1).unwrap();
    assert_eq!((&begun["event"], &begun["problem"]), (&json!("begun"), &json!("failed")));
    shared.service.faults("");
    for machine in machines.iter().rev() {
        machine.run(&["daemon", "--once"]).succeeds();
    }
    let ended: Value = serde_json::from_str(&listener.next().1).unwrap();
    assert_eq!((&ended["event"], &ended["since"]), (&json!("ended"), &begun["since"]));
    assert_eq!(listener.unread(), [""; 0]);
    let state = shared.state();
    assert_eq!(state["state"]["outbox"], json!([]), "{state}");
}

#[test]
fn an_attempt_that_cannot_reach_the_store_is_added_by_the_next_one() {
    let shared = Shared::new("", "");
    let [one, other] = [(); 2].map(|()| shared.machine(""));
    one.run(&["backup", "-q"]).succeeds();
    let (here, away) = (shared.objects(), shared.folder.path().join("away"));
    fs::rename(&here, &away).unwrap();
    fs::write(&here, "not a folder").unwrap();
    one.run(&["backup", "-q"]).exits_with(1).stderr_has("cannot fetch the vault of main");
    one.run(&["status"])
        .exits_with(1)
        .stdout_has("the backup failed")
        .stderr_has("cannot fetch the vault of main")
        .stderr_has("using what this machine knew last");
    fs::remove_file(&here).unwrap();
    fs::rename(&away, &here).unwrap();
    assert_eq!(totals(&other)["failures"], json!(0));
    one.run(&["backup", "-q"]).succeeds();
    let totals = totals(&other);
    assert_eq!((&totals["backups"], &totals["failures"]), (&json!(3), &json!(1)));
}

#[test]
fn a_newer_state_or_one_of_another_account_is_one_error() {
    let shared = Shared::new("", "");
    let machine = shared.machine("");
    machine.run(&["backup", "-q"]).succeeds();
    let present = shared.state();
    let (mut newer, mut foreign) = (present.clone(), present.clone());
    newer["format"] = json!(2);
    foreign["account"]["id"] = json!(9);
    for (state, why) in
        [(newer, "STATE has format 2"), (foreign, "STATE belongs to account 9 of http://")]
    {
        fs::write(shared.objects().join("STATE"), state.to_string()).unwrap();
        let failed = machine.run(&["backup", "-q"]).exits_with(1).stderr_has(why);
        assert!(failed.stderr().contains("cannot read the state of main at file:///"));
        machine.run(&["status"]).exits_with(1).stderr_has(why).stderr_has("knew last");
        assert_eq!(shared.state(), state);
    }
    let broken = "{\"format\":1,";
    fs::write(shared.objects().join("STATE"), broken).unwrap();
    machine.run(&["backup"]).succeeds().stderr_has("main.db.daemon.broken");
    assert_eq!(machine.text("vaults/main.db.daemon.broken"), broken);
    // What the machine kept meanwhile is there.
    assert_eq!(shared.state()["state"]["totals"]["backups"], json!(4));
}
