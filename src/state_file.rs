//! The file beside a vault that stores an account's [`PersistedState`]. The vault cannot store it:
//! a failing backup may be unable to write to the vault, or there is no vault yet. Losing the file
//! loses no backup: the vault records the time of the newest one.
//!
//! Several processes write the file. Each holds its lock while it reads the file, adds its
//! attempts and replaces the file.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use serde::Serialize;

use crate::files::{
    self, Durability, beside, open_private, private_file, private_folder_of, read_private,
};
use crate::health::attempt::BackupAttempt;
use crate::health::persisted_state::{PersistedState, file};

/// linkvault never writes a longer file.
pub const MAX_SIZE: u64 = 4 << 20;

/// The file's size is a multiple of this, so that on a full disk the next attempt fits in the
/// blocks that the file already has.
const BLOCK: usize = 4096;

impl PersistedState {
    /// The persisted state beside `vault`. A missing or broken file gives an empty state; for a
    /// broken one the warning is returned too.
    #[must_use]
    pub fn read(vault: &Path) -> (Self, Option<String>) {
        let path = file(vault);
        match read(&path) {
            Ok(persisted) => (persisted, None),
            Err(error) if error.kind() == ErrorKind::NotFound => (Self::default(), None),
            Err(error) => {
                let path = path.display();
                let warning = format!("cannot read {path}: {error}; starting with an empty state");
                (Self::default(), Some(warning))
            }
        }
    }

    /// The persisted state in the file beside `vault`; `None` if it cannot be read.
    #[must_use]
    pub fn known(vault: &Path) -> Option<Self> {
        read(&file(vault)).ok()
    }

    /// Writes the persisted state atomically. Attempts that other processes have recorded
    /// meanwhile are kept, and merged into `self`.
    ///
    /// # Errors
    /// When the file cannot be written; it is then unchanged.
    pub fn write(&mut self, vault: &Path) -> io::Result<()> {
        let path = file(vault);
        let _lock = lock(&path);
        let mut persisted = self.clone();
        if let Ok(in_file) = read(&path) {
            persisted.take_record(&in_file);
        }
        replace(&path, &persisted)?;
        persisted.pending.clear();
        *self = persisted;
        Ok(())
    }

    /// Adds the result of a backup to the file beside `vault`.
    ///
    /// # Errors
    /// When the file cannot be written; it is then unchanged.
    pub fn record(vault: &Path, attempt: &BackupAttempt) -> io::Result<()> {
        Self::update(vault, |persisted| persisted.add(attempt)).map(drop)
    }

    /// Changes the persisted state in the file beside `vault`, and returns it.
    ///
    /// # Errors
    /// When the file cannot be written; it is then unchanged.
    pub fn update(vault: &Path, change: impl FnOnce(&mut Self)) -> io::Result<Self> {
        let path = file(vault);
        let _lock = lock(&path);
        let (mut persisted, _) = Self::read(vault);
        let before = persisted.clone();
        change(&mut persisted);
        if persisted != before {
            replace(&path, &persisted)?;
            persisted.pending.clear();
        }
        Ok(persisted)
    }
}

fn read(path: &Path) -> io::Result<PersistedState> {
    Ok(serde_json::from_slice(&read_private(path, MAX_SIZE)?)?)
}

/// Waits for the lock of the file. Without a lock, for example on a full disk, the caller writes
/// anyway: a record that may be overwritten is better than none.
pub fn lock(path: &Path) -> Option<File> {
    private_folder_of(path).ok()?;
    let file = private_file(&beside(path, ".lock")).ok()?;
    file.lock().ok()?;
    Some(file)
}

/// Replaces the file by `persisted`, also on a full disk.
///
/// # Errors
/// When the file cannot be written; it is then unchanged.
pub fn replace(path: &Path, persisted: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(persisted)?;
    // JSON allows spaces after the document.
    bytes.resize(bytes.len().next_multiple_of(BLOCK), b' ');
    let written =
        private_folder_of(path).and_then(|()| files::replace(path, &bytes, Durability::Synced));
    match written {
        Err(error) if is_full(&error) => overwrite(path, &bytes).map_err(|_| error),
        result => result,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// Writes into the existing blocks of the file, for a full disk. A crash during the write loses
/// the persisted state; without the write the new attempt would certainly be lost.
fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut bytes = bytes.to_vec();
    let size = usize::try_from(open_private(path)?.metadata()?.len()).unwrap_or(usize::MAX);
    if size < bytes.len() || size as u64 > MAX_SIZE {
        return Err(ErrorKind::StorageFull.into());
    }
    bytes.resize(size, b' ');
    let mut file = private_file(path)?;
    file.write_all(&bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests;
