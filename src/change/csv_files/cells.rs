//! Splits bytes into rows of cells: separators, quotes and line ends. Cells stay bytes here; each
//! has
//! the number of its first line.

use std::borrow::Cow;

/// A cell of the file, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    pub bytes: Cow<'a, [u8]>,
    pub line: u64,
    pub fault: Option<&'static str>,
}

impl Cell<'_> {
    /// The text of the cell.
    ///
    /// # Errors
    /// The line and the message of a quoting mistake, or of the first byte that is not UTF-8.
    pub fn text(&self) -> Result<&str, (u64, String)> {
        if let Some(fault) = self.fault {
            return Err((self.line, fault.to_owned()));
        }
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let before = &self.bytes[..error.valid_up_to()];
            let byte = self.bytes.get(error.valid_up_to()).copied().unwrap_or_default();
            let place = String::from_utf8_lossy(before).chars().count() + 1;
            let what = format!("byte 0x{byte:02X}, character {place} of the cell, is not UTF-8; save the file as UTF-8");
            (self.line + line_ends(before), what)
        })
    }
}

/// A row of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub line: u64,
    /// The first cells, at most [`Rows::max_cells`].
    pub cells: Vec<Cell<'a>>,
    /// Number of all cells.
    pub count: usize,
    /// The bytes of the row, without its line end.
    pub raw: &'a [u8],
}

impl Row<'_> {
    /// Whether all cells are empty, as in rows that spreadsheets leave at the end.
    pub fn is_blank(&self) -> bool {
        self.count == self.cells.len()
            && self.cells.iter().all(|cell| cell.bytes.is_empty() && cell.fault.is_none())
    }
}

/// The byte order mark that some programs write before UTF-8.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The rows of a file that are not blank.
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
    pub separator: u8,
    /// The most cells of a row that are stored.
    pub max_cells: usize,
}

impl<'a> Rows<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let mut rows = Self { bytes, at: 0, line: 1, separator: separator(bytes), max_cells: 1000 };
        // A first line such as `sep=;` names the separator for spreadsheets.
        if let [b's', b'e', b'p', b'=', separator @ (b',' | b';' | b'\t'), b'\r' | b'\n', ..] =
            bytes
        {
            (rows.separator, rows.at) = (*separator, 5);
            rows.line_end();
        }
        rows
    }

    fn cell(&mut self) -> Cell<'a> {
        let (line, start) = (self.line, self.at);
        if self.bytes.get(start) != Some(&b'"') {
            return Cell { bytes: Cow::Borrowed(self.plain()), line, fault: None };
        }
        self.at += 1;
        let mut text: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        loop {
            let rest = &self.bytes[self.at..];
            let Some(quote) = memchr::memchr(b'"', rest) else {
                self.at = self.bytes.len();
                self.line += line_ends(rest);
                return Cell { bytes: joined(text, rest), line, fault: Some(UNCLOSED) };
            };
            self.line += line_ends(&rest[..quote]);
            self.at += quote + 1;
            let doubled = self.bytes.get(self.at) == Some(&b'"');
            text = joined(text, &rest[..quote + usize::from(doubled)]);
            if !doubled {
                break;
            }
            self.at += 1;
        }
        let trailing = self.plain();
        let fault = (!trailing.is_empty()).then_some(TRAILING);
        Cell { bytes: joined(text, trailing), line, fault }
    }

    /// Reads up to the next separator or line end.
    fn plain(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr3(self.separator, b'\n', b'\r', rest).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Skips one line end, if there is one.
    fn line_end(&mut self) -> bool {
        let length = match self.bytes.get(self.at..).unwrap_or_default() {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => return false,
        };
        self.at += length;
        self.line += 1;
        true
    }
}

const UNCLOSED: &str = "the opening quote of this cell is never closed";
const TRAILING: &str = "there is text after the closing quote; write a quote within a cell as \"\"";

fn joined<'a>(text: Cow<'a, [u8]>, more: &'a [u8]) -> Cow<'a, [u8]> {
    if text.is_empty() {
        return Cow::Borrowed(more);
    }
    if more.is_empty() {
        return text;
    }
    let mut text = text.into_owned();
    text.extend_from_slice(more);
    Cow::Owned(text)
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        loop {
            while self.line_end() {}
            if self.at >= self.bytes.len() {
                return None;
            }
            let (line, start) = (self.line, self.at);
            let mut row = Row { line, cells: Vec::new(), count: 0, raw: &[] };
            loop {
                let cell = self.cell();
                row.count += 1;
                if row.cells.len() < self.max_cells {
                    row.cells.push(cell);
                }
                if self.bytes.get(self.at) != Some(&self.separator) {
                    break;
                }
                self.at += 1;
            }
            row.raw = &self.bytes[start..self.at];
            if !row.is_blank() {
                return Some(row);
            }
        }
    }
}

