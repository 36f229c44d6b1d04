//! Parses a cell as a value of its field's kind.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::change::csv_files::columns::excerpt;
use crate::change::csv_files::problem::{CellMistake, CsvProblemKind};
use crate::model::resource::PIXEL_TYPES;
use crate::model::spec::FieldKind;
use crate::model::{Field, FieldValue};
use crate::suggest::did_you_mean;

/// The words for true that a cell may have, in any case.
pub(crate) const TRUE_WORDS: &[&str] = &[
    "true",
    "1",
    "yes",
    "y",
    "on",
    "x",
    "wahr",
    "ja",
    "vrai",
    "oui",
    "verdadero",
    "sí",
    "si",
    "verdadeiro",
    "sim",
    "vero",
    "sì",
    "waar",
    "prawda",
    "tak",
];

/// The words for false that a cell may have, in any case.
pub(crate) const FALSE_WORDS: &[&str] = &[
    "false", "0", "no", "n", "off", "falsch", "nein", "faux", "non", "falso", "não", "nao",
    "onwaar", "nee", "fałsz", "nie",
];

/// The words that need no remark.
const PLAIN_BOOLEANS: &[&str] = &["true", "1", "yes", "false", "0", "no"];

/// The value of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellValue {
    pub value: FieldValue<'static>,
    /// Whether the cell has the value in another form, such as `ja` for true.
    pub converted: bool,
}

/// Parses an edited cell. Booleans, colours and words of a list may have surrounding blanks and
/// several forms; other text is taken unchanged.
///
/// # Errors
/// A message about the value.
pub(crate) fn checked(field: &Field, text: &str) -> Result<CellValue, CellMistake> {
    let plain = |value| Ok(CellValue { value, converted: false });
    if text.is_empty() {
        return plain(FieldValue::Null);
    }
    let wrong =
        |kind, what: &str| Err(CellMistake::new(kind, format!("`{}` {what}", excerpt(text))));
    let trimmed = text.trim();
    let (value, converted) = match field.kind {
        FieldKind::Int => return plain(FieldValue::Int(integer(text)?)),
        FieldKind::Bool => match boolean(trimmed) {
            Some((value, converted)) => (FieldValue::Bool(value), converted),
            None => {
                return wrong(CsvProblemKind::Boolean, "is not a boolean; write true or false");
            }
        },
        FieldKind::HexColor => match color(trimmed) {
            Some(Color::Hex(_)) if trimmed.starts_with('#') && trimmed.len() == HEX_LENGTH => {
                (owned(trimmed), false)
            }
            Some(color) => (owned(&color.hex()), true),
            None => {
                return wrong(CsvProblemKind::Color(HEX), "is not a colour; write #RRGGBB");
            }
        },
        FieldKind::RgbColor => match color(trimmed) {
            Some(Color::Rgb(_)) => (owned(trimmed), false),
            Some(color) => (owned(&color.rgb()), true),
            None => {
                let what = "is not a colour; write rgb(r,g,b), each 0 to 255";
                return wrong(CsvProblemKind::Color(RGB), what);
            }
        },
        FieldKind::OneOf(words) => match word(words, text) {
            Some(word) => (owned(word), word != text),
            None if words == PIXEL_TYPES => (owned(text), false),
            None => {
                let near = did_you_mean(text, words.iter().copied());
                let what = format!("is not one of {}{near}", words.join(", "));
                return wrong(CsvProblemKind::Word(words), &what);
            }
        },
        _ => (owned(text), false),
    };
    Ok(CellValue { value, converted })
}

/// The word of the list that `text` means, without case and surrounding blanks.
pub(crate) fn word(words: &'static [&'static str], text: &str) -> Option<&'static str> {
    let text = text.trim();
    words.iter().copied().find(|word| word.eq_ignore_ascii_case(text))
}

/// Parses the data of a QR code: text, or a JSON array or object. The data of a text or link code
/// is always text.
///
/// # Errors
/// When the text begins like JSON, must be JSON for this type, and is not valid.
pub(crate) fn data(kind: Option<&str>, text: &str) -> Result<FieldValue<'static>, CellMistake> {
    let begins = text.trim_start();
    let structured = begins.starts_with('[') || begins.starts_with('{');
    if !structured || matches!(kind, Some("text" | "link")) {
        return Ok(owned(text));
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(FieldValue::Json(Cow::Owned(text.to_owned()))),
        Err(_) if kind.is_none() => Ok(owned(text)),
        Err(error) => {
            let what = format!("it begins like JSON but is not valid: {error}");
            Err(CellMistake::new(CsvProblemKind::Json, what))
        }
    }
}

