//! The parts of an `.xlsx` file: workbook, shared strings, formats and sheets.

use std::collections::HashMap;
use std::io::BufRead;

use crate::change::workbook::error::{MAX_CELLS, WorkbookError, title};
use crate::change::workbook::package::Package;
use crate::change::workbook::sheet::{CellKind, Sheet};
use crate::change::workbook::values;
use crate::change::workbook::xml::{BytesStart, Event, XmlReader, attribute, push_text};

/// The titles of the sheets.
pub(super) fn titles(package: &mut Package<'_>) -> Result<Vec<String>, WorkbookError> {
    Ok(Book::read(package)?.sheets.into_iter().map(|(title, _)| title).collect())
}

/// The cells of the sheets with the numbers `wanted`.
pub(super) fn sheets(
    package: &mut Package<'_>,
    wanted: &[usize],
) -> Result<Vec<Sheet>, WorkbookError> {
    let book = Book::read(package)?;
    let strings = match &book.strings {
        Some(part) => SharedStrings::read(package, part)?,
        None => SharedStrings::default(),
    };
    let formats = match &book.styles {
        Some(part) => formats(package, part)?,
        None => Vec::new(),
    };
    let mut sheets = Vec::new();
    let mut cells = 0;
    for nth in wanted {
        let Some((title, part)) = book.sheets.get(*nth) else { continue };
        let Some(mut xml) = package.xml(part)? else {
            return Err(WorkbookError::damaged(format_args!("it has no part {part}")));
        };
        let mut reader = SheetReader {
            sheet: Sheet::new(title.clone()),
            strings: &strings,
            formats: &formats,
            is_1904: book.is_1904,
        };
        reader.read(&mut xml)?;
        cells += reader.sheet.cell_count();
        if cells > MAX_CELLS {
            return Err(WorkbookError::TooManyCells);
        }
        sheets.push(reader.sheet);
    }
    Ok(sheets)
}

/// The relations of a part: targets by their ids, and by the last words of their types.
#[derive(Default)]
struct Relations {
    by_id: HashMap<String, (String, String)>,
}

impl Relations {
    /// Reads the relations in `rels`; their targets are relative to `folder`.
    fn read(package: &mut Package<'_>, rels: &str, folder: &str) -> Result<Self, WorkbookError> {
        let mut relations = Self::default();
        let Some(mut xml) = package.xml(rels)? else { return Ok(relations) };
        loop {
            match xml.next()? {
                Event::Start(it) if it.local_name().as_ref() == "Relationship" => {
                    let id = attribute(&it, "Id")?.unwrap_or_default();
                    let kind = attribute(&it, "Type")?.unwrap_or_default();
                    let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                    let target = attribute(&it, "Target")?.unwrap_or_default();
                    relations.by_id.insert(id, (kind, resolve(folder, &target)));
                    WorkbookError::too_many(relations.by_id.len(), "relations")?;
                }
                Event::Eof => return Ok(relations),
                _ => {}
            }
        }
    }

    fn of_kind(&self, kind: &str) -> Option<String> {
        self.by_id.values().find(|(it, _)| it == kind).map(|(_, target)| target.clone())
    }
}

/// A target of a relation as the name of a part.
fn resolve(folder: &str, target: &str) -> String {
    let path = match target.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None => format!("{folder}/{target}"),
    };
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Which parts a workbook has.
struct Book {
    /// The titles of the sheets and the names of their parts.
    sheets: Vec<(String, String)>,
    strings: Option<String>,
    styles: Option<String>,
    /// Whether dates count from 1904.
    is_1904: bool,
}