/// The number of line ends: `\n`, `\r\n` and a single `\r`.
fn line_ends(bytes: &[u8]) -> u64 {
    let all = memchr::memchr2_iter(b'\n', b'\r', bytes);
    all.filter(|at| bytes[*at] == b'\n' || bytes.get(at + 1) != Some(&b'\n')).count() as u64
}

/// The separator: the most frequent candidate in the first line, outside of quotes.
fn separator(bytes: &[u8]) -> u8 {
    let mut counts = [(b',', 0_u64), (b';', 0), (b'\t', 0)];
    let mut quoted = false;
    let lines = bytes.iter().skip_while(|byte| matches!(byte, b'\n' | b'\r'));
    for byte in lines {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted => break,
            byte if !quoted => {
                for (_, count) in counts.iter_mut().filter(|(it, _)| it == byte) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max();
    counts.iter().find(|(_, count)| Some(*count) == most).map_or(b',', |(byte, _)| *byte)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::cells::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Vec<(u64, Vec<String>)> {
        let cells = |row: Row<'_>| {
            row.cells.iter().map(|it| String::from_utf8_lossy(&it.bytes).into_owned()).collect()
        };
        Rows::new(text.as_bytes()).map(|row| (row.line, cells(row))).collect()
    }

    fn row(line: u64, cells: &[&str]) -> (u64, Vec<String>) {
        (line, cells.iter().map(|&cell| cell.to_owned()).collect())
    }

    #[test]
    fn a_first_line_that_names_the_separator_is_not_a_row() {
        for text in ["sep=;\r\nid;a,b\r\n", "\u{feff}sep=;\nid;a,b\n"] {
            let mut rows = Rows::new(text.as_bytes());
            assert_eq!(rows.separator, b';');
            let header = rows.next().unwrap();
            assert_eq!((header.line, header.count), (2, 2), "{text}");
        }
        assert_eq!(Rows::new(b"sep=,x\n1,2\n").next().unwrap().line, 1);
    }

    #[test]
    fn separators_quotes_and_line_ends_are_parsed() {
        let rows = [row(1, &["a", "b"]), row(2, &["x", "y\nz"]), row(4, &["\"", ""])];
        for text in [
            "a,b\nx,\"y\nz\"\n\"\"\"\",\n",
            "\u{feff}a;b\nx;\"y\nz\"\n\"\"\"\";",
            "a\tb\nx\t\"y\nz\"\n\"\"\"\"\t\n\n\t\n",
        ] {
            assert_eq!(parse(text), rows, "{text:?}");
        }
    }

    #[test]
    fn lines_are_counted_with_any_line_end() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("a{end}{end}\"b{end}\"{end}c");
            let lines: Vec<_> = parse(&text).into_iter().map(|(line, _)| line).collect();
            assert_eq!(lines, [1, 3, 5], "{end:?}");
        }
    }

    #[test]
    fn an_invalid_byte_is_reported_with_line_and_character() {
        let bytes = b"a,b\n1,\"x\ny\xC3\xA4\xE4z\"\n";
        let row = Rows::new(bytes).nth(1).unwrap();
        let (line, what) = row.cells[1].text().unwrap_err();
        assert_eq!(line, 3);
        assert_eq!(
            what,
            "byte 0xE4, character 5 of the cell, is not UTF-8; save the file as UTF-8"
        );
    }

    #[test]
    fn an_unclosed_quote_is_reported_at_its_beginning() {
        let row = Rows::new(b"a,b\n1,\"x\n2,y\n").nth(1).unwrap();
        assert_eq!(row.cells[1].text().unwrap_err(), (2, UNCLOSED.to_owned()));
        let row = Rows::new(b"\"a\"b,c").next().unwrap();
        assert_eq!(row.cells[0].text().unwrap_err(), (1, TRAILING.to_owned()));
    }

    proptest! {
        /// Reads what the `csv` crate writes.
        #[test]
        fn written_csv_reads_back(
            rows in prop::collection::vec(prop::collection::vec("[a,;\t\"\r\n é]{0,6}", 2..3), 1..6),
            nth in 0..3_usize, crlf in any::<bool>(),
        ) {
            let end = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
            let mut writer =
                csv::WriterBuilder::new().delimiter(b",;\t"[nth]).terminator(end).from_writer(vec![]);
            writer.write_record(["x", "y"]).unwrap();
            rows.iter().for_each(|row| writer.write_record(row).unwrap());
            let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
            let mut read: Vec<_> = parse(&text).into_iter().map(|(_, cells)| cells).collect();
            read.remove(0);
            let rows: Vec<_> =
                rows.into_iter().filter(|row| row.iter().any(|it| !it.is_empty())).collect();
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn any_bytes_are_rows_or_faults(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for row in Rows::new(&bytes) {
                prop_assert!(row.cells.len() <= row.count);
                row.cells.iter().for_each(|cell| drop(cell.text()));
            }
        }
    }
}
