//! Tests of each statement in the document's table of endpoints, a copy of which is in
//! `endpoints.txt`.

use linkvault::api::http::Method;
use serde_json::{Map, Value, json};

use super::{TestService, json};

struct Endpoint {
    method: Method,
    path: &'static str,
    /// Name, whether it is required, and type.
    request: Vec<(&'static str, bool, &'static str)>,
    success: &'static str,
}

fn endpoints() -> Vec<Endpoint> {
    let lines = include_str!("endpoints.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(endpoint).collect()
}

fn endpoint(line: &'static str) -> Endpoint {
    let [place, request, success] = line.split(" | ").collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    let (method, path) = place.split_once(' ').unwrap();
    let all = [Method::Get, Method::Post, Method::Put, Method::Delete];
    let method = all.into_iter().find(|known| known.as_str() == method).unwrap();
    let fields = request.split(' ').filter_map(|field| field.split_once(':'));
    let request = fields
        .map(|(name, kind)| match name.strip_suffix('*') {
            Some(name) => (name, true, kind),
            None => (name, false, kind),
        })
        .collect();
    Endpoint { method, path, request, success }
}

impl Endpoint {
    fn call(&self, body: Option<Value>) -> (u16, Value) {
        let path = self.path.replace(":id", "2").replace(":link", "77");
        let response = TestService::new("unlisted-fields=refuse").send(self.method, &path, body);
        (response.status, json(&response))
    }

    /// A body with every listed field, each with a value of its type.
    fn body(&self) -> Map<String, Value> {
        let fields = self.request.iter();
        fields.map(|(name, _, kind)| ((*name).to_owned(), sample(kind))).collect()
    }

    fn answer(&self) -> Value {
        let body = self.body();
        let body = (!body.is_empty()).then_some(Value::Object(body));
        let (status, answer) = self.call(body);
        assert_eq!(status, 200, "{} {}: {answer}", self.method, self.path);
        answer
    }
}

fn sample(kind: &str) -> Value {
    match kind {
        "email" => json!("new@example.org"),
        "text" => json!("something new"),
        "domain" => json!("https://fresh.example.org"),
        "url" => json!("https://example.org/x"),
        "bool" => json!(true),
        "hex" => json!("#00FF7a"),
        "rgb" => json!("rgb(0,10,255)"),
        "pixel" => json!("reddit"),
        "qr-type" => json!("text"),
        "logo" => json!("https://example.org/logo.png"),
        other => panic!("no sample for {other}"),
    }
}

fn fits(value: &Value, kind: &str) -> bool {
    let text = value.as_str().unwrap_or("\0");
    match kind {
        "int" => value.is_u64(),
        "bool" => value.is_boolean(),
        "text" => value.is_string(),
        "url" => text.starts_with("http://") || text.starts_with("https://"),
        "url-or-false" => *value == json!(false) || fits(value, "url"),
        "kind" => ["links", "bio", "qr"].contains(&text),
        "hex" => text.len() == 7 && text.starts_with('#'),
        "date" => chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok(),
        "datetime" => chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").is_ok(),
        other => panic!("no type {other}"),
    }
}

/// Asserts that `object` has these fields, in this order, and no others.
fn assert_fields(object: &Value, fields: &str, place: &str) {
    let object = object.as_object().unwrap_or_else(|| panic!("{place}: no object"));
    let fields: Vec<_> = fields.split(' ').map(|field| field.split_once(':').unwrap()).collect();
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(object.keys().collect::<Vec<_>>(), names, "{place}");
    for (name, kind) in fields {
        assert!(fits(&object[name], kind), "{place}: {name} is no {kind}: {}", object[name]);
    }
}

#[test]
fn there_are_26_endpoints() {
    assert_eq!(endpoints().len(), 26);
}

#[test]
fn every_endpoint_accepts_all_its_fields() {
    for endpoint in endpoints() {
        let answer = endpoint.answer();
        let listed = endpoint.success.starts_with("list ");
        let error = if listed { json!("0") } else { json!(0) };
        assert_eq!(answer["error"], error, "{}", endpoint.path);
    }
}

#[test]
fn every_write_returns_the_documented_fields() {
    for endpoint in endpoints() {
        let success = endpoint.success;
        if ["list ", "data ", "details", "?"].iter().any(|start| success.starts_with(start)) {
            continue;
        }
        let mut answer = endpoint.answer();
        answer.as_object_mut().unwrap().shift_remove("error");
        assert_fields(&answer, success, endpoint.path);
    }
}

#[test]
fn every_list_has_the_documented_envelope_and_fields() {
    for endpoint in endpoints() {
        let Some((key, fields)) =
            endpoint.success.strip_prefix("list ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let answer = endpoint.answer();
        let data = answer["data"].as_object().unwrap();
        let envelope = ["result", "perpage", "currentpage", "nextpage", "maxpage", key];
        assert_eq!(data.keys().collect::<Vec<_>>(), envelope);
        assert!(envelope[..5].iter().all(|name| data[*name].is_u64()), "{key}");
        let records = data[key].as_array().unwrap();
        assert!(!records.is_empty());
        for (place, record) in records.iter().enumerate() {
            let second = key == "campaigns" && place == 1;
            let fields = if second { fields.replace("name:", "domain:") } else { fields.into() };
            assert_fields(record, &fields, key);
        }
    }
}

#[test]
fn the_account_has_the_documented_fields() {
    let account = &endpoints()[0];
    let fields = account.success.strip_prefix("data ").unwrap();
    assert_fields(&account.answer()["data"], fields, account.path);
}

#[test]
fn a_single_qr_code_has_details_and_statistics() {
    let answer = TestService::new("").get("/api/qr/2");
    let details = "id:int link:url scans:int name:text date:datetime";
    assert_fields(&answer["details"], details, "details");
    let data = answer["data"].as_object().unwrap();
    let names = [
        "clicks",
        "uniqueClicks",
        "topCountries",
        "topReferrers",
        "topBrowsers",
        "topOs",
        "socialCount",
    ];
    assert_eq!(data.keys().collect::<Vec<_>>(), names);
    assert_eq!(data["clicks"], answer["details"]["scans"]);
    for map in &names[2..6] {
        assert!(data[*map].as_object().unwrap().values().all(Value::is_string), "{map}");
    }
    assert!(data["socialCount"].as_object().unwrap().values().all(Value::is_u64));
}

#[test]
fn a_required_field_cannot_be_omitted() {
    for endpoint in endpoints() {
        for (name, required, _) in &endpoint.request {
            let mut body = endpoint.body();
            body.shift_remove(*name);
            let (status, answer) = endpoint.call(Some(Value::Object(body)));
            assert_eq!(status, if *required { 400 } else { 200 }, "{} {name}", endpoint.path);
            assert_eq!(answer["error"], json!(u8::from(*required)));
        }
    }
}

#[test]
fn a_field_of_another_type_is_refused() {
    for endpoint in endpoints() {
        for (name, ..) in &endpoint.request {
            for wrong in [json!(7), json!(null), json!({"a": 1})] {
                let mut body = endpoint.body();
                body.insert((*name).to_owned(), wrong);
                let (status, answer) = endpoint.call(Some(Value::Object(body)));
                assert_eq!(
                    (status, &answer["error"]),
                    (400, &json!(1)),
                    "{} {name}",
                    endpoint.path
                );
            }
        }
    }
}

#[test]
fn an_unlisted_field_is_refused_with_that_behaviour() {
    for endpoint in endpoints().into_iter().filter(|endpoint| !endpoint.request.is_empty()) {
        let mut body = endpoint.body();
        body.insert("surprise".to_owned(), json!("x"));
        assert_eq!(endpoint.call(Some(Value::Object(body))).0, 400, "{}", endpoint.path);
    }
}
