//! Checks whether other users can read or change files that may contain secrets.

use std::path::Path;

/// A warning if the group or all users can read or change `file`.
#[must_use]
pub fn permission_warning(file: &Path) -> Option<String> {
    let mode = mode(file)?;
    let what = match (mode & 0o044 != 0, mode & 0o022 != 0) {
        (true, false) => "read",
        (true, true) => "read and changed",
        (false, true) => "changed",
        (false, false) => return None,
    };
    let (name, quoted) = (file.display(), quoted(file));
    Some(format!("{name} can be {what} by other users (mode {mode:04o}); run: chmod 600 {quoted}"))
}

/// A warning if other users can create or replace files in `folder`.
#[must_use]
pub fn folder_permission_warning(folder: &Path) -> Option<String> {
    let mode = folder_mode(folder)?;
    (mode & 0o022 != 0).then(|| {
        let (name, quoted) = (folder.display(), quoted(folder));
        format!(
            "{name} can be written to by other users (mode {mode:04o}); run: chmod go-w {quoted}"
        )
    })
}

#[cfg(unix)]
fn folder_mode(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(folder).ok().filter(std::fs::Metadata::is_dir)?;
    Some(metadata.permissions().mode() & 0o7777)
}

#[cfg(not(unix))]
fn folder_mode(_folder: &Path) -> Option<u32> {
    None
}

#[cfg(unix)]
fn mode(file: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    // The mode of a pipe or a device does not matter.
    let metadata = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    Some(metadata.permissions().mode() & 0o7777)
}

#[cfg(not(unix))]
fn mode(_file: &Path) -> Option<u32> {
    None
}

/// The path, quoted for a shell.
fn quoted(file: &Path) -> String {
    let text = file.display().to_string();
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+,@%:=".contains(letter);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_warning_names_the_mode_and_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it's a key");
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(permission_warning(&file), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let warning = permission_warning(&file).unwrap();
        assert!(warning.contains("(mode 0640); run: chmod 600 '"), "{warning}");
        assert!(warning.ends_with(r"it'\''s a key'"), "{warning}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o620)).unwrap();
        let warning = permission_warning(&file).unwrap();
        assert!(warning.contains("can be changed by other users (mode 0620)"), "{warning}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        let warning = permission_warning(&file).unwrap();
        assert!(warning.contains("can be read and changed by other users"), "{warning}");
        for (mode, warns) in [(0o755, false), (0o700, false), (0o775, true), (0o1777, true)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(folder_permission_warning(folder.path()).is_some(), warns, "{mode:o}");
        }
    }
}