/// Checks that a web address has a scheme.
///
/// # Errors
/// If it does not begin with `http://` or `https://`.
pub(crate) fn web_address(text: &str) -> Result<(), CellMistake> {
    let lower = text.trim_start().get(..8).unwrap_or(text).to_ascii_lowercase();
    if lower.starts_with("http://") || lower.starts_with("https://") {
        return Ok(());
    }
    let what = format!("`{}` has no http:// or https:// in front", excerpt(text));
    Err(CellMistake::new(CsvProblemKind::WebAddress, what))
}

/// Parses a cell leniently, for a value that was not edited.
pub(crate) fn lenient(field: &Field, text: &str) -> FieldValue<'static> {
    if text.is_empty() {
        return FieldValue::Null;
    }
    let fitting = match field.kind {
        FieldKind::Int => text.parse().ok().map(FieldValue::Int),
        FieldKind::Bool if text == "true" => Some(FieldValue::Bool(true)),
        FieldKind::Bool if text == "false" => Some(FieldValue::Bool(false)),
        FieldKind::Bool => None,
        _ => Some(owned(text)),
    };
    fitting.unwrap_or_else(|| match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => FieldValue::Json(Cow::Owned(text.to_owned())),
        Err(_) => owned(text),
    })
}

/// Parses a whole number of 64 bits.
///
/// # Errors
/// A message about the text.
pub(crate) fn integer(text: &str) -> Result<i64, CellMistake> {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let what = format!("`{}` is not a whole number", excerpt(text));
        return Err(CellMistake::new(CsvProblemKind::WholeNumber, what));
    }
    text.parse().map_err(|_| {
        let what = format!("`{}` is out of range for 64 bits", excerpt(text));
        CellMistake::new(CsvProblemKind::OutOfRange, what)
    })
}

fn owned(text: &str) -> FieldValue<'static> {
    FieldValue::Text(Cow::Owned(text.to_owned()))
}

/// The boolean that a word means, and whether the word needs a remark.
pub(crate) fn boolean(text: &str) -> Option<(bool, bool)> {
    let lower = text.to_lowercase();
    let is_in = |words: &[&str]| words.contains(&lower.as_str());
    let value = if is_in(TRUE_WORDS) {
        true
    } else if is_in(FALSE_WORDS) {
        false
    } else {
        return None;
    };
    Some((value, !is_in(PLAIN_BOOLEANS)))
}

const HEX: &str = "#RRGGBB";
const HEX_LENGTH: usize = HEX.len();
const RGB: &str = "rgb(r,g,b)";

/// A colour, in the form of the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Color {
    Hex([u8; 3]),
    Rgb([u8; 3]),
}

impl Color {
    fn hex(self) -> String {
        let (Self::Hex([red, green, blue]) | Self::Rgb([red, green, blue])) = self;
        format!("#{red:02X}{green:02X}{blue:02X}")
    }

    fn rgb(self) -> String {
        let (Self::Hex([red, green, blue]) | Self::Rgb([red, green, blue])) = self;
        format!("rgb({red},{green},{blue})")
    }
}

/// Parses `#RRGGBB`, `RRGGBB`, `#RGB` and `rgb(r,g,b)`.
fn color(text: &str) -> Option<Color> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let part = |from: usize, to: usize| u8::from_str_radix(digits.get(from..to)?, 16).ok();
    match digits.len() {
        6 if is_hex => Some(Color::Hex([part(0, 2)?, part(2, 4)?, part(4, 6)?])),
        3 if is_hex && text.starts_with('#') => {
            let twice = |at: usize| part(at, at + 1).map(|digit| digit * 17);
            Some(Color::Hex([twice(0)?, twice(1)?, twice(2)?]))
        }
        _ => rgb_color(text).map(Color::Rgb),
    }
}

