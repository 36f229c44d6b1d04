//! The lock of an account.

use std::any::Any;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use linkvault::clock::{Clock, SleepOutcome, Timestamp};
use linkvault::vault::Vault;
use linkvault::vault::lock::{Lock, LockCommand, LockError, LockHolder, LockPurpose};

use crate::vault::snapshot_builder::day;

/// A clock on which time never passes; a wait is an error.
pub struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        day(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> SleepOutcome {
        panic!("a wait")
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// A clock that advances by each wait, and releases the lock during one of them.
struct ReleasingClock {
    locked: Mutex<Option<Box<dyn Any + Send>>>,
    at_wait: u32,
    waits: Mutex<u32>,
    ends: SleepOutcome,
}

impl ReleasingClock {
    fn new(locked: impl Any + Send, at_wait: u32) -> Self {
        let locked: Box<dyn Any + Send> = Box::new(locked);
        Self {
            locked: Mutex::new(Some(locked)),
            at_wait,
            waits: Mutex::new(0),
            ends: SleepOutcome::Finished,
        }
    }
}

impl Clock for ReleasingClock {
    fn now(&self) -> Timestamp {
        day(0)
    }

    fn monotonic(&self) -> Duration {
        *self.waits.lock().unwrap() * Duration::from_millis(200)
    }

    fn sleep(&self, _: Duration) -> SleepOutcome {
        let mut waits = self.waits.lock().unwrap();
        *waits += 1;
        if *waits == self.at_wait {
            self.locked.lock().unwrap().take();
        }
        self.ends
    }

    fn interrupted(&self) -> bool {
        self.ends == SleepOutcome::Interrupted
    }
}

fn take(vault: &Path, command: &str) -> Result<Lock, LockError> {
    Lock::take(vault, command, Duration::ZERO, &ReleasingClock::new((), 0))
}

#[test]
fn a_lock_names_its_purpose_and_an_unknown_purpose_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let purpose = || Lock::holder(&vault).map(|it| it.purpose);
    let command = LockCommand { purpose: LockPurpose::Backup, ..LockCommand::from("x") };
    let lock = Lock::take(&vault, &command, Duration::ZERO, &ReleasingClock::new((), 0)).unwrap();
    assert_eq!(purpose(), Some(LockPurpose::Backup));
    for other in ["", r#","purpose":"of a newer program""#] {
        let text = format!(r#"{{"pid":1,"command":"linkvault backup main","since":0{other}}}"#);
        std::fs::write(folder.path().join("main.db.lock"), text).unwrap();
        assert_eq!(purpose(), Some(LockPurpose::Other), "{other}");
    }
    drop(lock);
}

#[test]
fn a_fetch_by_another_process_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let fetch = LockCommand { purpose: LockPurpose::Fetch, ..LockCommand::from("x") };
    let fetching = || Lock::take(&vault, &fetch, Duration::ZERO, &ReleasingClock::new((), 0));
    let clock = ReleasingClock::new(fetching().unwrap(), 50);
    drop(Lock::take(&vault, "linkvault backup main", Duration::ZERO, &clock).unwrap());
    let _endless = fetching().unwrap();
    let clock = ReleasingClock::new((), 0);
    Lock::take(&vault, "linkvault backup main", Duration::ZERO, &clock).unwrap_err();
    assert_eq!(clock.monotonic(), Duration::from_secs(60));
}

#[test]
fn a_held_lock_shows_its_holder_and_start() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    assert_eq!(Lock::holder(&vault), None);
    let first = take(&vault, "linkvault backup main").unwrap();
    let ours = LockHolder {
        pid: std::process::id(),
        command: "linkvault backup main".to_owned(),
        purpose: LockPurpose::Other,
        since: day(0),
    };
    let error = take(&vault, "linkvault forget main").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "another process works on this account: pid {}, `linkvault backup main`, since \
             2026-11-01T00:00:00Z",
            ours.pid
        )
    );
    assert!(matches!(error, LockError::Held(Some(holder)) if holder == ours));
    assert_eq!(Lock::holder(&vault), Some(ours));
    drop(first);
    assert_eq!(Lock::holder(&vault), None);
    take(&vault, "linkvault forget main").unwrap();
}

#[test]
fn each_vault_has_its_own_lock_file() {
    let folder = tempfile::tempdir().unwrap();
    let vaults = ["main.db", "main.sqlite", "main", "main.lock"].map(|it| folder.path().join(it));
    let _locks = vaults.each_ref().map(|vault| take(vault, "backup").unwrap());
    assert!(vaults.iter().take(3).all(|vault| !vault.exists()));
}

#[test]
fn a_waiting_process_gets_the_released_lock() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let waiting = |ends, patience| {
        let clock =
            ReleasingClock { ends, ..ReleasingClock::new(take(&vault, "backup").unwrap(), 3) };
        let taken = Lock::take(&vault, "check", patience, &clock);
        let waits = *clock.waits.lock().unwrap();
        (taken, waits)
    };
    let (taken, waits) = waiting(SleepOutcome::Finished, Duration::from_secs(10));
    assert!(taken.is_ok());
    assert_eq!(waits, 3);
    drop(taken);
    let (refused, waits) = waiting(SleepOutcome::Finished, Duration::from_millis(400));
    assert!(matches!(refused, Err(LockError::Held(Some(_)))));
    assert_eq!(waits, 2);
    let (interrupted, _) = waiting(SleepOutcome::Interrupted, Duration::from_secs(10));
    assert!(matches!(interrupted, Err(LockError::Interrupted)));
}

