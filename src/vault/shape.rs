//! How a record's JSON text is kept without storing it twice.
//!
//! The text is split into a *template*, which thousands of records share, and
//! the values, which stand in typed columns. A template is the text with each
//! value cut out and a slot in its place: `\x01`, a code that says how the
//! column becomes the value's text again, and a letter for the column. Control
//! characters never stand in JSON text, so nothing needs escaping. What no code
//! can reproduce to the byte goes verbatim into the `extra` column, in order,
//! separated by `\x01`. [`unpack`] of [`pack`] is the text that came: a property.
//!
//! Pure: no SQL here.

use std::fmt::Write as _;

use crate::model::record::{Decoded, read_field};
use crate::model::{Resource, Role, Value};

pub(super) const SLOT: char = '\x01';

/// The template of a record that is kept verbatim as a whole.
pub const VERBATIM: &str = "\x01x-";

/// The code of text that needs no escapes: its content stands in quotes.
pub(super) const PLAIN_TEXT: char = 's';

/// A record, split.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Packed {
    pub template: String,
    pub extra: Option<String>,
    /// Whether the counter's value was cut out, so that a series holds it.
    pub counts: bool,
}

/// Splits a decoded record of `resource`.
#[must_use]
pub fn pack(resource: Resource, decoded: &Decoded<'_>) -> Packed {
    let raw: &str = &decoded.record.raw;
    let mut packed = Packed { template: String::with_capacity(raw.len()), ..Packed::default() };
    let mut done = 0;
    for (member, place) in decoded.members.iter().zip(&decoded.places) {
        let between = raw.get(done..member.start).unwrap_or_default();
        packed.template.push_str(between);
        done = member.start + member.lexeme.len();
        let value = place.map(|place| (place, &decoded.record.values[place]));
        match value.map(|(place, value)| (place, spell(value, member.lexeme))) {
            Some((_, Spelling::Plain)) => packed.template.push_str(member.lexeme),
            Some((place, Spelling::Code(code))) => {
                packed.template.extend([SLOT, code, letter(place)]);
                packed.counts |= read_field(resource, place).role == Role::Counter;
            }
            Some((_, Spelling::Verbatim)) | None => keep(&mut packed, member.lexeme),
        }
    }
    packed.template.push_str(raw.get(done..).unwrap_or_default());
    packed
}

fn keep(packed: &mut Packed, lexeme: &str) {
    packed.template.push_str(VERBATIM);
    match &mut packed.extra {
        None => packed.extra = Some(lexeme.to_owned()),
        Some(extra) => {
            extra.push(SLOT);
            extra.push_str(lexeme);
        }
    }
}

fn letter(place: usize) -> char {
    // The table has fewer fields than the alphabet letters.
    u8::try_from(place).map_or('-', |place| char::from(b'a' + place))
}

/// How a value's text comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// There is no value: `null` or `false` stands in the template.
    Plain,
    /// The column, by this code.
    Code(char),
    /// Nothing can reproduce it.
    Verbatim,
}

pub(super) fn spell(value: &Value<'_>, lexeme: &str) -> Spelling {
    let codes: &[char] = match value {
        Value::Null => return Spelling::Plain,
        // Without escapes, a string's text is its content in quotes.
        Value::Text(_) if lexeme.starts_with('"') && !lexeme.contains('\\') => {
            return Spelling::Code(PLAIN_TEXT);
        }
        Value::Int(_) if is_shortest(lexeme.trim_matches('"')) => {
            return Spelling::Code(if lexeme.starts_with('"') { 'q' } else { 'i' });
        }
        Value::Text(_) if lexeme.contains("\\/") => &['p', 'u'],
        Value::Text(_) => &['s', 'a', 'p', 'n'],
        Value::Int(_) => return Spelling::Verbatim,
        Value::Bool(_) => &['b', 'i', 'q', 'w'],
        Value::Json(_) => &[],
    };
    let mut text = String::with_capacity(lexeme.len());
    let exact = codes.iter().find(|code| {
        text.clear();
        render(**code, value, &mut text).is_some() && text == lexeme
    });
    exact.map_or(Spelling::Verbatim, |code| Spelling::Code(*code))
}

/// Whether the digits of an integer are how it is written by itself: no zeros
/// in front, and no sign before a zero.
fn is_shortest(digits: &str) -> bool {
    digits == "0" || digits.strip_prefix('-').unwrap_or(digits).starts_with(|it| it != '0')
}

