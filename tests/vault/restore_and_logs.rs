//! Logs that belong to another file, and copies that replace a vault.

use std::path::{Path, PathBuf};

use linkvault::model::SnapshotId;
use linkvault::vault::restore::{ReplaceStep, RestoreCandidate};
use linkvault::vault::{Vault, VaultError};
use serde_json::Value;
use tempfile::TempDir;

use super::sample;
use crate::vault::snapshot_builder::{assert_sound, campaigns, contents, day, plain};

/// The file and the log of a vault after a crash.
struct Crashed {
    file: Vec<u8>,
    log: Vec<u8>,
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl Crashed {
    /// The present files of an open vault.
    fn of(path: &Path) -> Self {
        let read = |path: &Path| std::fs::read(path).unwrap();
        Self { file: read(path), log: read(&beside(path, "-wal")) }
    }
}

/// Writes these files to `path`, where no other file is.
fn put(path: &Path, file: &[u8], log: &[u8]) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(path, suffix));
    }
    std::fs::write(path, file).unwrap();
    if !log.is_empty() {
        std::fs::write(beside(path, "-wal"), log).unwrap();
    }
}

fn read(path: &Path) -> Value {
    let mut vault = Vault::open(path).unwrap();
    assert_sound(&mut vault);
    contents(&mut vault, path).unwrap()
}

fn names(start: i64, count: i64, word: &str) -> Vec<(i64, String)> {
    (start..start + count).map(|id| (id, format!("{word} {id} {}", "x".repeat(80)))).collect()
}

fn backup(vault: &mut Vault, at: i64, names: &[(i64, String)]) {
    let names: Vec<_> = names.iter().map(|(id, name)| (*id, name.as_str())).collect();
    campaigns(vault, day(at), &names);
}

/// A vault that crashed at several points of its history, and copies made in between.
struct CrashHistory {
    _folder: TempDir,
    at: PathBuf,
    crashes: Vec<Crashed>,
    copies: Vec<Vec<u8>>,
}

fn crash_history() -> CrashHistory {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("main.db"), folder.path().join("copy.db"));
    let (mut crashes, mut copies) = (Vec::new(), Vec::new());
    let mut vault = sample::write(&path);
    vault.close().unwrap();
    for round in 0..2 {
        vault = Vault::open(&path).unwrap();
        backup(&mut vault, 10 + 4 * round, &names(1, 20 * (round + 1), "early"));
        crashes.push(Crashed::of(&path));
        vault.copy_to(&copy).unwrap();
        copies.push(std::fs::read(&copy).unwrap());
        // Another tool's copy, with the vault's ids, but other page numbers.
        let _ = std::fs::remove_file(&copy);
        plain(&path).execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        copies.push(std::fs::read(&copy).unwrap());
        backup(&mut vault, 11 + 4 * round, &names(10, 30 * (round + 1), "late"));
        crashes.push(Crashed::of(&path));
        if round % 2 == 0 {
            vault.forget(&[2 * round + 6].map(SnapshotId), day(12 + 4 * round)).unwrap();
            backup(&mut vault, 13 + 4 * round, &names(5, 10, "after"));
            crashes.push(Crashed::of(&path));
        }
        vault.close().unwrap();
        copies.push(std::fs::read(&path).unwrap());
    }
    CrashHistory { at: folder.path().join("restored.db"), _folder: folder, crashes, copies }
}

/// An observed fault: a copy was written over a vault with a log left by a crash, and SQLite
/// applied the log to it.
#[test]
fn a_log_of_an_old_file_is_never_applied_to_a_copy() {
    let life = crash_history();
    let (mut refused, mut harmless, mut damaged) = (0, 0, 0);
    for copy in &life.copies {
        put(&life.at, copy, &[]);
        let alone = read(&life.at);
        for crash in &life.crashes {
            put(&life.at, &crash.file, &crash.log);
            let whole = read(&life.at);
            // What any other SQLite program does with these two files.
            put(&life.at, copy, &crash.log);
            let db = plain(&life.at);
            let _ = db.query_row("SELECT count(*) FROM snapshot", [], |_| Ok(()));
            drop(db);
            let plainly = Vault::open(&life.at).and_then(|mut vault| {
                let sound = vault.check()?.problems.is_empty();
                Ok(sound.then_some(contents(&mut vault, &life.at)?))
            });
            let fits = matches!(&plainly, Ok(Some(found)) if *found == whole || *found == alone);
            damaged += u32::from(!fits);

            put(&life.at, copy, &crash.log);
            for result in [Vault::open_read_only(&life.at), Vault::open(&life.at)] {
                match result {
                    Err(error) => {
                        assert!(matches!(error, VaultError::ForeignLog { .. }), "{error}");
                        refused += 1;
                    }
                    Ok(mut vault) => {
                        assert_sound(&mut vault);
                        let found = contents(&mut vault, &life.at).unwrap();
                        assert!(found == whole || found == alone);
                        harmless += 1;
                    }
                }
            }
            let left = std::fs::read(beside(&life.at, "-wal"));
            assert!(fits || left.unwrap() == crash.log, "the log was touched");
        }
    }
    assert!(damaged > 0, "no pair of copy and log does harm, so that nothing is tested");
    assert!(refused >= 2 * damaged, "{refused} refused, {harmless} harmless, {damaged} damaged");
}

