//! Splits a record's JSON text into a template and values, so that text common to many records is
//! stored once.
//!
//! A *template* is the text with each value replaced by a slot: `\x01`, a code for the way in which
//! the value is written, and a letter for its column. Thousands of records share a template; the
//! values are in typed columns. JSON text contains no control characters, so nothing needs
//! escaping. A value that no code reproduces exactly is stored verbatim in the `extra` column;
//! several are separated by `\x01`. [`unpack`] reverses [`pack`] exactly, which a property test
//! checks.
//!
//! Pure: no SQL here.

use std::fmt::Write as _;

use crate::model::record::{DecodedRecord, read_field};
use crate::model::{FieldValue, Resource, Role};

pub(super) const SLOT: char = '\x01';

/// The template of a record whose whole text is in `extra`.
pub const VERBATIM: &str = "\x01x-";

/// The code of a string without escapes: its content in quotes.
pub(super) const PLAIN_TEXT: char = 's';

/// The template and the verbatim values of a record.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PackedRecord {
    /// The text with slots in place of values.
    pub template: String,
    /// Values that no code reproduces, separated by `\x01`.
    pub extra: Option<String>,
    /// Whether the template has a slot for the counter, whose value is then in a series.
    pub counts: bool,
}

/// Splits a decoded record of `resource`.
#[must_use]
pub fn pack(resource: Resource, decoded: &DecodedRecord<'_>) -> PackedRecord {
    let raw: &str = &decoded.record.raw;
    let mut packed =
        PackedRecord { template: String::with_capacity(raw.len()), ..PackedRecord::default() };
    let mut done = 0;
    for (member, place) in decoded.members.iter().zip(&decoded.places) {
        let between = raw.get(done..member.start).unwrap_or_default();
        packed.template.push_str(between);
        done = member.start + member.raw_value.len();
        let value = place.map(|place| (place, &decoded.record.values[place]));
        match value.map(|(place, value)| (place, spell(value, member.raw_value))) {
            Some((_, TemplateSlot::Plain)) => packed.template.push_str(member.raw_value),
            Some((place, TemplateSlot::Code(code))) => {
                packed.template.extend([SLOT, code, letter(place)]);
                packed.counts |= read_field(resource, place).role == Role::Counter;
            }
            Some((_, TemplateSlot::Verbatim)) | None => {
                store_verbatim(&mut packed, member.raw_value)
            }
        }
    }
    packed.template.push_str(raw.get(done..).unwrap_or_default());
    packed
}

fn store_verbatim(packed: &mut PackedRecord, raw_value: &str) {
    packed.template.push_str(VERBATIM);
    match &mut packed.extra {
        None => packed.extra = Some(raw_value.to_owned()),
        Some(extra) => {
            extra.push(SLOT);
            extra.push_str(raw_value);
        }
    }
}

fn letter(place: usize) -> char {
    // The table has fewer fields than there are letters.
    u8::try_from(place).map_or('-', |place| char::from(b'a' + place))
}

/// How a value's text is reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplateSlot {
    /// The value is empty: the template contains its text, `null` or `false`.
    Plain,
    /// The value of the column, written by this code.
    Code(char),
    /// No code reproduces it.
    Verbatim,
}

pub(super) fn spell(value: &FieldValue<'_>, raw_value: &str) -> TemplateSlot {
    let codes: &[char] = match value {
        FieldValue::Null => return TemplateSlot::Plain,
        // Without escapes, a string's text is its content in quotes.
        FieldValue::Text(_) if raw_value.starts_with('"') && !raw_value.contains('\\') => {
            return TemplateSlot::Code(PLAIN_TEXT);
        }
        FieldValue::Int(_) if is_shortest(raw_value.trim_matches('"')) => {
            return TemplateSlot::Code(if raw_value.starts_with('"') { 'q' } else { 'i' });
        }
        FieldValue::Text(_) if raw_value.contains("\\/") => &['p', 'u'],
        FieldValue::Text(_) => &['s', 'a', 'p', 'n'],
        FieldValue::Int(_) => return TemplateSlot::Verbatim,
        FieldValue::Bool(_) => &['b', 'i', 'q', 'w'],
        FieldValue::Json(_) => &[],
    };
    let mut text = String::with_capacity(raw_value.len());
    let exact = codes.iter().find(|code| {
        text.clear();
        render(**code, value, &mut text).is_some() && text == raw_value
    });
    exact.map_or(TemplateSlot::Verbatim, |code| TemplateSlot::Code(*code))
}

/// Whether an integer is written without leading zeros and is not `-0`.
fn is_shortest(digits: &str) -> bool {
    digits == "0" || digits.strip_prefix('-').unwrap_or(digits).starts_with(|it| it != '0')
}

/// Writes `value` by `code`; `None` if the code is not for this type.
fn render(code: char, value: &FieldValue<'_>, out: &mut String) -> Option<()> {
    match (code, value) {
        ('s', FieldValue::Text(text)) => escape(text, Escapes { slash: false, ascii: false }, out),
        ('p', FieldValue::Text(text)) => escape(text, Escapes { slash: true, ascii: true }, out),
        ('u', FieldValue::Text(text)) => escape(text, Escapes { slash: true, ascii: false }, out),
        ('a', FieldValue::Text(text)) => escape(text, Escapes { slash: false, ascii: true }, out),
        ('n', FieldValue::Text(text)) => out.push_str(text),
        ('i', FieldValue::Int(number)) => write!(out, "{number}").ok()?,
        ('q', FieldValue::Int(number)) => write!(out, "\"{number}\"").ok()?,
        ('i', FieldValue::Bool(value)) => out.push_str(if *value { "1" } else { "0" }),
        ('q', FieldValue::Bool(value)) => out.push_str(if *value { "\"1\"" } else { "\"0\"" }),
        ('b', FieldValue::Bool(value)) => out.push_str(if *value { "true" } else { "false" }),
        ('w', FieldValue::Bool(value)) => {
            out.push_str(if *value { "\"true\"" } else { "\"false\"" })
        }
        _ => return None,
    }
    Some(())
}

