//! The program with a vault in a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support::{LiveService, TestEnvironment, until};

/// A store with the vault of one account, and machines that share it.
pub struct Shared {
    folder: TempDir,
    pub service: LiveService,
}

impl Shared {
    pub fn new() -> Self {
        Self::with(LiveService::start("rate-limit=zero", ""))
    }

    pub fn with(service: LiveService) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), service }
    }

    pub fn objects(&self) -> PathBuf {
        self.folder.path().join("main")
    }

    pub fn machine(&self) -> TestEnvironment {
        self.machine_with("")
    }

    pub fn machine_with(&self, more: &str) -> TestEnvironment {
        let vault = format!("vault = \"file://{}\"\n{more}", self.objects().display());
        TestEnvironment::new().account_with(&self.service.url(), &vault)
    }

    pub fn head(&self) -> Value {
        serde_json::from_slice(&fs::read(self.objects().join("HEAD")).unwrap()).unwrap()
    }

    /// The file of the current object.
    pub fn object(&self) -> PathBuf {
        let head = self.head();
        let (sequence, digest) = (head["sequence"].as_u64().unwrap(), &head["digest"]);
        self.objects().join(format!("{sequence:010}-{}.db.zst", digest.as_str().unwrap()))
    }

    /// Writes a new object with this content, and names it in `HEAD`.
    pub fn write_object(&self, content: &[u8]) {
        let digest: String = Sha256::digest(content).iter().map(|it| format!("{it:02x}")).collect();
        let packed = zstd::encode_all(content, 1).unwrap();
        self.write_head(|head| {
            head["sequence"] = json!(head["sequence"].as_u64().unwrap() + 1);
            head["digest"] = json!(digest);
            head["size"] = json!(packed.len());
            head["plain_size"] = json!(content.len());
        });
        fs::write(self.object(), packed).unwrap();
    }

    pub fn write_head(&self, change: impl FnOnce(&mut Value)) {
        let mut head = self.head();
        change(&mut head);
        fs::write(self.objects().join("HEAD"), head.to_string()).unwrap();
    }
}

pub fn snapshots(machine: &TestEnvironment) -> usize {
    let document = machine.run(&["snapshots", "main", "--json"]).succeeds().json();
    document["snapshots"].as_array().unwrap().len()
}

#[test]
fn machines_that_share_a_store_continue_each_others_vault() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!(shared.head()["account"], json!({"service": shared.service.url(), "id": 1}));
    other.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&one), 2);
    one.run(&["check"]).succeeds().stdout_has("2 snapshots");
    other.write("new.csv", "name\nFrom another machine\n");
    other
        .run(&["import", "new.csv", "--resource", "campaigns", "--to", "main", "--yes"])
        .succeeds();
    one.run(&["runs", "main"]).succeeds().stdout_has("import");
    one.run(&["undo", "main", "1", "--yes"]).succeeds();
    other.run(&["show", "main", "campaigns"]).succeeds();
    let runs = other.run(&["runs", "main", "--json"]).succeeds().json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
    one.run(&["forget", "main", "--keep-last", "1", "--yes"]).succeeds();
    let left = snapshots(&one);
    assert_eq!(snapshots(&other), left);
    other.run(&["status"]).succeeds();
    // A machine that was lost.
    assert_eq!(snapshots(&shared.machine()), left);
}

#[test]
fn commands_that_only_read_put_nothing() {
    let shared = Shared::new();
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    let before = shared.head();
    machine.write("new.csv", "name\nOnly planned\n");
    let reads: [&[&str]; 9] = [
        &["snapshots", "main"],
        &["show", "main", "campaigns"],
        &["diff", "main", "main@live"],
        &["status"],
        &["check"],
        &["doctor"],
        &["runs", "main"],
        &["export", "main", "--to", "out"],
        &["import", "new.csv", "--resource", "campaigns", "--to", "main", "--dry-run"],
    ];
    for command in reads {
        machine.run(command).succeeds();
    }
    assert_eq!(shared.head(), before);
}

#[test]
fn the_daemon_fetches_before_a_backup_and_puts_after_it() {
    let shared = Shared::new();
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    let vault = format!("vault = \"file://{}\"\n", shared.objects().display());
    let more = format!("{vault}schedule = \"0 3 * * *\"\nkeep = {{ last = 1 }}\n");
    let daemon = TestEnvironment::new().account_with(&shared.service.url(), &more);
    daemon.run(&["daemon", "--once"]).succeeds();
    assert_eq!(shared.head()["sequence"], 3, "a backup and a forget");
    let document = machine.run(&["snapshots", "main", "--json"]).succeeds().json();
    assert_eq!(document["snapshots"][0]["snapshot"], 2, "{document}");
}

