//! Text from services, files and vaults, made safe for a terminal. It may contain control
//! sequences or characters that change the direction of a line; they are shown escaped.

use std::fmt::{self, Display, Write};

/// Shows a value on one line. Characters that could deceive or disturb a terminal are escaped.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaper { out: f, lines: false }, "{}", self.0)
    }
}

/// Like [`Escaped`], but keeps line breaks.
#[derive(Debug, Clone, Copy)]
pub struct EscapedLines<T>(pub T);

impl<T: Display> Display for EscapedLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaper { out: f, lines: true }, "{}", self.0)
    }
}

/// Like [`Escaped`], for JSON text: uses JSON's own escapes, so that a reader gets the original
/// value. The escaped characters occur only within JSON strings.
#[derive(Debug, Clone, Copy)]
pub struct EscapedJson<T>(pub T);

impl<T: Display> Display for EscapedJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(JsonEscaper(f), "{}", self.0)
    }
}

struct JsonEscaper<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Write for JsonEscaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, letter) in text.char_indices() {
            if !needs_escape(letter) {
                continue;
            }
            self.0.write_str(&text[plain..at])?;
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(self.0, "\\u{unit:04x}")?;
            }
            plain = at + letter.len_utf8();
        }
        self.0.write_str(&text[plain..])
    }
}

struct Escaper<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    lines: bool,
}

impl Write for Escaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, letter) in text.char_indices() {
            if !needs_escape(letter) || (self.lines && letter == '\n') {
                continue;
            }
            self.out.write_str(&text[plain..at])?;
            write!(self.out, "{}", letter.escape_default())?;
            plain = at + letter.len_utf8();
        }
        self.out.write_str(&text[plain..])
    }
}

/// Control characters, direction marks, invisible spaces and line separators. The joiners
/// U+200C and U+200D are kept: scripts and emoji need them.
fn needs_escape(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}'
            | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use crate::escaped::*;
    use proptest::prelude::*;

    #[test]
    fn control_sequences_and_direction_marks_are_escaped() {
        assert_eq!(Escaped("\u{1b}[2Jhi\n").to_string(), r"\u{1b}[2Jhi\n");
        assert_eq!(Escaped("a\u{202e}b").to_string(), r"a\u{202e}b");
        assert_eq!(Escaped("\u{9b}31m").to_string(), r"\u{9b}31m");
        assert_eq!(EscapedLines("a\nb\r").to_string(), "a\nb\\r");
    }

    #[test]
    fn json_escapes_keep_the_value() {
        let value = "a\u{9b}31m\u{7f}\u{202e}\u{e0041}\u{feff}ü";
        let json = serde_json::to_string(value).unwrap();
        let shown = EscapedJson(&json).to_string();
        assert_eq!(shown, r#""a\u009b31m\u007f\u202e\udb40\udc41\ufeffü""#);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), value);
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in ["Käse & 寿司", "👩\u{200d}🔧", r"C:\path", "שלום"] {
            assert_eq!(Escaped(text).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn the_result_never_needs_escaping(text in any::<String>()) {
            prop_assert!(!Escaped(&text).to_string().chars().any(needs_escape));
        }
    }
}