#[test]
fn reading_the_holder_does_not_take_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    drop(take(&vault, "backup").unwrap());
    let looking = File::open(folder.path().join("main.db.lock")).unwrap();
    looking.lock_shared().unwrap();
    let clock = ReleasingClock::new(looking, 1);
    Lock::take(&vault, "backup", Duration::ZERO, &clock).unwrap();
    assert_eq!(*clock.waits.lock().unwrap(), 1);
}

/// Environment variable with the path of the vault that a helper process locks.
const HELPER: &str = "LINKVAULT_TEST_LOCKS";

/// A process that holds the lock of a vault until it is killed or dropped.
struct HelperProcess(Child);

impl HelperProcess {
    /// Starts the test `name` in a process that locks `vault`. The test must begin with
    /// [`HelperProcess::is_this`].
    fn start(name: &str, vault: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("vault::lock::{name}"), "--nocapture"])
            .env(HELPER, vault)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.map_while(Result::ok).any(|line| line == "locked"));
        Self(child)
    }

    /// In a helper process: takes the lock, calls `work`, holds the lock until the parent ends or
    /// kills it, and returns true.
    fn run_as_helper(work: impl FnOnce(&Path)) -> bool {
        let Some(vault) = std::env::var_os(HELPER) else { return false };
        let _lock = take(Path::new(&vault), "helper").unwrap();
        work(Path::new(&vault));
        println!("\nlocked");
        let _ = std::io::stdin().read(&mut [0]);
        true
    }

    fn end(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_lock_is_released_when_its_process_is_killed() {
    if HelperProcess::run_as_helper(|_| ()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let helper = HelperProcess::start("the_lock_is_released_when_its_process_is_killed", &vault);
    let held = take(&vault, "backup").unwrap_err();
    assert!(matches!(held, LockError::Held(Some(holder)) if holder.pid == helper.0.id()));
    helper.end();
    take(&vault, "backup").unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_vault_is_locked_under_every_path() {
    if HelperProcess::run_as_helper(|_| ()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    drop(Vault::open_or_create(&at("main.db")).unwrap());
    std::os::unix::fs::symlink("main.db", at("link.db")).unwrap();
    std::os::unix::fs::symlink(at("link.db"), at("second.db")).unwrap();
    std::os::unix::fs::symlink(".", at("folder")).unwrap();
    std::fs::hard_link(at("main.db"), at("hard.db")).unwrap();
    let names = ["main.db", "link.db", "second.db", "folder/main.db", "hard.db"];
    for locked in names {
        let helper = HelperProcess::start("a_vault_is_locked_under_every_path", &at(locked));
        for name in names {
            let taken = take(&at(name), "backup");
            assert!(matches!(taken, Err(LockError::Held(_))), "{locked} by {name}: {taken:?}");
        }
        helper.end();
        for name in names {
            take(&at(name), "backup").unwrap();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn removing_the_lock_file_does_not_release_the_lock() {
    if HelperProcess::run_as_helper(|_| ()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    drop(Vault::open_or_create(&vault).unwrap());
    let helper = HelperProcess::start("removing_the_lock_file_does_not_release_the_lock", &vault);
    std::fs::remove_file(folder.path().join("main.db.lock")).unwrap();
    for _ in 0..2 {
        let taken = take(&vault, "backup");
        assert!(matches!(taken, Err(LockError::Held(_))), "{taken:?}");
    }
    helper.end();
    take(&vault, "backup").unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_vault_created_under_a_lock_is_locked() {
    if HelperProcess::run_as_helper(|vault| drop(Vault::open_or_create(vault).unwrap())) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let name = "a_vault_created_under_a_lock_is_locked";
    let helper = HelperProcess::start(name, &vault);
    std::fs::remove_file(folder.path().join("main.db.lock")).unwrap();
    let taken = take(&vault, "backup");
    assert!(matches!(taken, Err(LockError::Held(_))), "{taken:?}");
    helper.end();
    take(&vault, "backup").unwrap();
}

#[test]
fn a_waiting_process_finds_the_new_file_of_a_removed_lock() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let file = folder.path().join("main.db.lock");
    // Another process locks the file, and removes it while this one waits.
    let locked = File::create(&file).unwrap();
    locked.lock().unwrap();
    let removed = RemovingFile(locked, file.clone());
    let clock = ReleasingClock::new(removed, 2);
    let lock = Lock::take(&vault, "backup", Duration::from_secs(9), &clock).unwrap();
    assert!(file.exists());
    assert!(matches!(take(&vault, "check"), Err(LockError::Held(Some(_)))));
    drop(lock);
}

/// RemovingFile a locked file before the lock is released.
struct RemovingFile(#[allow(dead_code)] File, PathBuf);

impl Drop for RemovingFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.1).unwrap();
    }
}

/// A FIFO would block the program, and a link would lead it to another file.
#[cfg(unix)]
#[test]
fn a_lock_is_a_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(at("fifo.db.lock")).status().unwrap().success());
    std::os::unix::fs::symlink(at("elsewhere"), at("link.db.lock")).unwrap();
    for name in ["fifo.db", "link.db"] {
        assert!(matches!(take(&at(name), "backup"), Err(LockError::Io { .. })), "{name}");
        assert_eq!(Lock::holder(&at(name)), None);
    }
    assert!(!at("elsewhere").exists());
}
