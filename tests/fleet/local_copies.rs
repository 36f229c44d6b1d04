//! The bound of the local copies of vaults in stores.

use std::fs::{self, File};
use std::time::{Duration, UNIX_EPOCH};

use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use linkvault::vault::Vault;
use linkvault::vault::lock::Lock;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{KEY, LiveService, TestEnvironment};

/// A machine with four accounts. The vaults of the first three live in a store.
struct Machine {
    environment: TestEnvironment,
    store: TempDir,
}

const NAMES: [&str; 4] = ["a", "b", "c", "plain"];

impl Machine {
    fn new(service: &LiveService) -> Self {
        let machine = Self {
            environment: TestEnvironment::new().account(&service.url()),
            store: tempfile::tempdir().unwrap(),
        };
        machine.configure(service, "");
        for name in NAMES {
            machine.run(&["backup", name, "-q"]);
        }
        // Once in a store, and no more.
        fs::copy(machine.path("a.db.fetched"), machine.path("plain.db.fetched")).unwrap();
        machine.age();
        machine
    }

    fn configure(&self, service: &LiveService, fleet: &str) {
        let mut text = String::new();
        for name in NAMES {
            text += &format!(
                "[accounts.{name}]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n",
                service.url()
            );
            if name != "plain" {
                let store = self.store.path().join(name);
                text += &format!("vault = \"file://{}\"\n", store.display());
            }
        }
        self.environment.write("config.toml", &format!("{text}[fleet]\n{fleet}\n"));
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.environment.path(&format!("vaults/{file}"))
    }

    fn run(&self, arguments: &[&str]) {
        let done = self.environment.run(arguments).succeeds();
        assert!(!done.stderr().contains("cannot remove"), "{}", done.stderr());
    }

    /// The copies were last used some minutes ago, `a` first.
    fn age(&self) {
        let now = SystemClock::new(Interrupt::default()).now().0.try_into().unwrap();
        for (minutes, name) in (5..).zip(["plain", "c", "b", "a"]) {
            let lock = File::options().write(true).open(self.path(&format!("{name}.db.lock")));
            let time = Duration::from_millis(now) - Duration::from_secs(60 * minutes);
            lock.unwrap().set_modified(UNIX_EPOCH + time).unwrap();
        }
    }

    /// The names of the vaults that are there.
    fn left(&self) -> Vec<&str> {
        NAMES.into_iter().filter(|name| self.path(&format!("{name}.db")).exists()).collect()
    }

    fn size(&self, name: &str) -> u64 {
        fs::metadata(self.path(&format!("{name}.db"))).unwrap().len()
    }
}

#[test]
fn the_least_recently_used_copies_are_removed_and_fetched_again() {
    let service = LiveService::start("", "");
    let machine = Machine::new(&service);
    // Without a bound, or with one that is not reached.
    machine.run(&["backup", "c", "-q"]);
    machine.configure(&service, "cache = \"1 GiB\"");
    machine.run(&["backup", "c", "-q"]);
    assert_eq!(machine.left(), NAMES);
    let bound = machine.size("b") + machine.size("c") + machine.size("a") / 2;
    machine.configure(&service, &format!("cache = \"{bound} B\""));
    machine.age();
    machine.run(&["backup", "c", "-q"]);
    assert_eq!(machine.left(), ["b", "c", "plain"]);
    for suffix in ["-wal", "-shm", "-journal"] {
        assert!(!machine.path(&format!("a.db{suffix}")).exists());
    }
    // A fetch removes others, too, and the copy that it fetched is used.
    machine.age();
    machine.run(&["check", "a"]);
    assert_eq!(machine.left(), ["a", "c", "plain"]);
    machine.configure(&service, "cache = \"0 B\"");
    machine.age();
    machine.run(&["backup", "b", "-q"]);
    assert_eq!(machine.left(), ["b", "plain"]);
    // A command that reads many vaults has all of them until it ends.
    machine.run(&["check"]);
    machine.run(&["backup", "plain", "-q"]);
    assert!(machine.left().contains(&"plain"));
}

