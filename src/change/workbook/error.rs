//! Limits of workbooks, and why one cannot be read.

use crate::escaped::Escaped;
use crate::format::truncate;

/// The most characters of a sheet's title; 31 in an `.xlsx` file of a spreadsheet.
const LONGEST_TITLE: usize = 100;

/// The title of a sheet, with a bounded length.
pub(super) fn title(text: Option<String>) -> String {
    truncate(&text.unwrap_or_default(), LONGEST_TITLE).into_owned()
}

/// The most bytes of a workbook when it is unpacked.
pub(super) const MAX_UNPACKED: u64 = 256 << 20;

/// The most cells with a value in a workbook.
pub(super) const MAX_CELLS: usize = 16_000_000;

/// The most rows of a sheet, as in CSV files.
pub(super) const MAX_ROWS: usize = 1_000_000;

/// The most bytes of text in a cell; a spreadsheet has 32,767 characters.
pub(super) const MAX_CELL: usize = 1 << 20;

/// The most sheets, relations between parts and formats of numbers, each.
pub(super) const MAX_PARTS: usize = 10_000;

/// The deepest nesting of XML elements.
pub(super) const MAX_DEPTH: usize = 1_000;

/// Why a workbook cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkbookError {
    /// It is encrypted.
    #[error("it has a password")]
    Password,
    /// An `.xls` file.
    #[error("it is a workbook of the old format .xls")]
    OldFormat,
    /// An `.xlsb` file.
    #[error("it is a workbook of the binary format .xlsb")]
    BinaryFormat,
    /// A zip archive with something else.
    #[error("it is neither a CSV file nor a workbook (.xlsx, .ods)")]
    NoWorkbook,
    /// It has more than 256 MiB when it is unpacked.
    #[error("it has more than {} MiB when it is unpacked", MAX_UNPACKED >> 20)]
    TooLarge,
    /// It has more than 16 million cells.
    #[error("it has more than {} million cells", MAX_CELLS / 1_000_000)]
    TooManyCells,
    /// A sheet has more than a million rows.
    #[error("its sheet `{0}` has more than {MAX_ROWS} rows")]
    TooManyRows(String),
    /// Another mistake.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl WorkbookError {
    /// An error if there are more than [`MAX_PARTS`] of something.
    pub(super) fn too_many(count: usize, what: &str) -> Result<(), Self> {
        match count > MAX_PARTS {
            true => Err(Self::damaged(format_args!("it has more than {MAX_PARTS} {what}"))),
            false => Ok(()),
        }
    }

    pub(super) fn damaged(what: impl std::fmt::Display) -> Self {
        const LONGEST: usize = 200;
        let what = what.to_string();
        Self::Damaged(Escaped(truncate(&what, LONGEST)).to_string())
    }
}
