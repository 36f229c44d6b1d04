//! Vaults that cannot be used: each gives a clear error and remains unchanged.

use crate::support::{CommandOutput, LiveService, TestEnvironment};

/// An account with a vault of one snapshot, in one file.
fn backed_up() -> (TestEnvironment, LiveService) {
    let service = LiveService::start("", "");
    let environment = TestEnvironment::new().account(&service.url());
    environment.run(&["backup", "-q"]).succeeds();
    (environment, service)
}

/// Runs a backup on `vault` and asserts that every byte remains.
fn refused(environment: &TestEnvironment, vault: &[u8]) -> CommandOutput {
    let file = environment.path("vaults/main.db");
    std::fs::write(&file, vault).unwrap();
    let ran = environment.run(&["backup", "main"]).exits_with(1).stdout_is("");
    assert!(std::fs::read(&file).unwrap() == vault, "the file was changed: {}", ran.stderr());
    ran
}

#[test]
fn a_file_that_is_not_a_vault_is_refused() {
    let (environment, _service) = backed_up();
    for text in ["A diary, and not a vault.".repeat(40), "short".to_owned()] {
        refused(&environment, text.as_bytes()).stderr_has(
            "error: HOME/vaults/main.db is not a vault of linkvault\n\
             hint: move the file away, or name another vault in the configuration\n",
        );
        environment.run(&["snapshots", "main"]).exits_with(1).stderr_has("is not a vault");
    }
}

#[test]
fn a_database_of_another_program_is_refused() {
    let (environment, _service) = backed_up();
    let other = environment.path("other.db");
    let db = rusqlite::Connection::open(&other).unwrap();
    db.execute_batch("create table campaigns(x); insert into campaigns values(1)").unwrap();
    drop(db);
    let bytes = std::fs::read(&other).unwrap();
    refused(&environment, &bytes).stderr_has("is not a vault of linkvault");
}

#[test]
fn a_vault_of_a_newer_format_is_refused() {
    let (environment, _service) = backed_up();
    let db = environment.sqlite("main");
    db.pragma_update(None, "user_version", 99).unwrap();
    db.close().unwrap();
    let bytes = std::fs::read(environment.path("vaults/main.db")).unwrap();
    refused(&environment, &bytes)
        .stderr_has("has vault format 99, and this program knows formats up to ")
        .stderr_has("hint: use the newer linkvault that wrote it");
}

#[test]
fn a_truncated_vault_is_refused() {
    let (environment, _service) = backed_up();
    let bytes = std::fs::read(environment.path("vaults/main.db")).unwrap();
    refused(&environment, &bytes[..bytes.len() / 2])
        .stderr_has("HOME/vaults/main.db is damaged: ")
        .stderr_has("run `linkvault backup`");
}

#[test]
fn check_without_a_name_checks_every_account() {
    let (environment, service) = backed_up();
    let other = format!("[accounts.young]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\n", service.url());
    let config = environment.text("config.toml");
    environment.run(&["check"]).succeeds().stdout_has("main is sound: ");
    environment.write("config.toml", &format!("{config}{other}"));
    let ran = environment.run(&["check"]).exits_with(1);
    ran.stdout_has("main is sound: ").stderr_has("error: young");
    let document = environment.run(&["check", "--json"]).exits_with(1).json();
    assert_eq!(document["accounts"][0]["sound"], true);
    assert_eq!(document["accounts"][1]["account"], "young");
}

