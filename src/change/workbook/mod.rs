//! Workbooks: `.xlsx` and `.ods` files. They are untrusted input.
//!
//! Both formats are zip archives of XML. Their parts are streamed, so that the memory depends on the
//! cells with a value and on the limits here, and on no number that a file states.

mod ods;
mod package;
mod sheet;
mod values;
mod xlsx;
mod xml;

use package::{Format, Package};
pub use sheet::{CellKind, Sheet, SheetRow};

/// The most bytes of a workbook when it is unpacked.
const MAX_UNPACKED: u64 = 256 << 20;

/// The most cells with a value in a workbook.
const MAX_CELLS: usize = 16_000_000;

/// The most rows of a sheet, as in CSV files.
const MAX_ROWS: usize = 1_000_000;

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
    /// It has more than [`MAX_UNPACKED`] bytes.
    #[error("it has more than {} MiB when it is unpacked", MAX_UNPACKED >> 20)]
    TooLarge,
    /// It has more than [`MAX_CELLS`] cells.
    #[error("it has more than {} million cells", MAX_CELLS / 1_000_000)]
    TooManyCells,
    /// A sheet has more than [`MAX_ROWS`] rows.
    #[error("its sheet `{0}` has more than {MAX_ROWS} rows")]
    TooManyRows(String),
    /// Another mistake.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl WorkbookError {
    fn damaged(what: impl std::fmt::Display) -> Self {
        Self::Damaged(what.to_string())
    }
}

/// Whether a file is a workbook, in a readable format or not: a zip archive or an OLE file.
#[must_use]
pub fn is_workbook(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(&package::OLE)
}

/// A workbook whose sheets can be read.
pub struct Workbook<'a> {
    package: Package<'a>,
    format: Format,
    titles: Vec<String>,
}

impl<'a> Workbook<'a> {
    /// Reads the titles of the sheets, hidden ones too.
    ///
    /// # Errors
    /// If the file is no workbook, has a password, is damaged or too large.
    pub fn open(bytes: &'a [u8]) -> Result<Self, WorkbookError> {
        let mut package = Package::open(bytes)?;
        let format = package.format()?;
        let titles = match format {
            Format::Xlsx => xlsx::titles(&mut package)?,
            Format::Ods => ods::titles(&mut package)?,
        };
        Ok(Self { package, format, titles })
    }

    /// The titles of all sheets, in order.
    #[must_use]
    pub fn titles(&self) -> &[String] {
        &self.titles
    }

    /// Reads the sheets with the numbers `wanted`, which index [`Workbook::titles`].
    ///
    /// # Errors
    /// If the file is damaged or too large.
    pub fn sheets(&mut self, wanted: &[usize]) -> Result<Vec<Sheet>, WorkbookError> {
        self.package.begin_pass();
        match self.format {
            Format::Xlsx => xlsx::sheets(&mut self.package, wanted),
            Format::Ods => ods::sheets(&mut self.package, wanted),
        }
    }
}

#[cfg(test)]
mod tests;
