//! The file beside a vault in which an account's [`PersistedState`] is kept. A backup that fails
//! may not be able to write to the vault, or there is none yet. What is lost with the file costs
//! no backup: the vault tells when the newest was made.
//!
//! Several processes write the file. Each holds its lock while it reads the file, adds its
//! attempts and replaces the file.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use crate::files::{
    self, Durability, beside, open_private, private_file, private_folder_of, read_private,
};
use crate::health::attempt::BackupAttempt;
use crate::health::persisted_state::{PersistedState, file};

/// A longer file is not ours.
const LONGEST: u64 = 4 << 20;

/// The file's size is a multiple of this, so that a full disk still has room for
/// what is recorded next.
const BLOCK: usize = 4096;

impl PersistedState {
    /// The persisted state beside `vault`; a new one where there is none or it is
    /// broken, and then why.
    #[must_use]
    pub fn read(vault: &Path) -> (Self, Option<String>) {
        let path = file(vault);
        match read(&path) {
            Ok(persisted) => (persisted, None),
            Err(error) if error.kind() == ErrorKind::NotFound => (Self::default(), None),
            Err(error) => {
                let path = path.display();
                let why = format!("{path} cannot be read and is begun anew: {error}");
                (Self::default(), Some(why))
            }
        }
    }

    /// The persisted state in the file beside `vault`; `None` where it cannot be read.
    #[must_use]
    pub fn known(vault: &Path) -> Option<Self> {
        read(&file(vault)).ok()
    }

    /// Writes the persisted state, whole or not at all. What other processes have
    /// recorded meanwhile stays, and is in this one afterwards.
    ///
    /// # Errors
    /// When they cannot be written; the file is then as it was.
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

    /// Adds a backup that ended to the file beside `vault`.
    ///
    /// # Errors
    /// When it cannot be written; the file is then as it was.
    pub fn record(vault: &Path, attempt: &BackupAttempt) -> io::Result<()> {
        let path = file(vault);
        let _lock = lock(&path);
        let (mut persisted, _) = Self::read(vault);
        persisted.add(attempt);
        replace(&path, &persisted)
    }
}

fn read(path: &Path) -> io::Result<PersistedState> {
    Ok(serde_json::from_slice(&read_private(path, LONGEST)?)?)
}

/// Waits until no other process writes this file. Where that cannot be had, on a
/// full disk for one, a record that may be lost is better than none.
fn lock(path: &Path) -> Option<File> {
    private_folder_of(path).ok()?;
    let file = private_file(&beside(path, ".lock")).ok()?;
    file.lock().ok()?;
    Some(file)
}

fn replace(path: &Path, persisted: &PersistedState) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(persisted)?;
    // Spaces after a JSON document mean nothing.
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

/// Writes into the blocks that the file has: a full disk has no others. That a crash
/// now loses the persisted state is the smaller loss.
fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut bytes = bytes.to_vec();
    let size = usize::try_from(open_private(path)?.metadata()?.len()).unwrap_or(usize::MAX);
    if size < bytes.len() || size as u64 > LONGEST {
        return Err(ErrorKind::StorageFull.into());
    }
    bytes.resize(size, b' ');
    let mut file = private_file(path)?;
    file.write_all(&bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests;