/// The log of another SQLite tool has no mark of its file.
#[test]
fn a_log_of_another_tool_is_not_applied_to_a_copy() {
    let life = crash_history();
    put(&life.at, life.copies.last().unwrap(), &[]);
    let tool = plain(&life.at);
    tool.execute_batch("CREATE TABLE notes(note TEXT); INSERT INTO notes VALUES('mine')").unwrap();
    let log = Crashed::of(&life.at).log;
    drop(tool);
    for copy in life.copies.iter().rev().skip(1) {
        put(&life.at, copy, &log);
        for result in [Vault::open_read_only(&life.at), Vault::open(&life.at)] {
            assert!(matches!(result, Err(VaultError::ForeignLog { .. })), "{result:?}");
        }
        assert_eq!(std::fs::read(&life.at).unwrap(), *copy);
        assert_eq!(std::fs::read(beside(&life.at, "-wal")).unwrap(), log);
    }
}

#[test]
fn a_vault_with_its_own_log_opens_after_any_crash() {
    let life = crash_history();
    for crash in &life.crashes {
        assert!(!crash.log.is_empty());
        put(&life.at, &crash.file, &crash.log);
        drop(Vault::open_read_only(&life.at).unwrap());
        put(&life.at, &crash.file, &crash.log);
        read(&life.at);
        // A truncated log is valid up to its last complete commit.
        for cut in [1, 33, 5000, crash.log.len() / 2] {
            let cut = crash.log.len().saturating_sub(cut);
            put(&life.at, &crash.file, &crash.log[..cut]);
            let mut vault = Vault::open(&life.at).unwrap();
            assert_sound(&mut vault);
        }
    }
}

/// A checkpoint writes the pages of the log into the file in their order; a crash leaves only some.
#[test]
fn a_vault_opens_after_a_crash_within_a_checkpoint() {
    let life = crash_history();
    for crash in &life.crashes {
        put(&life.at, &crash.file, &crash.log);
        let whole = read(&life.at);
        let db = plain(&life.at);
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        drop(db);
        let after = std::fs::read(&life.at).unwrap();
        let pages = after.len() / 4096;
        for written in (0..=pages).step_by((pages / 4).max(1)).chain(0..5) {
            let mut torn = crash.file.clone();
            let end = written * 4096;
            if torn.len() < end {
                torn.resize(end, 0);
            }
            torn[..end].copy_from_slice(&after[..end]);
            put(&life.at, &torn, &crash.log);
            assert!(Vault::open_read_only(&life.at).is_ok(), "{written} of {pages} pages");
            put(&life.at, &torn, &crash.log);
            assert_eq!(read(&life.at), whole, "{written} of {pages} pages");
        }
    }
}

#[test]
fn a_new_vault_ignores_a_leftover_log() {
    let life = crash_history();
    let log = &life.crashes[1].log;
    put(&life.at, &[], log);
    std::fs::remove_file(&life.at).unwrap();
    let refused = Vault::open_or_create(&life.at).unwrap_err();
    assert!(matches!(refused, VaultError::LogAlone { .. }), "{refused}");
    assert!(!life.at.exists());
}

