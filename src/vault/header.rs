//! Checks, by a file's first bytes, whether it may be opened as a vault.
//!
//! The bytes are read while this process has no connection to the file. When a process closes a
//! file, POSIX releases all its locks on that file, also those of its other connections. The next
//! process would then assume that it is alone and remove the log.

use std::io::{self, Read as _};
use std::path::Path;

use super::error::VaultError;
use super::open_files::{MAGIC, OpenFileId, id, open_files};
use super::rollback::is_harmless_journal;
use super::schema::{APPLICATION_ID, FORMAT};
use crate::files::{beside, open_named, regular_or_absent, target};
use crate::vault::wal_mark::is_own_log;

/// Registers one connection of this process in [`open_files`] until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard(OpenFileId);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        open_files().disconnect(self.0);
    }
}

/// Checks the file's first bytes, log and journal before SQLite opens it, because even closing a
/// foreign database can write to it. Then registers a connection. A lock that this process took
/// before the file existed is placed on the file.
pub(super) fn register_connection(path: &Path) -> Result<ConnectionGuard, VaultError> {
    let fail = |source| VaultError::io(path, source);
    let metadata = std::fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => missing_error(path),
        _ => fail(source),
    })?;
    if !metadata.is_file() {
        return Err(VaultError::NotAVault(path.to_owned()));
    }
    // SQLite opens these two itself, and would wait for the writer of a FIFO.
    let file = target(path).map_err(fail)?;
    for suffix in ["-journal", "-shm"] {
        let beside = beside(&file, suffix);
        regular_or_absent(&beside).map_err(|source| VaultError::io(&beside, source))?;
    }
    let id = id(&metadata);
    let mut open = open_files();
    if !open.is_connected(id) {
        check_first_bytes(path)?;
        let own = [("-wal", is_own_log(path)), ("-journal", is_harmless_journal(path))];
        for (suffix, own) in own {
            if !own.map_err(fail)? {
                let log = beside(path, suffix);
                return Err(VaultError::ForeignLog { path: path.to_owned(), log });
            }
        }
    }
    if !open.follow_lock(path, id).map_err(fail)? {
        return Err(VaultError::InUse(path.to_owned()));
    }
    open.connect(id);
    Ok(ConnectionGuard(id))
}

/// The error for a missing vault. A log without its vault contains changes that would be lost.
pub(super) fn missing_error(path: &Path) -> VaultError {
    let log = beside(path, "-wal");
    match std::fs::metadata(&log) {
        Ok(found) if found.len() > 0 => VaultError::LogAlone { path: path.to_owned(), log },
        _ => VaultError::Missing(path.to_owned()),
    }
}

/// Checks the first bytes of a file that must not be empty. This process must have no connection to
/// it.
pub(super) fn check_header(path: &Path) -> Result<(), VaultError> {
    let metadata = std::fs::metadata(path).map_err(|source| VaultError::io(path, source))?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Err(VaultError::NotAVault(path.to_owned()));
    }
    check_first_bytes(path)
}

fn check_first_bytes(path: &Path) -> Result<(), VaultError> {
    let fail = |source| VaultError::io(path, source);
    let mut header = Vec::with_capacity(100);
    open_named(path).map_err(fail)?.take(100).read_to_end(&mut header).map_err(fail)?;
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
