//! Detects a log that does not belong to a vault's file.
//!
//! SQLite applies any log that is beside a file. After a crash left a log, a copy that replaces the
//! vault would be damaged by it. So every transaction stores a mark: a new random id and the
//! previous id. A log belongs to the file if the file's id is one of the log's ids, or the one
//! before its first.
//!
//! A mark also holds the schema cookie, which `VACUUM INTO` and the backup API of SQLite change:
//! their copies have the same ids, but other page numbers.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

use crate::files::{beside, open_named, open_private};

type Id = [u8; 16];

/// The first bytes of a mark.
const MAGIC: &[u8; 8] = b"lv mark\n";

/// Length of a mark: magic, id, previous id, schema cookie.
const LENGTH: usize = 8 + 16 + 16 + 4;

/// The bytes before the mark in its row: payload length and rowid, then header length and type. The
/// table has one row, so the mark ends where its page ends.
const ROW: [u8; 4] = [46, 1, 2, 100];

/// The table with its only row, as it is before the first transaction stores a mark.
pub(super) const TABLE: &str = "
CREATE TABLE log_mark(mark BLOB NOT NULL) STRICT;
INSERT INTO log_mark VALUES(zeroblob(44));
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    id: Id,
    before: Id,
    cookie: u32,
}

impl Mark {
    fn bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(&self.id);
        bytes[24..40].copy_from_slice(&self.before);
        bytes[40..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (id, rest) = rest.split_first_chunk()?;
        let (before, rest) = rest.split_first_chunk()?;
        let cookie = u32::from_be_bytes(rest.try_into().ok()?);
        Some(Self { id: *id, before: *before, cookie })
    }

    /// The mark on a page of the file or the log, if it is the mark's page.
    fn on(page: &[u8]) -> Option<Self> {
        Self::read(page.get(page.len().checked_sub(LENGTH + ROW.len())?..)?.strip_prefix(&ROW)?)
    }
}

/// Stores a new mark in the open transaction.
pub(super) fn advance(db: &Connection) -> rusqlite::Result<()> {
    let cookie = db.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))?;
    let known = stored_mark(db)?;
    let before = known.map_or([0; 16], |mark| mark.id);
    let mark = Mark { id: fastrand::u128(..).to_le_bytes(), before, cookie };
    // The mark keeps its place in the page because its length is constant.
    let set = db.prepare_cached("UPDATE log_mark SET mark = ?1")?.execute([mark.bytes()])?;
    if set == 0 {
        db.execute("INSERT INTO log_mark(rowid, mark) VALUES(1, ?1)", [mark.bytes()])?;
    }
    Ok(())
}

fn stored_mark(db: &Connection) -> rusqlite::Result<Option<Mark>> {
    let mut find = db.prepare_cached("SELECT mark FROM log_mark LIMIT 1")?;
    let bytes: Option<Vec<u8>> = find.query_row([], |row| row.get(0)).optional()?;
    Ok(bytes.and_then(|bytes| Mark::read(&bytes)))
}

/// The id of the last transaction in hexadecimal; empty without a mark.
pub(super) fn last_id(db: &Connection) -> rusqlite::Result<String> {
    let id = stored_mark(db)?.map_or_else(Vec::new, |mark| mark.id.to_vec());
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether the file has a mark with the present schema cookie. Another tool that changes the schema
/// does not update the mark.
pub(super) fn is_current(db: &Connection) -> rusqlite::Result<bool> {
    let cookie: u32 = db.pragma_query_value(None, "schema_version", |row| row.get(0))?;
    Ok(stored_mark(db)?.is_some_and(|mark| mark.cookie == cookie))
}

/// Writes a new mark into the bytes of a new vault, so that no existing log matches it.
pub(super) fn stamp(file: &mut [u8]) {
    let Some((size, cookie)) = header(file) else { return };
    let mark = Mark { id: fastrand::u128(..).to_le_bytes(), before: [0; 16], cookie };
    for page in file.chunks_exact_mut(size) {
        let (_, row) = page.split_at_mut(size - LENGTH - ROW.len());
        if row.strip_prefix(&ROW).is_some_and(|row| row.iter().all(|byte| *byte == 0)) {
            row[ROW.len()..].copy_from_slice(&mark.bytes());
        }
    }
}

/// The page size and the schema cookie of a database, from its first bytes.
fn header(bytes: &[u8]) -> Option<(usize, u32)> {
    let size = u16::from_be_bytes(bytes.get(16..18)?.try_into().ok()?);
    let size = if size == 1 { 65536 } else { usize::from(size) };
    let cookie = u32::from_be_bytes(bytes.get(40..44)?.try_into().ok()?);
    (size >= 512).then_some((size, cookie))
}

/// The marks in the committed part of a log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    /// The log's header, which changes whenever SQLite restarts the log.
    header: Vec<u8>,
    commits: u64,
    /// The previous id in the first mark.
    before: Option<Id>,
    ids: BTreeSet<Id>,
    /// Numbers of the pages that contain a mark.
    pages: BTreeSet<u32>,
    /// The schema cookies in its copies of the first page.
    cookies: BTreeSet<u32>,
}

