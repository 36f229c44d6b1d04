//! The vault files that this process has open: by its connections, and by its locks.
//!
//! A process that closes a file gives up all POSIX locks that it has on it, those of its SQLite
//! connections too; the next process would then take itself for the only one, and take the log of
//! changes away. So a descriptor of a vault is closed only while no connection is open to it.

use std::collections::BTreeMap;
use std::fs::Metadata;
#[cfg(target_os = "linux")]
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device and number of a file, whatever its name; `None` where the system tells neither.
pub(super) type OpenFileId = Option<(u64, u64)>;

/// What this process has open of one file.
#[derive(Debug, Default)]
struct OpenFile {
    connections: usize,
    /// Holds, or held, the lock on the file itself.
    #[cfg(target_os = "linux")]
    descriptor: Option<File>,
    locked: bool,
}

/// Every vault file that this process has open.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    files: BTreeMap<OpenFileId, OpenFile>,
    /// The locks of this process, by path, and the file on which each one is.
    locks: BTreeMap<PathBuf, Option<OpenFileId>>,
}

static OPEN: Mutex<OpenFiles> =
    Mutex::new(OpenFiles { files: BTreeMap::new(), locks: BTreeMap::new() });

/// While this is held, no connection is begun or ended.
pub(super) fn open_files() -> MutexGuard<'static, OpenFiles> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenFiles {
    /// Whether this process has a connection to the file.
    pub fn is_connected(&self, id: OpenFileId) -> bool {
        // Where files have no number, closing one harms no other.
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

    /// Locks the file at `path` itself, so that no other path leads around the lock. Whether that
    /// was possible: `false` when another lock is on the file. A file that does not exist yet is
    /// locked once a connection is made to it.
    ///
    /// # Errors
    /// When the file is there and cannot be opened.
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

    /// Moves the lock of this process at `path`, if it has one, to the file that is there now.
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

    /// `flock` on Linux: it is of another kind than the locks of SQLite, and belongs to the
    /// descriptor. On other systems the two may be of one kind, and SQLite would wait for us.
    /// `None` for a file that cannot be a vault: it may be the file of another vault's lock.
    #[cfg(target_os = "linux")]
    fn lock_descriptor(&mut self, path: &Path, wanted: OpenFileId) -> io::Result<Option<bool>> {
        if self.files.get(&wanted).is_none_or(|file| file.descriptor.is_none()) {
            let descriptor = crate::files::open_named(path)?;
            // Another file may have come to this path meanwhile. Then the caller is refused; its
            // next try finds the new one.
            let found = id(&descriptor.metadata()?);
            self.files.entry(found).or_default().descriptor = Some(descriptor);
            if found != wanted {
                self.close_unused(found);
                return Ok(Some(false));
            }
        }
        let file = self.files.get(&wanted).and_then(|file| file.descriptor.as_ref());
        let Some(file) = file else { return Ok(None) };
        if !super::header::may_be_sqlite(file)? {
            return Ok(None);
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(Some(false)),
            // Some file systems have no such locks.
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
