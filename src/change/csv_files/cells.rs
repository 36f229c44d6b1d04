//! Splits text into rows of cells: separators, quotes and line ends. Each cell has the number of its
//! first line.

use std::borrow::Cow;

use crate::change::csv_files::CsvProblemKind;

/// A mistake in a cell that hides its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellFault {
    /// The opening quote is never closed.
    Unclosed,
    /// There is text after the closing quote.
    Trailing,
    /// A formula in a workbook has an error as its result.
    Error,
    /// A workbook does not store all digits of the number.
    Inexact,
    /// A workbook has no result of the formula.
    NotComputed,
}

impl CellFault {
    /// The message about a cell with this fault.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Unclosed => "the opening quote of this cell is never closed",
            Self::Trailing => {
                "there is text after the closing quote; write a quote within a cell as \"\""
            }
            Self::Error => "the formula of this cell has an error as its result",
            Self::Inexact => {
                "a spreadsheet does not store all digits of this number; format the cell as text \
                 and type the number again"
            }
            Self::NotComputed => {
                "the file has no result of this cell's formula; open it in a spreadsheet and save it"
            }
        }
    }

    /// The kind of this mistake.
    pub const fn kind(self) -> CsvProblemKind {
        match self {
            Self::Unclosed | Self::Trailing => CsvProblemKind::Quoting,
            Self::Error => CsvProblemKind::FormulaError,
            Self::Inexact => CsvProblemKind::TooManyDigits,
            Self::NotComputed => CsvProblemKind::NotComputed,
        }
    }
}

/// A cell of the file, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    pub raw: Cow<'a, str>,
    pub line: u64,
    pub fault: Option<CellFault>,
    /// Whether a sheet shows the value in another form: a date, a time or a percentage.
    pub formatted: bool,
}

impl<'a> Cell<'a> {
    /// A cell whose text is its value.
    pub const fn plain(raw: Cow<'a, str>, line: u64, fault: Option<CellFault>) -> Self {
        Self { raw, line, fault, formatted: false }
    }

    /// The text of the cell.
    ///
    /// # Errors
    /// The line and the fault.
    pub fn text(&self) -> Result<&str, (u64, CellFault)> {
        match self.fault {
            Some(fault) => Err((self.line, fault)),
            None => Ok(&self.raw),
        }
    }
}

/// A row of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub line: u64,
    /// The number that spreadsheets show for the row: line breaks within cells do not count.
    pub number: u64,
    /// The first cells, at most [`Rows::max_cells`].
    pub cells: Vec<Cell<'a>>,
    /// Number of all cells.
    pub count: usize,
}

impl Row<'_> {
    /// Whether all cells are empty, as in rows that spreadsheets leave at the end.
    pub fn is_blank(&self) -> bool {
        self.count == self.cells.len()
            && self.cells.iter().all(|cell| cell.raw.is_empty() && cell.fault.is_none())
    }
}

/// The rows of a CSV file that are not blank.
pub(crate) struct TextRows<'a> {
    text: &'a str,
    at: usize,
    line: u64,
    /// The lines before that spreadsheets do not number.
    unnumbered: u64,
    pub separator: u8,
    /// The most cells of a row that are stored.
    pub max_cells: usize,
}

impl<'a> TextRows<'a> {
    pub fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let separator = separator(bytes);
        let max_cells = MAX_COLUMNS;
        let mut rows = Self { text, at: 0, line: 1, unnumbered: 0, separator, max_cells };
        // A first line such as `sep=;` names the separator for spreadsheets.
        if let [b's', b'e', b'p', b'=', separator @ (b',' | b';' | b'\t'), b'\r' | b'\n', ..] =
            bytes
        {
            (rows.separator, rows.at, rows.unnumbered) = (*separator, 5, 1);
            rows.line_end();
        }
        rows
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Whether the next byte is `byte`, which must be ASCII.
    fn is_next(&self, byte: u8) -> bool {
        self.text.as_bytes().get(self.at) == Some(&byte)
    }

