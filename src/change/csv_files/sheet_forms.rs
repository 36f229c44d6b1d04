//! Texts that spreadsheets and conversions of encodings leave in place of what was typed.

use crate::change::csv_files::values;

/// The results of wrong formulas, as spreadsheets in several languages show them.
const ERRORS: &[&str] = &[
    "#NAME?",
    "#REF!",
    "#VALUE!",
    "#DIV/0!",
    "#N/A",
    "#NUM!",
    "#NULL!",
    "#SPILL!",
    "#CALC!",
    "#BEZUG!",
    "#WERT!",
    "#NV",
    "#ZAHL!",
    "#ÜBERLAUF!",
    "#NOM?",
    "#VALEUR!",
    "#NOMBRE!",
    "#NUL!",
    "#¿NOMBRE?",
    "#¡REF!",
    "#¡VALOR!",
    "#¡DIV/0!",
    "#¡NUM!",
    "#N/D",
    "#NOME?",
    "#RIF!",
    "#VALORE!",
    "#VALOR!",
    "#NOME!",
    "#NAAM?",
    "#VERW!",
    "#WAARDE!",
    "#GETAL!",
    "#NAZWA?",
    "#ADR!",
    "#ARG!",
    "#LICZBA!",
];

/// Whether a text is the result of a wrong formula, or the `###` of a column that is too narrow.
pub(crate) fn is_error(text: &str) -> bool {
    let upper = text.to_uppercase();
    let is_narrow = text.len() >= 3 && text.bytes().all(|it| it == b'#');
    let code = upper.strip_prefix("ERR:").or_else(|| upper.strip_prefix("FEHLER:"));
    ERRORS.contains(&upper.as_str()) || is_narrow || code.is_some_and(is_digits)
}

/// Whether a text is a number as spreadsheets show long ones: `1,23457E+14`.
pub(crate) fn is_scientific(text: &str) -> bool {
    let Some((number, exponent)) = text.split_once(['E', 'e']) else { return false };
    let Some(exponent) = exponent.strip_prefix(['+', '-']) else { return false };
    let number = number.strip_prefix(['+', '-']).unwrap_or(number);
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, "0"));
    [whole, fraction, exponent].into_iter().all(is_digits)
}

/// What a text is, if it is no tag: tags are codes of letters and digits.
pub(crate) fn not_a_tag(text: &str) -> Option<&'static str> {
    if values::boolean(text).is_some() {
        Some("is a boolean")
    } else if is_date(text) {
        Some("is a date")
    } else if is_formatted_number(text) {
        Some("is a number in the form of a spreadsheet")
    } else if !text.chars().any(char::is_alphanumeric) {
        Some("has neither letters nor digits")
    } else {
        None
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

/// Whether a text is a date of three numbers, such as `02.01.2026` or `2026-01-02 00:00:00`.
fn is_date(text: &str) -> bool {
    let date = text.split([' ', 'T']).next().unwrap_or_default();
    ['.', '/', '-'].into_iter().any(|separator| {
        let parts: Vec<_> = date.split(separator).collect();
        let [first, second, third] = parts.as_slice() else { return false };
        let short = |part: &str| part.len() <= 2 && part.parse().is_ok_and(|it: u8| it <= 31);
        let year = |part: &str| matches!(part.len(), 2 | 4);
        parts.iter().all(|part| is_digits(part))
            && short(second)
            && (short(first) && year(third) || first.len() == 4 && short(third))
    })
}

/// Whether a text is a number with a decimal separator, with separators of thousands, or with a
/// percent sign.
fn is_formatted_number(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = text.trim_end_matches(['%', '€', '$', ' ', '\u{a0}', '\u{202f}']);
    let is_blank = |it: char| matches!(it, ' ' | '\u{a0}' | '\u{202f}');
    let parts: Vec<_> =
        number.split(|it: char| matches!(it, '.' | ',' | '\'' | '’') || is_blank(it)).collect();
    match parts.as_slice() {
        [whole] => is_digits(whole) && whole.len() < text.len(),
        [whole, fraction] if number.contains(['.', ',']) => is_digits(whole) && is_digits(fraction),
        [first, thousands @ .., last] => {
            let is_group = |part: &&str| is_digits(part) && part.len() == 3;
            (1..=3).contains(&first.len())
                && is_digits(first)
                && thousands.iter().all(is_group)
                && (is_group(last) || !thousands.is_empty() && is_digits(last))
        }
        [] => false,
    }
}

/// Whether a name has characters that a conversion to another encoding has replaced: a word that
/// begins with `?`, a `?` between two letters, or U+FFFD. A web address may have any `?`.
pub(crate) fn has_lost_characters(name: &str) -> bool {
    if name.contains(char::REPLACEMENT_CHARACTER) {
        return true;
    }
    let letters: Vec<_> = name.chars().collect();
    let is_letter = |at: usize| letters.get(at).is_some_and(|it| it.is_alphabetic());
    let is_blank = |at: Option<usize>| {
        at.and_then(|at| letters.get(at)).is_none_or(|it| it.is_whitespace() || *it == '(')
    };
    let lost = |(at, letter): (usize, &char)| {
        let before = at.checked_sub(1);
        let begins = is_blank(before) && is_letter(at + 1);
        *letter == '?' && (begins || before.is_some_and(is_letter) && is_letter(at + 1))
    };
    !name.contains("://") && letters.iter().enumerate().any(lost)
}

#[cfg(test)]
mod tests {
    use crate::change::csv_files::sheet_forms::*;

    #[test]
    fn errors_of_formulas_are_recognised() {
        for text in ["#NAME?", "#REF!", "#WERT!", "#div/0!", "#N/A", "#NV", "#####", "Err:502"] {
            assert!(is_error(text), "{text}");
        }
        for text in ["#SALE!", "#1", "##", "Err: no", "NAME?", "#NAME? x", ""] {
            assert!(!is_error(text), "{text}");
        }
    }

    #[test]
    fn dates_numbers_and_booleans_are_no_tags() {
        for (text, what) in [
            ("12.5", "number"),
            ("12,5", "number"),
            ("0.07", "number"),
            ("7 %", "number"),
            ("-12,50 €", "number"),
            ("1.234.567", "number"),
            ("1'234'567.5", "number"),
            ("1 234 567", "number"),
            ("2026-01-02 00:00:00", "date"),
            ("02.01.2026", "date"),
            ("1/2/26", "date"),
            ("true", "boolean"),
            ("WAHR", "boolean"),
            ("???", "neither"),
            ("-", "neither"),
        ] {
            assert!(not_a_tag(text).is_some_and(|told| told.contains(what)), "{text}");
        }
        for text in [
            "123456789012345",
            "007",
            "GTM-AB12",
            "AW-123456",
            "123-456-7890",
            "1234 5678",
            "2.0.x",
            "a.b",
            "G-1,2",
            "12-34-56-78",
        ] {
            assert_eq!(not_a_tag(text), None, "{text}");
        }
    }

    #[test]
    fn lost_characters_of_names_are_recognised() {
        for name in ["?zmir", "Filiale ?ód?", "M?nchen", "a\u{fffd}b"] {
            assert!(has_lost_characters(name), "{name}");
        }
        for name in [
            "Why?",
            "?",
            "Qui sommes-nous ?",
            "Who? What?",
            "https://a.example/x?y=z",
            "5?6",
            "Really?!",
        ] {
            assert!(!has_lost_characters(name), "{name}");
        }
    }
}
