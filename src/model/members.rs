//! Splits the text of a JSON object into its members.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::value;

/// One member of a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name, unescaped.
    pub name: Cow<'a, str>,
    /// Its value as JSON text, to the byte.
    pub raw_value: &'a str,
    /// Where `raw_value` begins in the object's text, in bytes.
    pub start: usize,
}

/// The members of a JSON object, in order, duplicates included.
///
/// # Errors
/// When `raw` is not a JSON object.
pub(super) fn members(raw: &str) -> Result<Vec<Member<'_>>, serde_json::Error> {
    plain(raw).map_or_else(|| parse(raw), Ok)
}

/// Fast path for most records: a flat object, names without escapes, and strings, whole numbers,
/// booleans or null as values. `None` for anything else, valid JSON or not.
fn plain(raw: &str) -> Option<Vec<Member<'_>>> {
    let mut scan = TokenScan::new(raw);
    let mut members = Vec::with_capacity(8);
    scan.token(b'{')?;
    loop {
        scan.token(b'"')?;
        let name = scan.at;
        if scan.string()? {
            return None;
        }
        let name = raw.get(name..scan.at - 1)?;
        scan.token(b':')?;
        scan.blanks();
        let start = scan.at;
        let raw_value = scan.raw_value()?;
        members.push(Member { name: Cow::Borrowed(name), raw_value, start });
        scan.blanks();
        match scan.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    scan.blanks();
    (scan.at == raw.len()).then_some(members)
}

/// A cursor over a text that may be plain JSON.
pub(crate) struct TokenScan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> TokenScan<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// The number of bytes read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Reads exactly this text.
    pub fn literal(&mut self, expected: &str) -> Option<()> {
        self.word(expected.as_bytes())
    }

    /// Reads a string, a whole number, a boolean or null, and returns its text.
    pub fn raw_value(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.value()?;
        self.text.get(start..self.at)
    }

    /// Reads a string without escapes, and returns its text with the quotes. Does not advance if
    /// there is none.
    pub fn plain_string(&mut self) -> Option<&'a str> {
        let start = self.at;
        let plain = self.next() == Some(b'"') && self.string() == Some(false);
        if !plain {
            self.at = start;
            return None;
        }
        self.text.get(start..self.at)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn token(&mut self, expected: u8) -> Option<()> {
        self.blanks();
        (self.next()? == expected).then_some(())
    }

    fn value(&mut self) -> Option<()> {
        match self.next()? {
            b'"' => self.string().map(drop),
            b't' => self.word(b"rue"),
            b'f' => self.word(b"alse"),
            b'n' => self.word(b"ull"),
            b'-' => match self.next()? {
                b'0' => Some(()),
                b'1'..=b'9' => self.digits(),
                _ => None,
            },
            b'0' => Some(()),
            b'1'..=b'9' => self.digits(),
            _ => None,
        }
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        let found = self.bytes.get(self.at..)?.starts_with(rest);
        self.at += rest.len();
        found.then_some(())
    }

    /// Reads the rest of a whole number. A fraction fails at the next token.
    #[allow(clippy::unnecessary_wraps)] // one of several kinds of value
    fn digits(&mut self) -> Option<()> {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Some(())
    }

    /// Reads the rest of a string with its closing quote; true if it has escapes.
    fn string(&mut self) -> Option<bool> {
        let mut escapes = false;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let plain = memchr::memchr2(b'"', b'\\', rest)?;
            if rest.get(..plain)?.iter().any(|byte| *byte < b' ') {
                return None;
            }
            self.at += plain + 1;
            if rest.get(plain) == Some(&b'"') {
                return Some(escapes);
            }
            escapes = true;
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.bytes.get(self.at..self.at + 4)?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }
}

/// Reads any JSON object.
fn parse(raw: &str) -> Result<Vec<Member<'_>>, serde_json::Error> {
    struct Members(usize);
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<Member<'de>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::with_capacity(8);
            while let Some(name) = map.next_key::<&'de RawValue>()? {
                let raw_value = map.next_value::<&'de RawValue>()?.get();
                let name = value::text(name.get())
                    .ok_or_else(|| A::Error::custom("a member's name is not text"))?;
                // `raw_value` is a slice of the text that is read.
                let start = (raw_value.as_ptr() as usize).saturating_sub(self.0);
                members.push(Member { name, raw_value, start });
            }
            Ok(members)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    let members = deserializer.deserialize_map(Members(raw.as_ptr() as usize))?;
    deserializer.end()?;
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flat_records_use_the_fast_path_with_any_whitespace() {
        for raw in [
            r#"{"id":1,"link":"https:\/\/a.example\/q","name":"caf\u00e9","at":null}"#,
            "{ \"id\" : -12 ,\n\t\"public\":true , \"x\":false,\"é\":\"日本\" }\r\n",
        ] {
            assert_eq!(plain(raw).unwrap(), parse(raw).unwrap());
        }
    }

    #[test]
    fn other_texts_are_passed_to_the_parser() {
        for raw in ["", "{", "{}", r#"{"a":1.5}"#, r#"{"a":01}"#, r#"{"a":[1]}"#, r#"{"\u0061":1}"#]
        {
            assert_eq!(plain(raw), None, "{raw}");
        }
    }

    proptest! {
        /// Valid and damaged texts similar to JSON: `plain` reads the same members as the parser.
        #[test]
        fn the_fast_path_agrees_with_the_parser(
            parts in prop::collection::vec(prop::sample::select(PARTS), 0..12), close in any::<bool>(),
        ) {
            let raw = format!("{{{}{}", parts.concat(), if close { "}" } else { "" });
            if let Some(members) = plain(&raw) {
                prop_assert_eq!(members, parse(&raw).unwrap());
            }
        }
    }

    const PARTS: &[&str] = &[
        r#""a":1"#,
        r#""b":"x""#,
        r#""c":"\/\u00e9""#,
        r#""d":-0"#,
        r#""e":01"#,
        r#""f":1e3"#,
        r#""g":"\ud800""#,
        r#""h":"\u12""#,
        r#""i":"\q""#,
        "\"j\":\"\t\"",
        r#""k":tru"#,
        r#""l":null"#,
        ",",
        ",",
        ",",
        " ",
        "\n",
        "}",
        "\"",
        "\\",
        ":",
        "-",
        "\u{c}",
        "\u{7f}",
    ];
}
