//! Values that the service would take and that are probably mistakes.

use crate::change::csv_files::columns::excerpt;
use crate::change::csv_files::problem::{CellMistake, CsvProblemKind};
use crate::change::csv_files::sheet_forms::{
    has_lost_characters, is_error, is_scientific, not_a_tag,
};
use crate::change::csv_files::values;
use crate::model::resource::PIXEL_TYPES;
use crate::model::{Field, FieldKind, Resource};
use crate::suggest::suggest;

/// A cell that was edited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EditedCell<'a> {
    pub resource: Resource,
    pub field: &'a Field,
    /// The type of the row's QR code, if known.
    pub code_type: Option<&'a str>,
    /// Whether the row has no id, so that it may create a record.
    pub is_new: bool,
    pub text: &'a str,
    /// Whether a sheet shows the value in another form.
    pub formatted: bool,
}

/// Why the value is probably a mistake.
pub(crate) fn suspicions(cell: EditedCell<'_>) -> Vec<CellMistake> {
    let EditedCell { resource, field, code_type, is_new, text, formatted } = cell;
    let is_link = field.kind == FieldKind::TextOrList && code_type == Some("link");
    let is_plain = matches!(field.kind, FieldKind::Text | FieldKind::Domain);
    let is_name = is_plain && field.name != "description";
    let mut found = Vec::new();
    let mut add = |kind, what: String| {
        found.push(CellMistake::new(kind, format!("`{}` {what}", excerpt(text))));
    };
    if let Some(ends) = blank_ends(text).filter(|_| is_name || is_link) {
        add(CsvProblemKind::BlankEnds, format!("{ends} with a space"));
    }
    let is_content = field.kind == FieldKind::TextOrList;
    if (is_name || is_content) && is_scientific(text.trim()) {
        let what = "is a number that a spreadsheet has rounded";
        add(CsvProblemKind::RoundedNumber, what.to_owned());
    }
    let is_text = is_plain || field.kind == FieldKind::TextOrList;
    if is_text && is_error(text.trim()) {
        let what = "is the error of a formula in a spreadsheet";
        add(CsvProblemKind::ErrorText, what.to_owned());
    } else if is_name && has_lost_characters(text.trim()) {
        let what = "has `?` where a conversion seems to have lost a character";
        add(CsvProblemKind::LostCharacters, what.to_owned());
    } else if resource == Resource::Pixels
        && field.name == "tag"
        && is_new
        && !formatted
        && let Some(what) = not_a_tag(text.trim())
    {
        add(CsvProblemKind::NotATag, what.to_owned());
    }
    if formatted && is_text {
        let what = "is a date, a time or a percentage, which the sheet shows in another form";
        add(CsvProblemKind::Formatted, what.to_owned());
    }
    if is_link && !has_scheme(text.trim_matches(is_blank)) {
        let what = "is a web address without http:// or https://";
        add(CsvProblemKind::NoScheme, what.to_owned());
    }
    let trimmed = text.trim_matches(is_blank);
    let is_logo = field.name == "logo";
    if is_logo && is_local_path(trimmed) {
        let what = "is a file of this computer, which the service cannot read; write a web address";
        add(CsvProblemKind::LocalLogo, what.to_owned());
    } else if (is_link || is_logo || is_address(resource, field.name)) && is_odd_address(trimmed) {
        add(
            CsvProblemKind::OddAddress,
            "is an address with blanks or typographic quotes".to_owned(),
        );
    }
    if let Some((kind, what)) =
        code_type.filter(|_| is_content).and_then(|it| unusable(it, trimmed))
    {
        add(kind, what.to_owned());
    }
    if resource == Resource::Pixels
        && field.kind == FieldKind::OneOf(PIXEL_TYPES)
        && is_new
        && values::word(PIXEL_TYPES, text).is_none()
    {
        let near = suggest(text, PIXEL_TYPES.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let known = PIXEL_TYPES.join(", ");
        let what = format!("is not a known pixel type; {near}known: {known}");
        add(CsvProblemKind::PixelType, what);
    }
    found
}

/// `begins`, `ends` or both, if a text has spaces there.
fn blank_ends(text: &str) -> Option<&'static str> {
    match (text.starts_with(is_blank), text.ends_with(is_blank)) {
        (true, true) => Some("begins and ends"),
        (true, false) => Some("begins"),
        (false, true) => Some("ends"),
        (false, false) => None,
    }
}

