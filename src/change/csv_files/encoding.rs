//! Finds the encoding of a CSV file, and decodes the file to UTF-8.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::change::csv_files::cells::line_ends;
use crate::change::csv_files::{CsvProblem, CsvProblemKind, CsvProblems};

/// An encoding that a user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextEncoding(&'static Encoding);

impl TextEncoding {
    /// The encoding called `label`, such as `windows-1252` or `latin1`; `None` if it is unknown.
    #[must_use]
    pub fn of_label(label: &str) -> Option<Self> {
        Encoding::for_label_no_replacement(label.as_bytes()).map(Self)
    }

    /// Its name in messages and in the journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0.name() {
            "windows-1252" => "Windows-1252",
            name => name,
        }
    }
}

/// The text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedText<'a> {
    /// The text, without a byte order mark.
    pub text: Cow<'a, str>,
    /// The encoding of the file.
    pub encoding: TextEncoding,
    /// Whether the file begins with a byte order mark.
    pub has_mark: bool,
}

impl DecodedText<'_> {
    /// Whether a copy of the file begins with a byte order mark, so that a spreadsheet reads it as
    /// UTF-8.
    #[must_use]
    pub fn needs_mark(&self) -> bool {
        self.has_mark || self.encoding.0 != UTF_8
    }

    /// Whether the file is UTF-8.
    #[must_use]
    pub fn is_utf8(&self) -> bool {
        self.encoding.0 == UTF_8
    }
}

/// Why a file is not text: the number of the first bad line, and the mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodingProblem {
    /// Line number from 1.
    pub line: u64,
    /// The mistake, as the end of a sentence.
    pub what: String,
}

impl EncodingProblem {
    /// The mistake as that of the file called `file`.
    #[must_use]
    pub fn of_file(self, file: &str) -> CsvProblems {
        let mut problems = CsvProblems::default();
        let (file, line, kind) = (file.to_owned(), Some(self.line), CsvProblemKind::File);
        problems.push(CsvProblem { file, line, row: None, column: None, kind, what: self.what });
        problems
    }
}

/// Decodes a file in the encoding `named`; without one, in the encoding that its bytes show: that of
/// its byte order mark, UTF-16, UTF-8, or else Windows-1252.
///
/// # Errors
/// The first line that is not valid in the encoding, or that shows that the file mixes encodings.
pub fn decode(
    bytes: &[u8],
    named: Option<TextEncoding>,
) -> Result<DecodedText<'_>, EncodingProblem> {
    let mark = Encoding::for_bom(bytes);
    match (named, mark) {
        (Some(TextEncoding(named)), mark) => {
            let mark = mark.filter(|(encoding, _)| *encoding == named);
            in_encoding(bytes, named, mark.map_or(0, |(_, length)| length))
        }
        (None, Some((encoding, length))) => in_encoding(bytes, encoding, length),
        (None, None) => match utf_16_without_mark(bytes) {
            Some(encoding) => in_encoding(bytes, encoding, 0),
            None => in_8_bits(bytes),
        },
    }
}

fn in_encoding<'a>(
    bytes: &'a [u8],
    encoding: &'static Encoding,
    mark: usize,
) -> Result<DecodedText<'a>, EncodingProblem> {
    let (text, is_damaged) = encoding.decode_without_bom_handling(&bytes[mark..]);
    let encoding = TextEncoding(encoding);
    if is_damaged {
        // The decoder replaces what it cannot decode by this character.
        let at = text.find(char::REPLACEMENT_CHARACTER).unwrap_or(text.len());
        let what = format!("the line is not valid {}", encoding.name());
        return Err(EncodingProblem { line: 1 + line_ends(&text[..at]), what });
    }
    Ok(DecodedText { text, encoding, has_mark: mark > 0 })
}

/// UTF-16 if each NUL is in the same half of its pair of bytes, as the high byte of an ASCII
/// character such as a separator, and these are at least 5 % of the pairs and more than the pairs of
/// two ASCII characters, which are rare in UTF-16 and most of an 8-bit text.
fn utf_16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    const LOOKED_AT: usize = 64 * 1024;
    let pairs = bytes.chunks_exact(2).take(LOOKED_AT);
    let least = pairs.len().div_ceil(20).max(1);
    let (mut first, mut second, mut ascii) = (0, 0, 0);
    for pair in pairs {
        first += usize::from(pair[0] == 0);
        second += usize::from(pair[1] == 0);
        ascii += usize::from(pair.iter().all(|byte| matches!(byte, b' '..=b'~')));
    }
    let least = least.max(ascii);
    match (first, second) {
        (0, nuls) if nuls >= least => Some(UTF_16LE),
        (nuls, 0) if nuls >= least => Some(UTF_16BE),
        _ => None,
    }
}