/// Suspends a process with a vault in the folder `objects` while it does not hold the lock of the
/// folder, for which other machines would wait.
pub fn suspend(machine: &TestEnvironment, process: &Child, objects: &Path) {
    until("the process is suspended without the lock", || {
        machine.signal("-STOP", process);
        let lock = fs::File::open(objects.join(".lock"));
        let is_free = lock.is_ok_and(|it| it.try_lock().is_ok());
        if !is_free {
            machine.signal("-CONT", process);
        }
        is_free
    });
}

/// A backup that has fetched its vault, and was stopped while it reads the service. Before its first
/// request it changes the store, with a lock that other machines wait for.
pub fn stopped_backup(machine: &TestEnvironment, service: &LiveService) -> Child {
    let before = service.request_count();
    let backup = machine.start(&["backup", "-q"]);
    let has_vault = || machine.path("vaults/main.db-wal").exists();
    until("the backup has begun", || service.request_count() > before && has_vault());
    machine.signal("-STOP", &backup);
    backup
}

#[test]
fn a_killed_backup_continues_on_its_machine_and_is_put_then() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    // Without a limit, no machine waits for another one.
    one.run(&["doctor"]).succeeds();
    shared.service.faults("latency=500ms");
    let mut killed = stopped_backup(&one, &shared.service);
    killed.kill().unwrap();
    killed.wait().unwrap();
    shared.service.faults("latency=0ms");
    assert!(!shared.objects().join("HEAD").exists());
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!((snapshots(&one), snapshots(&other)), (1, 1));
    // Another machine is faster than the one that was killed.
    shared.service.faults("latency=500ms");
    let mut killed = stopped_backup(&one, &shared.service);
    killed.kill().unwrap();
    killed.wait().unwrap();
    shared.service.faults("latency=0ms");
    other.run(&["backup", "-q"]).succeeds();
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!((snapshots(&one), snapshots(&other)), (3, 3));
    one.run(&["check"]).succeeds();
}

/// Another machine puts while a backup reads the service.
#[test]
fn a_backup_that_another_machine_overtook_changes_nothing_and_exits_with_4() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    one.run(&["backup", "-q"]).succeeds();
    other.run(&["snapshots", "main"]).succeeds();
    shared.service.faults("latency=500ms");
    let stopped = stopped_backup(&other, &shared.service);
    one.run(&["backup", "-q"]).succeeds();
    let newer = shared.head();
    shared.service.faults("latency=0ms");
    other.signal("-CONT", &stopped);
    let lost = other.wait(stopped).exits_with(4);
    lost.stderr_has("another machine put a newer vault meanwhile").stderr_has("main.db.lost");
    assert_eq!(shared.head(), newer);
    assert_eq!(snapshots(&other), 2);
    other.run(&["status"]).exits_with(1).stdout_has("another machine");
    other.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&one), 3);
}

#[test]
fn a_vault_that_could_not_be_put_is_put_by_the_next_backup() {
    let shared = Shared::new();
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    let hidden = shared.folder.path().join("hidden");
    // The store goes away after the fetch: `HEAD` cannot be replaced.
    let head = shared.objects().join("HEAD");
    fs::rename(shared.objects().join(".lock"), &hidden).unwrap();
    fs::create_dir(shared.objects().join(".lock")).unwrap();
    let failed = machine.run(&["backup", "-q"]).exits_with(1);
    failed.stderr_has("cannot put the vault of main at file:///");
    assert_eq!(shared.head()["sequence"], 1);
    fs::remove_dir(shared.objects().join(".lock")).unwrap();
    assert_eq!(snapshots(&machine), 2, "the local copy has it");
    assert_eq!(shared.head()["sequence"], 1, "a command that reads puts nothing");
    machine.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&shared.machine()), 3);
    assert!(head.exists());
}

