//! Where the rows of an input come from: the text of a CSV file.

use crate::change::csv_files::cells::{Row, TextRows, line_ends};
use crate::change::csv_files::encoding::{DecodedText, EncodingProblem, TextEncoding, decode};

/// The rows of an input.
#[derive(Debug)]
pub enum RowSource<'a> {
    /// The text of a CSV file.
    Text(DecodedText<'a>),
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
        }
    }

    /// The first line with a NUL character.
    pub(crate) fn line_of_nul(&self) -> Option<u64> {
        match self {
            Self::Text(decoded) => {
                let at = memchr::memchr(0, decoded.text.as_bytes())?;
                Some(1 + line_ends(&decoded.text[..at]))
            }
        }
    }

    /// Whether a copy of the rows begins with a byte order mark, so that a spreadsheet reads it as
    /// UTF-8.
    pub(crate) fn needs_mark(&self) -> bool {
        match self {
            Self::Text(decoded) => decoded.needs_mark(),
        }
    }

    /// Reads the rows.
    pub(crate) fn rows(&self) -> Rows<'_> {
        match self {
            Self::Text(decoded) => Rows::Text(TextRows::new(&decoded.text)),
        }
    }
}

/// The rows of an input that are not blank.
pub(crate) enum Rows<'a> {
    Text(TextRows<'a>),
}

impl Rows<'_> {
    /// The separator of the cells in a copy of the input.
    pub const fn separator(&self) -> u8 {
        match self {
            Self::Text(rows) => rows.separator,
        }
    }

    /// Sets the most cells of a row that are stored.
    pub const fn limit(&mut self, cells: usize) {
        match self {
            Self::Text(rows) => rows.max_cells = cells,
        }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        match self {
            Self::Text(rows) => rows.next(),
        }
    }
}
