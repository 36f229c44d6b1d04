//! Vault files of earlier formats. They never change; what they hold must read
//! the same in every later version of the program.
//!
//! A new format gets files of its own: write the migration, run
//! `cargo test write_the_fixture_of_the_newest_format -- --ignored` once when no more is to change
//! in it, and set `FROZEN` to its number.

use std::path::{Path, PathBuf};

use linkvault::model::{Resource, SnapshotId};
use linkvault::vault::Vault;
use linkvault::vault::schema::{FORMAT, MIGRATIONS, migrate};
use serde_json::Value;

use crate::vault::sample;
use crate::vault::snapshot_builder::{assert_sound, campaigns, contents, day, plain};

/// The newest format that has a fixture.
const FROZEN: i64 = 3;

fn file(format: i64, extension: &str) -> PathBuf {
    let name = format!("tests/compat/format-{format}.{extension}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The tables and views of a format, as the migrations make them.
fn schema(format: i64) -> String {
    let mut db = rusqlite::Connection::open_in_memory().unwrap();
    let steps = usize::try_from(format).unwrap();
    migrate(&mut db, &MIGRATIONS[..steps]).unwrap();
    let mut select =
        db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").unwrap();
    let all = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
    all.map(|sql| sql.unwrap() + ";\n").collect()
}

/// A copy of a fixture, to be opened and led to the newest format.
fn copy(format: i64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    std::fs::copy(file(format, "db"), &path).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    (folder, path)
}

#[test]
fn frozen_formats_do_not_change() {
    for format in 1..=FROZEN {
        let frozen = std::fs::read_to_string(file(format, "sql")).unwrap();
        assert!(
            schema(format) == frozen,
            "the tables or views of format {format} are not what they were, and there are vaults \
             that have them so: add a migration to `MIGRATIONS` instead. Differs first at:\n{}",
            schema(format)
                .lines()
                .zip(frozen.lines())
                .find(|(now, then)| now != then)
                .map_or(String::from("(one of them is longer)"), |(now, then)| format!(
                    "  frozen: {then}\n  now:    {now}"
                )),
        );
    }
}

#[test]
fn every_earlier_vault_reads_back_as_it_was_written() {
    for format in 1..=FROZEN {
        let (_folder, path) = copy(format);
        let mut vault = Vault::open(&path).unwrap();
        assert_sound(&mut vault);
        let expected: Value =
            serde_json::from_slice(&std::fs::read(file(format, "json")).unwrap()).unwrap();
        let sent = vault.sent_values(None, &Resource::ALL).unwrap();
        assert!(!sent.is_empty(), "format {format}");
        if format < 3 {
            let first = vault.sent_values(Some(SnapshotId(1)), &Resource::ALL).unwrap();
            assert_eq!(first, sent, "what was sent counts as true from the beginning");
        }
        let found = contents(&mut vault, &path).unwrap();
        for (part, expected) in expected.as_object().unwrap() {
            assert_eq!(&found[part], expected, "{part} of format {format}");
        }
        drop(vault);
        let version: i64 =
            plain(&path).pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, FORMAT);
        assert_eq!(auto_vacuum(&path), INCREMENTAL, "format {format}");
    }
}

/// The value of `PRAGMA auto_vacuum` for `INCREMENTAL`.
const INCREMENTAL: i64 = 2;

fn auto_vacuum(path: &Path) -> i64 {
    plain(path).pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap()
}

#[test]
fn a_new_vault_and_an_empty_file_are_vacuumed_incrementally() {
    let folder = tempfile::tempdir().unwrap();
    let (new, empty) = (folder.path().join("new.db"), folder.path().join("empty.db"));
    std::fs::write(&empty, "").unwrap();
    for path in [new, empty] {
        drop(Vault::open_or_create(&path).unwrap());
        assert_eq!(auto_vacuum(&path), INCREMENTAL, "{}", path.display());
    }
}

/// The new mode takes a `VACUUM` after the migration; a process that is killed in between leaves
/// a vault of the newest format without it.
#[test]
fn an_interrupted_vacuum_is_repeated_at_the_next_open() {
    let (_folder, path) = copy(2);
    migrate(&mut plain(&path), MIGRATIONS).unwrap();
    assert_eq!(auto_vacuum(&path), 0);
    // Another process reads: a `VACUUM` must not take its log away, nor wait for it for ever.
    let reader = plain(&path);
    reader.execute_batch("BEGIN; SELECT count(*) FROM snapshot").unwrap();
    let mut vault = Vault::open(&path).unwrap();
    assert_sound(&mut vault);
    drop(reader);
    drop(vault);
    assert_sound(&mut Vault::open(&path).unwrap());
    assert_eq!(auto_vacuum(&path), INCREMENTAL);
}

#[test]
fn every_earlier_vault_takes_the_next_backup() {
    for format in 1..=FROZEN {
        let (_folder, path) = copy(format);
        let mut vault = Vault::open(&path).unwrap();
        vault.claim(&sample::identity(), false).unwrap();
        let before = vault.state(SnapshotId(5), &Resource::ALL).unwrap();
        let number = campaigns(&mut vault, day(20), &[(1, "one"), (500, "new")]);
        assert_eq!(number, SnapshotId(6));
        let told = vault.snapshot(SnapshotId(6)).unwrap();
        let told = told.outcome(Resource::Campaigns).unwrap();
        assert_eq!((told.records, told.added, told.changed), (2, 1, 1));
        assert_eq!(vault.state(SnapshotId(5), &Resource::ALL).unwrap(), before);
        assert_sound(&mut vault);
        vault.forget(&[1, 2, 3].map(SnapshotId), day(21)).unwrap();
        assert_eq!(vault.state(SnapshotId(5), &Resource::ALL).unwrap(), before);
        assert_sound(&mut vault);
    }
}

#[test]
fn an_earlier_vault_is_migrated_by_the_first_process_that_reads_it() {
    for format in 1..=FROZEN {
        let (_folder, path) = copy(format);
        let mut vault = Vault::open_read_only(&path).unwrap();
        assert_eq!(vault.state(SnapshotId(1), &[Resource::Domains]).unwrap().iter().count(), 1);
        assert_sound(&mut vault);
    }
}

/// Writes `format-N.db`, `.json` and `.sql` of the newest format, unless they are there.
#[test]
#[ignore = "run once, by hand, when a new format is made"]
fn write_the_fixture_of_the_newest_format() {
    let path = file(FORMAT, "db");
    assert!(!path.exists(), "format {FORMAT} has its fixture, and a fixture never changes");
    let mut vault = sample::write(&path);
    let contents = contents(&mut vault, &path).unwrap();
    vault.close().unwrap();
    let parts = contents.as_object().unwrap().iter();
    let parts: Vec<_> = parts.map(|(name, part)| format!("{name:?}: {part}")).collect();
    let text = format!("{{\n{}\n}}\n", parts.join(",\n"));
    std::fs::write(file(FORMAT, "json"), text).unwrap();
    std::fs::write(file(FORMAT, "sql"), schema(FORMAT)).unwrap();
}