impl Book {
    fn read(package: &mut Package<'_>) -> Result<Self, WorkbookError> {
        let part = Relations::read(package, "_rels/.rels", "")?.of_kind("officeDocument");
        let part = part.unwrap_or_else(|| "xl/workbook.xml".to_owned());
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", &part));
        let relations = Relations::read(package, &format!("{folder}/_rels/{file}.rels"), folder)?;
        let mut book = Self {
            sheets: Vec::new(),
            strings: relations.of_kind("sharedStrings"),
            styles: relations.of_kind("styles"),
            is_1904: false,
        };
        let Some(mut xml) = package.xml(&part)? else { return Err(WorkbookError::NoWorkbook) };
        loop {
            match xml.next()? {
                Event::Start(it) if it.local_name().as_ref() == "workbookPr" => {
                    let value = attribute(&it, "date1904")?;
                    book.is_1904 = value.is_some_and(|it| it == "1" || it == "true");
                }
                Event::Start(it) if it.local_name().as_ref() == "sheet" => {
                    let title = title(attribute(&it, "name")?);
                    let id = attribute(&it, "id")?.unwrap_or_default();
                    // A sheet of another kind has a chart and no cells.
                    if let Some((_, target)) =
                        relations.by_id.get(&id).filter(|(kind, _)| kind == "worksheet")
                    {
                        book.sheets.push((title, target.clone()));
                        WorkbookError::too_many(book.sheets.len(), "sheets")?;
                    }
                }
                Event::Eof => return Ok(book),
                _ => {}
            }
        }
    }
}

/// The texts that cells refer to by their numbers.
#[derive(Default)]
struct SharedStrings {
    text: String,
    ends: Vec<usize>,
}

impl SharedStrings {
    fn read(package: &mut Package<'_>, part: &str) -> Result<Self, WorkbookError> {
        let mut strings = Self::default();
        let Some(mut xml) = package.xml(part)? else { return Ok(strings) };
        let mut text = String::new();
        loop {
            let is_item = match xml.next()? {
                Event::Start(it) => it.local_name().as_ref() == "si",
                Event::Eof => return Ok(strings),
                _ => false,
            };
            if is_item {
                text.clear();
                rich_text(&mut xml, "si", &mut text)?;
                strings.text.push_str(&text);
                strings.ends.push(strings.text.len());
                if strings.ends.len() > MAX_CELLS {
                    return Err(WorkbookError::TooManyCells);
                }
            }
        }
    }

    fn get(&self, nth: usize) -> Option<&str> {
        let begin = nth.checked_sub(1).map_or(Some(0), |nth| self.ends.get(nth).copied())?;
        self.text.get(begin..*self.ends.get(nth)?)
    }
}

/// Reads the text of the runs up to the end of `element`, without phonetic hints.
fn rich_text<R: BufRead>(
    xml: &mut XmlReader<R>,
    element: &str,
    text: &mut String,
) -> Result<(), WorkbookError> {
    let (mut in_text, mut in_hint) = (false, false);
    let mut run = String::new();
    loop {
        match xml.next()? {
            Event::Start(it) => match it.local_name().as_ref() {
                "t" => in_text = !in_hint,
                "rPh" => in_hint = true,
                _ => {}
            },
            Event::End(it) => match it.local_name().as_ref() {
                "t" => {
                    text.push_str(&unescape(&run));
                    run.clear();
                    in_text = false;
                }
                "rPh" => in_hint = false,
                name if name == element => return Ok(()),
                _ => {}
            },
            Event::Eof => return Err(WorkbookError::damaged("it ends within a text")),
            event if in_text => push_text(&event, &mut run)?,
            _ => {}
        }
    }
}

