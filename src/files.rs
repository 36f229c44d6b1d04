//! Files and folders that only their owner can read.
//!
//! Other users may be able to write to the folder of a file. They could replace the file with a
//! symbolic link, a FIFO or a device. So the program opens its own files without following links,
//! and accepts only regular files.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::{NamedTempFile, TempPath};

/// Creates a folder and its missing parents with mode 0700. Existing folders keep their mode.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Creates the parent folder of `file`, as [`private_folder`] does.
pub fn private_folder_of(file: &Path) -> io::Result<()> {
    private_folder(folder_of(file))
}

/// The parent folder of `file`; `.` for a bare file name.
#[must_use]
pub fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Modification time and size of a file. A write changes one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    modified: SystemTime,
    size: u64,
}

impl FileStamp {
    /// The stamp of the file at `path`; `None` if there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { modified: metadata.modified().ok()?, size: metadata.len() })
    }
}

/// The path of a companion file: `path` with `suffix` appended to its name.
#[must_use]
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a regular file for reading and writing; a new file gets mode 0600.
///
/// # Errors
/// `InvalidInput` when `path` is a symbolic link or not a regular file.
pub fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    open(path, options, Links::Refuse)
}

/// Opens a regular file for appending; a new file gets mode 0600.
///
/// # Errors
/// As [`private_file`].
pub fn append_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    open(path, options, Links::Refuse)
}

/// Opens a regular file for reading; a symbolic link is refused.
///
/// # Errors
/// As [`private_file`].
pub fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    open(path, options, Links::Refuse)
}

/// Opens a regular file for reading and follows symbolic links. For files that users name.
///
/// # Errors
/// `InvalidInput` when the target is not a regular file.
pub fn open_named(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    open(path, options, Links::Follow)
}

/// The first `most` bytes of one of the program's own files.
///
/// # Errors
/// As [`open_private`].
pub fn read_private(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_private(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All bytes of a file that a user names. Also reads an inherited pipe, as `<(command)` makes it.
///
/// # Errors
/// As [`open_named`], or when the file is larger than `most` bytes.
pub fn read_named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = if is_inherited_pipe(path) { File::open(path)? } else { open_named(path)? };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// Whether `path` names an anonymous pipe that this process inherited. Opening it does not wait for
/// a writer, unlike opening a FIFO.
fn is_inherited_pipe(path: &Path) -> bool {
    if !cfg!(target_os = "linux") {
        return path.starts_with("/dev/fd");
    }
    // Only the kernel can create a link with this name there.
    let Ok(target) = target(path) else { return false };
    let name = target.file_name().map(OsStr::as_encoded_bytes);
    name.is_some_and(|name| name.starts_with(b"pipe:["))
        && (target.starts_with("/proc") || target.starts_with("/dev/fd"))
}

/// Checks that `path` is a regular file or does not exist, without opening it.
///
/// # Errors
/// `InvalidInput` when it is a symbolic link or not a regular file.
pub fn regular_or_absent(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => Err(irregular()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Overwrites a file that a user names; a new file gets mode 0600.
///
/// # Errors
/// As [`private_file`].
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private_file(path)?;
    file.set_len(0)?;
    file.write_all(bytes)
}

/// Whether a new file must be on the disk before it replaces another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The file is synced to the disk before it replaces the other.
    Synced,
    /// A power failure may lose the new file.
    Unsynced,
}

/// Replaces the file at `path` atomically with one of mode 0600 that has these bytes.
///
/// # Errors
/// When it cannot be written; the old file is then unchanged.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    temporary_beside(path, bytes, durability)?.persist(path)?;
    Ok(())
}

/// Creates a temporary file with these bytes in the folder of `path`, mode 0600. It is removed on
/// drop unless it is persisted.
pub fn temporary_beside(
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> io::Result<NamedTempFile> {
    // An error of `tempfile` contains the random file name, which does not help the user.
    let mut new = NamedTempFile::new_in(folder_of(path)).map_err(|error| error.kind())?;
    let file = new.as_file_mut();
    file.write_all(bytes)?;
    if durability == Durability::Synced {
        file.sync_all()?;
    }
    Ok(new)
}

/// An empty file beside `file`, to be filled and renamed to it. SQLite accepts an existing empty
/// file, whose mode stays 0600.
pub fn unfinished_file(file: &Path) -> io::Result<NamedTempFile> {
    let folder = folder_of(file);
    let mut start = OsString::from(".");
    start.push(file.file_name().unwrap_or_default());
    start.push(".part-");
    remove_unfinished(folder, &start);
    loop {
        let new = tempfile::Builder::new().prefix(&start).tempfile_in(folder)?;
        // SQLite's locks are independent of this one on Unix only.
        #[cfg(unix)]
        new.as_file().lock()?;
        // Before it was locked, another process may have removed it as unfinished.
        if new.path().exists() {
            return Ok(new);
        }
    }
}

/// Closes an unfinished file before it gets its name: afterwards closing it would release SQLite's
/// locks. A child process inherits the file's lock until it executes its program, so the lock is
/// released first.
pub fn close_unfinished(unfinished: NamedTempFile) -> TempPath {
    let _ = unfinished.as_file().unlock();
    unfinished.into_temp_path()
}

/// Removes unfinished files of killed processes; a running process holds a lock on its file.
fn remove_unfinished(folder: &Path, start: &OsStr) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(start.as_encoded_bytes()) {
            continue;
        }
        let Ok(file) = open_private(&entry.path()) else { continue };
        // The lock is held until the file is removed.
        if file.try_lock().is_ok() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes all permissions of other users from a file, if it exists. Returns the old mode if it
/// was changed.
#[cfg(unix)]
pub fn make_private(path: &Path) -> io::Result<Option<u32>> {
    match name_file(path) {
        Ok(file) => restrict(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A handle of the file itself, so that a file put at its path meanwhile is not changed. SQLite
/// loses its locks when a process closes another descriptor of the file; `O_PATH` is an exception.
#[cfg(target_os = "linux")]
fn name_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

#[cfg(target_os = "linux")]
fn restrict(file: &File) -> io::Result<Option<u32>> {
    use std::os::fd::AsRawFd as _;
    let at = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    restrict_at(&at, &file.metadata()?).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(error.kind(), "/proc is not available"),
        _ => error,
    })
}

#[cfg(all(unix, not(target_os = "linux")))]
fn name_file(path: &Path) -> io::Result<PathBuf> {
    path.symlink_metadata().map(|_| path.to_owned())
}

#[cfg(all(unix, not(target_os = "linux")))]
fn restrict(path: &Path) -> io::Result<Option<u32>> {
    restrict_at(path, &path.symlink_metadata()?)
}

#[cfg(unix)]
fn restrict_at(path: &Path, metadata: &std::fs::Metadata) -> io::Result<Option<u32>> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o7777;
    if !metadata.is_file() || mode & 0o077 == 0 {
        return Ok(None);
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o700))?;
    Ok(Some(mode))
}

/// Does nothing: this system has no Unix permissions.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn make_private(_: &Path) -> io::Result<Option<u32>> {
    Ok(None)
}

