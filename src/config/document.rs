//! Reads the bytes of the configuration file, and finds line and column of a byte.

use std::io;
use std::path::Path;

use super::problem::ConfigProblem;
use crate::files::read_named;

/// A larger file is not a configuration.
const MAX_SIZE: u64 = 64 << 20;

/// The bytes of `file`.
pub(super) fn bytes(file: &Path) -> io::Result<Vec<u8>> {
    read_named(file, MAX_SIZE)
}

/// The bytes as text, or the line and column of the first byte that is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, ConfigProblem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let (line, column) = place(&String::from_utf8_lossy(valid), valid.len());
        let what = format!("the byte 0x{:02X} is not UTF-8", bytes[valid.len()]);
        ConfigProblem { line, column, key: String::new(), what }
    })
}

/// Line and column (in characters) of a byte of `text`, both from 1.
pub(super) fn place(text: &str, byte: usize) -> (usize, usize) {
    PlaceCounter::new(text).place(byte)
}

/// Finds the places of ascending bytes of a text in one pass.
pub(super) struct PlaceCounter<'t> {
    text: &'t str,
    byte: usize,
    line: usize,
    column: usize,
}

impl<'t> PlaceCounter<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, byte: 0, line: 1, column: 1 }
    }

    /// The place of `byte`, which is not before the byte of the last call.
    pub(super) fn place(&mut self, byte: usize) -> (usize, usize) {
        let part = self.text.get(self.byte..byte).unwrap_or_default();
        self.byte += part.len();
        match part.rsplit_once('\n') {
            None => self.column += part.chars().count(),
            Some((lines, last)) => {
                self.line += lines.matches('\n').count() + 1;
                self.column = last.chars().count() + 1;
            }
        }
        (self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        assert_eq!(place("a\nüb = 1", 4), (2, 2));
        assert_eq!(place("", 0), (1, 1));
    }

    #[test]
    fn ascending_bytes_are_found_in_one_pass() {
        let text = "a\nüb = 1\n\nx";
        let mut places = PlaceCounter::new(text);
        let found = [0, 1, 2, 4, 9, 10, 11, 11, 12].map(|byte| places.place(byte));
        let expected = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 7), (3, 1), (4, 1), (4, 1), (4, 2)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_byte_that_is_not_utf8_is_reported_with_its_place() {
        let problem = text(b"# \xC3\xBC\nx = \"\xFF\"").unwrap_err();
        assert_eq!((problem.line, problem.column), (2, 6));
        assert_eq!(problem.what, "the byte 0xFF is not UTF-8");
    }
}
