//! The free space of a disk.

use std::path::Path;

/// The number of bytes that this user can write to the disk of `folder`; `None` if the system does
/// not tell.
#[cfg(unix)]
#[must_use]
pub fn free_space(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// `None`: this system is not asked.
#[cfg(not(unix))]
#[must_use]
pub fn free_space(_: &Path) -> Option<u64> {
    None
}
