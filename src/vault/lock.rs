//! One process at a time works on an account: an OS file lock beside the
//! vault. The lock goes with the process, however it ends; the file's text only
//! says who holds it.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Slept, Timestamp};
use crate::files::{beside, private_file, private_folder_of};

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub command: String,
    pub since: Timestamp,
}

/// A held lock; dropping it lets go.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why a lock is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another process works on this account: {}", describe(.0.as_ref()))]
    Held(Option<Holder>),
    #[error("interrupted while waiting for the lock")]
    Interrupted,
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

fn describe(holder: Option<&Holder>) -> String {
    holder.map_or_else(
        || "it did not say which".to_owned(),
        |holder| format!("pid {}, `{}`, since {}", holder.pid, holder.command, holder.since.iso()),
    )
}

/// How often a held lock is tried again.
const TRY_EVERY: Duration = Duration::from_millis(200);
/// Who looks at a lock has it for a moment, so nobody is refused sooner.
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
        let path = beside(vault, ".lock");
        let fail = |source| LockError::Io { path: path.clone(), source };
        private_folder_of(&path).map_err(fail)?;
        let mut file = private_file(&path).map_err(fail)?;
        let until = clock.monotonic() + patience.max(A_LOOK);
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(fail(source)),
                Err(TryLockError::WouldBlock) if clock.monotonic() >= until => {
                    return Err(LockError::Held(read(&mut file)));
                }
                Err(TryLockError::WouldBlock) => {
                    if clock.sleep(TRY_EVERY) == Slept::Interrupted {
                        return Err(LockError::Interrupted);
                    }
                }
            }
        }
        let holder =
            Holder { pid: std::process::id(), command: command.to_owned(), since: clock.now() };
        write(&mut file, &holder).map_err(fail)?;
        Ok(Self { _file: file })
    }

    /// Who holds the lock of the vault at `vault` now, if anybody does.
    #[must_use]
    pub fn holder(vault: &Path) -> Option<Holder> {
        let mut file = File::open(beside(vault, ".lock")).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read(&mut file),
            _ => None,
        }
    }
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write(file: &mut File, holder: &Holder) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(serde_json::to_string(holder)?.as_bytes())
}
