//! Replaces a vault by a copy: the copy is verified first, then renamed. The log of the old file is
//! never beside the new file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

use crate::files::{beside, folder_of, open_named, private_file, private_folder_of, target};
use crate::vault::connection::connect_exclusively;
use crate::vault::header::check_header;
use crate::vault::rollback::is_harmless_journal;
use crate::vault::snapshot::Snapshot;
use crate::vault::wal_mark::is_own_log;
use crate::vault::{AccountIdentity, Vault, VaultError};

/// A step of a replacement, after which tests simulate a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceStep {
    /// The log of the old file is written back or removed.
    LogRemoved,
    /// The new file is in place.
    Replaced,
}

/// A verified copy in the folder of the vault that it will replace.
#[derive(Debug)]
pub struct RestoreCandidate {
    /// Holds the copy; deleted on drop.
    folder: TempDir,
    file: PathBuf,
    target: PathBuf,
    /// The account whose history the copy holds; `None` for an empty vault.
    pub identity: Option<AccountIdentity>,
    /// Its readable snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Its content ([`Vault::content_mark`]).
    pub mark: String,
    /// Whether a log of another file was beside the source. It was ignored.
    pub foreign_log: bool,
}

impl RestoreCandidate {
    /// Copies the vault in `from`, with its own log, to the folder of the vault at `vault`, and
    /// verifies the copy: it must have a supported format and pass [`Vault::check`]. `from` is not
    /// changed. The caller must hold the lock of `vault`.
    ///
    /// # Errors
    /// [`VaultError::NotAVault`], [`VaultError::Newer`] or [`VaultError::Damaged`] about `from`.
    pub fn prepare(from: &Path, vault: &Path) -> Result<Self, VaultError> {
        let here = |error| VaultError::io(vault, error);
        let there = |error| VaultError::io(from, error);
        let target = target(vault).map_err(here)?;
        let from = &crate::files::target(from).map_err(there)?;
        check_header(from)?;
        let foreign_log = !is_own_log(from).map_err(there)?;
        private_folder_of(&target).map_err(here)?;
        let folder = work_folder(&target).map_err(here)?;
        let file = folder.path().join("vault.db");
        copy(from, &file).map_err(there)?;
        if !foreign_log && beside(from, "-wal").exists() {
            copy(&beside(from, "-wal"), &beside(&file, "-wal")).map_err(there)?;
        }
        let (identity, snapshots, mark) =
            verify(&file).map_err(|error| with_source_path(error, &file, from))?;
        Ok(Self { folder, file, target, identity, snapshots, mark, foreign_log })
    }

