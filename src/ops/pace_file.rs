//! The file through which the processes that use a key share its rate limit, and the file beside a
//! vault with the limit that the service reported.
//!
//! A process locks the shared file before each request and after its response, for as long as it
//! takes to read and to replace the state. So a request is in the file before the next process
//! decides, and remains there if its process is killed. Another user may have written the file, or
//! any other program: what cannot be read counts as missing, and [`Pacer::restore`] checks the rest.
//!
//! [`Pacer::restore`]: crate::api::pacer::Pacer::restore

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::api::pacer::{PacerState, StoreOutcome};
use crate::clock::{Clock, SleepOutcome};
use crate::files::{
    Durability, beside, is_at, make_private, private_file, private_folder_of, read_private, replace,
};

/// The maximum length of a state in bytes. A longer file is not from linkvault.
const MAX_STATE_LENGTH: u64 = 64 << 10;

/// How long to wait for the lock. A process holds it for far less than a millisecond, unless it is
/// suspended.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Delay between two attempts to take the lock.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// The minimum length of the file in bytes: a block. A usual state fits, so that it can be replaced
/// on a full disk too.
const BLOCK: usize = 4096;

/// The shared file of a key.
pub struct PaceFile {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    file: Option<File>,
    /// The state that this process wrote last, and its text.
    written: Option<(Vec<u8>, PacerState)>,
    /// The lock could not be taken the last time.
    is_busy: bool,
    /// The file beside the vault, and the limit in it.
    report: PathBuf,
    reported: Option<u64>,
}

impl PaceFile {
    /// The file at `path`, for the account with this vault.
    pub fn new(path: PathBuf, vault: &Path, clock: Arc<dyn Clock>) -> Self {
        let (report, reported) = (report_file(vault), reported_limit(vault));
        Self { path, clock, file: None, written: None, is_busy: false, report, reported }
    }

    /// The state in the file. A file that cannot be read counts as missing: the client then learns
    /// the limit from the first response.
    pub fn load(&self) -> Option<PacerState> {
        parse(&read_private(&self.path, MAX_STATE_LENGTH).ok()?)
    }

    /// Replaces the state by what `change` makes of it.
    pub fn exchange(
        &mut self,
        change: &mut dyn FnMut(Option<PacerState>) -> PacerState,
    ) -> StoreOutcome {
        let locked = self.lock();
        self.is_busy = matches!(locked, Ok(false));
        match (locked, &self.file) {
            (Ok(true), Some(file)) => {
                let text = read(file).ok();
                let found = match self.written.take() {
                    Some((own, state)) if text.as_ref() == Some(&own) => Some(state),
                    _ => text.and_then(|text| parse(&text)),
                };
                let state = change(found);
                let text = write(file, &state);
                let _ = file.unlock();
                self.report(state.limit);
                if let Ok(text) = text {
                    self.written = Some((text, state));
                    return StoreOutcome::Stored;
                }
                self.file = None;
                StoreOutcome::CutOff
            }
            (Ok(_), _) => StoreOutcome::CutOff,
            (Err(_), _) => {
                self.file = None;
                StoreOutcome::Alone
            }
        }
    }

    /// Locks the file that is at the path. Returns `false` if another process has the lock for long,
    /// or the file is replaced again and again.
    fn lock(&mut self) -> io::Result<bool> {
        let began = self.clock.monotonic();
        loop {
            if self.file.is_none() {
                private_folder_of(&self.path)?;
                let file = private_file(&self.path)?;
                // Fails for a file of another user, who could make this process wait.
                make_private(&self.path)?;
                self.file = Some(file);
            }
            let Some(file) = &self.file else { continue };
            match file.try_lock() {
                Ok(()) if is_at(file, &self.path)? => return Ok(true),
                // It was removed or replaced.
                Ok(()) => self.file = None,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            let waited = self.clock.monotonic().saturating_sub(began);
            let gives_up = self.is_busy || waited >= LOCK_TIMEOUT;
            if gives_up || self.clock.sleep(TRY_EVERY) == SleepOutcome::Interrupted {
                return Ok(false);
            }
        }
    }

    /// Stores a new limit beside the vault, for `status` and others that have no key.
    fn report(&mut self, limit: Option<u64>) {
        if let Some(limit) = limit.filter(|&limit| Some(limit) != self.reported) {
            let text = serde_json::to_vec(&Report { limit: Some(limit) });
            if let Ok(text) = text
                && private_folder_of(&self.report).is_ok()
            {
                let _ = replace(&self.report, &text, Durability::Unsynced);
            }
            self.reported = Some(limit);
        }
    }
}

/// The rate limit that the service last reported to the account with this vault, in requests per
/// minute; 0 is no limit.
pub fn reported_limit(vault: &Path) -> Option<u64> {
    let text = read_private(&report_file(vault), MAX_STATE_LENGTH).ok()?;
    serde_json::from_slice::<Report>(&text).ok()?.limit
}

/// What is beside a vault. Earlier versions stored the whole state there.
#[derive(serde::Serialize, serde::Deserialize)]
struct Report {
    limit: Option<u64>,
}

fn report_file(vault: &Path) -> PathBuf {
    beside(vault, ".pace")
}

fn parse(text: &[u8]) -> Option<PacerState> {
    serde_json::from_slice(text).ok()
}

fn read(mut file: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(MAX_STATE_LENGTH).read_to_end(&mut text)?;
    Ok(text)
}

/// Overwrites the file in one write, so that a killed process leaves a complete state. A shorter
/// text is padded to a block, and to the length of an older text, so that nothing of that remains.
fn write(mut file: &File, state: &PacerState) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(state)?;
    let length = file.metadata()?.len();
    if length > MAX_STATE_LENGTH {
        file.set_len(0)?;
    } else {
        let length = usize::try_from(length).unwrap_or(0);
        text.resize(text.len().max(length).max(BLOCK), b' ');
    }
    file.rewind()?;
    file.write_all(&text)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