/// White space, and characters without a width.
pub(crate) fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{200B}' | '\u{2060}' | '\u{FEFF}')
}

/// Why a reader of codes cannot use this text as the data of a code of this type. Several parts are
/// JSON, and a service may have rules of its own for them.
fn unusable(code_type: &str, text: &str) -> Option<(CsvProblemKind, &'static str)> {
    let (fits, kind, what) = match code_type {
        "phone" => (is_phone_number(text), CsvProblemKind::NotAPhone, "is not a phone number"),
        "sms" => (is_sms(text), CsvProblemKind::NotAPhone, "does not begin with a phone number"),
        "email" => (is_email(text), CsvProblemKind::NotAnEmail, "is not an e-mail address"),
        _ => return None,
    };
    (!fits && !text.starts_with(['[', '{'])).then_some((kind, what))
}

/// Whether the service opens the values of this field as web addresses.
fn is_address(resource: Resource, field: &str) -> bool {
    resource == Resource::Domains && matches!(field, "domain" | "redirectroot" | "redirect404")
}

/// Whether an address has blanks, or quotes as a word processor writes them.
fn is_odd_address(text: &str) -> bool {
    let is_quote =
        |it| ('\u{2018}'..='\u{201f}').contains(&it) || "\u{ab}\u{bb}\u{2039}\u{203a}".contains(it);
    text.contains(|letter| is_blank(letter) || is_quote(letter))
}

/// Whether a logo is a path of this computer. Another path may be one of the service.
fn is_local_path(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_drive = lower.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && (lower[1..].starts_with(":\\")
            || lower[1..].starts_with(":/") && !lower[1..].starts_with("://"));
    let folders =
        ["file:", "~", "./", "../", "\\\\", "/home/", "/users/", "/tmp/", "/mnt/", "/media/"];
    is_drive || folders.iter().any(|it| lower.starts_with(it)) || text.contains('\\')
}

/// Whether a text is a phone number, with or without `tel:`: at least 3 digits, and what people and
/// phones write between them.
fn is_phone_number(text: &str) -> bool {
    let number = text.strip_prefix("tel:").unwrap_or(text);
    let digits = number.chars().filter(char::is_ascii_digit).count();
    let fits = |it: char| it.is_ascii_digit() || is_blank(it) || "+-()./*#,;".contains(it);
    digits >= 3 && number.chars().all(fits)
}

/// Whether a text begins with a phone number: `+49 151 1234`, `smsto:+49…:text`, `sms:…?body=text`.
fn is_sms(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let number = ["smsto:", "sms:"].iter().find_map(|it| lower.strip_prefix(it)).unwrap_or(&lower);
    is_phone_number(number.split([':', '?']).next().unwrap_or_default())
}

/// Whether a text is an e-mail address, with or without `mailto:` and what may follow it.
fn is_email(text: &str) -> bool {
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    let address = address.split('?').next().unwrap_or_default();
    let has_blank = address.contains(is_blank);
    address.rsplit_once('@').is_some_and(|(user, host)| {
        let is_host = host.contains('.') && !host.starts_with('.') && !host.ends_with('.');
        !has_blank && !user.is_empty() && !user.contains('@') && is_host
    })
}