/// Whether the log beside the file at `path` belongs to the file, or there is no log.
///
/// The process must have no connection to the file. Other processes may write meanwhile: a change
/// between two readings is detected, and then the log is theirs.
///
/// # Errors
/// If the file or its log cannot be read.
pub(super) fn is_own_log(path: &Path) -> io::Result<bool> {
    for _ in 0..MAX_READS {
        let Some(log) = committed_log(path)? else { return Ok(true) };
        if log.commits == 0 {
            return Ok(true);
        }
        let Some(marks) = marks(path, &log)? else { return Ok(true) };
        if marks.matches(&log) {
            return Ok(true);
        }
        let again = committed_log(path)?;
        let unchanged = again.is_some_and(|again| again.header == log.header);
        if unchanged && self::marks(path, &log)? == Some(marks) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Maximum number of readings while another process writes.
const MAX_READS: usize = 5;

/// The marks of a file, and its schema cookie.
#[derive(Debug, PartialEq, Eq)]
struct Marks {
    all: Vec<Mark>,
    cookie: u32,
}

impl Marks {
    fn matches(&self, log: &Log) -> bool {
        if self.all.is_empty() {
            // The log of an earlier format has no marks, and that of a migration has a first mark
            // without a previous id. After an interrupted checkpoint, the file has the first page
            // of the log.
            let migrated = log.before.is_none_or(|before| before == [0; 16]);
            return migrated || log.cookies.contains(&self.cookie);
        }
        self.all.iter().any(|mark| {
            let known = log.ids.contains(&mark.id) || log.before == Some(mark.id);
            known && (mark.cookie == self.cookie || log.cookies.contains(&self.cookie))
        })
    }
}

/// The marks in the file at `path`: on the pages where the log has them, otherwise on any page.
/// `None` for an empty file, whose log SQLite deletes.
fn marks(path: &Path, log: &Log) -> io::Result<Option<Marks>> {
    let mut file = open_named(path)?;
    let mut start = Vec::new();
    (&file).take(100).read_to_end(&mut start)?;
    let Some((size, cookie)) = header(&start) else { return Ok(None) };
    let mut page = vec![0; size];
    let mut found = Marks { all: Vec::new(), cookie };
    for number in &log.pages {
        let at = u64::from(number.saturating_sub(1)) * size as u64;
        file.seek(SeekFrom::Start(at))?;
        if read_full(&mut file, &mut page)? {
            found.all.extend(Mark::on(&page));
        }
    }
    // A log written by another tool has no marks, so no page was read.
    if !found.all.is_empty() && found.matches(log) {
        return Ok(Some(found));
    }
    found.all.clear();
    file.seek(SeekFrom::Start(0))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    while read_full(&mut file, &mut page)? {
        found.all.extend(Mark::on(&page));
    }
    Ok(Some(found))
}

/// Fills `bytes`; `false` if the file ends before that.
fn read_full(file: &mut impl io::Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The committed part of the log beside `path`, read like SQLite does: up to the last commit before
/// the first frame that is incomplete or of an earlier log. `None` without a log.
fn committed_log(path: &Path) -> io::Result<Option<Log>> {
    let file = match open_private(&beside(path, "-wal")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    read_log(&mut BufReader::with_capacity(1 << 20, file)).map(Some)
}

fn read_log(file: &mut BufReader<File>) -> io::Result<Log> {
    let mut log = Log::default();
    let mut start = [0; 32];
    if !read_full(file, &mut start)? {
        return Ok(log);
    }
    log.header = start.to_vec();
    let number = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        u32::from_be_bytes(four.unwrap_or_default())
    };
    let magic = number(&start, 0);
    let size = number(&start, 8) as usize;
    let big_endian = magic & 1 == 1;
    let mut sum = Checksum { big_endian, sum: [0; 2] };
    sum.add(&start[..24]);
    if magic & !1 != 0x377f_0682
        || !(512..=65536).contains(&size)
        || sum.sum != [number(&start, 24), number(&start, 28)]
    {
        // SQLite ignores such a log.
        return Ok(log);
    }
    let mut frame = vec![0; 24 + size];
    let mut pending = Log::default();
    while read_full(file, &mut frame)? {
        if frame[8..16] != start[16..24] {
            break;
        }
        sum.add(&frame[..8]);
        sum.add(&frame[24..]);
        if sum.sum != [number(&frame, 16), number(&frame, 20)] {
            break;
        }
        let (page, after) = (number(&frame, 0), number(&frame, 4));
        if let Some(mark) = Mark::on(&frame[24..]) {
            pending.before = pending.before.or(Some(mark.before));
            pending.ids.insert(mark.id);
            pending.pages.insert(page);
        }
        if page == 1 {
            pending.cookies.insert(number(&frame, 24 + 40));
        }
        // Only the last frame of a transaction contains the size of the file.
        if after > 0 {
            log.commits += 1;
            log.before = log.before.or(pending.before.take());
            log.ids.append(&mut pending.ids);
            log.pages.append(&mut pending.pages);
            log.cookies.append(&mut pending.cookies);
        }
    }
    Ok(log)
}

/// The checksum algorithm of SQLite's logs.
struct Checksum {
    big_endian: bool,
    sum: [u32; 2],
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let word = |four: &[u8; 4]| match self.big_endian {
            true => u32::from_be_bytes(*four),
            false => u32::from_le_bytes(*four),
        };
        let [mut one, mut two] = self.sum;
        let (words, _) = bytes.as_chunks::<4>();
        let (pairs, _) = words.as_chunks::<2>();
        for [first, second] in pairs {
            one = one.wrapping_add(word(first)).wrapping_add(two);
            two = two.wrapping_add(word(second)).wrapping_add(one);
        }
        self.sum = [one, two];
    }
}