/// Whether symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    Follow,
    Refuse,
}

#[cfg(unix)]
fn open(path: &Path, mut options: OpenOptions, links: Links) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    // Opening a FIFO without a writer must not block.
    let flags = match links {
        Links::Follow => libc::O_NONBLOCK,
        Links::Refuse => libc::O_NONBLOCK | libc::O_NOFOLLOW,
    };
    let file = options.custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::ELOOP) if links == Links::Refuse => {
                io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link")
            }
            // The path is a FIFO without a reader, or a socket.
            Some(libc::ENXIO) => irregular(),
            _ => error,
        }
    })?;
    regular(file)
}

#[cfg(not(unix))]
fn open(path: &Path, options: OpenOptions, links: Links) -> io::Result<File> {
    if links == Links::Refuse && path.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link"));
    }
    regular(options.open(path)?)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// The longest chain of symbolic links that is followed, as on Linux.
const MAX_LINKS: usize = 40;

/// Follows symbolic links from `path`. The result need not exist.
///
/// # Errors
/// When a link cannot be read, or the chain of links is too long.
pub fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MAX_LINKS {
        if !path.is_symlink() {
            return Ok(path);
        }
        let link = std::fs::read_link(&path)?;
        // `join` returns an absolute link unchanged.
        path = path.parent().map_or_else(|| link.clone(), |folder| folder.join(&link));
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many symbolic links"))
}

/// Whether `path` still names the open `file`, which may have been removed or replaced.
///
/// # Errors
/// When the metadata of `file` cannot be read.
#[cfg(unix)]
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let ours = file.metadata()?;
    let found = path.symlink_metadata();
    Ok(found.is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())))
}

/// Whether `path` exists: this system cannot tell whether it is the same file.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    Ok(path.exists())
}

