//! Where the rows of an input come from: the text of a CSV file, or a sheet of a workbook.

use std::borrow::Cow;

use crate::change::csv_files::cells::{Cell, CellFault, MAX_COLUMNS, Row, TextRows, line_ends};
use crate::change::csv_files::encoding::{DecodedText, EncodingProblem, TextEncoding, decode};
use crate::change::workbook::{CellKind, MergedCells, Sheet, SheetRow};

/// The rows of an input.
#[derive(Debug)]
pub enum RowSource<'a> {
    /// The text of a CSV file.
    Text(DecodedText<'a>),
    /// A sheet of a workbook.
    Sheet(&'a Sheet),
}

impl<'a> RowSource<'a> {
    /// The rows of a CSV file in the encoding `named`, or in the one that its bytes show.
    ///
    /// # Errors
    /// If the file is not valid in its encoding.
    pub fn of_csv(bytes: &'a [u8], named: Option<TextEncoding>) -> Result<Self, EncodingProblem> {
        decode(bytes, named).map(Self::Text)
    }

    /// The name of the encoding, if it is not UTF-8.
    #[must_use]
    pub fn found_encoding(&self) -> Option<&'static str> {
        match self {
            Self::Text(decoded) => (!decoded.is_utf8()).then(|| decoded.encoding.name()),
            Self::Sheet(_) => None,
        }
    }

    /// The first line of a file, or row of a sheet, with a NUL character.
    pub(crate) fn line_of_nul(&self) -> Option<u64> {
        match self {
            Self::Text(decoded) => {
                let at = memchr::memchr(0, decoded.text.as_bytes())?;
                Some(1 + line_ends(&decoded.text[..at]))
            }
            Self::Sheet(sheet) => {
                let has_nul =
                    |row: &SheetRow<'_>| row.cells().any(|(.., text)| text.contains('\0'));
                Some(u64::from(sheet.rows().find(has_nul)?.number))
            }
        }
    }

    /// Whether a copy of the rows begins with a byte order mark, so that a spreadsheet reads it as
    /// UTF-8.
    pub(crate) fn needs_mark(&self) -> bool {
        match self {
            Self::Text(decoded) => decoded.needs_mark(),
            Self::Sheet(_) => true,
        }
    }

    /// Whether the first line of a file ends with CR and LF.
    pub(crate) fn has_crlf(&self) -> bool {
        match self {
            Self::Text(decoded) => {
                let text = decoded.text.as_bytes();
                memchr::memchr(b'\n', text).is_some_and(|at| text[..at].ends_with(b"\r"))
            }
            Self::Sheet(_) => false,
        }
    }

    /// The merged cells of a sheet.
    pub(crate) fn merged(&self) -> &[MergedCells] {
        match self {
            Self::Text(_) => &[],
            Self::Sheet(sheet) => &sheet.merged,
        }
    }

    /// Reads the rows.
    pub(crate) fn rows(&self) -> Rows<'_> {
        match self {
            Self::Text(decoded) => Rows::Text(TextRows::new(&decoded.text)),
            Self::Sheet(sheet) => Rows::Sheet(SheetRows::new(sheet)),
        }
    }
}

/// The rows of an input that are not blank.
pub(crate) enum Rows<'a> {
    Text(TextRows<'a>),
    Sheet(SheetRows<'a>),
}

impl Rows<'_> {
    /// The separator of the cells in a copy of the input.
    pub const fn separator(&self) -> u8 {
        match self {
            Self::Text(rows) => rows.separator,
            Self::Sheet(_) => b',',
        }
    }

    /// Sets the most cells of a row that are stored.
    pub const fn limit(&mut self, cells: usize) {
        match self {
            Self::Text(rows) => rows.max_cells = cells,
            Self::Sheet(rows) => rows.max_cells = cells,
        }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        match self {
            Self::Text(rows) => rows.next(),
            Self::Sheet(rows) => rows.next(),
        }
    }
}

/// The rows of a sheet that are not blank. Each has at least the cells of the first one, the header:
/// a sheet stores no blank cells.
pub(crate) struct SheetRows<'a> {
    sheet: &'a Sheet,
    nth: usize,
    width: usize,
    max_cells: usize,
}

impl<'a> SheetRows<'a> {
    fn new(sheet: &'a Sheet) -> Self {
        let width = sheet.row(0).map_or(0, SheetRow::width);
        Self { sheet, nth: 0, width, max_cells: MAX_COLUMNS }
    }
}

impl<'a> Iterator for SheetRows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let row = self.sheet.row(self.nth)?;
        self.nth += 1;
        let (line, count) = (u64::from(row.number), row.width().max(self.width));
        let blank = Cell::plain(Cow::Borrowed(""), line, None);
        let mut cells = vec![blank; count.min(self.max_cells)];
        for (column, kind, text) in row.cells() {
            if let Some(cell) = cells.get_mut(column) {
                cell.raw = Cow::Borrowed(text);
                cell.fault = match kind {
                    CellKind::Value | CellKind::Formatted => None,
                    CellKind::Error => Some(CellFault::Error),
                    CellKind::Inexact => Some(CellFault::Inexact),
                    CellKind::NotComputed => Some(CellFault::NotComputed),
                };
                cell.formatted = kind == CellKind::Formatted;
            }
        }
        Some(Row { line, number: line, cells, count })
    }
}