/// Replaces `_x000D_` by the character that XML cannot contain.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("_x") {
        let code = rest.get(at + 2..at + 6).filter(|_| rest.as_bytes().get(at + 6) == Some(&b'_'));
        let code = code.filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let letter = code.and_then(|code| char::from_u32(u32::from_str_radix(code, 16).ok()?));
        plain.push_str(&rest[..at]);
        match letter {
            Some(letter) => {
                plain.push(letter);
                rest = &rest[at + 7..];
            }
            None => {
                plain.push_str("_x");
                rest = &rest[at + 2..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// How a number is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberFormat {
    Number,
    Percentage,
    Date,
    Duration,
}

/// The formats of numbers, by the style numbers of cells.
fn formats(package: &mut Package<'_>, part: &str) -> Result<Vec<NumberFormat>, WorkbookError> {
    let mut formats = Vec::new();
    let Some(mut xml) = package.xml(part)? else { return Ok(formats) };
    let mut own = HashMap::new();
    let mut of_cells = false;
    loop {
        match xml.next()? {
            Event::Start(it) => match it.local_name().as_ref() {
                "numFmt" => {
                    let id = attribute(&it, "numFmtId")?.unwrap_or_default();
                    let code = attribute(&it, "formatCode")?.unwrap_or_default();
                    own.insert(id, number_format(&code));
                    WorkbookError::too_many(own.len(), "formats")?;
                }
                "cellXfs" => of_cells = true,
                "xf" if of_cells => {
                    let id = attribute(&it, "numFmtId")?.unwrap_or_default();
                    let format = own.get(&id).copied();
                    formats.push(format.unwrap_or_else(|| built_in_format(&id)));
                }
                _ => {}
            },
            Event::End(it) if it.local_name().as_ref() == "cellXfs" => of_cells = false,
            Event::Eof => return Ok(formats),
            _ => {}
        }
    }
}

fn built_in_format(id: &str) -> NumberFormat {
    match id.parse() {
        Ok(14..=22 | 27..=36 | 45 | 47 | 50..=58) => NumberFormat::Date,
        Ok(46) => NumberFormat::Duration,
        Ok(9 | 10) => NumberFormat::Percentage,
        Ok(0_u32..) | Err(_) => NumberFormat::Number,
    }
}

/// A format has a date if it has one of the letters of dates outside of quotes and brackets.
fn number_format(code: &str) -> NumberFormat {
    let mut letters = code.chars();
    let mut format = NumberFormat::Number;
    while let Some(letter) = letters.next() {
        match letter {
            '"' => drop(letters.by_ref().find(|letter| *letter == '"')),
            '\\' | '_' | '*' => drop(letters.next()),
            '[' => {
                let inner: String = letters.by_ref().take_while(|letter| *letter != ']').collect();
                // Such as `[h]`: hours beyond a day. Others are colours and languages.
                if matches!(inner.to_lowercase().as_str(), "h" | "hh" | "m" | "mm" | "s" | "ss") {
                    return NumberFormat::Duration;
                }
            }
            'd' | 'D' | 'm' | 'M' | 'y' | 'Y' | 'h' | 'H' | 's' | 'S' => {
                format = NumberFormat::Date;
            }
            '%' => format = NumberFormat::Percentage,
            _ => {}
        }
    }
    format
}

/// Reads the cells of a sheet.
struct SheetReader<'a> {
    sheet: Sheet,
    strings: &'a SharedStrings,
    formats: &'a [NumberFormat],
    is_1904: bool,
}

/// A cell while it is read.
struct OpenCell {
    place: (u32, u32),
    style: Option<usize>,
    kind: String,
    has_formula: bool,
    value: String,
}

impl SheetReader<'_> {
    fn read<R: BufRead>(&mut self, xml: &mut XmlReader<R>) -> Result<(), WorkbookError> {
        let (mut row, mut column) = (0_u32, 0_u32);
        let mut in_value = false;
        let mut open: Option<OpenCell> = None;
        let mut is_over = false;
        loop {
            let mut is_inline = false;
            match xml.next()? {
                Event::Eof => return Ok(()),
                Event::Start(it) if is_over && it.local_name().as_ref() == "mergeCell" => {
                    let text = attribute(&it, "ref")?.unwrap_or_default();
                    let places = text.split_once(':').map(|(one, last)| (place(one), place(last)));
                    if let Some((Some(first), Some(last))) = places {
                        self.sheet.merge(first, last)?;
                    }
                }
                // The end of the part has to be read, too: then its checksum is compared.
                _ if is_over => {}
                Event::Start(it) => match it.local_name().as_ref() {
                    "row" => {
                        let number = attribute(&it, "r")?;
                        row = match number {
                            Some(number) => number.parse().map_err(|_| wrong_place(&number))?,
                            None => row.saturating_add(1),
                        };
                        column = 0;
                    }
                    "c" => {
                        let cell = open_cell(&it, (row, column))?;
                        (row, column) = (cell.place.0, cell.place.1.saturating_add(1));
                        open = Some(cell);
                    }
                    "v" => in_value = open.is_some(),
                    "f" => {
                        if let Some(cell) = &mut open {
                            cell.has_formula = true;
                        }
                    }
                    "is" => is_inline = true,
                    _ => {}
                },
                Event::End(it) => match it.local_name().as_ref() {
                    "v" => in_value = false,
                    "c" => {
                        if let Some(cell) = open.take() {
                            self.close(&cell)?;
                        }
                    }
                    "sheetData" => is_over = true,
                    _ => {}
                },
                event if in_value => {
                    if let Some(cell) = &mut open {
                        push_text(&event, &mut cell.value)?;
                    }
                }
                _ => {}
            }
            if let Some(cell) = open.as_mut().filter(|_| is_inline) {
                rich_text(xml, "is", &mut cell.value)?;
            }
        }
    }

    fn close(&mut self, cell: &OpenCell) -> Result<(), WorkbookError> {
        let value = cell.value.as_str();
        let mut text = String::new();
        let mut kind = CellKind::Value;
        match cell.kind.as_str() {
            // The empty text that a formula returns has a type.
            "" | "n" if value.is_empty() && cell.has_formula => kind = CellKind::NotComputed,
            _ if value.is_empty() => {}
            "s" => {
                let shared = value.trim().parse().ok().and_then(|nth| self.strings.get(nth));
                let missing = || WorkbookError::damaged(format_args!("it has no text {value}"));
                return self.sheet.push(cell.place, kind, shared.ok_or_else(missing)?);
            }
            "inlineStr" => return self.sheet.push(cell.place, kind, value),
            "str" => text = unescape(value),
            "b" => text.push_str(match value.trim() {
                "0" | "false" => "false",
                _ => "true",
            }),
            "e" => {
                text.push_str(value);
                kind = CellKind::Error;
            }
            "d" => kind = values::iso_date(value, &mut text),
            _ => match value.trim().parse::<f64>() {
                Ok(number) => {
                    let format = cell.style.and_then(|style| self.formats.get(style));
                    kind = match format {
                        Some(NumberFormat::Date) => values::date(number, self.is_1904, &mut text),
                        Some(NumberFormat::Duration) => values::duration(number, &mut text),
                        Some(NumberFormat::Percentage) => values::percentage(number, &mut text),
                        Some(NumberFormat::Number) | None => values::number(number, &mut text),
                    };
                }
                Err(_) => text.push_str(value),
            },
        }
        self.sheet.push(cell.place, kind, &text)
    }
}

/// A cell at the place that it states, or else at `next`.
fn open_cell(element: &BytesStart<'_>, next: (u32, u32)) -> Result<OpenCell, WorkbookError> {
    let place = match attribute(element, "r")? {
        Some(text) => place(&text).ok_or_else(|| wrong_place(&text))?,
        None => next,
    };
    let style = attribute(element, "s")?.and_then(|style| style.parse().ok());
    let kind = attribute(element, "t")?.unwrap_or_default();
    Ok(OpenCell { place, style, kind, has_formula: false, value: String::new() })
}

fn wrong_place(text: &str) -> WorkbookError {
    WorkbookError::damaged(format_args!("`{}` is not a place in a sheet", text.escape_debug()))
}

/// The row, from 1, and the column, from 0, of a place such as `AB12`.
fn place(text: &str) -> Option<(u32, u32)> {
    const COLUMNS: u32 = 16_384;
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let mut column = 0_u32;
    for letter in text.get(..letters)?.bytes() {
        column = column * 26 + u32::from(letter.to_ascii_uppercase() - b'A') + 1;
        if column > COLUMNS {
            return None;
        }
    }
    let row = text.get(letters..)?.parse().ok().filter(|row| *row > 0)?;
    Some((row, column.checked_sub(1)?))
}
