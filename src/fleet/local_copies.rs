//! The local copies of vaults in stores, as a cache of a bounded size.

use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::cache::{CachedCopy, trim};
use super::error::StoreError;
use super::fetch_file::FetchFile;
use super::head::FetchRecord;
use crate::files::beside;
use crate::vault::restore::remove_unused;
use crate::vault::{Vault, VaultError};

/// Removes the least recently used of `copies` if they have more than `bound` bytes, but none that
/// is in use by this process. `lock` takes the lock of a copy, and returns `None` if another process
/// has it. A copy that cannot be removed remains, and `failed` is called.
pub fn remove_least_recently_used<'c, L>(
    copies: impl Iterator<Item = (&'c Path, bool)>,
    bound: u64,
    now: SystemTime,
    lock: impl Fn(&Path) -> Option<L>,
    failed: impl Fn(&Path, &StoreError),
) {
    let found = copies.filter_map(|(copy, in_use)| cached(copy, in_use, now)).collect();
    trim(found, bound, |copy: &&Path| {
        let Some(_lock) = lock(copy) else { return false };
        remove(copy).unwrap_or_else(|error| {
            failed(copy, &error);
            false
        })
    });
}

/// The copy, if there is one. Each use of it writes its lock file.
fn cached(copy: &Path, in_use: bool, now: SystemTime) -> Option<CachedCopy<&Path>> {
    let found = copy.symlink_metadata().ok().filter(Metadata::is_file)?;
    let log = beside(copy, "-wal").symlink_metadata().map_or(0, |log| log.len());
    let lock = beside(copy, ".lock").symlink_metadata();
    let used = lock.unwrap_or_else(|_| found.clone()).modified().ok()?;
    let used = if in_use { now } else { used };
    let idle = now.duration_since(used).unwrap_or(Duration::ZERO);
    Some(CachedCopy { copy, size: found.len().saturating_add(log), idle })
}

/// Removes the copy if it is equal to an object of the store, and no other process has it open.
/// The file about the last fetch remains, so that an older object is still refused.
fn remove(copy: &Path) -> Result<bool, StoreError> {
    let Ok(Ok(record)) = FetchFile::of(copy).read() else { return Ok(false) };
    let FetchRecord { base: Some(base), pending: None, arriving: None, .. } = record else {
        return Ok(false);
    };
    let mark = match Vault::open_if_there(copy) {
        Ok(Some(vault)) => vault.content_mark()?,
        Ok(None) | Err(VaultError::Damaged { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    Ok(mark == base.mark && remove_unused(copy)?)
}
