//! Workbooks: `.xlsx` and `.ods` files. They are untrusted input.
//!
//! Both formats are zip archives of XML. Their parts are streamed, so that the memory depends on the
//! cells with a value and on the limits here, and on no number that a file states.

mod error;
mod ods;
mod package;
mod sheet;
mod values;
pub mod write;
mod xlsx;
mod xml;

use std::collections::HashSet;

use package::{Format, Package};

pub use error::WorkbookError;
pub use sheet::{CellKind, MergedCells, Sheet, SheetRow};

/// Whether a file is a workbook, in a readable format or not: a zip archive or an OLE file.
#[must_use]
pub fn is_workbook(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(&package::OLE)
}

/// The title of the hidden sheet that describes the export that a workbook was written by. A sheet
/// stays when the workbook is saved in another format; properties of a document may not.
const ORIGIN: &str = "linkvault";

/// A workbook whose sheets can be read.
pub struct Workbook<'a> {
    package: Package<'a>,
    format: Format,
    titles: Vec<String>,
    /// The place of each title among all sheets.
    places: Vec<usize>,
    /// The place of the sheet [`ORIGIN`].
    origin: Option<usize>,
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
        let mut known = HashSet::new();
        if let Some(twice) = titles.iter().find(|title| !known.insert(title.as_str())) {
            return Err(WorkbookError::damaged(format_args!("two sheets are named `{twice}`")));
        }
        let origin = titles.iter().position(|title| title == ORIGIN);
        let places = (0..titles.len()).filter(|place| Some(*place) != origin).collect();
        let titles = titles.into_iter().filter(|title| title != ORIGIN).collect();
        Ok(Self { package, format, titles, places, origin })
    }

    /// The description of the export that wrote the workbook, as [`write::WorkbookWriter::finish`]
    /// got it.
    ///
    /// # Errors
    /// If the file is damaged or too large.
    pub fn origin(&mut self) -> Result<Option<String>, WorkbookError> {
        let Some(place) = self.origin else { return Ok(None) };
        let sheets = self.sheets_at(&[place])?;
        let mut cells = sheets.iter().flat_map(Sheet::rows).flat_map(SheetRow::cells);
        Ok(cells.find(|(_, _, text)| text.starts_with('{')).map(|(_, _, text)| text.to_owned()))
    }

    /// The titles of all sheets with data, in order.
    #[must_use]
    pub fn titles(&self) -> &[String] {
        &self.titles
    }

    /// Reads the sheets with the numbers `wanted`, which index [`Workbook::titles`].
    ///
    /// # Errors
    /// If the file is damaged or too large.
    pub fn sheets(&mut self, wanted: &[usize]) -> Result<Vec<Sheet>, WorkbookError> {
        let places: Vec<_> =
            wanted.iter().filter_map(|nth| self.places.get(*nth)).copied().collect();
        self.sheets_at(&places)
    }

    fn sheets_at(&mut self, wanted: &[usize]) -> Result<Vec<Sheet>, WorkbookError> {
        self.package.begin_pass();
        match self.format {
            Format::Xlsx => xlsx::sheets(&mut self.package, wanted),
            Format::Ods => ods::sheets(&mut self.package, wanted),
        }
    }
}

#[cfg(test)]
mod tests;
