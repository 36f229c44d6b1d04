//! The files of vaults: names, sizes and modes.

use std::time::Duration;

use linkvault::model::{DecodedRecord, Resource};
use linkvault::vault::lock::Lock;
use linkvault::vault::snapshot::RequestUsage;
use linkvault::vault::write::{CrawledPage, WriteResult};
use linkvault::vault::{Vault, VaultError};
use roaring::RoaringTreemap;

use super::lock::StillClock;
use crate::vault::snapshot_builder::{campaigns, day, plain};

#[test]
fn the_size_includes_the_log_with_any_file_name() {
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

/// The notes on pages, which are deleted at the end of the backup, leave free pages.
#[test]
fn a_backup_leaves_no_free_pages_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut sizes = Vec::new();
    for round in 0..3 {
        let mut vault = Vault::open_or_create(&path).unwrap();
        let snapshot = vault.begin(day(round), None, &Resource::ALL).unwrap();
        let usage = RequestUsage::default();
        for number in 1..200 {
            let raw = format!(r#"{{"id":{number},"name":"x"}}"#);
            let record = DecodedRecord::read(Resource::Campaigns, None, &raw).unwrap();
            let (resource, parent, now) = (Resource::Campaigns, None, day(round));
            let page = CrawledPage {
                snapshot,
                resource,
                parent,
                number,
                now,
                usage,
                batch: Some(Duration::ZERO),
            };
            let note = |_: &WriteResult| "n".repeat(1000);
            vault.put_page(&page, &[record], &RoaringTreemap::new(), note).unwrap();
        }
        vault.finish(snapshot, day(round), usage).unwrap();
        vault.close().unwrap();
        let free =
            plain(&path).pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0));
        assert_eq!(free, Ok(0));
        sizes.push(path.metadata().unwrap().len());
    }
    assert_eq!(sizes[0], sizes[2]);
}

#[test]
fn many_processes_can_open_a_new_vault_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let made_whole = Vault::open_or_create(&folder.path().join("model.db")).unwrap();
    for round in 0..40 {
        let path = folder.path().join(format!("{round}.db"));
        match round % 3 {
            0 => {}
            // As restored from a backup of the file: without a log.
            1 => made_whole.copy_to(&path).unwrap(),
            _ => std::fs::write(&path, "").unwrap(),
        }
        std::thread::scope(|threads| {
            for nth in 0..4 {
                let path = &path;
                threads.spawn(move || {
                    for _ in 0..5 {
                        if nth < 2 {
                            Vault::open_or_create(path).unwrap();
                        } else if path.exists() {
                            Vault::open_read_only(path).unwrap();
                        }
                    }
                });
            }
        });
    }
    let parts = std::fs::read_dir(folder.path()).unwrap().flatten();
    let parts = parts.filter(|it| it.file_name().to_string_lossy().contains("part"));
    assert_eq!(parts.count(), 0);
}

/// A process that closes a file releases all its locks on it. Without them, the next process that
/// closes the vault would remove the log that others use.
#[cfg(target_os = "linux")]
#[test]
fn a_vault_opened_twice_in_one_process_keeps_its_locks() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("main.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    campaigns(&mut vault, day(0), &[(1, "one")]);
    let of_file = format!(" {} ", std::process::id());
    let of_file = [of_file, format!(":{} ", path.metadata().unwrap().ino())];
    // SQLite uses POSIX locks. A child process inherits the vault's own lock until it executes its
    // program. The kernel returns the list in parts, so a read may miss or repeat a line when
    // others change it.
    let is_locked = || {
        let read = |_| {
            let all = std::fs::read_to_string("/proc/locks").unwrap();
            let mut posix = all.lines().filter(|line| line.contains("POSIX"));
            posix.any(|line| of_file.iter().all(|it| line.contains(it)))
        };
        (0..100).any(read)
    };
    assert!(is_locked());
    drop(Vault::open_or_create(&path).unwrap());
    drop(Vault::open_read_only(&path).unwrap());
    assert!(is_locked());
    // The vault's own lock is on the same file, with another descriptor.
    let lock = || Lock::take(&path, "backup", Duration::ZERO, &StillClock).unwrap();
    drop(lock());
    drop(lock());
    assert!(is_locked());
    drop(vault);
    assert!(!is_locked());
    // The first bytes are read again once the file is closed.
    std::fs::write(&path, "something else").unwrap();
    assert!(matches!(Vault::open(&path), Err(VaultError::NotAVault(_))));
}

#[cfg(unix)]
#[test]
fn vault_log_lock_and_folder_are_private() {
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
