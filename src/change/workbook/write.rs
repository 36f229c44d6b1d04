//! Writes records as an `.xlsx` file: a sheet for each kind of CSV file, with typed cells.
//!
//! A cell has the type of its value only if it reads back the same: numbers beyond the digits of a
//! 64-bit float are text. Text is never a formula, whatever it begins with.

use std::io::{Error, Write};

use crate::change::csv_files::CsvKind;
use crate::change::csv_files::write::{sent_cell, sent_columns};
use crate::change::workbook::values::INEXACT;
use crate::change::workbook::xlsx_write::{SheetLimit, XlsxSheet, XlsxWriter};
use crate::model::{FieldValue, Record, SentFields};

/// A workbook being written, sheet by sheet.
pub struct WorkbookWriter {
    book: XlsxWriter,
    sheets: Vec<CsvKind>,
}

/// A sheet being written, row by row.
pub struct SheetWriter {
    kind: CsvKind,
    sheet: XlsxSheet,
    /// The write-only fields, in the order of their columns.
    sent: Vec<&'static str>,
}

impl WorkbookWriter {
    /// Begins a workbook without sheets.
    #[must_use]
    pub fn begin() -> Self {
        Self { book: XlsxWriter::new(), sheets: Vec::new() }
    }

    /// Adds a finished sheet.
    ///
    /// # Errors
    /// If the sheet is too large.
    pub fn add(&mut self, sheet: SheetWriter) -> std::io::Result<()> {
        self.sheets.push(sheet.kind);
        self.book.add(&sheet.sheet)
    }

    /// The kinds of the sheets.
    #[must_use]
    pub fn sheets(&self) -> &[CsvKind] {
        &self.sheets
    }

    /// Writes the workbook, which has a sheet.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self, out: impl Write) -> std::io::Result<()> {
        self.book.finish(out)
    }
}

impl SheetWriter {
    /// Begins a sheet with its header.
    #[must_use]
    pub fn begin(kind: CsvKind) -> Self {
        let sent = match kind {
            CsvKind::Resource(resource) => sent_columns(resource),
            CsvKind::CampaignLinks => Vec::new(),
        };
        Self { kind, sheet: XlsxSheet::new(kind.name(), kind.columns()), sent }
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
            .map_err(|limit| too_much(limit, self.kind, &record.key))
    }

    /// Writes a campaign and a link of it.
    ///
    /// # Errors
    /// If there are more links than rows in a sheet.
    pub fn link(&mut self, campaign: i64, link: i64) -> std::io::Result<()> {
        self.row([campaign, link].map(FieldValue::Int))
            .map_err(|limit| too_much(limit, self.kind, &campaign))
    }

    fn row<'v>(
        &mut self,
        values: impl IntoIterator<Item = FieldValue<'v>>,
    ) -> Result<(), SheetLimit> {
        self.sheet.begin_row()?;
        for value in values {
            match value {
                FieldValue::Int(number) if number.unsigned_abs() < INEXACT => {
                    self.sheet.number(number);
                }
                FieldValue::Int(number) => self.sheet.text(&number.to_string())?,
                FieldValue::Bool(value) => self.sheet.boolean(value),
                value if value.cell().is_empty() => self.sheet.empty(),
                value => self.sheet.text(&value.cell())?,
            }
        }
        Ok(())
    }
}

fn too_much(limit: SheetLimit, kind: CsvKind, key: &dyn std::fmt::Display) -> Error {
    Error::other(match limit {
        SheetLimit::Text => format!(
            "a text of {kind} {key} is longer than the 32,767 characters of a cell; a CSV file has \
             no such limit"
        ),
        SheetLimit::Rows => {
            format!("there are more {kind} than the rows of a sheet; a CSV file has no such limit")
        }
    })
}
