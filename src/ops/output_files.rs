//! Checks files that an operation writes at its end, before it sends anything.

use std::path::{Path, PathBuf};

use super::error_sources::cannot_write;
use super::{NextStep, OpError, OpErrorKind};
use crate::files::folder_of;

/// Refuses a file that could not be written.
///
/// # Errors
/// If it is a folder, or its folder does not exist.
pub fn require_writable(file: &Path) -> Result<(), OpError> {
    let why = match (folder_of(file).is_dir(), file.is_dir()) {
        (false, _) => std::io::ErrorKind::NotADirectory,
        (_, true) => std::io::ErrorKind::IsADirectory,
        _ => return Ok(()),
    };
    Err(cannot_write(file, &why.into()).next(NextStep::NameOtherFile))
}

/// Refuses a file that is one of `inputs`, which it would replace.
///
/// # Errors
/// If it is.
pub fn require_no_input<'a>(
    file: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), OpError> {
    let Ok(path) = file.canonicalize() else { return Ok(()) };
    if inputs.into_iter().all(|input| input.canonicalize().ok().as_ref() != Some(&path)) {
        return Ok(());
    }
    let message = format!("cannot write to {}: it is an input file", file.display());
    Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::NameOtherFile))
}