#[test]
fn each_damaged_object_is_one_error_and_the_local_copy_stays() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    one.run(&["backup", "-q"]).succeeds();
    other.run(&["snapshots", "main"]).succeeds();
    one.run(&["backup", "-q"]).succeeds();
    let (head, object) = (fs::read(shared.objects().join("HEAD")).unwrap(), shared.object());
    let whole = fs::read(&object).unwrap();
    let before = fs::read(other.path("vaults/main.db")).unwrap();
    let refused = |message: &str| {
        let fetched = other.run(&["snapshots", "main"]).exits_with(1);
        fetched.stderr_has("cannot fetch the vault of main at file:///").stderr_has(message);
        assert_eq!(fs::read(other.path("vaults/main.db")).unwrap(), before, "{message}");
        fs::write(shared.objects().join("HEAD"), &head).unwrap();
        fs::write(&object, &whole).unwrap();
    };
    fs::write(&object, &whole[..whole.len() / 2]).unwrap();
    refused("bytes, not");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(&object, &flipped).unwrap();
    refused("is damaged");
    fs::remove_file(&object).unwrap();
    refused("does not exist, although HEAD names it");
    shared.write_head(|head| head["format"] = json!(9));
    refused("HEAD has format 9; this program knows formats up to 2");
    shared.write_head(|head| head["account"]["id"] = json!(99));
    refused("not to account 99");
    fs::write(shared.objects().join("HEAD"), "<html>").unwrap();
    refused("HEAD is not a document of linkvault");
    fs::remove_file(shared.objects().join("HEAD")).unwrap();
    refused("HEAD does not exist, but this machine fetched or put it before");
    shared.write_head(|head| head["sequence"] = json!(0));
    refused("names object 0");
    assert_eq!(snapshots(&other), 2);
    // Another content with a digest of its own.
    let zipped = one.path("vaults/main.db");
    fs::write(&object, fs::read(zipped).unwrap()).unwrap();
    let size = fs::metadata(&object).unwrap().len();
    shared.write_head(|head| head["size"] = json!(size));
    let refused = shared.machine().run(&["snapshots", "main"]).exits_with(1);
    refused.stderr_has("is damaged").stderr_has("`linkvault vault restore FILE --to main`");
}

#[test]
fn an_object_with_another_content_than_a_vault_of_this_format_is_refused() {
    let shared = Shared::new();
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    let vault = fs::read(machine.path("vaults/main.db")).unwrap();
    let refused = |message: &str| {
        for machine in [&machine, &shared.machine()] {
            machine.run(&["snapshots", "main"]).exits_with(1).stderr_has(message);
        }
        assert_eq!(fs::read(machine.path("vaults/main.db")).unwrap(), vault);
    };
    shared.write_object(b"not a database");
    refused("is not a vault");
    fs::write(machine.path("newer.db"), &vault).unwrap();
    let newer = rusqlite::Connection::open(machine.path("newer.db")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    newer.close().unwrap();
    shared.write_object(&fs::read(machine.path("newer.db")).unwrap());
    refused("has vault format 99; this program knows formats up to 3");
    shared.write_object(&vault);
    assert_eq!(snapshots(&machine), 1);
}

#[test]
fn a_damaged_object_is_replaced_by_a_restored_copy() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    one.run(&["backup", "-q"]).succeeds();
    fs::copy(one.path("vaults/main.db"), other.path("copy.db")).unwrap();
    fs::write(shared.object(), "").unwrap();
    let restored = other.run(&["vault", "restore", "copy.db", "--to", "main", "--yes"]).succeeds();
    restored.stderr_has("cannot fetch the vault");
    assert_eq!(shared.head()["sequence"], 2);
    assert_eq!(snapshots(&shared.machine()), 1);
    other.run(&["backup", "-q"]).succeeds();
    // `HEAD` is lost, and the other machine has seen object 3.
    assert_eq!(snapshots(&one), 2);
    fs::remove_file(shared.objects().join("HEAD")).unwrap();
    let copy = other.path("vaults/main.db").display().to_string();
    fs::copy(&copy, other.path("newest.db")).unwrap();
    other.run(&["vault", "restore", "newest.db", "--to", "main", "--yes"]).succeeds();
    assert_eq!(shared.head()["sequence"], 4);
    assert_eq!(snapshots(&one), 2);
}

#[test]
fn no_new_vault_is_begun_where_head_is_lost() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    one.run(&["backup", "-q"]).succeeds();
    let object = shared.object();
    fs::remove_file(shared.objects().join("HEAD")).unwrap();
    for _ in 0..2 {
        let refused = other.run(&["backup", "-q"]).exits_with(1);
        let refused = refused.stderr_has("HEAD does not exist, but STATE records earlier backups");
        refused.stderr_has("restore the newest object");
    }
    assert!(!shared.objects().join("HEAD").exists() && object.exists());
    let copy = one.path("vaults/main.db").display().to_string();
    other.run(&["vault", "restore", &copy, "--to", "main", "--yes"]).succeeds();
    assert_eq!(shared.head()["sequence"], 2);
    // The machine that put the lost object goes on with the restored vault.
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&other), 2);
    // Without the state, a machine begins a new vault.
    for name in ["HEAD", "STATE"] {
        fs::remove_file(shared.objects().join(name)).unwrap();
    }
    shared.machine().run(&["backup", "-q"]).succeeds();
    assert_eq!(shared.head()["sequence"], 1);
}

