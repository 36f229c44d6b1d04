//! Files that are not vaults, belong to another account, or cannot be written: each gives a clear
//! error and remains unchanged.

use std::path::{Path, PathBuf};

use linkvault::crawl::{CrawlError, CrawlOptions};
use linkvault::model::{Resource, SnapshotId};
use linkvault::ops::NextStep;
use linkvault::vault::{AccountIdentity, IdentityPart, Vault, VaultError};

use super::sample;
use crate::sim::world::World;
use crate::vault::snapshot_builder::{assert_sound, campaigns, day, plain};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join("v.db");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Every file in the folder, with the hash of its bytes.
    fn all(&self) -> Vec<(PathBuf, String)> {
        let files = std::fs::read_dir(self.0.path()).unwrap().flatten();
        let hash = |path| blake3::hash(&std::fs::read(path).unwrap_or_default()).to_string();
        let mut all: Vec<_> = files.map(|file| (file.path(), hash(file.path()))).collect();
        all.sort();
        all
    }
}

/// Opens the file in each way, and asserts that each fails and changes nothing.
#[track_caller]
fn refused(folder: &Folder, path: &Path, expected: impl Fn(&VaultError) -> bool) {
    let before = folder.all();
    for open in [Vault::open_or_create, Vault::open, Vault::open_read_only] {
        let error = open(path).map(drop).unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert!(NextStep::after_vault_error(&error).is_some(), "{error}");
        assert_eq!(folder.all(), before);
    }
}

fn sample_bytes() -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.0.path().join("v.db");
    sample::write(&path).close().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let folder = Folder::new();
    for bytes in [
        &b"just a text\n"[..],
        b"x",
        &[0; 5000],
        b"SQLite format 2\0",
        "accounts,keys\n".repeat(900).as_bytes(),
    ] {
        let path = folder.file(bytes);
        refused(&folder, &path, |error| matches!(error, VaultError::NotAVault(_)));
    }
}

#[test]
fn a_folder_is_refused() {
    let folder = Folder::new();
    let path = folder.0.path().join("v.db");
    std::fs::create_dir(&path).unwrap();
    refused(&folder, &path, |error| matches!(error, VaultError::NotAVault(_)));
}

#[test]
fn the_database_of_another_program_is_refused() {
    for sql in [
        "CREATE TABLE t(x)",
        "PRAGMA application_id = 77",
        "PRAGMA user_version = 3",
        "PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)",
    ] {
        let folder = Folder::new();
        let path = folder.0.path().join("v.db");
        let db = plain(&path);
        db.execute_batch(sql).unwrap();
        drop(db);
        refused(&folder, &path, |error| matches!(error, VaultError::NotAVault(_)));
    }
}

#[test]
fn the_log_of_another_program_is_not_checkpointed() {
    let theirs = Folder::new();
    let db = plain(&theirs.0.path().join("v.db"));
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)")
        .unwrap();
    let folder = Folder::new();
    for (file, _) in theirs.all() {
        std::fs::copy(&file, folder.0.path().join(file.file_name().unwrap())).unwrap();
    }
    let path = folder.0.path().join("v.db");
    refused(&folder, &path, |error| matches!(error, VaultError::NotAVault(_)));
}

#[test]
fn an_empty_file_becomes_a_vault() {
    let folder = Folder::new();
    let path = folder.file(b"");
    let mut vault = Vault::open_or_create(&path).unwrap();
    assert_eq!(vault.identity().unwrap(), None);
    campaigns(&mut vault, day(0), &[(1, "one")]);
    assert_sound(&mut vault);
}

#[test]
fn reading_a_missing_vault_is_an_error_and_creates_no_file() {
    let folder = Folder::new();
    let path = folder.0.path().join("none.db");
    for open in [Vault::open, Vault::open_read_only] {
        assert!(matches!(open(&path), Err(VaultError::Missing(_))));
    }
    assert_eq!(folder.all(), []);
}

#[test]
fn a_newer_format_is_refused_with_both_numbers() {
    let folder = Folder::new();
    let path = folder.file(&sample_bytes());
    plain(&path).execute_batch("PRAGMA user_version = 9").unwrap();
    refused(&folder, &path, |error| {
        error.to_string().ends_with("has vault format 9, and this program knows formats up to 3")
    });
}

#[test]
fn a_missing_format_number_is_damage() {
    let folder = Folder::new();
    let path = folder.file(&sample_bytes());
    for number in ["0", "-1"] {
        plain(&path).execute_batch(&format!("PRAGMA user_version = {number}")).unwrap();
        refused(&folder, &path, |error| matches!(error, VaultError::Damaged { .. }));
    }
}