    /// Like [`Self::prepare`] for a copy that `write` writes to a new file, such as one that it
    /// receives and verifies by a digest: the records of the copy are not checked again.
    ///
    /// # Errors
    /// The error of `write`, or [`VaultError::NotAVault`] or [`VaultError::Newer`] about the copy.
    pub fn receive<E: From<VaultError>>(
        vault: &Path,
        write: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Self, E> {
        let here = |error| VaultError::io(vault, error);
        let target = target(vault).map_err(here)?;
        private_folder_of(&target).map_err(here)?;
        let folder = work_folder(&target).map_err(here)?;
        let file = folder.path().join("vault.db");
        write(&file)?;
        check_header(&file)?;
        let (identity, snapshots, mark) = finish(Vault::open(&file)?, &file)?;
        Ok(Self { folder, file, target, identity, snapshots, mark, foreign_log: false })
    }

    /// Replaces the vault by the copy. `after` is called after each step; its error stops the
    /// operation there, as a crash would.
    ///
    /// # Errors
    /// [`VaultError::InUse`] if another program has the vault open.
    pub fn replace(
        self,
        after: &mut dyn FnMut(ReplaceStep) -> Result<(), VaultError>,
    ) -> Result<(), VaultError> {
        let fail = |error| VaultError::io(&self.target, error);
        // Kept until the new file is in place: no process may open the old file and then remove the
        // log of the new one.
        let old = close_old_vault(&self.target)?;
        after(ReplaceStep::LogRemoved)?;
        fs::rename(&self.file, &self.target).map_err(fail)?;
        sync_folder(&self.target).map_err(fail)?;
        after(ReplaceStep::Replaced)?;
        drop(old);
        self.folder.close().map_err(fail)
    }
}

/// Removes the vault at `path` and its log. Returns `false` if another connection has it open. The
/// caller must hold its lock.
///
/// # Errors
/// If the vault cannot be read or removed.
pub fn remove_unused(path: &Path) -> Result<bool, VaultError> {
    let fail = |error| VaultError::io(path, error);
    if !is_own_log(path).map_err(fail)? || !is_harmless_journal(path).map_err(fail)? {
        return Ok(false);
    }
    match connect_exclusively(path, Duration::ZERO) {
        Ok(_exclusive) => {
            fs::remove_file(path).map_err(fail)?;
            sync_folder(path).map_err(fail)?;
            Ok(true)
        }
        Err(error) if is_busy(&error) => Ok(false),
        Err(error) => Err(VaultError::sql(path, error)),
    }
}

/// Writes the log of the old vault back into its file and opens the file exclusively. If SQLite
/// cannot read the file, or the log belongs to another file, the log is removed instead.
fn close_old_vault(path: &Path) -> Result<Option<Connection>, VaultError> {
    let fail = |error| VaultError::io(path, error);
    let exists = path.try_exists().map_err(fail)?;
    let sound = exists && check_header(path).is_ok();
    if !sound || !is_own_log(path).map_err(fail)? {
        remove_log(path).map_err(fail)?;
    }
    if sound && !is_harmless_journal(path).map_err(fail)? {
        fs::remove_file(beside(path, "-journal")).map_err(fail)?;
    }
    if !sound {
        return Ok(None);
    }
    match connect_exclusively(path, Duration::from_secs(2)) {
        Ok(old) => {
            sync_folder(path).map_err(fail)?;
            Ok(Some(old))
        }
        Err(error) if is_busy(&error) => Err(VaultError::InUse(path.to_owned())),
        Err(_) => {
            remove_log(path).map_err(fail)?;
            Ok(None)
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let busy = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked];
    error.sqlite_error_code().is_some_and(|code| busy.contains(&code))
}

/// Removes the log and the journal that SQLite would apply to the file at `path`.
fn remove_log(path: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        match fs::remove_file(beside(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_folder(path)
}

/// Syncs the folder of `path`, if the system supports that.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        #[cfg(unix)]
        Some(folder) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Creates a temporary folder beside the vault at `path`. Removes those of killed processes. The
/// caller must hold the lock of the vault.
///
/// # Errors
/// If the folder of the vault cannot be read or written.
pub fn work_folder(path: &Path) -> io::Result<TempDir> {
    let folder = folder_of(path);
    let mut start = std::ffi::OsString::from(".");
    start.push(path.file_name().unwrap_or_default());
    start.push(".restore-");
    for entry in fs::read_dir(folder)?.flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(start.as_encoded_bytes());
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A folder that cannot be removed only takes space.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    tempfile::Builder::new().prefix(&start).tempdir_in(folder)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut new = private_file(to)?;
    io::copy(&mut open_named(from)?, &mut new)?;
    Ok(())
}

/// What a copy holds: the account, the readable snapshots, and the mark of its content.
type CopyContent = (Option<AccountIdentity>, Vec<Snapshot>, String);

/// Checks the copy at `file`, and finishes it.
fn verify(file: &Path) -> Result<CopyContent, VaultError> {
    let mut vault = Vault::open(file)?;
    if let Some(problem) = vault.check()?.problems.into_iter().next() {
        return Err(VaultError::Damaged { path: file.to_owned(), what: problem });
    }
    finish(vault, file)
}

/// Gives the copy at `file` a new mark, and writes its log back.
fn finish(mut vault: Vault, file: &Path) -> Result<CopyContent, VaultError> {
    // Any transaction stores a mark.
    vault.transact_now(|_, _| Ok(()))?;
    let found = (vault.identity()?, vault.snapshots()?, vault.content_mark()?);
    vault.close()?;
    let fail = |error| VaultError::io(file, error);
    open_named(file).and_then(|file| file.sync_all()).map_err(fail)?;
    Ok(found)
}

/// Replaces the path of the copy in an error by that of its source.
fn with_source_path(error: VaultError, copy: &Path, from: &Path) -> VaultError {
    match error {
        VaultError::Damaged { path, what } if path == copy => {
            VaultError::Damaged { path: from.to_owned(), what }
        }
        VaultError::NotAVault(path) if path == copy => VaultError::NotAVault(from.to_owned()),
        VaultError::Sql { path, source } if path == copy => VaultError::sql(from, source),
        other => other,
    }
}