#[test]
fn a_copy_replaces_vault_and_log_at_every_step() {
    let life = crash_history();
    let from = life.at.with_extension("from");
    for (nth, stop) in
        [None, Some(ReplaceStep::LogRemoved), Some(ReplaceStep::Replaced)].into_iter().enumerate()
    {
        for crash in life.crashes.iter().step_by(2) {
            for copy in life.copies.iter().skip(nth).step_by(4) {
                put(&life.at, copy, &[]);
                let new = read(&life.at);
                put(&life.at, &crash.file, &crash.log);
                let old = read(&life.at);
                put(&life.at, &crash.file, &crash.log);
                put(&from, copy, &[]);
                let candidate = RestoreCandidate::prepare(&from, &life.at).unwrap();
                assert!(!candidate.foreign_log);
                assert_eq!(candidate.identity, Some(sample::identity()));
                let done = candidate.replace(&mut |step| match stop {
                    Some(stop) if stop == step => Err(VaultError::Stopped),
                    _ => Ok(()),
                });
                assert_eq!(done.is_ok(), stop.is_none());
                let expected = if stop == Some(ReplaceStep::LogRemoved) { &old } else { &new };
                assert_eq!(&read(&life.at), expected, "{stop:?}");
                assert_eq!(std::fs::read(&from).unwrap(), *copy);
            }
        }
    }
}

#[test]
fn a_copy_is_restored_with_its_own_log_and_without_a_foreign_one() {
    let life = crash_history();
    let from = life.at.with_extension("from");
    let crash = &life.crashes[3];
    put(&from, &crash.file, &crash.log);
    let candidate = RestoreCandidate::prepare(&from, &life.at).unwrap();
    candidate.replace(&mut |_| Ok(())).unwrap();
    let restored = read(&life.at);
    assert_eq!(std::fs::read(beside(&from, "-wal")).unwrap(), crash.log);
    put(&from, &crash.file, &crash.log);
    assert_eq!(restored, read(&from));
    // A copy has replaced the vault already: the vault itself is restored, without the log.
    let copy = &life.copies[0];
    put(&life.at, copy, &[]);
    let alone = read(&life.at);
    put(&life.at, copy, &crash.log);
    let candidate = RestoreCandidate::prepare(&life.at, &life.at).unwrap();
    assert!(candidate.foreign_log);
    candidate.replace(&mut |_| Ok(())).unwrap();
    assert_eq!(read(&life.at), alone);
    let left: Vec<_> = std::fs::read_dir(life.at.parent().unwrap()).unwrap().flatten().collect();
    let left = left.iter().filter(|it| it.file_name().to_string_lossy().contains("restore-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_damaged_newer_or_foreign_copy_replaces_nothing() {
    let life = crash_history();
    let from = life.at.with_extension("from");
    let crash = &life.crashes[3];
    put(&life.at, &crash.file, &crash.log);
    let old = read(&life.at);
    let refused = |bytes: &[u8]| {
        put(&from, bytes, &[]);
        RestoreCandidate::prepare(&from, &life.at).unwrap_err()
    };
    assert!(matches!(refused(b"a diary"), VaultError::NotAVault(_)));
    assert!(matches!(refused(b""), VaultError::NotAVault(_)));
    let copy = &life.copies[3];
    let mut newer = copy.clone();
    newer[63] = 99;
    assert!(matches!(refused(&newer), VaultError::Newer { found: 99, .. }));
    put(&from, copy, &[]);
    plain(&from).execute_batch("UPDATE snapshot SET started = started + 1").unwrap();
    let damaged = std::fs::read(&from).unwrap();
    assert!(matches!(refused(&damaged), VaultError::Damaged { .. }));
    assert!(
        matches!(refused(&copy[..copy.len() / 2]), VaultError::Damaged { path, .. } if path == from)
    );
    std::fs::remove_file(&from).unwrap();
    assert!(matches!(RestoreCandidate::prepare(&from, &life.at), Err(VaultError::Missing(_))));
    assert_eq!(read(&life.at), old);
}

#[test]
fn a_vault_that_another_program_has_open_is_not_replaced() {
    let life = crash_history();
    let from = life.at.with_extension("from");
    put(&life.at, &life.crashes[1].file, &life.crashes[1].log);
    let old = read(&life.at);
    put(&from, &life.copies[0], &[]);
    let reader = plain(&life.at);
    reader.query_row("SELECT count(*) FROM snapshot", [], |_| Ok(())).unwrap();
    let candidate = RestoreCandidate::prepare(&from, &life.at).unwrap();
    let refused = candidate.replace(&mut |_| Ok(())).unwrap_err();
    assert!(matches!(refused, VaultError::InUse(_)), "{refused}");
    drop(reader);
    assert_eq!(read(&life.at), old);
}