#[test]
fn check_finds_an_altered_byte_of_a_record() {
    let (environment, _service) = backed_up();
    let file = environment.path("vaults/main.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let name = b"Spring Reading List";
    let at = bytes.windows(name.len()).position(|part| part == name).unwrap();
    bytes[at] = b'T';
    std::fs::write(&file, &bytes).unwrap();
    let ran = environment.run(&["check", "main"]).exits_with(1);
    ran.stdout_has("main is damaged: ").stderr_has("campaigns");
    let document = environment.run(&["check", "main", "--json"]).exits_with(1).json();
    assert_eq!(document["sound"], false);
    assert!(!document["problems"].as_array().unwrap().is_empty());
}

#[test]
fn damage_anywhere_is_an_error_and_never_a_panic() {
    let (environment, _service) = backed_up();
    let file = environment.path("vaults/main.db");
    let whole = std::fs::read(&file).unwrap();
    let mut noticed = 0;
    for page in (0..whole.len()).step_by(4096 * 3) {
        let mut bytes = whole.clone();
        let end = whole.len().min(page + 1024);
        bytes[page..end].fill(0xa5);
        std::fs::write(&file, &bytes).unwrap();
        for command in [&["check", "main"][..], &["show", "main", "qr_codes"]] {
            let ran = environment.run(command);
            assert!(!ran.stderr().contains("panicked"), "{page}: {}", ran.stderr());
            noticed += u32::from(ran.code() == Some(1));
            assert!(matches!(ran.code(), Some(0 | 1)), "{page}: {:?}", ran.code());
        }
    }
    assert!(noticed > 5, "{noticed}");
}

#[test]
fn the_vault_of_another_account_is_refused() {
    let (environment, service) = backed_up();
    service.sandbox().mutate(|store| store.account.id = 4711);
    let ran = environment.run(&["backup", "main"]).exits_with(1).stdout_is("");
    let url = service.url();
    ran.stderr_has(&format!(
        "error: the vault belongs to account 1 of {url}, and the service answers for 4711 of {url}"
    ))
    .stderr_has("give this account a vault of its own");
    environment.run(&["doctor", "main"]).exits_with(1).stdout_has("fail key");
    let snapshots = environment.run(&["snapshots", "main", "--json"]).succeeds().json();
    assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn a_moved_service_is_accepted_with_a_flag() {
    let (environment, _service) = backed_up();
    let moved = LiveService::start("", "");
    let environment = environment.account(&moved.url());
    environment.run(&["backup", "main"]).exits_with(1).stderr_has("--service-moved");
    environment.run(&["backup", "main", "--service-moved", "-q"]).succeeds();
    environment.run(&["backup", "main", "-q"]).succeeds();
}

/// Other users may be able to write to the folder of the vaults; their links and FIFOs are not
/// followed.
#[cfg(unix)]
#[test]
fn a_symlink_or_fifo_beside_a_vault_is_not_opened() {
    let (environment, _service) = backed_up();
    let elsewhere = environment.path("elsewhere");
    for suffix in ["lock", "pace", "daemon"] {
        let file = environment.path(&format!("vaults/main.db.{suffix}"));
        let _ = std::fs::remove_file(&file);
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        environment.run(&["backup", "-q"]);
        environment.run(&["status"]);
        assert!(!elsewhere.exists(), "{suffix}");
        std::fs::remove_file(&file).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        environment.run(&["backup", "-q"]);
        environment.run(&["status"]);
        std::fs::remove_file(&file).unwrap();
        environment.run(&["backup", "-q"]).succeeds();
    }
}

/// SQLite opens its own files beside a vault, and would wait for the writer of a FIFO.
#[cfg(unix)]
#[test]
fn a_fifo_in_place_of_a_file_of_sqlite_is_refused() {
    let (environment, _service) = backed_up();
    for suffix in ["-journal", "-shm", "-wal"] {
        let file = environment.path(&format!("vaults/main.db{suffix}"));
        let _ = std::fs::remove_file(&file);
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        for command in [&["backup", "-q"][..], &["snapshots", "main"]] {
            let ran = environment.run(command).exits_with(1);
            ran.stderr_has("it is not a regular file");
        }
        std::fs::remove_file(&file).unwrap();
        environment.run(&["backup", "-q"]).succeeds();
    }
}

#[cfg(unix)]
#[test]
fn a_vault_that_others_can_read_is_made_private_with_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let (environment, _service) = backed_up();
    let (vault, folder) = (environment.path("vaults/main.db"), environment.path("vaults"));
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&vault, 0o644);
    set(&folder, 0o777);
    environment
        .run(&["backup", "-q"])
        .succeeds()
        .stderr_has("warning: HOME/vaults/main.db had mode 0644; it is 0600 now\n")
        .stderr_has("warning: HOME/vaults can be written to by other users (mode 0777)");
    assert_eq!(vault.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    set(&folder, 0o700);
    environment.run(&["backup", "-q"]).succeeds().stderr_is("");
}
