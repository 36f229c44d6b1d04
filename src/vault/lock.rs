//! One process at a time works on an account. The lock is on two files: on one beside the vault,
//! whose text says who holds it, and on the vault itself, so that neither another path to the vault
//! nor the removal of the first file leads around it. Both go with the process, however it ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::open_files::open_files;
use crate::clock::{Clock, SleepOutcome, Timestamp};
use crate::files::{beside, is_at, open_private, private_file, private_folder_of, target};

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    pub pid: u32,
    pub command: String,
    pub since: Timestamp,
}

/// A held lock; dropping it lets go.
#[derive(Debug)]
pub struct Lock {
    target: PathBuf,
    file: File,
}

/// Why a lock is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another process works on this account: {}", describe(.0.as_ref()))]
    Held(Option<LockHolder>),
    #[error("interrupted while waiting for the lock")]
    Interrupted,
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

fn describe(holder: Option<&LockHolder>) -> String {
    holder.map_or_else(
        || "it did not say which".to_owned(),
        |holder| format!("pid {}, `{}`, since {}", holder.pid, holder.command, holder.since.iso()),
    )
}

/// How often a held lock is tried again.
const TRY_EVERY: Duration = Duration::from_millis(200);
/// A process that looks at a lock holds it for a moment, so none is refused sooner.
const A_LOOK: Duration = TRY_EVERY;

impl Lock {
    /// Takes the lock of the vault at `vault` for `command`, waiting up to `patience`.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it for longer than that, and
    /// for longer than a look at it takes.
    pub fn take(
        vault: &Path,
        command: &str,
        patience: Duration,
        clock: &dyn Clock,
    ) -> Result<Self, LockError> {
        let fail = |source| LockError::Io { path: vault.to_owned(), source };
        let target = target(vault).map_err(fail)?;
        let path = beside(&target, ".lock");
        let fail = |source| LockError::Io { path: path.clone(), source };
        private_folder_of(&path).map_err(fail)?;
        let until = clock.monotonic() + patience.max(A_LOOK);
        let file = loop {
            match attempt(&target, &path).map_err(fail)? {
                Attempt::Taken(file) => break file,
                Attempt::Replaced => {}
                Attempt::Held(holder) if clock.monotonic() >= until => {
                    return Err(LockError::Held(holder));
                }
                Attempt::Held(_) => {
                    if clock.sleep(TRY_EVERY) == SleepOutcome::Interrupted {
                        return Err(LockError::Interrupted);
                    }
                }
            }
        };
        let holder =
            LockHolder { pid: std::process::id(), command: command.to_owned(), since: clock.now() };
        let lock = Self { target, file };
        write(&lock.file, &holder).map_err(fail)?;
        Ok(lock)
    }

    /// Who holds the lock of the vault at `vault` now, if anybody does.
    #[must_use]
    pub fn holder(vault: &Path) -> Option<LockHolder> {
        let mut file = open_private(&beside(&target(vault).ok()?, ".lock")).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read(&mut file),
            _ => None,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file of the lock is let go after that, so that who gets it gets both.
        open_files().unlock(&self.target);
    }
}

/// What one attempt to take a lock came to.
enum Attempt {
    Taken(File),
    /// Another process has it; its own words, where they can be had.
    Held(Option<LockHolder>),
    /// The file of the lock was removed meanwhile; there may be a new one.
    Replaced,
}

fn attempt(target: &Path, path: &Path) -> io::Result<Attempt> {
    let mut file = private_file(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(error),
        Err(TryLockError::WouldBlock) => return Ok(Attempt::Held(read(&mut file))),
    }
    if !is_at(&file, path)? {
        return Ok(Attempt::Replaced);
    }
    // The lock's file may be new, or the vault have another name with a lock of its own.
    if open_files().lock(target)? { Ok(Attempt::Taken(file)) } else { Ok(Attempt::Held(None)) }
}

fn read(file: &mut File) -> Option<LockHolder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write(mut file: &File, holder: &LockHolder) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(serde_json::to_string(holder)?.as_bytes())
}
