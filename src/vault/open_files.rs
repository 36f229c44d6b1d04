//! The vault files that this process has open or has locked.
//!
//! When a process closes a file, POSIX releases all its locks on that file, also those of its
//! SQLite connections. The next process would then assume that it is alone and remove the log. So a
//! descriptor of a vault is closed only while no connection is open to it.

use std::collections::BTreeMap;
use std::fs::Metadata;
#[cfg(target_os = "linux")]
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first bytes of an SQLite database.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Device and inode of a file; `None` if the system has neither.
pub(super) type OpenFileId = Option<(u64, u64)>;

/// What this process has open of one file.
#[derive(Debug, Default)]
struct OpenFile {
    connections: usize,
    /// The descriptor that has, or had, the lock on the file itself.
    #[cfg(target_os = "linux")]
    descriptor: Option<File>,
    locked: bool,
}

/// Every vault file that this process has open.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    files: BTreeMap<OpenFileId, OpenFile>,
    /// The locks of this process by path, each with the file that is locked; `None` before there is
    /// one.
    locks: BTreeMap<PathBuf, Option<OpenFileId>>,
}

static OPEN: Mutex<OpenFiles> =
    Mutex::new(OpenFiles { files: BTreeMap::new(), locks: BTreeMap::new() });

/// The registry. While it is locked, no connection is opened or closed.
pub(super) fn open_files() -> MutexGuard<'static, OpenFiles> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenFiles {
    /// Whether this process has a connection to the file.
    pub fn is_connected(&self, id: OpenFileId) -> bool {
        // Where files have no inode, closing one does not affect others.
        id.is_some() && self.files.get(&id).is_some_and(|file| file.connections > 0)
    }

    pub fn connect(&mut self, id: OpenFileId) {
        self.files.entry(id).or_default().connections += 1;
    }

    pub fn disconnect(&mut self, id: OpenFileId) {
        if let Some(file) = self.files.get_mut(&id) {
            file.connections = file.connections.saturating_sub(1);
        }
        self.close_unused(id);
    }

    /// Locks the file at `path` itself, so that another path to the file cannot bypass the lock.
    /// Returns `false` if another process has the lock. A file that does not exist yet is locked
    /// when a connection to it is opened.
    ///
    /// # Errors
    /// If the file exists and cannot be opened.
    pub fn lock(&mut self, path: &Path) -> io::Result<bool> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.locks.insert(path.to_owned(), None);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let id = id(&metadata);
        if self.files.get(&id).is_some_and(|file| file.locked) {
            return Ok(false);
        }
        let locked = self.lock_descriptor(path, id)?;
        if locked != Some(true) {
            self.close_unused(id);
            if locked.is_none() {
                self.locks.insert(path.to_owned(), None);
            }
            return Ok(locked.is_none());
        }
        self.files.entry(id).or_default().locked = true;
        self.locks.insert(path.to_owned(), Some(id));
        Ok(true)
    }

    /// Moves the lock of this process on `path`, if it has one, to the file that is there now.
    /// Returns `false` if another process has locked that file.
    ///
    /// # Errors
    /// As [`OpenFiles::lock`].
    pub fn follow_lock(&mut self, path: &Path, id: OpenFileId) -> io::Result<bool> {
        match self.locks.get(path) {
            None => Ok(true),
            Some(known) if *known == Some(id) => Ok(true),
            Some(_) => {
                self.unlock(path);
                self.lock(path)
            }
        }
    }

    pub fn unlock(&mut self, path: &Path) {
        let Some(Some(id)) = self.locks.remove(path) else { return };
        if let Some(file) = self.files.get_mut(&id) {
            file.locked = false;
            #[cfg(target_os = "linux")]
            if let Some(descriptor) = &file.descriptor {
                let _ = descriptor.unlock();
            }
        }
        self.close_unused(id);
    }

    fn close_unused(&mut self, id: OpenFileId) {
        if self.files.get(&id).is_some_and(|file| file.connections == 0 && !file.locked) {
            self.files.remove(&id);
        }
    }

    /// Uses `flock` on Linux: it is independent of SQLite's locks and belongs to the descriptor. On
    /// other systems the two may conflict, and SQLite would wait for this process. Returns `None`
    /// for a file that cannot be a vault: it may be the lock file of another vault.
    #[cfg(target_os = "linux")]
    fn lock_descriptor(&mut self, path: &Path, expected: OpenFileId) -> io::Result<Option<bool>> {
        if self.files.get(&expected).is_none_or(|file| file.descriptor.is_none()) {
            let descriptor = crate::files::open_named(path)?;
            // Another file may have replaced this one meanwhile. Then the caller gets an error, and
            // its next attempt finds the new file.
            let found = id(&descriptor.metadata()?);
            self.files.entry(found).or_default().descriptor = Some(descriptor);
            if found != expected {
                self.close_unused(found);
                return Ok(Some(false));
            }
        }
        let file = self.files.get(&expected).and_then(|file| file.descriptor.as_ref());
        let Some(file) = file else { return Ok(None) };
        if !may_be_sqlite(file)? {
            return Ok(None);
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(Some(false)),
            // Some file systems do not support locks.
            _ => Ok(Some(true)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)]
    fn lock_descriptor(&mut self, _: &Path, _: OpenFileId) -> io::Result<Option<bool>> {
        Ok(Some(true))
    }
}

#[cfg(unix)]
pub(super) fn id(metadata: &Metadata) -> OpenFileId {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
pub(super) fn id(_: &Metadata) -> OpenFileId {
    None
}

/// Whether a file is an SQLite database, or empty, as before it is created.
#[cfg(target_os = "linux")]
fn may_be_sqlite(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let mut start = [0; MAGIC.len()];
    let read = file.read_at(&mut start, 0)?;
    Ok(read == 0 || start == *MAGIC)
}
