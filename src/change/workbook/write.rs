//! Writes records as an `.xlsx` file: a sheet for each kind of CSV file, with typed cells.
//!
//! A cell has the type of its value only if it reads back the same: numbers beyond the digits of a
//! 64-bit float are text. Text is never a formula, whatever it begins with.

use std::io::{Error, Write};

use rust_xlsxwriter::{DocProperties, ExcelDateTime, Format, Workbook, Worksheet, XlsxError};

use crate::change::csv_files::CsvKind;
use crate::change::csv_files::write::{sent_cell, sent_columns};
use crate::change::workbook::ORIGIN;
use crate::change::workbook::values::INEXACT;
use crate::model::{FieldValue, Record, SentFields};

/// A workbook being written, sheet by sheet.
pub struct WorkbookWriter {
    book: Workbook,
    sheets: Vec<CsvKind>,
}

/// A sheet being written, row by row.
pub struct SheetWriter {
    kind: CsvKind,
    sheet: Worksheet,
    /// The number of rows, with the header.
    rows: u32,
    columns: u16,
    /// The write-only fields, in the order of their columns.
    sent: Vec<&'static str>,
}

impl WorkbookWriter {
    /// Begins a workbook without sheets.
    ///
    /// # Errors
    /// Never: the date of its properties is valid.
    pub fn begin() -> std::io::Result<Self> {
        let mut book = Workbook::new();
        // A fixed time, so that the same records make the same bytes.
        let time = ExcelDateTime::from_ymd(2000, 1, 1).map_err(|error| io_error(&error))?;
        book.set_properties(&DocProperties::new().set_creation_datetime(&time));
        Ok(Self { book, sheets: Vec::new() })
    }

    /// Adds a finished sheet.
    ///
    /// # Errors
    /// If the sheet cannot be finished.
    pub fn add(&mut self, sheet: SheetWriter) -> std::io::Result<()> {
        self.sheets.push(sheet.kind);
        self.book.push_worksheet(sheet.finish().map_err(|error| io_error(&error))?);
        Ok(())
    }

    /// The kinds of the sheets.
    #[must_use]
    pub fn sheets(&self) -> &[CsvKind] {
        &self.sheets
    }

    /// Writes the workbook, with a hidden sheet that holds `origin`, the description of the export.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self, origin: &str, out: impl Write + Send) -> std::io::Result<()> {
        let hidden = || -> Result<_, XlsxError> {
            let mut sheet = Worksheet::new();
            sheet.set_name(ORIGIN)?.set_very_hidden(true);
            sheet.write_string(
                0,
                0,
                "linkvault compares edits with this export; keep this sheet",
            )?;
            sheet.write_string(1, 0, origin)?;
            Ok(sheet)
        };
        self.book.push_worksheet(hidden().map_err(|error| io_error(&error))?);
        self.book.save_to_writer(out).map_err(|error| io_error(&error))
    }
}

impl SheetWriter {
    /// Begins a sheet with its header.
    ///
    /// # Errors
    /// Never: the names of columns are valid cells.
    pub fn begin(kind: CsvKind) -> std::io::Result<Self> {
        let begun = || -> Result<_, XlsxError> {
            let mut sheet = Worksheet::new();
            sheet.set_name(kind.name())?.set_freeze_panes(1, 0)?;
            let bold = Format::new().set_bold();
            let mut columns = 0;
            for name in kind.columns() {
                sheet.write_string_with_format(0, columns, name, &bold)?;
                columns += 1;
            }
            Ok((sheet, columns))
        };
        let (sheet, columns) = begun().map_err(|error| io_error(&error))?;
        let sent = match kind {
            CsvKind::Resource(resource) => sent_columns(resource),
            CsvKind::CampaignLinks => Vec::new(),
        };
        Ok(Self { kind, sheet, rows: 1, columns, sent })
    }

    /// Writes a record of a resource with its sent values.
    ///
    /// # Errors
    /// If a text is too long for a cell, or there are more records than rows in a sheet.
    pub fn record(
        &mut self,
        record: &Record<'_>,
        sent: Option<&SentFields>,
    ) -> std::io::Result<()> {
        let sent: Vec<_> =
            self.sent.iter().map(|name| sent_cell(record, sent, name).into_owned()).collect();
        let sent = sent.into_iter().map(|text| FieldValue::Text(text.into()));
        self.row(record.values.iter().cloned().chain(sent))
            .map_err(|error| too_much(&error, self.kind, &record.key))
    }

    /// Writes a campaign and a link of it.
    ///
    /// # Errors
    /// If there are more links than rows in a sheet.
    pub fn link(&mut self, campaign: i64, link: i64) -> std::io::Result<()> {
        self.row([campaign, link].map(FieldValue::Int))
            .map_err(|error| too_much(&error, self.kind, &campaign))
    }

    fn row<'v>(
        &mut self,
        values: impl IntoIterator<Item = FieldValue<'v>>,
    ) -> Result<(), XlsxError> {
        for (column, value) in (0..).zip(values) {
            match value {
                FieldValue::Int(number) => match exact(number) {
                    Some(number) => self.sheet.write_number(self.rows, column, number)?,
                    None => self.sheet.write_string(self.rows, column, number.to_string())?,
                },
                FieldValue::Bool(value) => self.sheet.write_boolean(self.rows, column, value)?,
                value if value.cell().is_empty() => continue,
                value => self.sheet.write_string(self.rows, column, value.cell())?,
            };
        }
        self.rows += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Worksheet, XlsxError> {
        let last = self.columns.saturating_sub(1);
        self.sheet.autofilter(0, 0, self.rows.saturating_sub(1), last)?;
        // As wide as the first rows need, in pixels at most half a screen.
        self.sheet.set_autofit_max_row(200).set_autofit_max_width(400).autofit();
        Ok(self.sheet)
    }
}

/// The number as the 64-bit float of a cell, if that is exact.
fn exact(number: i64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
    (number.unsigned_abs() < INEXACT).then_some(number as f64)
}

fn io_error(error: &XlsxError) -> Error {
    Error::other(error.to_string())
}

fn too_much(error: &XlsxError, kind: CsvKind, key: &dyn std::fmt::Display) -> Error {
    match error {
        XlsxError::MaxStringLengthExceeded => Error::other(format!(
            "a text of {kind} {key} is longer than the 32,767 characters of a cell; a CSV file has \
             no such limit"
        )),
        XlsxError::RowColumnLimitError => Error::other(format!(
            "there are more {kind} than the rows of a sheet; a CSV file has no such limit"
        )),
        error => io_error(error),
    }
}
