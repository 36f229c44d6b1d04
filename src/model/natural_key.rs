//! The natural key of a record: the fields by which its owner recognises it, normalised so that
//! all commands compare them in the same way.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value as Json};

use super::record::Record;
use super::resource::Resource;
use super::sent_values::SentFields;
use super::value::FieldValue;

/// A normalised natural key: names and e-mail addresses in lower case, a domain as its host, other
/// fields unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NaturalKey(Vec<String>);

/// How blanks in a natural key are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blanks {
    /// Every blank counts.
    Exact,
    /// Leading and trailing blanks are removed and others become one space. For finding a sent
    /// record in a list, since services change blanks.
    Collapsed,
}

impl NaturalKey {
    /// The natural key from field texts that `value` returns; `None` if a part is missing or
    /// empty.
    pub fn of<'v>(
        resource: Resource,
        blanks: Blanks,
        value: impl Fn(&str) -> Option<Cow<'v, str>>,
    ) -> Option<Self> {
        let part = |name: &&str| {
            let mut text = value(name)?;
            if blanks == Blanks::Collapsed {
                text = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
            }
            let text = match *name {
                "domain" => domain_host(&text),
                "name" | "email" => fold_case(&text),
                _ => text.into_owned(),
            };
            Some(text).filter(|text| !text.is_empty())
        };
        resource.spec().natural_key.iter().map(part).collect::<Option<_>>().map(Self)
    }

    /// The key of a record. `sent` are its sent values, which hold the key of resources whose
    /// lists do not show it.
    #[must_use]
    pub fn of_record(
        resource: Resource,
        blanks: Blanks,
        record: &Record<'_>,
        sent: Option<&SentFields>,
    ) -> Option<Self> {
        if !resource.spec().shows_key() {
            let sent = sent?;
            return Self::of(resource, blanks, |name| sent.get(name).map(json_text));
        }
        Self::of(resource, blanks, |name| {
            record.values.get(resource.spec().field(name)?.0).map(value_text)
        })
    }

    /// The key from JSON fields, such as the body of a request.
    #[must_use]
    pub fn of_json(resource: Resource, blanks: Blanks, fields: &Map<String, Json>) -> Option<Self> {
        Self::of(resource, blanks, |name| fields.get(name).map(json_text))
    }

    /// The key from a name; `None` if the natural key of the resource is not its name.
    #[must_use]
    pub fn of_name(resource: Resource, name: &str) -> Option<Self> {
        Self::of(resource, Blanks::Exact, |part| (part == "name").then_some(name.into()))
    }

    /// The natural key for people, not normalised: the existing parts, separated by slashes.
    pub fn text<'v>(resource: Resource, value: impl Fn(&str) -> Option<Cow<'v, str>>) -> String {
        let parts = resource.spec().natural_key.iter().filter_map(|name| value(name));
        parts.collect::<Vec<_>>().join("/")
    }

    /// Like [`NaturalKey::text`], from JSON fields.
    #[must_use]
    pub fn text_of_json(resource: Resource, fields: &Map<String, Json>) -> String {
        Self::text(resource, |name| {
            let json = fields.get(name)?;
            Some(json.as_str().map_or_else(|| json.to_string().into(), Cow::Borrowed))
        })
    }
}

/// The normalised parts, separated by spaces.
impl fmt::Display for NaturalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// A value as text, comparable with [`json_text`].
#[must_use]
pub fn value_text<'v>(value: &'v FieldValue<'_>) -> Cow<'v, str> {
    match value {
        FieldValue::Json(text) => match serde_json::from_str::<Json>(text) {
            Ok(json) => json.to_string().into(),
            Err(_) => text.as_ref().into(),
        },
        value => value.cell(),
    }
}

