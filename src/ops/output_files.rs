//! The files that a user names for output. One function decides whether a file may be written, and all
//! of them are written here: nothing replaces a file that is not an earlier output of the same kind.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::error_sources::cannot_write;
use super::{NextStep, OpError, OpErrorKind};
use crate::files::{Durability, folder_of, open_named, replace};

/// What is written to a file that the user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// A saved plan: `-o`.
    Plan,
    /// The report on a migration: `--report`.
    Report,
    /// The outcome of each row: `--results`.
    Results,
    /// Rows with mistakes: `--annotate`.
    Annotated,
    /// Rejected rows: `--rejected`, and the file beside the input.
    Rejected,
    /// The log: `--log-file`.
    Log,
    /// A manual page: `man --to`.
    ManPage,
}

/// The columns of `--results`.
pub(super) const RESULT_COLUMNS: [&str; 9] =
    ["file", "line", "resource", "action", "record", "outcome", "id", "address", "message"];

/// How much of a file is read to recognise it, in bytes.
const RECOGNISED_BY: u64 = 1 << 16;

impl OutputKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Plan => "a saved plan",
            Self::Report => "a report of a migration",
            Self::Results => "a file of results",
            Self::Annotated => "a file of annotated rows",
            Self::Rejected => "a file of rejected rows",
            Self::Log => "a log",
            Self::ManPage => "a manual page",
        }
    }

    /// Whether a file that begins with `bytes` is an earlier output of this kind. An empty file is.
    fn is_start(self, bytes: &[u8]) -> bool {
        // In UTF-16, each ASCII character is beside a zero byte.
        let kept: Vec<_> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
        let text = String::from_utf8_lossy(&kept);
        let text = text.trim_start_matches(['\u{feff}', '\u{fffd}']);
        let first = text.lines().next().unwrap_or_default();
        let ends_with = |columns: &[&str]| {
            let cells: Vec<_> = first.split([',', ';', '\t', '|']).collect();
            let cells = cells.iter().map(|it| it.trim().trim_matches('"')).collect::<Vec<_>>();
            cells.ends_with(columns)
        };
        let has_all = |keys: &[&str]| keys.iter().all(|it| text.contains(&format!("\"{it}\":")));
        bytes.is_empty()
            || match self {
                Self::Plan => first == "{" && has_all(&["format", "account", "service", "made"]),
                Self::Report => first.starts_with("# Migration from "),
                Self::Results => first == RESULT_COLUMNS.join(","),
                Self::Annotated => ends_with(&["row", "problem"]),
                Self::Rejected => ends_with(&["problem"]) && !ends_with(&["row", "problem"]),
                Self::Log => first.starts_with("{\"timestamp\":") || starts_with_time(first),
                Self::ManPage => text.starts_with(".ie \\n(.g .ds Aq"),
            }
    }
}

/// Whether a line begins like `2026-11-23T18:39:54`.
fn starts_with_time(line: &str) -> bool {
    let form = b"dddd-dd-ddTdd:dd:dd";
    line.len() > form.len()
        && line.bytes().zip(form).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            other => byte == *other,
        })
}

/// Refuses a file that cannot be written, or that is not an earlier output of the same kind unless
/// `force` is set. Symbolic links are followed; another name of the same file is the same file.
///
/// # Errors
/// If it is refused.
pub fn require_output(file: &Path, kind: OutputKind, force: bool) -> Result<(), OpError> {
    let refuse = |why: std::io::Error| cannot_write(file, &why).next(NextStep::NameOtherFile);
    if !folder_of(file).is_dir() {
        return Err(refuse(std::io::ErrorKind::NotADirectory.into()));
    }
    if file.is_dir() {
        return Err(refuse(std::io::ErrorKind::IsADirectory.into()));
    }
    let mut start = Vec::new();
    let read = open_named(file).and_then(|it| it.take(RECOGNISED_BY).read_to_end(&mut start));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refuse(error)),
        Ok(_) if force || kind.is_start(&start) => return Ok(()),
        Ok(_) => {}
    }
    let (file, name) = (file.display(), kind.name());
    let message = format!("cannot write to {file}: it exists and is not {name}");
    Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::ReplaceFile))
}

