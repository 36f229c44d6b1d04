//! The cells of a sheet that have a value, in little memory.

use std::ops::RangeInclusive;

use crate::change::workbook::error::{MAX_CELL, MAX_CELLS, MAX_ROWS, MAX_UNPACKED, WorkbookError};

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// A value.
    Value,
    /// An error of a formula, such as `#REF!`.
    Error,
    /// A whole number with more digits than a spreadsheet stores.
    Inexact,
    /// A formula without a stored result: no spreadsheet has computed it. It has no text.
    NotComputed,
    /// A date, a time or a percentage, which the spreadsheet shows in another form.
    Formatted,
}

#[derive(Debug, Clone, Copy)]
struct StoredCell {
    /// From 0.
    column: u32,
    /// Where its text ends.
    end: u32,
    kind: CellKind,
}

#[derive(Debug, Clone, Copy)]
struct StoredRow {
    /// From 1.
    number: u32,
    /// Where its cells end.
    end: usize,
}

/// Cells that a sheet shows as one. Only the first of them has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedCells {
    /// From 1.
    pub rows: RangeInclusive<u32>,
    /// From 0.
    pub columns: RangeInclusive<u32>,
}

/// A sheet of a workbook.
#[derive(Debug)]
pub struct Sheet {
    /// The title of the sheet.
    pub title: String,
    /// Its merged cells.
    pub merged: Vec<MergedCells>,
    text: String,
    cells: Vec<StoredCell>,
    rows: Vec<StoredRow>,
}

/// A row of a sheet.
#[derive(Debug, Clone, Copy)]
pub struct SheetRow<'a> {
    /// The number that the spreadsheet shows, from 1.
    pub number: u32,
    sheet: &'a Sheet,
    begin: usize,
    end: usize,
}

impl Sheet {
    pub(super) const fn new(title: String) -> Self {
        Self { title, merged: Vec::new(), text: String::new(), cells: Vec::new(), rows: Vec::new() }
    }

    /// Adds merged cells, with the places of the first and of the last.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn merge(
        &mut self,
        (top, left): (u32, u32),
        (bottom, right): (u32, u32),
    ) -> Result<(), WorkbookError> {
        if (top, left) != (bottom, right) {
            self.merged.push(MergedCells { rows: top..=bottom, columns: left..=right });
        }
        WorkbookError::too_many(self.merged.len(), "merged cells")
    }

    /// Adds a cell after all others: `row` from 1, `column` from 0. Blank cells are left out.
    ///
    /// # Errors
    /// If the cell is not after the others, or there are too many.
    pub(super) fn push(
        &mut self,
        (row, column): (u32, u32),
        kind: CellKind,
        text: &str,
    ) -> Result<(), WorkbookError> {
        if text.is_empty() && kind != CellKind::NotComputed {
            return Ok(());
        }
        if text.len() > MAX_CELL {
            return Err(WorkbookError::damaged("a cell has more than 1 MiB of text"));
        }
        let begin = self.rows.iter().rev().nth(1).map_or(0, |row| row.end);
        match self.rows.last_mut() {
            Some(last) if last.number == row => {
                let before = self.cells.get(begin..).and_then(<[_]>::last);
                if before.is_some_and(|before| before.column >= column) {
                    return Err(WorkbookError::damaged("its cells are not in order"));
                }
                last.end += 1;
            }
            last => {
                if last.is_some_and(|last| last.number > row) {
                    return Err(WorkbookError::damaged("its rows are not in order"));
                }
                if self.rows.len() > MAX_ROWS {
                    return Err(WorkbookError::TooManyRows(self.title.clone()));
                }
                self.rows.push(StoredRow { number: row, end: self.cells.len() + 1 });
            }
        }
        if self.cells.len() >= MAX_CELLS {
            return Err(WorkbookError::TooManyCells);
        }
        self.text.push_str(text);
        if self.text.len() as u64 > MAX_UNPACKED {
            return Err(WorkbookError::TooLarge);
        }
        let end = u32::try_from(self.text.len()).map_err(|_| WorkbookError::TooLarge)?;
        self.cells.push(StoredCell { column, end, kind });
        Ok(())
    }

    /// Number of cells with a value.
    pub(super) const fn cell_count(&self) -> usize {
        self.cells.len()
    }

    /// The rows that are not blank.
    pub fn rows(&self) -> impl Iterator<Item = SheetRow<'_>> {
        (0..self.rows.len()).filter_map(|nth| self.row(nth))
    }

    /// The row with this index among those that are not blank.
    #[must_use]
    pub fn row(&self, nth: usize) -> Option<SheetRow<'_>> {
        let row = self.rows.get(nth)?;
        let before = nth.checked_sub(1).and_then(|nth| self.rows.get(nth));
        let begin = before.map_or(0, |row| row.end);
        Some(SheetRow { number: row.number, sheet: self, begin, end: row.end })
    }
}

impl<'a> SheetRow<'a> {
    /// Its cells with a value: the column from 0, the kind and the text.
    pub fn cells(self) -> impl Iterator<Item = (usize, CellKind, &'a str)> {
        (self.begin..self.end).filter_map(move |nth| {
            let cell = self.sheet.cells.get(nth)?;
            let before = nth.checked_sub(1).and_then(|nth| self.sheet.cells.get(nth));
            let begin = before.map_or(0, |cell| cell.end as usize);
            let text = self.sheet.text.get(begin..cell.end as usize)?;
            Some((cell.column as usize, cell.kind, text))
        })
    }

    /// The number of columns up to the last cell with a value.
    #[must_use]
    pub fn width(self) -> usize {
        let last = self.end.checked_sub(1).and_then(|nth| self.sheet.cells.get(nth));
        last.map_or(0, |cell| cell.column as usize + 1)
    }
}
