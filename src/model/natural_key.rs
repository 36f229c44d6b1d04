//! The natural key of a record: the fields by which its owner recognises it, normalised so that
//! all commands compare them in the same way.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value as Json};

use super::equality::{domain_host, fold_case, loosened, sent_form};
use super::record::Record;
use super::resource::Resource;
use super::sent_values::{SentFields, stored_form};
use super::value::FieldValue;

/// A normalised natural key: names and e-mail addresses in lower case, a domain as its host, other
/// fields unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NaturalKey(Vec<String>);

/// In which form the parts of a natural key are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// As the account holds them.
    Exact,
    /// Without what services change ([`loosened`]). For finding a record in a list that was sent
    /// and whose form in this service is not known yet.
    Loosened,
}

impl NaturalKey {
    /// The natural key from field texts that `value` returns; `None` if a part is missing or
    /// empty.
    pub fn of<'v>(
        resource: Resource,
        form: KeyForm,
        value: impl Fn(&str) -> Option<Cow<'v, str>>,
    ) -> Option<Self> {
        let part = |name: &&str| {
            let text = value(name)?;
            let text = match *name {
                "domain" => domain_host(&text),
                _ if form == KeyForm::Loosened => loosened(&text),
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
        form: KeyForm,
        record: &Record<'_>,
        sent: Option<&SentFields>,
    ) -> Option<Self> {
        if !resource.spec().shows_key() {
            let sent = sent?;
            return Self::of(resource, form, |name| sent.get(name).map(json_text));
        }
        Self::of(resource, form, |name| {
            record.values.get(resource.spec().field(name)?.0).map(value_text)
        })
    }

    /// The keys by which a record is found: its own, and the one that linkvault sent, if the
    /// service stored it in another form.
    pub fn all_of_record(
        resource: Resource,
        record: &Record<'_>,
        sent: Option<&SentFields>,
    ) -> impl Iterator<Item = Self> + use<> {
        let own = Self::of_record(resource, KeyForm::Exact, record, sent);
        let sent = sent.filter(|_| resource.spec().shows_key());
        let as_sent = sent.and_then(|sent| {
            let forms =
                resource.spec().natural_key.iter().any(|it| stored_form(sent, it).is_some());
            let value = |name: &str| {
                let (place, field) = resource.spec().field(name)?;
                let held = record.values.get(place)?;
                Some(sent_form(sent, field, held).map_or_else(|| value_text(held), json_text))
            };
            forms.then(|| Self::of(resource, KeyForm::Exact, value)).flatten()
        });
        let as_sent = as_sent.filter(|it| Some(it) != own.as_ref());
        own.into_iter().chain(as_sent)
    }

    /// The key from JSON fields, such as the body of a request.
    #[must_use]
    pub fn of_json(resource: Resource, form: KeyForm, fields: &Map<String, Json>) -> Option<Self> {
        Self::of(resource, form, |name| fields.get(name).map(json_text))
    }

    /// The key from a name; `None` if the natural key of the resource is not its name.
    #[must_use]
    pub fn of_name(resource: Resource, name: &str) -> Option<Self> {
        Self::of(resource, KeyForm::Exact, |part| (part == "name").then_some(name.into()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sent_values::form_of;
    use crate::model::{DecodedRecord, RecordKey};
    use serde_json::json;

    fn key(resource: Resource, form: KeyForm, fields: Json) -> Option<NaturalKey> {
        NaturalKey::of_json(resource, form, fields.as_object().unwrap())
    }

    fn exact(resource: Resource, fields: Json) -> Option<NaturalKey> {
        key(resource, KeyForm::Exact, fields)
    }

    fn of_record(
        resource: Resource,
        fields: Json,
        sent: Option<&SentFields>,
    ) -> Option<NaturalKey> {
        let raw = fields.to_string();
        let record = DecodedRecord::read(resource, None, &raw).unwrap().record;
        assert_eq!(record.key, RecordKey::Id(1));
        NaturalKey::of_record(resource, KeyForm::Exact, &record, sent)
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
    fn what_services_change_is_compared_unless_loosened() {
        let both = |resource, sent: &Json, held: &Json| {
            let is_same =
                |form| key(resource, form, sent.clone()) == key(resource, form, held.clone());
            assert!(!is_same(KeyForm::Exact) && is_same(KeyForm::Loosened), "{sent} {held}");
        };
        both(Resource::Channels, &json!({"name": " A  b\t"}), &json!({"name": "a b"}));
        let pixel = |tag: &str| json!({"type": "bing", "tag": tag});
        both(Resource::Pixels, &pixel("AB-1 "), &pixel("ab-1"));
        assert_eq!(key(Resource::Channels, KeyForm::Loosened, json!({"name": " "})), None);
    }

    #[test]
    fn a_record_is_found_by_the_key_that_was_sent_until_others_change_it() {
        let sent = SentFields::from([form_of("name", &json!(" A  b"), &json!("A b"))]);
        let keys = |name: &str| {
            let raw = json!({"id": 1, "name": name}).to_string();
            let record = DecodedRecord::read(Resource::Channels, None, &raw).unwrap().record;
            let all = NaturalKey::all_of_record(Resource::Channels, &record, Some(&sent));
            all.map(|key| key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(keys("A b"), ["a b", " a  b"]);
        assert_eq!(keys("A c"), ["a c"]);
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
        assert_eq!(key, NaturalKey::of(Resource::QrCodes, KeyForm::Exact, cell));
    }

    #[test]
    fn a_value_that_serde_json_cannot_parse_is_compared_as_text() {
        let record = |name: &str| {
            let raw = format!(r#"{{"id":1,"name":{name}}}"#);
            let record = DecodedRecord::read(Resource::Channels, None, &raw).unwrap().record;
            NaturalKey::of_record(Resource::Channels, KeyForm::Exact, &record, None)
        };
        assert_ne!(record(r#""\ud800""#), record(r#""\ud801""#));
        assert_ne!(record(r#""\ud800""#), record(r#""null""#));
        assert_eq!(record("2026"), exact(Resource::Channels, json!({"name": "2026"})));
    }
}