#[derive(Clone, Copy)]
struct Escapes {
    /// `/` as `\/`.
    slash: bool,
    /// Characters other than ASCII as `\uXXXX`.
    ascii: bool,
}

fn escape(text: &str, escapes: Escapes, out: &mut String) {
    out.push('"');
    let mut done = 0;
    for (at, char) in text.char_indices() {
        let short = match char {
            '"' => "\\\"",
            '\\' => "\\\\",
            '/' if escapes.slash => "\\/",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            char if char < ' ' || (escapes.ascii && !char.is_ascii()) => "",
            _ => continue,
        };
        out.push_str(&text[done..at]);
        done = at + char.len_utf8();
        out.push_str(short);
        if short.is_empty() {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out.push_str(&text[done..]);
    out.push('"');
}

/// A stored record does not fit its template. Occurs only in a damaged vault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored template does not fit its values")]
pub struct TemplateMismatch;

/// Restores a record's text from the template, the columns of the read fields in order, and
/// `extra`.
///
/// # Errors
/// [`TemplateMismatch`] if they do not fit.
pub fn unpack(
    template: &str,
    values: &[FieldValue<'_>],
    extra: Option<&str>,
) -> Result<String, TemplateMismatch> {
    let mut verbatim = extra.into_iter().flat_map(|extra| extra.split(SLOT));
    let mut raw = String::with_capacity(template.len() * 2);
    let mut parts = template.split(SLOT);
    raw.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let mut chars = part.chars();
        let (code, letter) = chars.next().zip(chars.next()).ok_or(TemplateMismatch)?;
        if code == 'x' {
            raw.push_str(verbatim.next().ok_or(TemplateMismatch)?);
        } else {
            let place = u32::from(letter).checked_sub(u32::from('a')).ok_or(TemplateMismatch)?;
            let value = values.get(place as usize).ok_or(TemplateMismatch)?;
            render(code, value, &mut raw).ok_or(TemplateMismatch)?;
        }
        raw.push_str(chars.as_str());
    }
    if verbatim.next().is_some() { Err(TemplateMismatch) } else { Ok(raw) }
}

#[cfg(test)]
mod tests {
    use crate::vault::template::*;
    use proptest::prelude::*;

    fn round_trip(resource: Resource, raw: &str) -> PackedRecord {
        let decoded = DecodedRecord::read(resource, Some(1), raw).unwrap();
        let packed = pack(resource, &decoded);
        let values = &decoded.record.values;
        assert_eq!(unpack(&packed.template, values, packed.extra.as_deref()).unwrap(), raw);
        packed
    }

    #[test]
    fn records_that_differ_in_values_alone_share_a_template() {
        let first = r#"{"id":"1","link":"https:\/\/a.example\/q","scans":12,"name":"caf\u00e9","date":"2026-01-01 00:00:00"}"#;
        let second = r#"{"id":"2","link":"https:\/\/b.example\/r","scans":0,"name":"\u00fc","date":"2026-01-02 00:00:00"}"#;
        let packed = round_trip(Resource::QrCodes, first);
        assert_eq!(packed.template, round_trip(Resource::QrCodes, second).template);
        assert_eq!(packed.extra, None);
        assert!(packed.counts);
    }

    #[test]
    fn every_unusual_spelling_is_restored_byte_for_byte() {
        for raw in [
            r#"{"id":1}"#,
            r#" { "id" : 007e0 , "x" : [ 1, {"y":null} ] } "#.replace("007e0", "7").trim(),
            r#"{"id":"01","name":"\u0041","public":"1","rotator":false,"list":null}"#,
            r#"{"id":1,"id":2,"name":"a","domain":"b","name":"c"}"#,
            r#"{"id":1,"name":12.50,"public":"maybe","rotator":{"a":[true]}}"#,
            r#"{"id":1,"name":"\ud83d\ude00 / \/ \u00E9","p\u0075blic":true}"#,
            r#"{"id":1,"name":"\ud800"}"#,
        ] {
            round_trip(Resource::Campaigns, raw);
        }
    }

    #[test]
    fn a_template_that_does_not_fit_is_an_error_and_no_panic() {
        let values = [FieldValue::Int(1)];
        for (template, extra) in [
            ("\x01", None),
            ("\x01i", None),
            ("\x01iz", None),
            ("\x01i!", None),
            ("\x01sa", None),
            ("\x01x-", None),
            ("", Some("left over")),
        ] {
            assert_eq!(unpack(template, &values, extra), Err(TemplateMismatch), "{template:?}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn unpack_restores_the_packed_text(
            id in any::<i64>(), name in json(), public in json(), rotator in json(),
            other in json(), pretty in any::<bool>(),
        ) {
            let value = serde_json::json!({
                "name": name, "public": public, "id": id, "rotator": rotator, "é": other,
            });
            let raw = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            round_trip(Resource::Campaigns, &raw.unwrap());
        }
    }
}