/// Writes `value` as `code` says; `None` where the two do not go together.
fn render(code: char, value: &Value<'_>, out: &mut String) -> Option<()> {
    match (code, value) {
        ('s', Value::Text(text)) => escape(text, Escapes { slash: false, ascii: false }, out),
        ('p', Value::Text(text)) => escape(text, Escapes { slash: true, ascii: true }, out),
        ('u', Value::Text(text)) => escape(text, Escapes { slash: true, ascii: false }, out),
        ('a', Value::Text(text)) => escape(text, Escapes { slash: false, ascii: true }, out),
        ('n', Value::Text(text)) => out.push_str(text),
        ('i', Value::Int(number)) => write!(out, "{number}").ok()?,
        ('q', Value::Int(number)) => write!(out, "\"{number}\"").ok()?,
        ('i', Value::Bool(value)) => out.push_str(if *value { "1" } else { "0" }),
        ('q', Value::Bool(value)) => out.push_str(if *value { "\"1\"" } else { "\"0\"" }),
        ('b', Value::Bool(value)) => out.push_str(if *value { "true" } else { "false" }),
        ('w', Value::Bool(value)) => out.push_str(if *value { "\"true\"" } else { "\"false\"" }),
        _ => return None,
    }
    Some(())
}

#[derive(Clone, Copy)]
struct Escapes {
    /// `/` as `\/`.
    slash: bool,
    /// All but ASCII as `\uXXXX`.
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

/// Why a stored record cannot be put together again. Only a damaged vault has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored template does not fit its values")]
pub struct Misfit;

/// Puts the text together again from the template, the read fields' columns in
/// order, and `extra`.
///
/// # Errors
/// [`Misfit`] when the three do not go together.
pub fn unpack(template: &str, values: &[Value<'_>], extra: Option<&str>) -> Result<String, Misfit> {
    let mut verbatim = extra.into_iter().flat_map(|extra| extra.split(SLOT));
    let mut raw = String::with_capacity(template.len() * 2);
    let mut parts = template.split(SLOT);
    raw.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let mut chars = part.chars();
        let (code, letter) = chars.next().zip(chars.next()).ok_or(Misfit)?;
        if code == 'x' {
            raw.push_str(verbatim.next().ok_or(Misfit)?);
        } else {
            let place = u32::from(letter).checked_sub(u32::from('a')).ok_or(Misfit)?;
            let value = values.get(place as usize).ok_or(Misfit)?;
            render(code, value, &mut raw).ok_or(Misfit)?;
        }
        raw.push_str(chars.as_str());
    }
    if verbatim.next().is_some() { Err(Misfit) } else { Ok(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(resource: Resource, raw: &str) -> Packed {
        let decoded = Decoded::read(resource, Some(1), raw).unwrap();
        let packed = pack(resource, &decoded);
        let values = &decoded.record.values;
        assert_eq!(unpack(&packed.template, values, packed.extra.as_deref()).unwrap(), raw);
        packed
    }

    #[test]
    fn records_that_differ_in_values_alone_share_a_template() {
        let first = r#"{"id":"1","link":"https:\/\/a.example\/q","scans":12,"name":"caf\u00e9","date":"2026-01-01 00:00:00"}"#;
        let second = r#"{"id":"2","link":"https:\/\/b.example\/r","scans":0,"name":"\u00fc","date":"2026-01-02 00:00:00"}"#;
        let packed = there_and_back(Resource::QrCodes, first);
        assert_eq!(packed.template, there_and_back(Resource::QrCodes, second).template);
        assert_eq!(packed.extra, None);
        assert!(packed.counts);
    }

    #[test]
    fn every_odd_spelling_comes_back_to_the_byte() {
        for raw in [
            r#"{"id":1}"#,
            r#" { "id" : 007e0 , "x" : [ 1, {"y":null} ] } "#.replace("007e0", "7").trim(),
            r#"{"id":"01","name":"\u0041","public":"1","rotator":false,"list":null}"#,
            r#"{"id":1,"id":2,"name":"a","domain":"b","name":"c"}"#,
            r#"{"id":1,"name":12.50,"public":"maybe","rotator":{"a":[true]}}"#,
            r#"{"id":1,"name":"\ud83d\ude00 / \/ \u00E9","p\u0075blic":true}"#,
            r#"{"id":1,"name":"\ud800"}"#,
        ] {
            there_and_back(Resource::Campaigns, raw);
        }
    }

    #[test]
    fn a_template_that_does_not_fit_is_an_error_and_no_panic() {
        let values = [Value::Int(1)];
        for (template, extra) in [
            ("\x01", None),
            ("\x01i", None),
            ("\x01iz", None),
            ("\x01i!", None),
            ("\x01sa", None),
            ("\x01x-", None),
            ("", Some("left over")),
        ] {
            assert_eq!(unpack(template, &values, extra), Err(Misfit), "{template:?}");
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
        fn unpack_of_pack_is_the_text_that_came(
            id in any::<i64>(), name in json(), public in json(), rotator in json(),
            other in json(), pretty in any::<bool>(),
        ) {
            let value = serde_json::json!({
                "name": name, "public": public, "id": id, "rotator": rotator, "é": other,
            });
            let raw = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            there_and_back(Resource::Campaigns, &raw.unwrap());
        }
    }
}
