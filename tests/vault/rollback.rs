//! A rollback journal beside a vault is refused, except for that of switching the journal mode.

use std::path::{Path, PathBuf};

use linkvault::vault::restore::RestoreCandidate;
use linkvault::vault::{Vault, VaultError};
use rusqlite::Connection;
use tempfile::TempDir;

use super::sample;
use crate::vault::snapshot_builder::{assert_sound, contents};

struct TestFolder {
    folder: TempDir,
    vault: PathBuf,
    journal: PathBuf,
    /// The bytes of the closed vault.
    file: Vec<u8>,
}

impl TestFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (vault, journal) = (folder.path().join("v.db"), folder.path().join("v.db-journal"));
        sample::write(&vault).close().unwrap();
        let file = std::fs::read(&vault).unwrap();
        Self { folder, vault, journal, file }
    }

    /// The journal of an unfinished change of the file at `path`.
    fn journal_of(path: &Path, change: &str) -> Vec<u8> {
        let tool = Connection::open(path).unwrap();
        tool.pragma_update(None, "journal_mode", "DELETE").unwrap();
        // Forces SQLite to write pages, and the journal before them.
        tool.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN").unwrap();
        tool.execute_batch(change).unwrap();
        let mut name = path.as_os_str().to_owned();
        name.push("-journal");
        std::fs::read(name).unwrap()
    }

    #[track_caller]
    fn refuses(&self, journal: &[u8]) {
        std::fs::write(&self.journal, journal).unwrap();
        for opened in [Vault::open(&self.vault), Vault::open_read_only(&self.vault)] {
            let error = opened.unwrap_err();
            let ours = matches!(&error, VaultError::ForeignLog { log, .. } if *log == self.journal);
            assert!(ours, "{error}");
        }
        assert_eq!(std::fs::read(&self.vault).unwrap(), self.file);
        assert_eq!(std::fs::read(&self.journal).unwrap(), journal);
    }
}

const FILL: &str = "CREATE TABLE filled(x); INSERT INTO filled SELECT randomblob(900) FROM
    (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i FROM n)";

#[test]
fn a_journal_of_another_file_is_refused_and_a_restore_leaves_it_out() {
    let it = TestFolder::new();
    let other = it.folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch(FILL).unwrap();
    let foreign = TestFolder::journal_of(&other, "UPDATE filled SET x = randomblob(900)");
    it.refuses(&foreign);
    let copy = it.folder.path().join("copy.db");
    std::fs::write(&copy, &it.file).unwrap();
    it.refuses(&TestFolder::journal_of(&copy, FILL));
    for stopped in [true, false] {
        std::fs::write(&it.journal, &foreign).unwrap();
        let after = &mut |_| if stopped { Err(VaultError::Stopped) } else { Ok(()) };
        let replaced = RestoreCandidate::prepare(&it.vault, &it.vault).unwrap().replace(after);
        assert_eq!(replaced.is_err(), stopped);
        assert!(!it.journal.exists());
        assert_sound(&mut Vault::open(&it.vault).unwrap());
    }
}

/// A copy has no log until linkvault opens it for writing; another tool may have crashed before
/// that.
#[test]
fn an_interrupted_transaction_of_a_tool_is_rolled_back() {
    let it = TestFolder::new();
    let copy = it.folder.path().join("copy.db");
    let mut vault = Vault::open(&it.vault).unwrap();
    let before = contents(&mut vault, &it.vault).unwrap();
    vault.copy_to(&copy).unwrap();
    drop(vault);
    let tool = Connection::open(&copy).unwrap();
    tool.execute_batch("PRAGMA cache_size = 1; BEGIN").unwrap();
    tool.execute_batch(FILL).unwrap();
    std::fs::copy(&copy, &it.vault).unwrap();
    std::fs::copy(it.folder.path().join("copy.db-journal"), &it.journal).unwrap();
    let mut vault = Vault::open(&it.vault).unwrap();
    assert_eq!(contents(&mut vault, &it.vault).unwrap(), before);
    assert_sound(&mut vault);
}

/// The journal that SQLite writes when it switches to or from WAL mode.
fn mode_switch(file: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let size = usize::from(u16::from_be_bytes([file[16], file[17]]));
    let mut page = file[..size].to_vec();
    page[18..20].copy_from_slice(&[1, 1]);
    page[27] = page[27].wrapping_sub(1);
    change(&mut page);
    let sum = page.iter().rev().skip(199).step_by(200).map(|it| u32::from(*it)).sum::<u32>();
    let mut journal = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7".to_vec();
    let pages = u32::try_from(file.len() / size).unwrap();
    for number in [1, 0, pages, 512, u32::try_from(size).unwrap()] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    journal.extend(1_u32.to_be_bytes());
    journal.extend(&page);
    journal.extend(sum.to_be_bytes());
    journal
}

#[test]
fn a_crash_while_the_journal_mode_is_switched_locks_no_vault() {
    let it = TestFolder::new();
    let mut vault = Vault::open(&it.vault).unwrap();
    let before = contents(&mut vault, &it.vault).unwrap();
    vault.close().unwrap();
    let whole = mode_switch(&it.file, |_| {});
    for length in [whole.len(), whole.len() - 9, 512, 20, 0] {
        for read_only in [true, false] {
            std::fs::write(&it.vault, &it.file).unwrap();
            std::fs::write(&it.journal, &whole[..length]).unwrap();
            let open = if read_only { Vault::open_read_only } else { Vault::open };
            let mut vault = open(&it.vault).unwrap();
            assert_eq!(contents(&mut vault, &it.vault).unwrap(), before);
            drop(vault);
            assert_sound(&mut Vault::open(&it.vault).unwrap());
            assert!(length == 0 || !it.journal.exists(), "SQLite has rolled it back: {length}");
        }
    }
}

#[test]
fn a_journal_that_changes_more_than_the_journal_mode_is_refused() {
    let it = TestFolder::new();
    it.refuses(&mode_switch(&it.file, |page| page[43] = 99));
    it.refuses(&mode_switch(&it.file, |page| page[200] ^= 1));
    let mut shorter = mode_switch(&it.file, |_| {});
    shorter[19] -= 1;
    it.refuses(&shorter);
    let mut second = mode_switch(&it.file, |_| {});
    second[515] = 2;
    it.refuses(&second);
    let two = mode_switch(&it.file, |_| {});
    it.refuses(&[&two[..], &two[512..]].concat());
}