#[test]
fn a_damaged_header_is_refused() {
    let bytes = sample_bytes();
    // The magic bytes, the page size, the encoding, the application id.
    for (at, to) in [(0, b'Q'), (16, 0), (16, 0xff), (59, 2), (68, 0), (71, 0)] {
        let folder = Folder::new();
        let mut damaged = bytes.clone();
        damaged[at] = to;
        let path = folder.file(&damaged);
        let before = folder.all();
        let error = Vault::open(&path).map(drop).unwrap_err();
        let clear = matches!(error, VaultError::NotAVault(_) | VaultError::Damaged { .. });
        assert!(clear, "byte {at}: {error:?}");
        assert_eq!(folder.all(), before);
    }
}

#[test]
fn a_truncated_file_is_refused() {
    let bytes = sample_bytes();
    for length in [16, 60, 99, 100, 4095, 4096, 4097, 8192, bytes.len() / 2, bytes.len() - 4096] {
        let folder = Folder::new();
        let path = folder.file(&bytes[..length]);
        refused(&folder, &path, |error| matches!(error, VaultError::Damaged { .. }));
    }
}

#[test]
fn another_account_is_refused_and_the_next_backup_continues() {
    let folder = Folder::new();
    let path = folder.0.path().join("v.db");
    sample::write(&path).close().unwrap();
    let before = folder.all();
    let ours = sample::identity();
    for moved in [false, true] {
        let mut vault = Vault::open_or_create(&path).unwrap();
        let other = AccountIdentity { account: 8, ..ours.clone() };
        let error = vault.claim(&other, moved).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the vault belongs to account 7 of https://links.example.com, and the service answers \
             for 8 of https://links.example.com"
        );
        assert!(NextStep::after_vault_error(&error).is_some());
        drop(vault);
        assert_eq!(folder.all(), before);
    }
    let mut vault = Vault::open_or_create(&path).unwrap();
    vault.claim(&ours, false).unwrap();
    campaigns(&mut vault, day(9), &[(1, "one")]);
    assert_sound(&mut vault);
}

#[test]
fn another_url_is_refused_unless_the_service_moved() {
    let folder = Folder::new();
    let path = folder.0.path().join("v.db");
    sample::write(&path).close().unwrap();
    let before = folder.all();
    let moved = AccountIdentity { service: "https://new.example.com".to_owned(), account: 7 };
    let mut vault = Vault::open(&path).unwrap();
    let error = vault.claim(&moved, false).unwrap_err();
    assert!(
        matches!(error, VaultError::OtherAccount { what: IdentityPart::Service, .. }),
        "{error:?}"
    );
    assert_eq!(NextStep::after_vault_error(&error), Some(NextStep::AcceptMovedService));
    drop(vault);
    assert_eq!(folder.all(), before);
    let mut vault = Vault::open(&path).unwrap();
    vault.claim(&moved, true).unwrap();
    assert_eq!(vault.identity().unwrap(), Some(moved));
    assert_sound(&mut vault);
}

#[test]
fn a_crawl_of_another_account_does_not_change_the_vault() {
    let folder = Folder::new();
    let path = folder.0.path().join("v.db");
    let other = AccountIdentity { service: "http://sandbox".to_owned(), account: 4711 };
    let mut vault = Vault::open_or_create(&path).unwrap();
    vault.claim(&other, false).unwrap();
    campaigns(&mut vault, day(-9), &[(1, "one")]);
    vault.close().unwrap();
    let before = folder.all();
    let mut vault = Vault::open(&path).unwrap();
    let error = World::with_sample_account()
        .crawl(&mut vault, &CrawlOptions::new("http://sandbox"))
        .unwrap_err();
    assert!(matches!(error, CrawlError::Vault(VaultError::OtherAccount { .. })), "{error:?}");
    drop(vault);
    assert_eq!(folder.all(), before);
}