/// Bytes that Windows-1252 does not define. Other code pages, such as those of DOS, have letters
/// there.
const UNDEFINED: [u8; 5] = [0x81, 0x8D, 0x8F, 0x90, 0x9D];

fn in_8_bits(bytes: &[u8]) -> Result<DecodedText<'_>, EncodingProblem> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => {
            let encoding = TextEncoding(UTF_8);
            return Ok(DecodedText { text: Cow::Borrowed(text), encoding, has_mark: false });
        }
        Err(error) => error,
    };
    let problem = |at: usize, what: String| {
        let before = String::from_utf8_lossy(&bytes[..at]);
        Err(EncodingProblem { line: 1 + line_ends(&before), what })
    };
    if bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii()) {
        let what = "the line is not UTF-8, but another line is, so the encoding is ambiguous";
        return problem(error.valid_up_to(), what.to_owned());
    }
    if let Some(at) = bytes.iter().position(|byte| UNDEFINED.contains(byte)) {
        let byte = bytes[at];
        let what = format!(
            "the line has the byte 0x{byte:02X}, which is neither UTF-8 nor Windows-1252, so the \
             encoding is not known"
        );
        return problem(at, what);
    }
    in_encoding(bytes, WINDOWS_1252, 0)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::encoding::*;

    fn read(bytes: &[u8]) -> Result<(String, &'static str), (u64, String)> {
        named(bytes, None)
    }

    fn named(bytes: &[u8], label: Option<&str>) -> Result<(String, &'static str), (u64, String)> {
        let label = label.map(|label| TextEncoding::of_label(label).unwrap());
        let decoded = decode(bytes, label).map_err(|it| (it.line, it.what))?;
        Ok((decoded.text.into_owned(), decoded.encoding.name()))
    }

    fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn the_encoding_of_a_text_is_found_with_and_without_a_mark() {
        let text = "id,name\n1,Größe €\n";
        let found = |name| Ok((text.to_owned(), name));
        assert_eq!(read(text.as_bytes()), found("UTF-8"));
        assert_eq!(read(format!("\u{feff}{text}").as_bytes()), found("UTF-8"));
        let (bytes, ..) = WINDOWS_1252.encode(text);
        assert_eq!(read(&bytes), found("Windows-1252"));
        for mark in ["", "\u{feff}"] {
            let marked = format!("{mark}{text}");
            assert_eq!(read(&utf_16(&marked, u16::to_le_bytes)), found("UTF-16LE"));
            assert_eq!(read(&utf_16(&marked, u16::to_be_bytes)), found("UTF-16BE"));
        }
        let russian = "название,слаг\nЛето,leto\n";
        let bytes = utf_16(russian, u16::to_le_bytes);
        assert_eq!(read(&bytes), Ok((russian.to_owned(), "UTF-16LE")));
        assert_eq!(read(b""), Ok((String::new(), "UTF-8")));
    }

    #[test]
    fn a_named_encoding_has_precedence() {
        assert_eq!(named(b"\xE4", Some("iso-8859-2")), Ok(("ä".to_owned(), "ISO-8859-2")));
        assert_eq!(named("ä".as_bytes(), Some("latin1")), Ok(("Ã¤".to_owned(), "Windows-1252")));
        let marked = "\u{feff}ä".as_bytes();
        assert_eq!(named(marked, Some("UTF-8")), Ok(("ä".to_owned(), "UTF-8")));
        let wrong = (2, "the line is not valid UTF-8".to_owned());
        assert_eq!(named(b"a\r\n\xE4\n\xE4", Some("utf8")), Err(wrong));
        assert_eq!(TextEncoding::of_label("klingon"), None);
        assert_eq!(TextEncoding::of_label("hz-gb-2312"), None, "an encoding without a decoder");
    }

    #[test]
    fn mixed_and_unknown_encodings_are_one_problem_with_its_line() {
        let (line, what) = read(b"\xC3\xA4\n\xE4\n\xE4\n").unwrap_err();
        assert_eq!((line, what.contains("ambiguous")), (2, true), "{what}");
        // `Größe` of a DOS program.
        let (line, what) = read(b"a\nb\nGr\x94\xE1e \x81\n").unwrap_err();
        assert_eq!((line, what.contains("0x81")), (3, true), "{what}");
        let few = b"id,domain\n1,\0\n2,ab";
        assert_eq!(read(few).unwrap().1, "UTF-8", "a NUL alone does not make it UTF-16");
        let mut half = utf_16("\u{feff}id\nab\n", u16::to_le_bytes);
        half.extend([0x00, 0xD8]);
        assert_eq!(read(&half), Err((3, "the line is not valid UTF-16LE".to_owned())));
    }
}