/// Whether files can be created in `folder`, which need not exist: creates something in it, or in
/// its nearest existing parent, and removes it again.
///
/// # Errors
/// If not.
pub fn try_folder(folder: &Path) -> io::Result<()> {
    let exists = |path: &&Path| path.symlink_metadata().is_ok();
    let existing = folder.ancestors().filter(|path| !path.as_os_str().is_empty()).find(exists);
    let existing = existing.unwrap_or(Path::new("."));
    if existing == folder {
        return tempfile::Builder::new().prefix(".linkvault").tempfile_in(folder).map(drop);
    }
    tempfile::Builder::new().prefix(".linkvault").tempdir_in(existing)?.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_and_irregular_files_are_refused_and_a_fifo_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("real"), "text").unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("none"), at("dangling")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for name in ["link", "dangling", "fifo", "socket", "folder"] {
            assert!(private_file(&at(name)).is_err(), "{name}");
            assert!(append_private(&at(name)).is_err(), "{name}");
            assert!(open_private(&at(name)).is_err(), "{name}");
            assert_eq!(open_named(&at(name)).is_ok(), name == "link", "{name}");
        }
        assert!(!at("none").exists());
        let error = private_file(&at("link")).unwrap_err().to_string();
        assert_eq!(error, "it is a symbolic link");
        assert_eq!(read_private(&at("real"), 2).unwrap(), b"te");
        assert_eq!(read_named(&at("link"), 4).unwrap(), b"text");
        let error = read_named(&at("link"), 3).unwrap_err().to_string();
        assert_eq!(error, "it is larger than 3 bytes");
        for name in ["fifo", "socket", "folder", "/dev/zero"] {
            let error = read_named(&at(name), 4).unwrap_err().to_string();
            assert_eq!(error, "it is not a regular file", "{name}");
        }
        for name in ["link", "dangling", "fifo", "socket", "folder"] {
            assert!(regular_or_absent(&at(name)).is_err(), "{name}");
        }
        for name in ["real", "none"] {
            regular_or_absent(&at(name)).unwrap();
        }
        for name in ["real", "new"] {
            io::Write::write_all(&mut append_private(&at(name)).unwrap(), b" more").unwrap();
        }
        assert_eq!(read_private(&at("real"), 99).unwrap(), b"text more");
        let mode = std::os::unix::fs::MetadataExt::mode(&at("new").metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn replace_is_atomic() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("old"), "a longer text").unwrap();
        for name in ["old", "new"] {
            replace(&at(name), b"text", Durability::Synced).unwrap();
            assert_eq!(std::fs::read(at(name)).unwrap(), b"text", "{name}");
        }
        std::fs::create_dir(at("folder")).unwrap();
        replace(&at("folder"), b"text", Durability::Unsynced).unwrap_err();
        assert_eq!(folder.path().read_dir().unwrap().count(), 3, "no temporary file is left");
        let error = replace(&at("none/file"), b"text", Durability::Unsynced).unwrap_err();
        assert!(!error.to_string().contains(".tmp"), "{error}");
        assert_eq!(folder_of(Path::new("file")), Path::new("."));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn make_private_does_not_change_the_target_of_a_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
        for name in ["vault", "other"] {
            std::fs::write(at(name), "text").unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(at("other"), at("link")).unwrap();
        assert_eq!(make_private(&at("link")).unwrap(), None);
        // A link replaces the file after it was opened.
        let file = name_file(&at("vault")).unwrap();
        std::fs::rename(at("vault"), at("moved")).unwrap();
        std::fs::rename(at("link"), at("vault")).unwrap();
        assert_eq!(restrict(&file).unwrap(), Some(0o644));
        assert_eq!((mode("moved"), mode("other")), (0o600, 0o644));
        for private in ["moved", "none"] {
            assert_eq!(make_private(&at(private)).unwrap(), None, "{private}");
        }
        // As without `/proc`.
        let others = at("other").metadata().unwrap();
        restrict_at(&at("none"), &others).unwrap_err();
    }

    #[cfg(unix)]
    #[test]
    fn target_follows_links_to_files_that_may_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("inner")).unwrap();
        std::os::unix::fs::symlink("second", at("first")).unwrap();
        std::os::unix::fs::symlink("inner/none", at("second")).unwrap();
        std::os::unix::fs::symlink("round", at("round")).unwrap();
        assert_eq!(target(&at("first")).unwrap(), at("inner/none"));
        assert_eq!(target(&at("plain")).unwrap(), at("plain"));
        assert!(target(&at("round")).is_err());
    }

    /// A child process has the same open file until it executes its program.
    #[cfg(unix)]
    #[test]
    fn a_closed_unfinished_file_is_not_locked_by_a_child_process() {
        let folder = tempfile::tempdir().unwrap();
        let new = unfinished_file(&folder.path().join("main.db")).unwrap();
        let inherited = new.as_file().try_clone().unwrap();
        let closed = close_unfinished(new);
        open_private(&closed).unwrap().try_lock().unwrap();
        drop(inherited);
    }
}