#[test]
fn a_crawl_stopped_by_a_full_disk_at_any_page_can_be_continued() {
    let folder = Folder::new();
    let path = folder.0.path().join("v.db");
    let world = World::with_sample_account();
    let options = CrawlOptions::new("http://sandbox");
    let mut vault = Vault::open_or_create(&path).unwrap();
    let pages = |vault: &Vault| u32::try_from(vault.size() / 4096).unwrap();
    vault.close().unwrap();
    vault = Vault::open(&path).unwrap();
    let empty = pages(&vault);
    let mut refusals = 0;
    for more in 0.. {
        vault.limit_pages(empty + more).unwrap();
        match world.crawl(&mut vault, &options) {
            Err(CrawlError::Vault(error)) => {
                assert!(matches!(error, VaultError::Full(_)), "{error:?}");
                assert!(NextStep::after_vault_error(&error).is_some());
                assert_sound(&mut vault);
                refusals += 1;
            }
            Err(other) => panic!("{other:?}"),
            Ok(summary) => {
                assert!(summary.resumed);
                break;
            }
        }
    }
    assert!(refusals >= 2, "{refusals}");
    assert_sound(&mut vault);
    assert_eq!(vault.all_snapshots().unwrap().len(), 1);
    let mut whole = Vault::in_memory().unwrap();
    world.crawl(&mut whole, &options).unwrap();
    // Scans change as time passes.
    let still: Vec<_> = Resource::ALL.into_iter().filter(|it| *it != Resource::QrCodes).collect();
    assert_eq!(
        vault.state(SnapshotId(1), &still).unwrap(),
        whole.state(SnapshotId(1), &still).unwrap()
    );
}

/// Environment variable with the name of the test that the helper process runs.
const UNPRIVILEGED_USER: &str = "LINKVAULT_TEST_PLAIN_USER";

/// Runs `work` as a user whom permissions restrict: root runs the test again as `nobody`.
#[cfg(unix)]
fn as_unprivileged_user(test: &str, work: impl FnOnce()) {
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let probe = tempfile::tempdir().unwrap();
    let path = probe.path().join("probe");
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o0)
        .open(&path)
        .unwrap();
    if std::fs::File::open(&path).is_err() {
        return work();
    }
    assert!(
        std::env::var_os(UNPRIVILEGED_USER).is_none(),
        "permissions do not restrict the user nobody either"
    );
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("vault::open_errors::{test}")])
        .env(UNPRIVILEGED_USER, "1")
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output();
    match ran {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
        Err(error) => {
            println!("skipped: permissions do not restrict root, and cannot run as nobody: {error}")
        }
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_read_only_file_can_be_opened_only_for_reading() {
    as_unprivileged_user("a_read_only_file_can_be_opened_only_for_reading", || {
        let folder = Folder::new();
        let path = folder.file(&sample_bytes());
        set_mode(&path, 0o400);
        let before = folder.all();
        for open in [Vault::open_or_create, Vault::open] {
            let error = open(&path).map(drop).unwrap_err();
            assert!(matches!(error, VaultError::ReadOnly(_)), "{error:?}");
            assert!(NextStep::after_vault_error(&error).is_some());
        }
        let mut vault = Vault::open_read_only(&path).unwrap();
        assert_eq!(vault.snapshots().unwrap().len(), 4);
        assert_sound(&mut vault);
        drop(vault);
        assert_eq!(folder.all()[0], before[0]);
        set_mode(&path, 0o600);
        let mut vault = Vault::open(&path).unwrap();
        campaigns(&mut vault, day(9), &[(1, "one")]);
        assert_sound(&mut vault);
    });
}

#[cfg(unix)]
#[test]
fn a_vault_in_a_read_only_folder_can_be_opened_only_for_reading() {
    as_unprivileged_user("a_vault_in_a_read_only_folder_can_be_opened_only_for_reading", || {
        let folder = Folder::new();
        let path = folder.file(&sample_bytes());
        set_mode(folder.0.path(), 0o500);
        let before = folder.all();
        let written =
            Vault::open(&path).and_then(|mut vault| vault.begin(day(9), None, &Resource::ALL));
        let mut vault = Vault::open_read_only(&path).unwrap();
        assert_sound(&mut vault);
        assert_eq!(vault.snapshots().unwrap().len(), 4);
        let none = Vault::open_or_create(&folder.0.path().join("new.db")).map(drop);
        assert_eq!(folder.all(), before);
        set_mode(folder.0.path(), 0o700);
        let refused = written.unwrap_err();
        assert!(matches!(refused, VaultError::ReadOnly(_)), "{refused:?}");
        let refused = none.unwrap_err();
        assert!(matches!(refused, VaultError::ReadOnly(_)), "{refused:?}");
    });
}

#[cfg(unix)]
#[test]
fn a_file_without_read_permission_has_its_own_error() {
    as_unprivileged_user("a_file_without_read_permission_has_its_own_error", || {
        let folder = Folder::new();
        let path = folder.file(&sample_bytes());
        set_mode(&path, 0o0);
        let error = Vault::open(&path).map(drop).unwrap_err();
        assert!(error.to_string().contains("ermission denied"), "{error}");
    });
}
