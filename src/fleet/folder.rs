//! The objects of a vault as files in a folder, for `file://`.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::error::{StoreError, StoreErrorKind};
use super::head::hex;
use super::object_tag::{ConditionalPut, ObjectTag};
use crate::clock::{Clock, Interrupt, SystemClock};
use crate::files::{Durability, folder_of, open_private, private_file, private_folder, replace};

/// A folder with the objects of one vault. Its parent must exist, so that a disk that is not mounted
/// is not taken for an empty store.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// The file whose lock a conditional put holds.
const LOCK: &str = ".lock";
/// How long to wait for it. A process holds it for as long as it writes a small file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between two attempts to take it.
const TRY_EVERY: Duration = Duration::from_millis(5);

impl Folder {
    /// The folder at `path`, which may not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// As [`super::objects::Objects::read`].
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<(Vec<u8>, ObjectTag)>, StoreError> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|it| failed(name, &it))?;
        if bytes.len() as u64 > most {
            return Err(StoreError::too_large(name, most));
        }
        let tag = tag(&bytes);
        Ok(Some((bytes, tag)))
    }

    /// As [`super::objects::Objects::download`].
    ///
    /// # Errors
    /// If the folder cannot be read, the object is larger, or `to` cannot be written.
    pub fn download(&self, name: &str, to: &mut File, most: u64) -> Result<bool, StoreError> {
        let Some(mut file) = self.open(name)? else { return Ok(false) };
        let copied = io::copy(&mut file.by_ref().take(most), to);
        copied.map_err(|error| failed(name, &error))?;
        match file.read(&mut [0]).map_err(|error| failed(name, &error))? {
            0 => Ok(true),
            _ => Err(StoreError::too_large(name, most)),
        }
    }

    /// As [`super::objects::Objects::upload`].
    ///
    /// # Errors
    /// If the folder cannot be written, or `from` cannot be read.
    pub fn upload(&self, name: &str, from: &mut File) -> Result<(), StoreError> {
        self.create()?;
        let mut write = || {
            let mut new = NamedTempFile::new_in(&self.0).map_err(|error| error.kind())?;
            io::copy(from, &mut new)?;
            new.as_file().sync_all()?;
            new.persist(self.0.join(name))?;
            self.sync()
        };
        write().map_err(|error| failed(name, &error))
    }

    /// As [`super::objects::Objects::put_if`]. Holds the lock of a file in the folder.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn put_if(
        &self,
        name: &str,
        bytes: &[u8],
        expected: Option<&ObjectTag>,
    ) -> Result<ConditionalPut, StoreError> {
        self.create()?;
        let _lock = self.lock(&SystemClock::new(Interrupt::default()))?;
        let present = self.read(name, u64::MAX - 1)?.map(|(_, tag)| tag);
        if present.as_ref() != expected {
            return Ok(ConditionalPut::Refused);
        }
        replace(&self.0.join(name), bytes, Durability::Synced)
            .and_then(|()| self.sync())
            .map_err(|error| failed(name, &error))?;
        Ok(ConditionalPut::Written(tag(bytes)))
    }

    /// As [`super::objects::Objects::remove`].
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(name, &error)),
            _ => Ok(()),
        }
    }

    /// As [`super::objects::Objects::names`].
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let found = fs::read_dir(&self.0).map_err(|error| failed("the folder", &error))?;
        Ok(found.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Locks the folder for a conditional put. A suspended process may hold the lock for long.
    fn lock(&self, clock: &dyn Clock) -> Result<File, StoreError> {
        let path = self.0.join(LOCK);
        let lock = private_file(&path).map_err(|error| failed(LOCK, &error))?;
        let begun = clock.monotonic();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => {
                    let what = format!("cannot lock a file in the folder: {error}");
                    return Err(StoreError::new(StoreErrorKind::NoConditions, what));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if clock.monotonic().saturating_sub(begun) >= LOCK_TIMEOUT {
                let seconds = LOCK_TIMEOUT.as_secs();
                let what = format!("another process has locked {} for {seconds} s", path.display());
                return Err(StoreError::new(StoreErrorKind::Unavailable, what));
            }
            clock.sleep(TRY_EVERY);
        }
    }

    fn open(&self, name: &str) -> Result<Option<File>, StoreError> {
        match open_private(&self.0.join(name)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.require_parent()?;
                Ok(None)
            }
            Err(error) => Err(failed(name, &error)),
        }
    }

    fn create(&self) -> Result<(), StoreError> {
        self.require_parent()?;
        private_folder(&self.0).map_err(|error| failed("the folder", &error))
    }

    fn require_parent(&self) -> Result<(), StoreError> {
        let parent = folder_of(&self.0);
        if parent.is_dir() {
            return Ok(());
        }
        let what = format!("the folder {} does not exist", parent.display());
        Err(StoreError::new(StoreErrorKind::NoBucket, what))
    }

    /// Syncs the folder, so that a power failure loses no renamed file.
    fn sync(&self) -> io::Result<()> {
        sync_folder(&self.0)
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

fn tag(bytes: &[u8]) -> ObjectTag {
    ObjectTag { e_tag: Some(hex(&Sha256::digest(bytes))), version: None }
}

fn failed(name: &str, error: &io::Error) -> StoreError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreErrorKind::Refused
        }
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SimulatedClock, Timestamp};

    #[test]
    fn a_conditional_put_replaces_only_the_expected_version() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Folder::new(folder.path().join("main"));
        assert_eq!(objects.read("HEAD", 10).unwrap(), None);
        let ConditionalPut::Written(first) = objects.put_if("HEAD", b"1", None).unwrap() else {
            panic!("refused")
        };
        assert_eq!(objects.put_if("HEAD", b"2", None).unwrap(), ConditionalPut::Refused);
        let other = ObjectTag { e_tag: Some("other".into()), version: None };
        assert_eq!(objects.put_if("HEAD", b"2", Some(&other)).unwrap(), ConditionalPut::Refused);
        assert_eq!(objects.read("HEAD", 10).unwrap(), Some((b"1".to_vec(), first.clone())));
        assert!(matches!(
            objects.put_if("HEAD", b"2", Some(&first)),
            Ok(ConditionalPut::Written(_))
        ));
        assert_eq!(objects.put_if("HEAD", b"3", Some(&first)).unwrap(), ConditionalPut::Refused);
    }

    #[test]
    fn a_lock_that_another_process_holds_is_an_error_after_some_time() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Folder::new(folder.path());
        let clock = SimulatedClock::new(Timestamp(0));
        let held = objects.lock(&clock).unwrap();
        let error = objects.lock(&clock).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Unavailable);
        assert!(error.what.ends_with("/.lock for 10 s"), "{error}");
        assert_eq!(clock.monotonic(), LOCK_TIMEOUT);
        drop(held);
        objects.lock(&clock).unwrap();
    }

    #[test]
    fn a_download_stops_at_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Folder::new(folder.path().join("main"));
        let mut from = tempfile::tempfile().unwrap();
        from.set_len(1 << 20).unwrap();
        objects.upload("object", &mut from).unwrap();
        for most in [0, 1, (1 << 20) - 1, 1 << 20, 1 << 21] {
            let mut to = tempfile::tempfile().unwrap();
            let done = objects.download("object", &mut to, most);
            let size = to.metadata().unwrap().len();
            if most < 1 << 20 {
                assert_eq!(done.unwrap_err().kind, StoreErrorKind::Damaged);
                assert!(size <= most + 1, "{size}");
            } else {
                assert_eq!((done.unwrap(), size), (true, 1 << 20));
            }
        }
    }

    #[test]
    fn a_folder_whose_parent_does_not_exist_is_no_empty_store() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Folder::new(folder.path().join("not mounted/main"));
        assert_eq!(objects.read("HEAD", 10).unwrap_err().kind, StoreErrorKind::NoBucket);
        assert_eq!(objects.put_if("HEAD", b"1", None).unwrap_err().kind, StoreErrorKind::NoBucket);
    }
}
