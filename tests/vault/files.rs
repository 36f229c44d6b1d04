//! The files beside each other: their names, sizes and modes.

use std::time::Duration;

use linkvault::vault::Vault;
use linkvault::vault::lock::Lock;

use super::desk::{campaigns, day};
use super::lock::StillClock;

#[test]
fn the_log_counts_into_the_size_whatever_the_file_is_called() {
    for name in ["v.db", "v.sqlite", "no extension", "a.b.c"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut vault = Vault::open_or_create(&path).unwrap();
        campaigns(&mut vault, day(0), &[(1, "one")]);
        let log = folder.path().join(format!("{name}-wal"));
        let bytes = |path| std::fs::metadata(path).unwrap().len();
        assert!(bytes(&log) > 0);
        assert_eq!(vault.size(), bytes(&path) + bytes(&log));
    }
}

#[test]
fn a_closed_vault_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    campaigns(&mut vault, day(0), &[(1, "one")]);
    vault.close().unwrap();
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1);
}

#[cfg(unix)]
#[test]
fn the_vault_its_log_its_lock_and_its_folder_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    for first in ["lock", "vault"] {
        let folder = home.path().join(first).join("vaults");
        let path = folder.join("main.db");
        let lock = || Lock::take(&path, "backup", Duration::ZERO, &StillClock).unwrap();
        let early = (first == "lock").then(lock);
        let mut vault = Vault::open_or_create(&path).unwrap();
        let _lock = early.unwrap_or_else(lock);
        campaigns(&mut vault, day(0), &[(1, "one")]);
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
        assert_eq!(files.len(), 4, "{files:?}");
        for file in files {
            assert_eq!(mode(&file.path()), 0o600, "{:?}", file.path());
        }
    }
}
