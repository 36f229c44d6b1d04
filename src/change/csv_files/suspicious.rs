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
    let is_name = field.kind == FieldKind::Text && field.name != "description";
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
    let is_text = matches!(field.kind, FieldKind::Text | FieldKind::TextOrList);
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
fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{200B}' | '\u{2060}' | '\u{FEFF}')
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
        assert_eq!(found(Resource::QrCodes, "data", "https://a.example/ ?x"), [""; 0]);
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
