//! The CSV files that LibreOffice writes for each sheet of a workbook: `spring-Channels.csv`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::input_tables::MOST_NAMED;
use super::{OpError, OpErrorKind};
use crate::change::csv_files::CsvKind;
use crate::format;

/// The files of a folder that are sheets of one workbook.
pub(super) struct SheetFiles {
    /// The files with their content.
    pub files: Vec<(PathBuf, CsvKind)>,
    /// Which files are read, and which ones are ignored.
    pub notes: Vec<String>,
}

/// The sheets of one workbook among `names` of `folder`. `None` if there are none, or those of several
/// workbooks, which cannot be one input.
pub(super) fn sheet_files(folder: &Path, names: &[OsString]) -> Option<SheetFiles> {
    let (mut files, mut read, mut ignored, mut books) = (vec![], vec![], vec![], vec![]);
    for name in names {
        let path = folder.join(name);
        let name = name.to_string_lossy();
        let is_copy = name.to_lowercase().ends_with(".rejected.csv") || name.starts_with('.');
        match CsvKind::of_sheet_file(&name).filter(|_| !is_copy && path.is_file()) {
            Some((book, kind)) => {
                files.push((path, kind));
                read.push(format!("{name} as {kind}"));
                books.push(book);
            }
            None => ignored.push(name.into_owned()),
        }
    }
    books.dedup();
    if books.len() != 1 {
        return None;
    }
    let note = |verb: &str, names: &[String]| {
        (!names.is_empty())
            .then(|| format!("{}: {verb} {}", folder.display(), format::list(names, MOST_NAMED)))
    };
    let notes = [note("read", &read), note("ignored", &ignored)].into_iter().flatten().collect();
    Some(SheetFiles { files, notes })
}

/// The names of the files and folders in a folder, sorted.
pub(super) fn names_in(folder: &Path) -> Result<Vec<OsString>, OpError> {
    let entries = std::fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
    });
    let mut names = entries.map_err(|error| {
        let message = format!("cannot read {}: {error}", folder.display());
        OpError::new(OpErrorKind::Failed, message)
    })?;
    names.sort();
    Ok(names)
}