#[test]
fn a_copy_that_was_used_a_moment_ago_is_kept() {
    let service = LiveService::start("", "");
    let machine = Machine::new(&service);
    machine.run(&["snapshots", "a"]);
    machine.configure(&service, "cache = \"0 B\"");
    machine.run(&["backup", "c", "-q"]);
    assert_eq!(machine.left(), ["a", "c", "plain"]);
}

#[test]
fn a_copy_with_changes_of_its_own_or_in_use_is_kept() {
    let service = LiveService::start("", "");
    let machine = Machine::new(&service);
    machine.configure(&service, "cache = \"0 B\"");
    let backup = || {
        machine.age();
        machine.run(&["backup", "c", "-q"]);
        machine.left()
    };
    // Changes that were not put.
    let mut vault = Vault::open(&machine.path("a.db")).unwrap();
    let mut identity = vault.identity().unwrap().unwrap();
    identity.service.push_str("/x");
    vault.claim(&identity, true).unwrap();
    vault.close().unwrap();
    assert_eq!(backup(), ["a", "c", "plain"]);
    machine.run(&["snapshots", "b"]);
    // A put whose outcome is not known.
    let file = machine.path("b.db.fetched");
    let known = fs::read(&file).unwrap();
    let mut record: Value = serde_json::from_slice(&known).unwrap();
    record["pending"] = record["base"].clone();
    fs::write(&file, record.to_string()).unwrap();
    assert_eq!(backup(), ["a", "b", "c", "plain"]);
    for damaged in ["", "{}", "<html>"] {
        fs::write(&file, damaged).unwrap();
        assert_eq!(backup(), ["a", "b", "c", "plain"]);
    }
    fs::write(&file, &known).unwrap();
    // Another process works on it, or has it open.
    let clock = SystemClock::new(Interrupt::default());
    let lock = Lock::take(&machine.path("b.db"), "test", Duration::ZERO, &clock).unwrap();
    assert_eq!(backup(), ["a", "b", "c", "plain"]);
    drop(lock);
    let vault = Vault::open_read_only(&machine.path("b.db")).unwrap();
    vault.snapshots().unwrap();
    assert_eq!(backup(), ["a", "b", "c", "plain"]);
    drop(vault);
    assert_eq!(backup(), ["a", "c", "plain"]);
}

/// Another process may remove the copy between the fetch and the use. Here the command that prints
/// the key does it.
#[test]
fn a_copy_that_is_removed_after_its_fetch_is_not_replaced_by_a_new_vault() {
    let service = LiveService::start("", "");
    let machine = Machine::new(&service);
    machine.run(&["backup", "a", "-q"]);
    let head = fs::read(machine.store.path().join("a/HEAD")).unwrap();
    let script = format!("rm {}; echo {KEY}", machine.path("a.db").display());
    let command = format!("key_command = {}", json!(["sh", "-c", script]));
    let text = machine.environment.text("config.toml");
    let removing = text.replacen("key_env = \"LINKS_KEY\"", &command, 1);
    machine.environment.write("config.toml", &removing);
    let refused = machine.environment.run(&["backup", "a", "-q"]).exits_with(1);
    refused.stderr_has("the local copy of the vault of a was removed after it was fetched");
    assert_eq!(fs::read(machine.store.path().join("a/HEAD")).unwrap(), head);
    machine.environment.write("config.toml", &text);
    machine.run(&["backup", "a", "-q"]);
    let listed = machine.environment.run(&["snapshots", "a", "--json"]).succeeds().json();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 3);
}

#[test]
fn an_older_object_is_refused_also_after_the_copy_was_removed() {
    let service = LiveService::start("", "");
    let machine = Machine::new(&service);
    let head = machine.store.path().join("a/HEAD");
    let old = fs::read(&head).unwrap();
    machine.run(&["backup", "a", "-q"]);
    machine.configure(&service, "cache = \"0 B\"");
    machine.age();
    machine.run(&["backup", "c", "-q"]);
    assert_eq!(machine.left(), ["c", "plain"]);
    fs::write(&head, &old).unwrap();
    let refused = machine.environment.run(&["snapshots", "a"]).exits_with(1);
    refused.stderr_has("HEAD names object 1, but this machine fetched or put object 2 before");
    assert_eq!(serde_json::from_slice::<Value>(&old).unwrap()["sequence"], json!(1));
}
