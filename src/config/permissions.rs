//! Whether a file that may hold or name secrets can be read by others.

use std::path::Path;

/// A warning when `file` can be read by its group or by everybody.
#[must_use]
pub fn open_to_others(file: &Path) -> Option<String> {
    let mode = mode(file)?;
    (mode & 0o044 != 0).then(|| {
        let (name, quoted) = (file.display(), quoted(file));
        format!("{name} can be read by others (mode {mode:04o}); run: chmod 600 {quoted}")
    })
}

#[cfg(unix)]
fn mode(file: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    // What is no regular file (a pipe of the shell, a device) has no owner's mode to speak of.
    let metadata = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    Some(metadata.permissions().mode() & 0o7777)
}

#[cfg(not(unix))]
fn mode(_file: &Path) -> Option<u32> {
    None
}

/// The path as a shell takes it.
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
        assert_eq!(open_to_others(&file), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let warning = open_to_others(&file).unwrap();
        assert!(warning.contains("(mode 0640); run: chmod 600 '"), "{warning}");
        assert!(warning.ends_with(r"it'\''s a key'"), "{warning}");
    }
}
