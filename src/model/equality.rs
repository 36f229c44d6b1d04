//! When two values of a field are equal. Planner, verification, matching, diff, migration and undo
//! ask this one function.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::sent_values::{SentFields, stored_form};
use super::spec::{Field, FieldKind};
use super::value::{FieldValue, from_json};

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equality {
    /// The same value, perhaps in another spelling that the field's type allows.
    Equal,
    /// The value that the service makes of the wanted one.
    Stored,
    /// Another value.
    Different,
}

impl Equality {
    /// Whether the held value is the wanted one, or what the service makes of it.
    #[must_use]
    pub const fn is_same(self) -> bool {
        !matches!(self, Self::Different)
    }
}

/// What is known of the form in which the service stores a value.
#[derive(Debug, Clone, Copy)]
pub enum FormEvidence<'a> {
    /// Nothing.
    None,
    /// linkvault has sent the wanted value to the record that was then read. Any form that services
    /// are known to make counts.
    JustSent,
    /// The sent values of the record, with the forms that earlier writes of linkvault were stored
    /// in.
    Learnt(&'a SentFields),
}

impl<'a> From<Option<&'a SentFields>> for FormEvidence<'a> {
    fn from(sent: Option<&'a SentFields>) -> Self {
        sent.map_or(Self::None, Self::Learnt)
    }
}

/// Compares the value that a field should have with the one that the record has.
#[must_use]
pub fn compare(
    field: &Field,
    wanted: &FieldValue<'_>,
    held: &FieldValue<'_>,
    evidence: FormEvidence<'_>,
) -> Equality {
    if are_equal(field, wanted, held) {
        return Equality::Equal;
    }
    let is_stored = match evidence {
        FormEvidence::None => false,
        FormEvidence::JustSent => is_form_of(field, wanted, held),
        FormEvidence::Learnt(sent) => sent_form(sent, field, held)
            .is_some_and(|sent| are_equal(field, &from_json(sent), wanted)),
    };
    if is_stored { Equality::Stored } else { Equality::Different }
}

/// The value that linkvault sent for `field`, if `held` is the form that the service gave it.
#[must_use]
pub fn sent_form<'a>(
    sent: &'a SentFields,
    field: &Field,
    held: &FieldValue<'_>,
) -> Option<&'a Json> {
    let form = stored_form(sent, field.name)?;
    let is_form = match form.stored {
        Some(stored) => are_equal(field, &from_json(stored), held),
        None => is_form_of(field, &from_json(form.sent), held),
    };
    is_form.then_some(form.sent)
}

/// Whether two values of a field are [`Equality::Equal`]: a missing text is empty, an unset flag is
/// off, numbers may be texts, colours ignore spelling, and domains the case of scheme and host.
#[must_use]
pub fn are_equal(field: &Field, one: &FieldValue<'_>, other: &FieldValue<'_>) -> bool {
    if one == other {
        return true;
    }
    if field.kind == FieldKind::Bool {
        return flag(one).is_some_and(|one| Some(one) == flag(other));
    }
    match (plain(one), plain(other)) {
        (Some(one), Some(other)) => {
            one == other
                || match field.kind {
                    FieldKind::HexColor | FieldKind::RgbColor => colour(&one) == colour(&other),
                    FieldKind::Domain => domain(&one) == domain(&other),
                    _ => false,
                }
        }
        (None, None) => one.json() == other.json() && !one.json().is_null(),
        _ => false,
    }
}

/// The value of a flag; an empty text is off.
#[must_use]
pub fn flag(value: &FieldValue<'_>) -> Option<bool> {
    match value {
        FieldValue::Bool(flag) => Some(*flag),
        value => match plain(value)?.as_ref() {
            "" | "0" | "false" => Some(false),
            "1" | "true" => Some(true),
            _ => None,
        },
    }
}

/// A text or a number; empty for a missing value, `None` for lists and objects.
fn plain<'v>(value: &'v FieldValue<'_>) -> Option<Cow<'v, str>> {
    match value {
        FieldValue::Null => Some("".into()),
        FieldValue::Text(text) => Some(text.as_ref().into()),
        FieldValue::Int(number) => Some(number.to_string().into()),
        FieldValue::Bool(_) => None,
        FieldValue::Json(text) => {
            let is_number = text.starts_with(|it: char| it == '-' || it.is_ascii_digit());
            is_number.then(|| text.as_ref().into())
        }
    }
}

