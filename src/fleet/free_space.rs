//! The free space of a disk.

use std::path::Path;

use super::error::{StoreError, StoreErrorKind};
use super::head::Head;

/// Refuses a vault for which the disk has no space, before it is full.
///
/// # Errors
/// If the disk of `folder` has less space than the vault that `head` names needs.
pub fn require_space(head: &Head, folder: &Path) -> Result<(), StoreError> {
    let needed = head.size.saturating_add(head.plain_size.unwrap_or(0));
    match free_space(folder) {
        Some(free) if free < needed => Err(StoreError::new(
            StoreErrorKind::NoSpace,
            format!("it needs {needed} bytes on the disk, which has {free} free"),
        )),
        _ => Ok(()),
    }
}

/// The number of bytes that this user can write to the disk of `folder`; `None` if the system does
/// not tell.
#[cfg(unix)]
fn free_space(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// `None`: this system is not asked.
#[cfg(not(unix))]
fn free_space(_: &Path) -> Option<u64> {
    None
}
