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
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
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
    fn a_byte_that_is_not_utf8_is_reported_with_its_place() {
        let problem = text(b"# \xC3\xBC\nx = \"\xFF\"").unwrap_err();
        assert_eq!((problem.line, problem.column), (2, 6));
        assert_eq!(problem.what, "the byte 0xFF is not UTF-8");
    }
}
