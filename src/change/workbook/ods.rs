//! The tables of an `.ods` file.

use std::io::BufRead;

use crate::change::workbook::error::{MAX_CELLS, WorkbookError, title};
use crate::change::workbook::package::Package;
use crate::change::workbook::sheet::{CellKind, Sheet};
use crate::change::workbook::values;
use crate::change::workbook::xml::{BytesStart, Event, XmlReader, attribute, push_text};

const CONTENT: &str = "content.xml";

/// The titles of the tables.
pub(super) fn titles(package: &mut Package<'_>) -> Result<Vec<String>, WorkbookError> {
    let mut titles = Vec::new();
    each_table(package, |title, xml| {
        titles.push(title);
        WorkbookError::too_many(titles.len(), "sheets")?;
        skip(xml, "table")
    })?;
    Ok(titles)
}

/// The cells of the tables with the numbers `wanted`.
pub(super) fn sheets(
    package: &mut Package<'_>,
    wanted: &[usize],
) -> Result<Vec<Sheet>, WorkbookError> {
    let mut sheets = Vec::new();
    let (mut nth, mut cells) = (0, 0);
    each_table(package, |title, xml| {
        nth += 1;
        if !wanted.contains(&(nth - 1)) {
            return skip(xml, "table");
        }
        let mut reader = TableReader { sheet: Sheet::new(title), row: 0 };
        reader.table(xml)?;
        cells += reader.sheet.cell_count();
        sheets.push(reader.sheet);
        if cells > MAX_CELLS { Err(WorkbookError::TooManyCells) } else { Ok(()) }
    })?;
    Ok(sheets)
}

/// Calls `read` with the title of each table of the document, which reads up to its end.
fn each_table(
    package: &mut Package<'_>,
    mut read: impl FnMut(String, &mut XmlReader<&mut dyn BufRead>) -> Result<(), WorkbookError>,
) -> Result<(), WorkbookError> {
    let Some(mut part) = package.part(CONTENT)? else { return Err(WorkbookError::NoWorkbook) };
    let mut xml = XmlReader::new(&mut part as &mut dyn BufRead);
    loop {
        let title = match xml.next()? {
            Event::Start(it) if is(&it, "table") => Some(title(attribute(&it, "name")?)),
            Event::Start(it) if is(&it, "dde-links") => None,
            Event::Eof => return Ok(()),
            _ => continue,
        };
        match title {
            // Copies of tables of other files.
            None => skip(&mut xml, "dde-links")?,
            Some(title) if title.starts_with("'file:") => skip(&mut xml, "table")?,
            Some(title) => read(title, &mut xml)?,
        }
    }
}

fn is(element: &BytesStart<'_>, name: &str) -> bool {
    element.local_name().as_ref() == name
}

/// Reads up to the end of the element called `name`, whose start was read.
fn skip<R: BufRead>(xml: &mut XmlReader<R>, name: &str) -> Result<(), WorkbookError> {
    let mut depth = 1_u64;
    while depth > 0 {
        match xml.next()? {
            Event::Start(it) if is(&it, name) => depth += 1,
            Event::End(it) if it.local_name().as_ref() == name => depth -= 1,
            Event::Eof => return Err(WorkbookError::damaged("it ends within a table")),
            _ => {}
        }
    }
    Ok(())
}

/// The value of an attribute that says how often an element is repeated.
fn repeated(element: &BytesStart<'_>, name: &str) -> Result<u32, WorkbookError> {
    let Some(text) = attribute(element, name)? else { return Ok(1) };
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
        WorkbookError::damaged(format_args!("`{}` is not a count", text.escape_debug()))
    })
}

/// Reads the cells of a table.
struct TableReader {
    sheet: Sheet,
    /// The number of rows before.
    row: u32,
}

/// A cell of a row, which stands for `count` cells from `column` on.
struct RowCell {
    column: u32,
    count: u32,
    kind: CellKind,
    text: String,
}

impl TableReader {
    fn table<R: BufRead>(&mut self, xml: &mut XmlReader<R>) -> Result<(), WorkbookError> {
        loop {
            let count = match xml.next()? {
                Event::Start(it) if is(&it, "table-row") => {
                    Some(repeated(&it, "number-rows-repeated")?)
                }
                Event::Start(it) if is(&it, "shapes") => None,
                Event::End(it) if it.local_name().as_ref() == "table" => return Ok(()),
                Event::Eof => return Err(WorkbookError::damaged("it ends within a table")),
                _ => continue,
            };
            match count {
                Some(count) => self.rows(xml, count)?,
                // Drawings may have tables of their own.
                None => skip(xml, "shapes")?,
            }
        }
    }