#[test]
fn a_damaged_head_is_replaced_by_a_restored_copy() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&other), 1);
    fs::copy(one.path("vaults/main.db"), one.path("copy.db")).unwrap();
    let restore = ["vault", "restore", "copy.db", "--to", "main", "--yes"];
    let head = shared.objects().join("HEAD");
    for (sequence, damaged) in [(2, "<html>"), (3, "")] {
        fs::write(&head, damaged).unwrap();
        one.run(&restore).succeeds().stderr_has("HEAD is not a document of linkvault");
        assert_eq!(shared.head()["sequence"], sequence);
        assert_eq!(snapshots(&other), 1);
    }
    // A newer program can read this one.
    shared.write_head(|head| head["format"] = json!(9));
    one.run(&restore).exits_with(1).stderr_has("this program knows formats up to 2");
    assert_eq!(shared.head()["format"], 9);
}

#[test]
fn a_folder_that_is_missing_or_read_only_is_one_error() {
    let shared = Shared::new();
    let machine = shared.machine();
    let url = shared.service.url();
    let config = |vault: &str| {
        let text = format!(
            "[accounts.main]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\nvault = \"{vault}\"\n"
        );
        machine.write("config.toml", &text);
    };
    config("file:///not/mounted/main");
    let refused = machine.run(&["backup"]).exits_with(1);
    refused
        .stderr_has("the folder /not/mounted does not exist")
        .stderr_has("hint: check the address");
    config("file://relative/main");
    machine.run(&["backup"]).exits_with(1).stderr_has("must be an absolute path");
    config("ftp://host/main");
    machine.run(&["backup"]).exits_with(1).stderr_has("unknown kind of store `ftp://`");
}

#[test]
fn a_vault_of_another_account_is_not_put_over_the_stored_one() {
    let shared = Shared::new();
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    shared.write_head(|head| head["account"]["id"] = json!(99));
    let refused = machine.run(&["backup", "-q"]).exits_with(1);
    refused.stderr_has("STATE belongs to account 1 of").stderr_has("not to account 99 of");
    // Without that, only the put can find it out, because the copy is current.
    fs::remove_file(shared.objects().join("STATE")).unwrap();
    let refused = machine.run(&["backup", "-q"]).exits_with(1);
    refused.stderr_has("the vault there belongs to account 99");
    assert_eq!(shared.head()["sequence"], 1);
}

#[test]
fn a_local_vault_is_not_replaced_by_that_of_the_store() {
    let shared = Shared::new();
    shared.machine().run(&["backup", "-q"]).succeeds();
    let other = TestEnvironment::new().account(&shared.service.url());
    other.run(&["backup", "-q"]).succeeds();
    let vault = format!("vault = \"file://{}\"\n", shared.objects().display());
    let other = other.account_with(&shared.service.url(), &vault);
    let refused = other.run(&["backup", "-q"]).exits_with(1);
    refused.stderr_has("HOME/vaults/main.db exists, and was not made from the vault in the store");
    assert_eq!(shared.head()["sequence"], 1);
}

#[test]
fn an_emptied_local_copy_does_not_replace_the_stored_vault() {
    let shared = Shared::new();
    let machine = shared.machine();
    for (count, command) in [(1, "snapshots"), (3, "backup")] {
        machine.run(&["backup", "-q"]).succeeds();
        fs::write(machine.path("vaults/main.db"), "").unwrap();
        machine.run(&[command, "main", "-q"]).succeeds();
        assert_eq!(snapshots(&shared.machine()), count);
    }
}

#[test]
fn a_local_vault_moves_into_an_empty_store() {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    let vault = format!("vault = \"file://{}\"\n", environment.path("store").display());
    let environment = environment.account_with(&service.url(), &vault);
    environment.run(&["backup", "-q"]).succeeds();
    fs::remove_dir_all(environment.path("vaults")).unwrap();
    assert_eq!(snapshots(&environment), 2);
    let private = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0, "{path:?}");
    };
    for (path, _) in environment.files().iter().filter(|(path, _)| !path.ends_with("config.toml")) {
        private(path);
    }
}

#[test]
fn check_reads_the_stored_object_although_the_local_copy_is_current() {
    let shared = Shared::new();
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    machine.run(&["check", "main"]).succeeds();
    let (object, before) = (shared.object(), fs::read(shared.object()).unwrap());
    let mut changed = before.clone();
    *changed.last_mut().unwrap() ^= 1;
    let cases: [(&[u8], &str); 3] = [
        (&before[..before.len() / 2], "bytes, not"),
        (&changed, "is damaged"),
        (&[], "has 0 bytes"),
    ];
    for (content, why) in cases {
        fs::write(&object, content).unwrap();
        let refused = machine.run(&["check", "main"]).exits_with(1);
        refused.stderr_has("cannot verify the vault of main at file://").stderr_has(why);
        machine.run(&["check", "main", "--local"]).succeeds().stdout_has("main is sound");
    }
    fs::remove_file(&object).unwrap();
    machine.run(&["check"]).exits_with(1).stderr_has("does not exist, although HEAD names it");
    fs::write(&object, before).unwrap();
    machine.run(&["check"]).succeeds();
}
