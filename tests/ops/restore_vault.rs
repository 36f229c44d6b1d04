//! `vault restore`: replaces a vault by a copy that is valid for it.

use crate::support::{LiveService, TestEnvironment};

/// An account with two snapshots, and a copy of its vault made between them.
fn with_copy() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    std::fs::copy(environment.path("vaults/main.db"), environment.path("copy.db")).unwrap();
    environment.run(&["backup", "-q"]).succeeds();
    (environment, service)
}

fn snapshots(environment: &TestEnvironment) -> usize {
    let shown = environment.run(&["snapshots", "main", "--json"]).succeeds().stdout();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown["snapshots"].as_array().unwrap().len()
}

fn copy(environment: &TestEnvironment) -> String {
    environment.path("copy.db").display().to_string()
}

#[test]
fn the_next_backup_continues_from_a_restored_copy() {
    let (environment, _service) = with_copy();
    let copy = copy(&environment);
    assert_eq!(snapshots(&environment), 2);
    let verified = environment.run(&["vault", "restore", &copy, "--to", "main", "-n", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&verified.succeeds().stdout()).unwrap();
    assert_eq!(document["written"], false);
    assert_eq!(document["snapshots"], 1);
    assert_eq!(snapshots(&environment), 2);
    // Without a terminal and without --yes nothing is replaced.
    environment.run(&["vault", "restore", &copy, "--to", "main"]);
    assert_eq!(snapshots(&environment), 2);
    environment.run(&["vault", "restore", &copy, "--to", "main", "--yes"]).succeeds();
    assert_eq!(snapshots(&environment), 1);
    environment.run(&["check", "main"]).succeeds();
    environment.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&environment), 2);
}

#[test]
fn a_copy_restores_a_missing_or_damaged_vault() {
    let (environment, _service) = with_copy();
    let copy = copy(&environment);
    let vault = environment.path("vaults/main.db");
    std::fs::write(&vault, "a diary").unwrap();
    environment.run(&["vault", "restore", &copy, "--to", "main", "--yes"]).succeeds();
    assert_eq!(snapshots(&environment), 1);
    std::fs::remove_file(&vault).unwrap();
    environment.run(&["vault", "restore", &copy, "--to", "main", "--yes"]).succeeds();
    assert_eq!(snapshots(&environment), 1);
}

#[test]
fn a_copy_of_another_account_and_a_file_that_is_not_a_vault_are_refused() {
    let (environment, _service) = with_copy();
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    let other = environment.path("vaults/sandbox.db").display().to_string();
    environment
        .run(&["vault", "restore", &other, "--to", "main", "--yes"])
        .exits_with(1)
        .stderr_has("the copy belongs to account");
    let missing = environment.path("none.db").display().to_string();
    environment
        .run(&["vault", "restore", &missing, "--to", "main", "--yes"])
        .exits_with(1)
        .stderr_has("there is no file");
    let text = environment.path("config.toml").display().to_string();
    environment
        .run(&["vault", "restore", &text, "--to", "main", "--yes"])
        .exits_with(1)
        .stderr_has("is not a vault of linkvault\nhint: nothing was written; name another file\n");
    assert_eq!(snapshots(&environment), 2);
}

/// After a crash and a copy over the vault, every command refuses the vault and names the solution.
#[test]
fn a_vault_beside_the_log_of_another_is_refused_until_it_is_restored() {
    let (environment, _service) = with_copy();
    let vault = environment.path("vaults/main.db");
    let log = environment.path("vaults/main.db-wal");
    // Open while the log is copied, as if the process was killed at that time.
    let mut open = linkvault::vault::Vault::open(&vault).unwrap();
    open.learn_page_size(linkvault::model::Resource::Pixels, 10).unwrap();
    let left = std::fs::read(&log).unwrap();
    drop(open);
    std::fs::copy(environment.path("copy.db"), &vault).unwrap();
    std::fs::write(&log, &left).unwrap();
    for command in ["backup", "snapshots", "check", "status"] {
        let ran = environment.run(&[command, "main"]);
        let said = format!("{}{}", ran.stdout(), ran.stderr());
        assert!(said.contains("is the log of another file"), "{command}: {said}");
    }
    assert_eq!(std::fs::read(&log).unwrap(), left);
    let vault = vault.display().to_string();
    environment.run(&["vault", "restore", &vault, "--to", "main", "--yes"]).succeeds();
    assert!(!log.exists());
    assert_eq!(snapshots(&environment), 1);
    environment.run(&["check", "main"]).succeeds();
}

#[test]
fn a_copy_of_an_unverified_account_is_restored_only_with_a_warning() {
    let (environment, _service) = with_copy();
    let copy = copy(&environment);
    let vault = environment.path("vaults/main.db");
    let restore = ["vault", "restore", &copy, "--to", "main"];
    let document = environment.run(&[&restore[..], &["-n", "--json"]].concat()).succeeds().json();
    assert_eq!(document["account_known"], true);
    for damage in ["a diary", ""] {
        match damage {
            "" => std::fs::remove_file(&vault).unwrap(),
            text => std::fs::write(&vault, text).unwrap(),
        }
        let warning = "cannot compare the account: main has no vault that can be read. The copy \
                       belongs to account ";
        let verified = environment.run(&[&restore[..], &["-n"]].concat()).succeeds();
        let verified = verified.stderr_has(warning);
        assert!(!verified.stderr().contains("belongs to main"), "{}", verified.stderr());
        let asked = environment.run(&restore).exits_with(64).stderr_has(warning);
        asked.stderr_has("may not be that of main?");
        let document = environment.run(&[&restore[..], &["-n", "--json"]].concat()).json();
        assert_eq!(document["account_known"], false);
    }
    assert!(!vault.exists());
    let yes = [&restore[..], &["--yes"]].concat();
    environment.run(&yes).succeeds().stderr_has("cannot compare the account");
    environment.run(&["backup", "-q"]).succeeds();
}

#[test]
fn a_log_without_its_vault_is_an_error() {
    let (environment, _service) = with_copy();
    let (vault, log) = (environment.path("vaults/main.db"), environment.path("vaults/main.db-wal"));
    std::fs::remove_file(&vault).unwrap();
    std::fs::write(&log, "changes").unwrap();
    for command in ["show", "snapshots", "backup", "check", "status", "doctor"] {
        let ran = environment.run(&[command, "main"]);
        assert_ne!(ran.code(), Some(0), "{command}");
        let said = format!("{}{}", ran.stdout(), ran.stderr());
        assert!(said.contains("main.db-wal has changes for it"), "{command}: {said}");
        assert!(!said.contains("linkvault backup"), "{command}: {said}");
    }
    assert!(!vault.exists());
    assert_eq!(std::fs::read(&log).unwrap(), b"changes");
    environment.run(&["vault", "restore", &copy(&environment), "--to", "main", "--yes"]).succeeds();
    assert!(!log.exists());
    assert_eq!(snapshots(&environment), 1);
}