/// [`require_output`] for each file that is named.
///
/// # Errors
/// If one is refused.
pub fn require_outputs<const N: usize>(
    files: [(Option<&PathBuf>, OutputKind); N],
    force: bool,
) -> Result<(), OpError> {
    let mut named = files.into_iter().filter_map(|(file, kind)| Some((file?, kind)));
    named.try_for_each(|(file, kind)| require_output(file, kind, force))
}

/// Replaces the file atomically by one with these bytes, after [`require_output`].
///
/// # Errors
/// If the file is refused or cannot be written; it is then unchanged.
pub fn write_output(
    file: &Path,
    kind: OutputKind,
    force: bool,
    bytes: &[u8],
) -> Result<(), OpError> {
    require_output(file, kind, force)?;
    replace(file, bytes, Durability::Unsynced).map_err(|error| cannot_write(file, &error))
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

#[cfg(test)]
mod tests {
    use super::*;
    use OutputKind as K;

    const KINDS: [OutputKind; 7] =
        [K::Plan, K::Report, K::Results, K::Annotated, K::Rejected, K::Log, K::ManPage];

    #[test]
    fn a_file_is_replaced_only_by_an_output_of_its_own_kind() {
        let plan =
            "{\n  \"format\": 1,\n  \"account\": \"a\",\n  \"service\": \"s\",\n  \"made\": 1";
        let results = format!("{}\n", RESULT_COLUMNS.join(","));
        let utf16: Vec<u8> =
            "\u{feff}name;problem\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let table: [(&[u8], Option<OutputKind>); 18] = [
            (plan.as_bytes(), Some(K::Plan)),
            (b"{\n  \"format\": 1,\n  \"account\": \"main\"", None),
            (b"# Migration from old to new\n", Some(K::Report)),
            (b"# A configuration\n[accounts.main]\n", None),
            (results.as_bytes(), Some(K::Results)),
            (b"file,line\n", None),
            (b"id,name,row,problem\n", Some(K::Annotated)),
            (b"\xef\xbb\xbfid;name;problem\r\n", Some(K::Rejected)),
            (b"id;\"problem\"\n", Some(K::Rejected)),
            (&utf16, Some(K::Rejected)),
            (b"problem,name\n", None),
            (b"2026-11-23T18:39:54.123Z  INFO run 1\n", Some(K::Log)),
            (b"{\"timestamp\":\"2026-11-23T18:39:54Z\"}\n", Some(K::Log)),
            (b"2026-11-23\n", None),
            (b".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n", Some(K::ManPage)),
            (b"SQLite format 3\0", None),
            (b"[accounts.main]\nurl = \"https://example.com\"\n", None),
            (b"sk_live_0123456789\n", None),
        ];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("output");
        for (content, owner) in table {
            std::fs::write(&file, content).unwrap();
            for kind in KINDS {
                let case = format!("{kind:?} over {:?}", String::from_utf8_lossy(content));
                let wrote = write_output(&file, kind, false, b"new").is_ok();
                assert_eq!(wrote, owner == Some(kind), "{case}");
                let expected = if wrote { b"new".as_slice() } else { content };
                assert_eq!(std::fs::read(&file).unwrap(), expected, "{case}");
                std::fs::write(&file, content).unwrap();
                assert!(require_output(&file, kind, true).is_ok(), "{case}");
            }
        }
        std::fs::write(&file, "").unwrap();
        for kind in KINDS {
            assert!(require_output(&file, kind, false).is_ok(), "{kind:?}");
            assert!(require_output(&folder.path().join("new"), kind, false).is_ok(), "{kind:?}");
            assert!(require_output(folder.path(), kind, true).is_err(), "{kind:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_judged_by_the_file_that_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("main.db"), b"SQLite format 3\0").unwrap();
        std::os::unix::fs::symlink(at("main.db"), at("symlink")).unwrap();
        std::fs::hard_link(at("main.db"), at("hardlink")).unwrap();
        for kind in KINDS {
            for name in ["main.db", "symlink", "hardlink"] {
                let refusal = require_output(&at(name), kind, false).unwrap_err();
                assert!(refusal.message.contains("it exists and is not "), "{}", refusal.message);
            }
            assert!(require_output(Path::new("/dev/null"), kind, true).is_err());
        }
    }
}
