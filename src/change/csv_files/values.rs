//! Parses a cell as a value of its field's kind.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::change::csv_files::columns::excerpt;
use crate::model::resource::PIXEL_TYPES;
use crate::model::spec::FieldKind;
use crate::model::{Field, FieldValue};
use crate::suggest::did_you_mean;

/// Parses an edited cell strictly. Colours and booleans may have surrounding blanks; other text is
/// taken unchanged.
///
/// # Errors
/// A message about the value.
pub(crate) fn checked(field: &Field, text: &str) -> Result<FieldValue<'static>, String> {
    if text.is_empty() {
        return Ok(FieldValue::Null);
    }
    let quoted = || format!("`{}`", excerpt(text));
    match field.kind {
        FieldKind::Int => integer(text).map(FieldValue::Int),
        FieldKind::Bool => match boolean(text.trim()) {
            Some(value) => Ok(FieldValue::Bool(value)),
            None => Err(format!("{} is not a boolean; write true or false", quoted())),
        },
        FieldKind::HexColor if !is_hex_color(text.trim()) => {
            Err(format!("{} is not a colour; write #RRGGBB", quoted()))
        }
        FieldKind::RgbColor if !is_rgb_color(text.trim()) => {
            Err(format!("{} is not a colour; write rgb(r,g,b), each 0 to 255", quoted()))
        }
        FieldKind::HexColor | FieldKind::RgbColor => Ok(owned(text.trim())),
        FieldKind::OneOf(words) if !words.contains(&text) && words != PIXEL_TYPES => Err(format!(
            "{} is not one of {}{}",
            quoted(),
            words.join(", "),
            did_you_mean(text, words.iter().copied())
        )),
        _ => Ok(owned(text)),
    }
}

/// A warning about an unknown pixel type. It may be valid: live services have more types than the
/// API document.
pub(crate) fn unknown_pixel_type(field: &Field, text: &str) -> Option<String> {
    let FieldKind::OneOf(words) = field.kind else { return None };
    (words == PIXEL_TYPES && !text.is_empty() && !words.contains(&text)).then(|| {
        let near = did_you_mean(text, words.iter().copied());
        format!("unknown pixel type `{}`{near}", excerpt(text))
    })
}

/// Parses the data of a QR code: text, or a JSON array or object. The data of a text or link code
/// is
/// always text.
///
/// # Errors
/// When the text begins like JSON, must be JSON for this type, and is not valid.
pub(crate) fn data(kind: Option<&str>, text: &str) -> Result<FieldValue<'static>, String> {
    let begins = text.trim_start();
    let structured = begins.starts_with('[') || begins.starts_with('{');
    if !structured || matches!(kind, Some("text" | "link")) {
        return Ok(owned(text));
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(FieldValue::Json(Cow::Owned(text.to_owned()))),
        Err(_) if kind.is_none() => Ok(owned(text)),
        Err(error) => Err(format!("it begins like JSON but is not valid: {error}")),
    }
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
pub(crate) fn integer(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{}` is not a whole number", excerpt(text)));
    }
    text.parse().map_err(|_| format!("`{}` is out of range for 64 bits", excerpt(text)))
}

fn owned(text: &str) -> FieldValue<'static> {
    FieldValue::Text(Cow::Owned(text.to_owned()))
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or_default();
    digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_rgb_color(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some(inner) = lower.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<_> = inner.split(',').take(4).map(str::trim).collect();
    let part = |part: &&str| {
        (1..=3).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.parse::<u8>().is_ok()
    };
    parts.len() == 3 && parts.iter().all(part)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::values::*;
    use crate::model::Resource;

    fn check(resource: Resource, name: &str, text: &str) -> Result<FieldValue<'static>, String> {
        checked(resource.spec().field(name).unwrap().1, text)
    }

    #[test]
    fn booleans_have_six_spellings() {
        for text in ["true", "TRUE", "1", "yes", " Yes "] {
            assert_eq!(
                check(Resource::Campaigns, "public", text),
                Ok(FieldValue::Bool(true)),
                "{text}"
            );
        }
        for text in ["false", "0", "no"] {
            assert_eq!(check(Resource::Campaigns, "public", text), Ok(FieldValue::Bool(false)));
        }
        let wrong = check(Resource::Campaigns, "public", "maybe").unwrap_err();
        assert_eq!(wrong, "`maybe` is not a boolean; write true or false");
    }

    #[test]
    fn colours_have_one_form_each() {
        for text in ["#1f6F54", " #000000 "] {
            assert!(check(Resource::Channels, "color", text).is_ok(), "{text}");
        }
        for text in ["red", "#12345", "#1234567", "123456", "#12345g", "rgb(1,2,3)", "#ééé"] {
            assert!(check(Resource::Channels, "color", text).is_err(), "{text}");
        }
        for text in ["rgb(0,128,255)", "RGB( 1, 2 ,3 )"] {
            assert!(check(Resource::QrCodes, "background", text).is_ok(), "{text}");
        }
        for text in
            ["rgb(0,0,256)", "rgb(1,2)", "rgb(1,2,3,4)", "rgb(-1,2,3)", "rgb(+1,2,3)", "#000000"]
        {
            assert!(check(Resource::QrCodes, "background", text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_pixel_type_is_a_warning_and_an_unknown_code_type_an_error() {
        let (_, field) = Resource::Pixels.spec().field("type").unwrap();
        assert!(checked(field, "fpixel").is_ok());
        let warning = unknown_pixel_type(field, "gtmpixl").unwrap();
        assert_eq!(warning, "unknown pixel type `gtmpixl`; did you mean `gtmpixel`?");
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
                .starts_with("it begins like JSON but is not valid")
        );
    }
}