    /// Reads a row that stands for `count` rows. Blank rows and cells are only counted, so that a
    /// row that is repeated a million times takes no memory unless it has a value.
    fn rows<R: BufRead>(
        &mut self,
        xml: &mut XmlReader<R>,
        count: u32,
    ) -> Result<(), WorkbookError> {
        let mut cells = Vec::new();
        let mut column = 0_u32;
        loop {
            let (count, mut cell) = match xml.next()? {
                Event::Start(it) if is(&it, "table-cell") || is(&it, "covered-table-cell") => {
                    let rows = repeated(&it, "number-rows-spanned")?;
                    let columns = repeated(&it, "number-columns-spanned")?;
                    let first = (self.row.saturating_add(1), column);
                    let last = (self.row.saturating_add(rows), column.saturating_add(columns - 1));
                    self.sheet.merge(first, last)?;
                    (repeated(&it, "number-columns-repeated")?, OpenCell::begin(&it)?)
                }
                Event::End(it) if it.local_name().as_ref() == "table-row" => break,
                Event::Eof => return Err(WorkbookError::damaged("it ends within a row")),
                _ => continue,
            };
            cell.read(xml)?;
            let (kind, text) = cell.end();
            if !text.is_empty() || kind == CellKind::NotComputed {
                cells.push(RowCell { column, count, kind, text });
            }
            column = column.saturating_add(count);
        }
        let first = self.row.saturating_add(1);
        self.row = self.row.saturating_add(count);
        if cells.is_empty() {
            return Ok(());
        }
        for row in first..=self.row {
            for cell in &cells {
                for column in cell.column..cell.column.saturating_add(cell.count) {
                    self.sheet.push((row, column), cell.kind, &cell.text)?;
                }
            }
        }
        Ok(())
    }
}

/// Elements in a cell whose text is not that of the cell: notes, drawings and hints.
const NOT_TEXT: [&str; 6] = ["annotation", "custom-shape", "frame", "g", "ruby-text", "table"];

/// A cell while it is read.
struct OpenCell {
    kind: String,
    /// The value in an attribute.
    value: Option<String>,
    is_error: bool,
    has_formula: bool,
    /// The text that the cell shows.
    shown: String,
}

impl OpenCell {
    fn begin(element: &BytesStart<'_>) -> Result<Self, WorkbookError> {
        let mut kind = String::new();
        let (mut value, mut is_error, mut has_formula) = (None, false, false);
        for name in ["boolean-value", "date-value", "time-value", "string-value", "value"] {
            value = match value {
                None => attribute(element, name)?,
                value => value,
            };
        }
        for attribute in element.attributes().with_checks(false) {
            let attribute = attribute.map_err(WorkbookError::damaged)?;
            match attribute.key.as_ref() {
                "office:value-type" => kind = attribute.value.into_owned(),
                // LibreOffice states here that a text is the error of a formula.
                "calcext:value-type" => is_error = attribute.value == "error",
                "table:formula" => has_formula = true,
                _ => {}
            }
        }
        Ok(Self { kind, value, is_error, has_formula, shown: String::new() })
    }

    /// Reads up to the end of the cell: its paragraphs, without notes and drawings.
    fn read<R: BufRead>(&mut self, xml: &mut XmlReader<R>) -> Result<(), WorkbookError> {
        const LONGEST: u32 = 100_000;
        let (mut paragraphs, mut in_paragraph) = (0_u64, false);
        loop {
            let mut other = None;
            match xml.next()? {
                Event::Start(it) => match it.local_name().as_ref() {
                    "p" => {
                        if paragraphs > 0 {
                            self.shown.push('\n');
                        }
                        paragraphs += 1;
                        in_paragraph = true;
                    }
                    "s" if in_paragraph => {
                        let count = repeated(&it, "c")?;
                        if count > LONGEST {
                            return Err(WorkbookError::damaged("a cell has too many blanks"));
                        }
                        self.shown.extend(std::iter::repeat_n(' ', count as usize));
                    }
                    "tab" if in_paragraph => self.shown.push('\t'),
                    "line-break" if in_paragraph => self.shown.push('\n'),
                    name if NOT_TEXT.contains(&name) => other = Some(name.to_owned()),
                    _ => {}
                },
                Event::End(it) => match it.local_name().as_ref() {
                    "p" => in_paragraph = false,
                    "table-cell" | "covered-table-cell" => return Ok(()),
                    _ => {}
                },
                Event::Eof => return Err(WorkbookError::damaged("it ends within a cell")),
                event if in_paragraph => push_text(&event, &mut self.shown)?,
                _ => {}
            }
            if let Some(other) = other {
                skip(xml, &other)?;
            }
        }
    }

    fn end(self) -> (CellKind, String) {
        let mut text = String::new();
        if self.is_error {
            return (CellKind::Error, self.shown);
        }
        let Some(value) = self.value else {
            // The empty text that a formula returns has a type.
            let is_open = self.has_formula && self.kind.is_empty() && self.shown.is_empty();
            let kind = if is_open { CellKind::NotComputed } else { CellKind::Value };
            return (kind, self.shown);
        };
        match self.kind.as_str() {
            "float" | "currency" => match value.trim().parse() {
                Ok(number) => return (values::number(number, &mut text), text),
                Err(_) => text = value,
            },
            "percentage" => match value.trim().parse() {
                Ok(number) => return (values::percentage(number, &mut text), text),
                Err(_) => text = value,
            },
            "date" => return (values::iso_date(&value, &mut text), text),
            "time" => return (values::iso_duration(&value, &mut text), text),
            _ => text = value,
        }
        (CellKind::Value, text)
    }
}
