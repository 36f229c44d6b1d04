//! Detects a rollback journal that would damage a vault.
//!
//! SQLite rolls back any journal that is beside a file. A vault in WAL mode has a log instead. Only
//! switching the journal mode writes a journal, which restores a few bytes of the first page. Any
//! other journal beside a file in WAL mode belongs to another file and would damage the vault.
//!
//! A file in another mode, such as a copy or a file that another tool changed, has journals of its
//! own. They cannot be distinguished from those of another file, so SQLite may roll back either.

use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use crate::files::{beside, open_named, open_private};

const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Byte ranges of the header that switching the journal mode changes: the mode, the change counter
/// and its copies.
const MODE: Range<usize> = 18..20;
const SWITCHED: [Range<usize>; 3] = [MODE, 24..28, 92..100];

/// The value in [`MODE`] of a file in WAL mode.
const WAL_MODE: [u8; 2] = [2, 2];

/// Minimum length of a journal's header.
const MIN_JOURNAL: usize = 512;

/// Maximum number of bytes that are read: more than a header and the largest page.
const MAX_JOURNAL: u64 = 4 * 65536;

/// Whether SQLite may roll back the journal beside the file at `path`: there is none, it only
/// switches the journal mode, or the file is not in WAL mode.
///
/// The process must have no connection to the file.
///
/// # Errors
/// If the file or its journal cannot be read.
pub(super) fn is_harmless_journal(path: &Path) -> io::Result<bool> {
    let file = open_named(path)?;
    let length = file.metadata()?.len();
    let mut page = Vec::new();
    file.take(65536).read_to_end(&mut page)?;
    // The file is read first: it gets the new mode only after its journal is complete.
    if page.get(MODE) != Some(&WAL_MODE) {
        return Ok(true);
    }
    let journal = match open_private(&beside(path, "-journal")) {
        Ok(journal) => journal,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    journal.take(MAX_JOURNAL).read_to_end(&mut bytes)?;
    // SQLite ignores any other file.
    let is_journal = bytes.len() >= MIN_JOURNAL && bytes.starts_with(&MAGIC);
    Ok(!is_journal || restores_only_the_mode(&page, length, &bytes))
}

/// Whether `journal` restores a file with this first page and length, except for its journal mode.
fn restores_only_the_mode(file: &[u8], length: u64, journal: &[u8]) -> bool {
    let number = |at: usize| {
        let four = journal.get(at..at + 4).and_then(|four| four.try_into().ok());
        u32::from_be_bytes(four.unwrap_or_default()) as usize
    };
    let (pages, sector, size) = (number(16), number(20), number(24));
    if size > 65536 || pages as u64 * size as u64 != length {
        return false;
    }
    let Some(record) = journal.get(sector..).filter(|record| record.len() >= 4 + size + 4) else {
        return true;
    };
    let Some((now, before)) = file.get(..size).zip(record.get(4..4 + size)) else { return false };
    let same = |at: &usize| SWITCHED.iter().any(|it| it.contains(at)) || now[*at] == before[*at];
    record.len() == 4 + size + 4 && number(sector) == 1 && (0..size).all(|at| same(&at))
}
