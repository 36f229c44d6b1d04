//! The daemon's work after a backup, and other tools that handle its copies.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use linkvault::clock::{SimulatedClock, Timestamp};
use linkvault::config::{AccountConfig, Config, Home};
use linkvault::ops::post_backup::post_backup;
use linkvault::ops::{Env, NoEvents};
use linkvault::vault::Vault;

use crate::support::{LiveService, TestEnvironment};

fn account(environment: &TestEnvironment) -> AccountConfig {
    let config = Config::load(&Home::at(&environment.path(""))).unwrap();
    config.account("main").unwrap()
}

fn done(environment: &TestEnvironment) -> Vec<String> {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_800_000_000_000)));
    let env = Env::new(clock, Arc::new(NoEvents)).with_home(Home::at(&environment.path("")));
    post_backup(&env, &account(environment)).into_iter().map(|it| it.message).collect()
}

#[test]
fn post_backup_work_forgets_exports_and_copies() {
    let service = LiveService::start("", "");
    let more = "keep = { last = 1 }\ncopy = \"copies\"\nexport = { to = \"exports\" }\n";
    let environment = TestEnvironment::new().account_with(&service.url(), more);
    for _ in 0..3 {
        environment.run(&["backup", "-q"]).succeeds();
    }
    assert_eq!(done(&environment), [""; 0]);
    let vault = Vault::open_read_only(&environment.path("vaults/main.db")).unwrap();
    let numbers =
        |vault: &Vault| vault.snapshots().unwrap().iter().map(|it| it.number.0).collect::<Vec<_>>();
    assert_eq!(numbers(&vault), [3]);
    let manifest = environment.text("exports/main/manifest.json");
    assert!(manifest.contains("\"snapshot\": 3"), "{manifest}");
    let copy = environment.path("copies/main.db");
    let mut copy = Vault::open_read_only(&copy).unwrap();
    assert_eq!(numbers(&copy), [3]);
    assert_eq!(copy.check().unwrap().problems, [""; 0]);
    drop(copy);
    // Again, over the existing copy, and over the leftovers of a killed process.
    environment.write("copies/.main.db.part-x", "half a cop");
    environment.run(&["backup", "-q"]).succeeds();
    assert_eq!(done(&environment), [""; 0]);
    assert!(environment.text("exports/main/manifest.json").contains("\"snapshot\": 4"));
    let names = std::fs::read_dir(environment.path("copies")).unwrap().flatten();
    assert_eq!(names.map(|it| it.file_name()).collect::<Vec<_>>(), ["main.db"]);
}

#[cfg(unix)]
#[test]
fn a_copy_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let vault = Vault::open_read_only(&environment.path("vaults/sandbox.db")).unwrap();
    let file = environment.path("out/copy.db");
    vault.copy_to(&file).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn a_failed_task_is_reported_and_does_not_stop_the_others() {
    let service = LiveService::start("", "");
    let more = "keep = { last = 1 }\ncopy = \"file/copies\"\nexport = { to = \"full\" }\n";
    let environment = TestEnvironment::new().account_with(&service.url(), more).file("file", "");
    std::fs::create_dir_all(environment.path("full/main")).unwrap();
    environment.write("full/main/mine.txt", "");
    for _ in 0..2 {
        environment.run(&["backup", "-q"]).succeeds();
    }
    let failures = done(&environment);
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].starts_with("the newest snapshot was not exported: "), "{failures:?}");
    assert!(failures[0].ends_with("holds other files"), "{failures:?}");
    assert!(failures[1].starts_with("the vault was not copied: "), "{failures:?}");
    let vault = Vault::open_read_only(&environment.path("vaults/main.db")).unwrap();
    assert_eq!(vault.snapshots().unwrap().len(), 1);
    assert!(environment.path("full/main/mine.txt").exists());
    // The exit code reports it, too.
    let more = format!("schedule = \"0 3 * * *\"\n{more}");
    let environment = environment.account_with(&service.url(), &more);
    std::fs::remove_file(environment.path("vaults/main.db")).unwrap();
    environment.run(&["daemon", "--once"]).exits_with(3).stderr_has("was not copied");
    environment.run(&["status"]).exits_with(3).stdout_has("was not copied");
}

/// Without the tool, the test prints a note and does nothing; with `LINKVAULT_NEEDS_RESTIC` it
/// fails.
#[test]
#[allow(clippy::print_stderr)]
fn restic_backs_up_and_restores_the_copies() {
    let environment = TestEnvironment::new();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let vault = Vault::open_read_only(&environment.path("vaults/sandbox.db")).unwrap();
    vault.copy_to(&environment.path("copies/sandbox.db")).unwrap();
    let restic = |arguments: &[&str]| {
        Command::new("restic")
            .args(arguments)
            .env("RESTIC_REPOSITORY", environment.path("repository"))
            .env("RESTIC_PASSWORD", "of a test")
            .env("RESTIC_CACHE_DIR", environment.path("cache"))
            .current_dir(environment.path(""))
            .output()
    };
    if let Err(error) = restic(&["version"]) {
        assert!(std::env::var_os("LINKVAULT_NEEDS_RESTIC").is_none(), "{error}");
        // The tool is not installed here.
        return;
    }
    let works = |arguments: &[&str]| {
        let output = restic(arguments).unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}");
    };
    works(&["init"]);
    works(&["backup", "copies"]);
    works(&["check"]);
    works(&["restore", "latest", "--target", "restored"]);
    let there = std::fs::read(environment.path("copies/sandbox.db")).unwrap();
    let back = std::fs::read(environment.path("restored/copies/sandbox.db")).unwrap();
    assert!(there == back, "not the same bytes");
    let other = TestEnvironment::new();
    std::fs::create_dir_all(other.path("vaults")).unwrap();
    std::fs::write(other.path("vaults/sandbox.db"), back).unwrap();
    other.run(&["check", "sandbox"]).succeeds();
    let before = environment.run(&["show", "sandbox@latest", "--json"]).succeeds().json();
    assert_eq!(other.run(&["show", "sandbox@latest", "--json"]).succeeds().json(), before);
}