/// Whether a text begins with a scheme, such as `https:` or `mailto:`. `example.com:8080` does not.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_word = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '+' | '-' | '.'));
    let is_port = rest.starts_with(|first: char| first.is_ascii_digit());
    is_word
        && (rest.starts_with("//") || !(scheme.contains('.') || scheme == "localhost" && is_port))
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::suspicious::*;

    fn found(resource: Resource, field: &str, text: &str) -> Vec<String> {
        let (_, field) = resource.spec().field(field).unwrap();
        let code_type = (resource == Resource::QrCodes).then_some("link");
        let cell = EditedCell { resource, field, code_type, is_new: true, text, formatted: false };
        suspicions(cell).into_iter().map(|it| it.what).collect()
    }

    #[test]
    fn spaces_at_the_ends_of_a_name_are_suspicious() {
        let name = |text: &str| found(Resource::Channels, "name", text);
        assert_eq!(name("Pinterest "), ["`Pinterest ` ends with a space"]);
        assert_eq!(name("\u{a0}a\u{200b}"), ["`\u{a0}a\u{200b}` begins and ends with a space"]);
        assert_eq!(found(Resource::Pixels, "tag", " a").len(), 1);
        for text in ["a b", "x", ""] {
            assert_eq!(name(text), [""; 0], "{text}");
        }
        assert_eq!(found(Resource::Channels, "description", " a "), [""; 0]);
    }

    #[test]
    fn a_date_of_a_sheet_as_a_text_is_suspicious() {
        let formatted = |field: &str| {
            let (_, field) = Resource::QrCodes.spec().field(field).unwrap();
            let text = "2026-03-05 00:00:00";
            let (resource, code_type) = (Resource::QrCodes, Some("text"));
            let cell =
                EditedCell { resource, field, code_type, is_new: true, text, formatted: true };
            suspicions(cell).len()
        };
        assert_eq!((formatted("data"), formatted("name"), formatted("date")), (1, 1, 0));
    }

    #[test]
    fn rounded_numbers_are_suspicious() {
        for text in ["1,23457E+14", "1.23E+14", "-1e-5", "9E+99", " 1,2E+3 "] {
            let found = found(Resource::Pixels, "tag", text);
            assert!(found.iter().any(|it| it.ends_with("rounded")), "{text}: {found:?}");
        }
        // A phone number in a code, which may be printed before anyone sees it.
        let (_, field) = Resource::QrCodes.spec().field("data").unwrap();
        let (resource, code_type, text) = (Resource::QrCodes, Some("text"), "4,91511E+12");
        let cell = EditedCell { resource, field, code_type, is_new: true, text, formatted: false };
        assert!(suspicions(cell)[0].what.ends_with("rounded"));
        for text in ["E+14", "1E5", "12E", "1,2,3E+1", "1.E+1", "AE+1", "123", "1E+1x"] {
            assert_eq!(found(Resource::Pixels, "tag", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn errors_of_formulas_are_suspicious_in_all_texts() {
        let told = ["`#NAME?` is the error of a formula in a spreadsheet"];
        for field in ["name", "description"] {
            assert_eq!(found(Resource::Channels, field, "#NAME?"), told);
        }
        assert_eq!(found(Resource::QrCodes, "data", "#REF!").len(), 2, "and has no scheme");
        assert_eq!(found(Resource::Pixels, "tag", "#NAME?"), told);
    }

    #[test]
    fn tags_of_new_pixels_that_are_no_codes_are_suspicious() {
        assert_eq!(found(Resource::Pixels, "tag", "02.01.2026"), ["`02.01.2026` is a date"]);
        let name = |text: &str| found(Resource::Pixels, "name", text);
        for text in ["02.01.2026", "12,5", "true", "-"] {
            assert_eq!(name(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn names_with_lost_characters_are_suspicious() {
        let told = "has `?` where a conversion seems to have lost a character";
        let name = |text: &str| found(Resource::Channels, "name", text);
        assert_eq!(name("?zmir"), [format!("`?zmir` {told}")]);
        assert_eq!(found(Resource::Channels, "description", "What ?"), [""; 0]);
        let address = found(Resource::QrCodes, "data", "https://a.example/ ?x");
        assert!(address.iter().all(|it| !it.contains("lost")), "{address:?}");
    }

    #[test]
    fn the_address_of_a_link_code_has_a_scheme() {
        let data = |text: &str| found(Resource::QrCodes, "data", text);
        for text in ["www.example.com/a", "example.com:8080/x", "localhost:80", "//x", "menu"] {
            let what = format!("`{text}` is a web address without http:// or https://");
            assert_eq!(data(text), [what]);
        }
        for text in ["https://x.example", "HTTP://x", "mailto:a@x.example", "tel:+49", "a.b://x"] {
            assert_eq!(data(text), [""; 0], "{text}");
        }
        let (_, field) = Resource::QrCodes.spec().field("data").unwrap();
        let code_type = Some("text");
        let resource = Resource::QrCodes;
        let cell = EditedCell {
            resource,
            field,
            code_type,
            is_new: true,
            text: " menu",
            formatted: false,
        };
        assert_eq!(suspicions(cell), []);
    }

    #[test]
    fn values_that_are_printed_are_suspicious_if_no_reader_can_use_them() {
        #[allow(clippy::type_complexity)]
        let table: [(&str, Option<&str>, &[&str], &[&str]); 7] = [
            (
                "data",
                Some("phone"),
                &["hallo", "12", "0151 abc", "tel:x"],
                &["+49 (0)151/12-34", "tel:112", "*100#", "[\"hallo\"]"],
            ),
            (
                "data",
                Some("sms"),
                &["hallo", "smsto:x:1234", "Call 0151 1234"],
                &["+49151123", "smsto:+49151123:Hello", "SMS:0151123?body=a", "{\"phone\":1}"],
            ),
            (
                "data",
                Some("email"),
                &["anna", "anna@", "@example.com", "a b@example.com", "anna@example", "a@b@c.d"],
                &["anna@example.com", "mailto:anna@example.com?subject=a b", "[\"anna\"]"],
            ),
            (
                "data",
                Some("link"),
                &[
                    "https://a.example/a b",
                    "https://a.example/\u{201c}x\u{201d}",
                    "https://\u{ab}a",
                ],
                &["https://a.example/a%20b", "https://a.example/it's"],
            ),
            ("data", Some("text"), &[], &["hallo", "C:\\x.png", "a \u{201c}b\u{201d}"]),
            (
                "logo",
                None,
                &["C:\\logo.png", "d:/logo.png", "~/logo.png", "../a.png", "/home/anna/logo.png"],
                &["https://a.example/logo.png", "logos/logo.png", "/uploads/logo.png"],
            ),
            ("logo", None, &["file:///a.png", "https://a.example/my logo.png"], &["logo.png"]),
        ];
        for (field, code_type, wrong, right) in table {
            let (_, field) = Resource::QrCodes.spec().field(field).unwrap();
            let suspicious = |text| {
                let resource = Resource::QrCodes;
                let cell =
                    EditedCell { resource, field, code_type, is_new: true, text, formatted: false };
                suspicions(cell).len()
            };
            for text in wrong {
                assert_eq!(suspicious(text), 1, "{code_type:?} {text}");
            }
            for text in right {
                assert_eq!(suspicious(text), 0, "{code_type:?} {text}");
            }
        }
        for field in ["redirectroot", "redirect404"] {
            assert_eq!(found(Resource::Domains, field, "https://a.example/a b").len(), 1);
            assert_eq!(found(Resource::Domains, field, "https://a.example/a"), [""; 0]);
        }
    }

    #[test]
    fn an_unknown_type_of_a_new_pixel_is_suspicious() {
        let kind = |text: &str| found(Resource::Pixels, "type", text);
        let told = kind("tikotk");
        let near = "`tikotk` is not a known pixel type; did you mean `tiktok`? known: gtmpixel, ";
        assert!(told[0].starts_with(near), "{told:?}");
        assert!(kind("other")[0].starts_with("`other` is not a known pixel type; known: gtmpixel"));
        assert_eq!(kind("bing"), [""; 0]);
        assert_eq!(kind("Bing"), [""; 0], "is read as bing");
        let (_, field) = Resource::Pixels.spec().field("type").unwrap();
        let resource = Resource::Pixels;
        let cell = EditedCell {
            resource,
            field,
            code_type: None,
            is_new: false,
            text: "other",
            formatted: false,
        };
        assert_eq!(suspicions(cell), []);
    }
}