/// A colour in one spelling, whether it is `#RRGGBB` or `rgb(r,g,b)`.
fn colour(text: &str) -> String {
    let spelling = squeezed(text);
    let parts = spelling.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let parts: Option<Vec<u8>> =
        parts.and_then(|parts| parts.split(',').map(|part| part.parse().ok()).collect());
    match parts.as_deref() {
        Some([red, green, blue]) => format!("#{red:02x}{green:02x}{blue:02x}"),
        _ => spelling,
    }
}

/// A domain's URL with scheme and host in lower case.
#[must_use]
pub fn domain(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    format!("{}{}", url[..end].to_lowercase(), &url[end..])
}

/// Whether a service may have made `held` of the value `sent`.
fn is_form_of(field: &Field, sent: &FieldValue<'_>, held: &FieldValue<'_>) -> bool {
    let (Some(sent), Some(held)) = (plain(sent), plain(held)) else { return false };
    let same_host = || domain_host(&sent) == domain_host(&held);
    loosened(&sent) == loosened(&held) || (field.kind == FieldKind::Domain && same_host())
}

/// The text without what services change: letter case, blanks, slashes at the end, the encoding of
/// URLs, and the entities of HTML.
#[must_use]
pub fn loosened(text: &str) -> String {
    let decoded = percent_decoded(text);
    let mut text = decoded.as_ref().to_owned();
    for (entity, plain) in ENTITIES {
        if text.contains('&') {
            text = text.replace(entity, plain);
        }
    }
    squeezed(text.trim_end().trim_end_matches('/'))
}

/// `&` is last, so that no entity is resolved twice.
const ENTITIES: [(&str, &str); 6] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#039;", "'"),
    ("&#39;", "'"),
    ("&amp;", "&"),
];

/// A URL without percent-encoding; other texts unchanged.
fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains("://") || !text.contains('%') {
        return text.into();
    }
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|code| code.bytes().all(|it| it.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).map_or(text.into(), Cow::Owned)
}