    fn cell(&mut self) -> Cell<'a> {
        let line = self.line;
        if !self.is_next(b'"') {
            return Cell::plain(Cow::Borrowed(self.plain()), line, None);
        }
        self.at += 1;
        let mut text: Cow<'a, str> = Cow::Borrowed("");
        loop {
            let rest = self.rest();
            let Some(quote) = memchr::memchr(b'"', rest.as_bytes()) else {
                self.at = self.text.len();
                self.line += line_ends(rest);
                text += rest;
                return Cell::plain(text, line, Some(CellFault::Unclosed));
            };
            self.line += line_ends(&rest[..quote]);
            self.at += quote + 1;
            let doubled = self.is_next(b'"');
            text += &rest[..quote + usize::from(doubled)];
            if !doubled {
                break;
            }
            self.at += 1;
        }
        let trailing = self.plain();
        let fault = (!trailing.is_empty()).then_some(CellFault::Trailing);
        text += trailing;
        Cell::plain(text, line, fault)
    }

    /// Reads up to the next separator or line end.
    fn plain(&mut self) -> &'a str {
        let rest = self.rest();
        let end = memchr::memchr3(self.separator, b'\n', b'\r', rest.as_bytes());
        let plain = &rest[..end.unwrap_or(rest.len())];
        self.at += plain.len();
        plain
    }

    /// Skips one line end, if there is one.
    fn line_end(&mut self) -> bool {
        let length = match self.rest().as_bytes() {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => return false,
        };
        self.at += length;
        self.line += 1;
        true
    }
}

/// The most columns of a file, to bound the memory.
pub(crate) const MAX_COLUMNS: usize = 1000;

impl<'a> Iterator for TextRows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        loop {
            while self.line_end() {}
            if self.at >= self.text.len() {
                return None;
            }
            let (line, number) = (self.line, self.line - self.unnumbered);
            let mut row = Row { line, number, cells: Vec::new(), count: 0 };
            loop {
                let cell = self.cell();
                row.count += 1;
                if row.cells.len() < self.max_cells {
                    row.cells.push(cell);
                }
                if !self.is_next(self.separator) {
                    break;
                }
                self.at += 1;
            }
            self.unnumbered += self.line - line;
            if !row.is_blank() {
                return Some(row);
            }
        }
    }
}

/// The number of line ends: `\n`, `\r\n` and a single `\r`.
pub(crate) fn line_ends(text: &str) -> u64 {
    let bytes = text.as_bytes();
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
        let cells = |row: Row<'_>| row.cells.iter().map(|it| it.raw.clone().into_owned()).collect();
        TextRows::new(text).map(|row| (row.line, cells(row))).collect()
    }

    fn row(line: u64, cells: &[&str]) -> (u64, Vec<String>) {
        (line, cells.iter().map(|&cell| cell.to_owned()).collect())
    }

    #[test]
    fn a_first_line_that_names_the_separator_is_not_a_row() {
        for text in ["sep=;\r\nid;a,b\r\n", "sep=;\nid;a,b\n"] {
            let mut rows = TextRows::new(text);
            assert_eq!(rows.separator, b';');
            let header = rows.next().unwrap();
            assert_eq!((header.line, header.count), (2, 2), "{text}");
        }
        assert_eq!(TextRows::new("sep=,x\n1,2\n").next().unwrap().line, 1);
    }

    #[test]
    fn separators_quotes_and_line_ends_are_parsed() {
        let rows = [row(1, &["a", "b"]), row(2, &["x", "y\nz"]), row(4, &["\"", ""])];
        for text in [
            "a,b\nx,\"y\nz\"\n\"\"\"\",\n",
            "a;b\nx;\"y\nz\"\n\"\"\"\";",
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
    fn rows_are_numbered_as_spreadsheets_do() {
        for (text, numbers) in [
            ("a\n\"b\nb\nb\",c\n\n,\nd", vec![(1, 1), (2, 2), (7, 5)]),
            ("sep=;\na\n\"b\nb\"\nc", vec![(2, 1), (3, 2), (5, 3)]),
        ] {
            let rows = TextRows::new(text).map(|row| (row.line, row.number));
            assert_eq!(rows.collect::<Vec<_>>(), numbers, "{text:?}");
        }
    }

    #[test]
    fn an_unclosed_quote_is_reported_at_its_beginning() {
        let row = TextRows::new("a,b\n1,\"x\n2,y\n").nth(1).unwrap();
        assert_eq!(row.cells[1].text().unwrap_err(), (2, CellFault::Unclosed));
        let row = TextRows::new("\"a\"b,c").next().unwrap();
        assert_eq!(row.cells[0].text().unwrap_err(), (1, CellFault::Trailing));
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
        fn any_text_is_rows_or_errors(text in "[a,;\t\"\r\n é€]{0,40}") {
            for row in TextRows::new(&text) {
                prop_assert!(row.cells.len() <= row.count);
                row.cells.iter().for_each(|cell| assert!(cell.text().is_ok() || cell.fault.is_some()));
            }
        }
    }
}
