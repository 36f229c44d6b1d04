//! What a file's first bytes tell: whether it may be opened as a vault at all.
//!
//! They are read while this process has no connection to the file. A process that
//! closes a file gives up all the locks it has on it, those of its other connections
//! too (POSIX has it so); the next process would then take itself for the only one,
//! and take the log of changes away.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::VaultError;
use super::schema::{APPLICATION_ID, FORMAT};

/// Device and number of a file, whatever its name; `None` where closing a file
/// harms no other connection.
type FileId = Option<(u64, u64)>;

/// How many connections this process has to each file, or is about to have.
static CONNECTIONS: Mutex<BTreeMap<FileId, usize>> = Mutex::new(BTreeMap::new());

/// While this is held, no connection is begun or ended.
pub(super) fn connections() -> MutexGuard<'static, BTreeMap<FileId, usize>> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place for one connection; it is to be dropped after that.
#[derive(Debug)]
pub(super) struct Place(FileId);

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = connections();
        if let Some(count) = connections.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.0);
            }
        }
    }
}

/// Refuses by the file's first bytes alone what SQLite had better not open:
/// even closing a foreign database can write to it.
pub(super) fn look(path: &Path) -> Result<Place, VaultError> {
    let metadata = std::fs::metadata(path).map_err(|source| VaultError::io(path, source))?;
    if !metadata.is_file() {
        return Err(VaultError::NotAVault(path.to_owned()));
    }
    let id = id(&metadata);
    let mut connections = connections();
    if id.is_none() || !connections.contains_key(&id) {
        examine(path)?;
    }
    *connections.entry(id).or_default() += 1;
    Ok(Place(id))
}

#[cfg(unix)]
fn id(metadata: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn id(_: &Metadata) -> FileId {
    None
}

fn examine(path: &Path) -> Result<(), VaultError> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let fail = |source| VaultError::io(path, source);
    let mut header = Vec::with_capacity(100);
    File::open(path).map_err(fail)?.take(100).read_to_end(&mut header).map_err(fail)?;
    if header.is_empty() {
        return Ok(());
    }
    if !header.starts_with(MAGIC) {
        return Err(VaultError::NotAVault(path.to_owned()));
    }
    // Big-endian, by SQLite's file format.
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?;
        Some(bytes.iter().fold(0, |all, byte| (all << 8) | i64::from(*byte)))
    };
    let Some((format, id)) = number(60).zip(number(68)) else {
        let what = "it ends within its header".to_owned();
        return Err(VaultError::Damaged { path: path.to_owned(), what });
    };
    if id != i64::from(APPLICATION_ID) {
        return Err(VaultError::NotAVault(path.to_owned()));
    }
    if (FORMAT + 1..=i64::from(i32::MAX)).contains(&format) {
        return Err(VaultError::Newer { path: path.to_owned(), found: format, known: FORMAT });
    }
    Ok(())
}