/// JSON as text, comparable with [`value_text`].
#[must_use]
pub fn json_text(json: &Json) -> Cow<'_, str> {
    match json {
        Json::Null => "".into(),
        Json::String(text) => text.into(),
        other => other.to_string().into(),
    }
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
    use super::*;
    use crate::model::{DecodedRecord, RecordKey};
    use serde_json::json;

    fn key(resource: Resource, blanks: Blanks, fields: Json) -> Option<NaturalKey> {
        NaturalKey::of_json(resource, blanks, fields.as_object().unwrap())
    }

    fn exact(resource: Resource, fields: Json) -> Option<NaturalKey> {
        key(resource, Blanks::Exact, fields)
    }

    fn of_record(
        resource: Resource,
        fields: Json,
        sent: Option<&SentFields>,
    ) -> Option<NaturalKey> {
        let raw = fields.to_string();
        let record = DecodedRecord::read(resource, None, &raw).unwrap().record;
        assert_eq!(record.key, RecordKey::Id(1));
        NaturalKey::of_record(resource, Blanks::Exact, &record, sent)
    }

    #[test]
    fn names_ignore_case_and_pixel_tags_do_not() {
        let name = |name: &str| exact(Resource::Campaigns, json!({"name": name}));
        assert_eq!(name("Größe"), name("GRÖßE"));
        for other in ["ας", "ασ", "Ας"] {
            assert_eq!(name("ΑΣ"), name(other), "{other}");
        }
        assert_eq!(name("Spring"), NaturalKey::of_name(Resource::Campaigns, "SPRING"));
        let email = |email: &str| exact(Resource::Account, json!({"email": email}));
        assert_eq!(email("A@x.example"), email("a@X.example"));
        let tag = |tag: &str| exact(Resource::Pixels, json!({"type": "bing", "tag": tag}));
        assert_ne!(tag("AB-1"), tag("ab-1"));
    }

    #[test]
    fn a_domain_is_compared_by_its_host() {
        let domain = |url: &str| exact(Resource::Domains, json!({"domain": url}));
        assert_eq!(domain("https://GO.x.example/a?b#c"), domain("http://go.x.example"));
        assert_eq!(domain("go.x.example"), domain("http://go.x.example"));
        assert_ne!(domain("https://go.x.example"), domain("https://x.example"));
        assert_eq!(domain("https://"), None);
        for url in ["https://Go.x.com", "http://go.x.com/", "go.x.com?a", "HTTP://GO.X.COM#b"] {
            assert_eq!(domain_host(url), "go.x.com");
        }
    }

    #[test]
    fn a_key_with_a_missing_or_empty_part_is_none() {
        for fields in [json!({}), json!({"name": ""}), json!({"name": null})] {
            assert_eq!(exact(Resource::Campaigns, fields.clone()), None, "{fields}");
        }
        assert_eq!(exact(Resource::Pixels, json!({"type": "bing", "tag": ""})), None);
        assert_eq!(of_record(Resource::Campaigns, json!({"id": 1, "name": ""}), None), None);
        assert_eq!(NaturalKey::of_name(Resource::Campaigns, ""), None);
        assert_eq!(NaturalKey::of_name(Resource::Domains, "a"), None);
    }

    #[test]
    fn parts_stay_separate() {
        let key =
            |kind: &str, tag: &str| exact(Resource::Pixels, json!({"type": kind, "tag": tag}));
        assert_ne!(key("a/b", "c"), key("a", "b/c"));
        assert_ne!(key("a b", "c"), key("a", "b c"));
    }

    #[test]
    fn whitespace_is_compared_unless_collapsed() {
        let fields = || json!({"name": " A  b\t"});
        assert_ne!(
            exact(Resource::Channels, fields()),
            exact(Resource::Channels, json!({"name": "a b"}))
        );
        let collapsed = key(Resource::Channels, Blanks::Collapsed, fields());
        assert_eq!(collapsed, exact(Resource::Channels, json!({"name": "a b"})));
        assert_eq!(key(Resource::Channels, Blanks::Collapsed, json!({"name": " "})), None);
    }

    #[test]
    fn sent_values_give_the_key_of_a_code() {
        let sent = [("type", json!("text")), ("data", json!({"b": 1, "a": [2]}))];
        let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
        let code = || json!({"id": 1, "name": "c"});
        let key = of_record(Resource::QrCodes, code(), Some(&sent));
        let expected = json!({"type": "text", "data": {"b": 1, "a": [2]}});
        assert_eq!(key, exact(Resource::QrCodes, expected));
        assert!(key.is_some());
        assert_eq!(of_record(Resource::QrCodes, code(), None), None);
        // The JSON of a CSV cell may contain other blanks.
        let cell = |name: &str| {
            let cell = if name == "type" {
                FieldValue::Text("text".into())
            } else {
                FieldValue::Json("{ \"b\": 1, \"a\": [2] }".into())
            };
            Some(value_text(&cell).into_owned().into())
        };
        assert_eq!(key, NaturalKey::of(Resource::QrCodes, Blanks::Exact, cell));
    }

    #[test]
    fn a_value_that_serde_json_cannot_parse_is_compared_as_text() {
        let record = |name: &str| {
            let raw = format!(r#"{{"id":1,"name":{name}}}"#);
            let record = DecodedRecord::read(Resource::Channels, None, &raw).unwrap().record;
            NaturalKey::of_record(Resource::Channels, Blanks::Exact, &record, None)
        };
        assert_ne!(record(r#""\ud800""#), record(r#""\ud801""#));
        assert_ne!(record(r#""\ud800""#), record(r#""null""#));
        assert_eq!(record("2026"), exact(Resource::Channels, json!({"name": "2026"})));
    }
}