fn rgb_color(text: &str) -> Option<[u8; 3]> {
    let lower = text.to_ascii_lowercase();
    let inner = lower.strip_prefix("rgb(")?.strip_suffix(')')?;
    let part = |part: &str| {
        let part = part.trim();
        let is_plain =
            (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u8>().ok().filter(|_| is_plain)
    };
    let mut parts = inner.split(',').map(part);
    let color = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(color)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::values::*;
    use crate::model::Resource;

    fn cell(resource: Resource, name: &str, text: &str) -> Result<CellValue, String> {
        checked(resource.spec().field(name).unwrap().1, text).map_err(|mistake| mistake.what)
    }

    fn check(resource: Resource, name: &str, text: &str) -> Result<FieldValue<'static>, String> {
        cell(resource, name, text).map(|it| it.value)
    }

    /// The value, and whether the cell had it in another form.
    fn read(resource: Resource, name: &str, text: &str) -> (String, bool) {
        let cell = cell(resource, name, text).unwrap();
        (cell.value.cell().into_owned(), cell.converted)
    }

    #[test]
    fn booleans_have_words_in_several_languages() {
        for (words, value) in [(TRUE_WORDS, "true"), (FALSE_WORDS, "false")] {
            for word in words {
                let converted = !PLAIN_BOOLEANS.contains(word);
                for text in [(*word).to_owned(), word.to_uppercase(), format!(" {word} ")] {
                    let read = read(Resource::Campaigns, "public", &text);
                    assert_eq!(read, (value.to_owned(), converted), "{text}");
                }
            }
        }
        assert!(TRUE_WORDS.iter().all(|word| !FALSE_WORDS.contains(word)));
        assert_eq!(check(Resource::Campaigns, "public", ""), Ok(FieldValue::Null));
        let wrong = check(Resource::Campaigns, "public", "maybe").unwrap_err();
        assert_eq!(wrong, "`maybe` is not a boolean; write true or false");
    }

    #[test]
    fn the_words_of_booleans_are_documented() {
        let docs = include_str!("../../../docs/csv.md");
        let listed = |begin: &str| -> Vec<&str> {
            let text = docs.split_once(begin).map(|(_, rest)| rest).unwrap();
            let text = text.split("\n-").next().and_then(|text| text.split("\n\n").next()).unwrap();
            text.split('`').skip(1).step_by(2).collect()
        };
        assert_eq!(listed("\n- true:"), TRUE_WORDS);
        assert_eq!(listed("\n- false:"), FALSE_WORDS);
    }

    #[test]
    fn colours_have_several_forms_and_become_what_the_api_takes() {
        let hex = |text: &str| read(Resource::Channels, "color", text);
        for text in ["#1f6F54", " #000000 "] {
            assert_eq!(hex(text), (text.trim().to_owned(), false));
        }
        for (text, color) in [
            ("1f6F54", "#1F6F54"),
            ("#fA0", "#FFAA00"),
            ("rgb(31,111,84)", "#1F6F54"),
            (" RGB( 0, 2 ,255 )", "#0002FF"),
        ] {
            assert_eq!(hex(text), (color.to_owned(), true));
        }
        let wrong = [
            "red",
            "#12345",
            "#1234567",
            "123",
            "12345g",
            "#12345g",
            "#ééé",
            "rgb(1,2)",
            "rgb(1,2,3,4)",
            "rgb(0,0,256)",
            "rgb(-1,2,3)",
            "rgb(+1,2,3)",
            "rgb(1,2,3",
            "#",
            "é1234",
        ];
        for text in wrong {
            assert!(check(Resource::Channels, "color", text).is_err(), "{text}");
            assert!(check(Resource::QrCodes, "background", text).is_err(), "{text}");
        }
        let rgb = |text: &str| read(Resource::QrCodes, "background", text);
        for text in ["rgb(0,128,255)", "RGB( 1, 2 ,3 )"] {
            assert_eq!(rgb(text), (text.to_owned(), false));
        }
        for text in ["#1F6F54", "1f6f54"] {
            assert_eq!(rgb(text), ("rgb(31,111,84)".to_owned(), true));
        }
    }

    #[test]
    fn words_of_a_list_ignore_case_and_blanks() {
        assert_eq!(read(Resource::QrCodes, "type", "link"), ("link".to_owned(), false));
        assert_eq!(read(Resource::QrCodes, "type", "Link "), ("link".to_owned(), true));
        assert_eq!(read(Resource::ChannelItems, "type", "QR"), ("qr".to_owned(), true));
        assert_eq!(read(Resource::Pixels, "type", "Bing"), ("bing".to_owned(), true));
        assert_eq!(read(Resource::Pixels, "type", "fpixel"), ("fpixel".to_owned(), false));
        let wrong = check(Resource::QrCodes, "type", "vcrd").unwrap_err();
        assert!(wrong.ends_with("wifi; did you mean `vcard`?"), "{wrong}");
    }

    #[test]
    fn data_is_json_only_for_types_that_allow_it() {
        let list = FieldValue::Json(r#"["a"]"#.into());
        assert_eq!(data(Some("vcard"), r#"["a"]"#), Ok(list));
        assert_eq!(data(Some("text"), "[a"), Ok(FieldValue::Text("[a".into())));
        assert_eq!(data(None, "[a"), Ok(FieldValue::Text("[a".into())));
        assert!(
            data(Some("wifi"), "{a")
                .unwrap_err()
                .what
                .starts_with("it begins like JSON but is not valid")
        );
    }
}