/// The text in lower case, without blanks.
fn squeezed(text: &str) -> String {
    fold_case(text).chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// The text in lower case. A final sigma becomes a plain sigma, so both compare as equal.
#[must_use]
pub fn fold_case(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.map(|letter| if letter == 'ς' { 'σ' } else { letter }).collect()
}

/// The host of a domain's URL in lower case. The service identifies a domain by its host.
#[must_use]
pub fn domain_host(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, host)| host);
    host.split(['/', '?', '#']).next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::Equality::{Different, Equal, Stored};
    use super::*;
    use crate::model::Resource;
    use crate::model::sent_values::{form_of, unseen_form};
    use serde_json::json;

    /// A field, the wanted value, the held value; the result without evidence, and after the
    /// wanted value was sent.
    #[rustfmt::skip]
    fn table() -> Vec<(Resource, &'static str, Json, Json, Equality, Equality)> {
        use Resource::{Account, Campaigns, Channels, Domains, Pixels, QrCodes};
        vec![
            // Letter case.
            (Channels, "name", json!("News"), json!("news"), Different, Stored),
            (Channels, "description", json!("ÄB"), json!("äb"), Different, Stored),
            (Pixels, "tag", json!("AB-1"), json!("ab-1"), Different, Stored),
            (Pixels, "type", json!("bing"), json!("Bing"), Different, Stored),
            (Account, "email", json!("A@x.example"), json!("a@x.example"), Different, Stored),
            (Domains, "redirectroot", json!("https://x/A"), json!("https://x/a"), Different, Stored),
            (Domains, "domain", json!("HTTPS://Go.X/a"), json!("https://go.x/a"), Equal, Equal),
            (Domains, "domain", json!("https://go.x/A"), json!("https://go.x/a"), Different, Stored),
            (Domains, "domain", json!("https://go.x"), json!("http://go.x"), Different, Stored),
            (Domains, "domain", json!("https://go.x"), json!("https://go.y"), Different, Different),
            // Blanks.
            (Channels, "name", json!(" News "), json!("News"), Different, Stored),
            (Channels, "name", json!("A  b"), json!("A b"), Different, Stored),
            (Channels, "description", json!("a\nb"), json!("a b"), Different, Stored),
            (Pixels, "tag", json!("ab-1 "), json!("ab-1"), Different, Stored),
            (Channels, "name", json!("   "), json!(null), Different, Stored),
            // Slashes, encoding, entities.
            (Domains, "redirect404", json!("https://x/a/"), json!("https://x/a"), Different, Stored),
            (Domains, "redirect404", json!("https://x/ü b"), json!("https://x/%C3%BC%20b"), Different, Stored),
            (Domains, "redirect404", json!("https://x/%zz"), json!("https://x/%yy"), Different, Different),
            (Channels, "description", json!("a & <b>"), json!("a &amp; &lt;b&gt;"), Different, Stored),
            (Channels, "description", json!("50 %20"), json!("50  "), Different, Different),
            // Numbers and strings.
            (Channels, "name", json!("2026"), json!(2026), Equal, Equal),
            (Channels, "name", json!("2026"), json!("2027"), Different, Different),
            (QrCodes, "scans", json!("7"), json!(7), Equal, Equal),
            // Booleans.
            (Channels, "starred", json!(true), json!("1"), Equal, Equal),
            (Channels, "starred", json!(false), json!(null), Equal, Equal),
            (Channels, "starred", json!(0), json!(false), Equal, Equal),
            (Channels, "starred", json!(true), json!(false), Different, Different),
            (Campaigns, "public", json!(true), json!(null), Different, Different),
            // Colours.
            (Channels, "color", json!("#AABBCC"), json!("#aabbcc"), Equal, Equal),
            (Channels, "color", json!("#AABBCC"), json!("rgb(170, 187,204)"), Equal, Equal),
            (Channels, "color", json!("#AABBCC"), json!("#AABBCD"), Different, Different),
            (QrCodes, "background", json!("rgb(1, 2,3)"), json!("RGB(1,2,3)"), Equal, Equal),
            // Missing values and lists.
            (Channels, "description", json!(""), json!(null), Equal, Equal),
            (Campaigns, "rotator", json!(""), json!(null), Equal, Equal),
            (QrCodes, "data", json!(["a", "b"]), json!(["a", "b"]), Equal, Equal),
            (QrCodes, "data", json!(["a", "b"]), json!(["b", "a"]), Different, Different),
            (Channels, "name", json!("a"), json!("b"), Different, Different),
        ]
    }

    #[test]
    fn each_form_of_each_field_has_one_result() {
        for (resource, name, wanted, held, plain, sent) in table() {
            let (_, field) = resource.spec().field(name).unwrap();
            let at = format!("{resource}.{name} {wanted} {held}");
            let with = |evidence| compare(field, &from_json(&wanted), &from_json(&held), evidence);
            assert_eq!(with(FormEvidence::None), plain, "{at}");
            assert_eq!(with(FormEvidence::JustSent), sent, "{at}, just sent");
            // What was learnt counts for exactly these two values.
            let (key, form) = form_of(name, &wanted, &held);
            let learnt = SentFields::from([(key, form)]);
            let learnt = FormEvidence::Learnt(&learnt);
            let expected = if plain == Equal { Equal } else { Stored };
            assert_eq!(with(learnt), expected, "{at}, learnt");
            let other = Json::from("something else");
            let is = |wanted, held| compare(field, &from_json(wanted), &from_json(held), learnt);
            assert_eq!(is(&other, &held), Different, "{at}, another wanted value");
            assert_eq!(is(&wanted, &other), Different, "{at}, changed since");
            // Until a list was read, the form is not known.
            let unseen = SentFields::from([unseen_form(name, &wanted)]);
            assert_eq!(with(FormEvidence::Learnt(&unseen)), sent, "{at}, unseen");
        }
    }

    #[test]
    fn a_domain_ignores_case_in_scheme_and_host_only() {
        assert_eq!(domain("HTTPS://Go.Example.com/Path"), "https://go.example.com/Path");
        assert_eq!(domain("Go.Example.com"), "go.example.com");
    }

    #[test]
    fn values_that_are_no_json_are_equal_only_to_themselves() {
        let (_, field) = Resource::QrCodes.spec().field("data").unwrap();
        let value = |text: &'static str| FieldValue::Json(text.into());
        assert!(are_equal(field, &value(r#"["a", "b"]"#), &value(r#"["a","b"]"#)));
        assert!(!are_equal(field, &value("x"), &value("y")));
    }
}
