//! An exclusive lock on an account for one process. It consists of two file locks: on a file beside
//! the vault, whose text identifies the holder, and on the vault itself, so that neither another
//! path to the vault nor removing the first file bypasses it. Both end with the process.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::open_files::open_files;
use crate::clock::{Clock, SleepOutcome, Timestamp};
use crate::files::{beside, is_at, open_private, private_file, private_folder_of, target};

/// The process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Its process id.
    pub pid: u32,
    /// Its linkvault command.
    pub command: String,
    /// The purpose for which it holds the lock.
    #[serde(default)]
    pub purpose: LockPurpose,
    /// When it took the lock.
    pub since: Timestamp,
}

/// The purpose of holding a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockPurpose {
    /// A backup of the account.
    Backup,
    /// A change of the account: a run, from its plan to its end.
    Run,
    /// A fetch of the vault from its store, which also commands that only read do.
    Fetch,
    /// Any other operation.
    #[default]
    #[serde(other)]
    Other,
}

/// A command that takes a lock, as it is written to the lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockCommand {
    /// The command line without `linkvault`.
    pub text: String,
    /// The purpose for which it takes the lock.
    pub purpose: LockPurpose,
}

impl From<&str> for LockCommand {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), purpose: LockPurpose::Other }
    }
}

impl From<&Self> for LockCommand {
    fn from(command: &Self) -> Self {
        command.clone()
    }
}

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub struct Lock {
    target: PathBuf,
    file: File,
}

/// Why a lock is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has the lock; its text, if it can be read.
    #[error("another process works on this account: {}", describe(.0.as_ref()))]
    Held(Option<LockHolder>),
    /// The user interrupted the wait.
    #[error("interrupted while waiting for the lock")]
    Interrupted,
    /// The lock file or the vault cannot be opened or written.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

fn describe(holder: Option<&LockHolder>) -> String {
    holder.map_or_else(
        || "the lock file does not name it".to_owned(),
        |holder| format!("pid {}, `{}`, since {}", holder.pid, holder.command, holder.since.iso()),
    )
}

/// Delay between two attempts.
const TRY_EVERY: Duration = Duration::from_millis(200);
/// Minimum time to wait: [`Lock::holder`] of another process holds the lock for a moment.
const MIN_WAIT: Duration = TRY_EVERY;
/// Minimum time to wait for a fetch, which even a command that only reads does.
const FETCH_WAIT: Duration = Duration::from_secs(60);

impl Lock {
    /// Takes the lock of the vault at `vault` for `command`, waiting up to `timeout`, but at least
    /// 200 ms, and a minute while the holder fetches the vault.
    ///
    /// # Errors
    /// [`LockError::Held`] if another process still has it after that time.
    pub fn take(
        vault: &Path,
        command: impl Into<LockCommand>,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Result<Self, LockError> {
        let fail = |source| LockError::Io { path: vault.to_owned(), source };
        let target = target(vault).map_err(fail)?;
        let path = beside(&target, ".lock");
        let fail = |source| LockError::Io { path: path.clone(), source };
        private_folder_of(&path).map_err(fail)?;
        let begun = clock.monotonic();
        let timeout_of = |holder: Option<&LockHolder>| {
            let fetches = holder.is_some_and(|it| it.purpose == LockPurpose::Fetch);
            timeout.max(if fetches { FETCH_WAIT } else { MIN_WAIT })
        };
        let file = loop {
            match attempt(&target, &path).map_err(fail)? {
                Attempt::Taken(file) => break file,
                Attempt::Replaced => {}
                Attempt::Held(holder)
                    if clock.monotonic() >= begun + timeout_of(holder.as_ref()) =>
                {
                    return Err(LockError::Held(holder));
                }
                Attempt::Held(_) => {
                    if clock.sleep(TRY_EVERY) == SleepOutcome::Interrupted {
                        return Err(LockError::Interrupted);
                    }
                }
            }
        };
        let LockCommand { text: command, purpose } = command.into();
        let holder = LockHolder { pid: std::process::id(), command, purpose, since: clock.now() };
        let lock = Self { target, file };
        write(&lock.file, &holder).map_err(fail)?;
        Ok(lock)
    }

    /// The process that holds the lock of the vault at `vault`; `None` if it is free or the
    /// holder's text cannot be read.
    #[must_use]
    pub fn holder(vault: &Path) -> Option<LockHolder> {
        let mut file = open_private(&beside(&target(vault).ok()?, ".lock")).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read(&mut file),
            _ => None,
        }
    }

    /// The process that holds the lock of the vault at `vault` for `purpose`.
    #[must_use]
    pub fn holder_for(vault: &Path, purpose: LockPurpose) -> Option<LockHolder> {
        Self::holder(vault).filter(|holder| holder.purpose == purpose)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock file is released after the vault, so that the next holder gets both. It is
        // unlocked, not only closed: a child process has it open until it executes its program.
        open_files().unlock(&self.target);
        let _ = self.file.unlock();
    }
}

/// Result of one attempt to take a lock.
enum Attempt {
    Taken(File),
    /// Another process has it, with its text if that can be read.
    Held(Option<LockHolder>),
    /// The lock file was removed meanwhile; there may be a new one.
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
    // The lock file may be new, or the vault may have another path with its own lock file.
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
