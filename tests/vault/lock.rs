//! One process at a time works on an account.

use std::any::Any;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use linkvault::clock::{Clock, Slept, Timestamp};
use linkvault::vault::lock::{Holder, Lock, LockError};

use super::desk::day;

/// Time that never passes; nobody may wait.
pub struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        day(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Slept {
        panic!("nobody may wait here")
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// Passes the time it is asked to, and lets what is locked go at one of the waits.
struct LettingGo {
    locked: Mutex<Option<Box<dyn Any + Send>>>,
    at_wait: u32,
    waits: Mutex<u32>,
    ends: Slept,
}

impl LettingGo {
    fn new(locked: impl Any + Send, at_wait: u32) -> Self {
        let locked: Box<dyn Any + Send> = Box::new(locked);
        Self { locked: Mutex::new(Some(locked)), at_wait, waits: Mutex::new(0), ends: Slept::Whole }
    }
}

impl Clock for LettingGo {
    fn now(&self) -> Timestamp {
        day(0)
    }

    fn monotonic(&self) -> Duration {
        *self.waits.lock().unwrap() * Duration::from_millis(200)
    }

    fn sleep(&self, _: Duration) -> Slept {
        let mut waits = self.waits.lock().unwrap();
        *waits += 1;
        if *waits == self.at_wait {
            self.locked.lock().unwrap().take();
        }
        self.ends
    }

    fn interrupted(&self) -> bool {
        self.ends == Slept::Interrupted
    }
}

fn take(vault: &Path, command: &str) -> Result<Lock, LockError> {
    Lock::take(vault, command, Duration::ZERO, &LettingGo::new((), 0))
}

#[test]
fn the_second_is_told_who_holds_the_lock_and_since_when() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    assert_eq!(Lock::holder(&vault), None);
    let first = take(&vault, "linkvault backup main").unwrap();
    let ours = Holder {
        pid: std::process::id(),
        command: "linkvault backup main".to_owned(),
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
fn each_vault_has_a_lock_of_its_own_and_none_is_the_vault_itself() {
    let folder = tempfile::tempdir().unwrap();
    let vaults = ["main.db", "main.sqlite", "main", "main.lock"].map(|it| folder.path().join(it));
    let _locks = vaults.each_ref().map(|vault| take(vault, "backup").unwrap());
    assert!(vaults.iter().take(3).all(|vault| !vault.exists()));
}

#[test]
fn who_waits_gets_the_lock_once_it_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let waiting = |ends, patience| {
        let clock = LettingGo { ends, ..LettingGo::new(take(&vault, "backup").unwrap(), 3) };
        let taken = Lock::take(&vault, "check", patience, &clock);
        let waits = *clock.waits.lock().unwrap();
        (taken, waits)
    };
    let (taken, waits) = waiting(Slept::Whole, Duration::from_secs(10));
    assert!(taken.is_ok());
    assert_eq!(waits, 3);
    drop(taken);
    let (refused, waits) = waiting(Slept::Whole, Duration::from_millis(400));
    assert!(matches!(refused, Err(LockError::Held(Some(_)))));
    assert_eq!(waits, 2);
    let (interrupted, _) = waiting(Slept::Interrupted, Duration::from_secs(10));
    assert!(matches!(interrupted, Err(LockError::Interrupted)));
}

#[test]
fn who_only_looks_at_a_lock_keeps_nobody_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    drop(take(&vault, "backup").unwrap());
    let looking = File::open(folder.path().join("main.db.lock")).unwrap();
    looking.lock_shared().unwrap();
    let clock = LettingGo::new(looking, 1);
    Lock::take(&vault, "backup", Duration::ZERO, &clock).unwrap();
    assert_eq!(*clock.waits.lock().unwrap(), 1);
}

/// Names the vault that a helper process is to lock.
const HELPER: &str = "LINKVAULT_TEST_LOCKS";

#[test]
fn the_lock_goes_with_a_killed_process() {
    if let Some(vault) = std::env::var_os(HELPER) {
        let _lock = take(Path::new(&vault), "helper").unwrap();
        println!("\nlocked");
        // Ends with the parent, if that does not kill it first.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("main.db");
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "vault::lock::the_lock_goes_with_a_killed_process", "--nocapture"])
        .env(HELPER, &vault)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(helper.stdout.take().unwrap()).lines();
    assert!(said.map_while(Result::ok).any(|line| line == "locked"));
    let held = take(&vault, "backup").unwrap_err();
    assert!(matches!(held, LockError::Held(Some(holder)) if holder.pid == helper.id()));
    helper.kill().unwrap();
    helper.wait().unwrap();
    take(&vault, "backup").unwrap();
}
