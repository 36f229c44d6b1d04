//! Each behaviour that the document leaves open and no other file tests.

use linkvault::api::http::Method;
use linkvault::sandbox::behaviour::CHOICES;
use serde_json::{Value, json};

use super::{TestService, json};

const LISTS: [&str; 8] = [
    "/api/domains",
    "/api/overlay",
    "/api/campaigns",
    "/api/channels",
    "/api/channel/1",
    "/api/splash",
    "/api/pixels",
    "/api/qr?limit=5&page=2",
];

fn data(behaviour: &str, path: &str) -> Value {
    TestService::new(behaviour).get(path)["data"].clone()
}

#[test]
fn every_list_is_readable_or_refused_with_every_behaviour() {
    for choice in CHOICES {
        for word in choice.values().iter().filter(|word| !word.contains(char::is_uppercase)) {
            let mut service = TestService::new(&format!("{}={word}", choice.name));
            for path in LISTS {
                let response = service.send(Method::Get, path, None);
                let answer = json(&response);
                let refused = matches!(response.status, 403 | 404) || answer["error"] == 1;
                assert!(refused || answer["data"].is_object(), "{}={word} {path}", choice.name);
            }
        }
    }
}

#[test]
fn error_has_one_type_with_that_behaviour() {
    assert_eq!(TestService::new("error-type=integer").get("/api/qr")["error"], json!(0));
    assert_eq!(TestService::new("error-type=string").get("/api/account")["error"], json!("0"));
    assert_eq!(TestService::new("error-type=string").get("/api/qr/99")["error"], json!("1"));
}

#[test]
fn ids_and_counts_can_be_strings() {
    assert_eq!(data("ids=strings", "/api/campaigns")["campaigns"][0]["id"], json!("1"));
    assert_eq!(data("ids=mixed", "/api/campaigns")["campaigns"][0]["id"], json!(1));
    assert_eq!(data("ids=mixed", "/api/domains")["domains"][0]["id"], json!("1"));
    assert_eq!(data("counts=strings", "/api/qr")["maxpage"], json!("1"));
    assert_eq!(data("counts=strings", "/api/qr")["qrs"][0]["scans"], json!("1834"));
    assert_eq!(data("booleans=integers", "/api/channels")["channels"][0]["starred"], json!(1));
}

#[test]
fn the_envelope_follows_the_behaviour() {
    assert_eq!(data("result=total", "/api/qr?limit=5")["result"], json!(12));
    assert_eq!(data("result=absent", "/api/qr").get("result"), None);
    assert_eq!(data("", "/api/qr")["nextpage"], json!(2));
    assert_eq!(data("nextpage=null", "/api/qr")["nextpage"], Value::Null);
    assert_eq!(data("nextpage=same", "/api/qr")["nextpage"], json!(1));
    assert_eq!(data("nextpage=null", "/api/qr?limit=5")["nextpage"], json!(2));
    assert_eq!(data("envelope=no-maxpage", "/api/qr").get("maxpage"), None);
    assert_eq!(data("envelope=records-only", "/api/qr").as_object().unwrap().len(), 1);
    assert_eq!(data("order=descending", "/api/qr")["qrs"][0]["id"], json!(12));
    assert_eq!(data("order=by-name", "/api/qr")["qrs"][0]["name"], json!("Archive label"));
}

#[test]
fn names_and_keys_follow_the_behaviour() {
    assert!(data("overlay-key=overlay", "/api/overlay").get("overlay").is_some());
    assert!(data("campaign-list=name", "/api/campaigns")["campaigns"][1].get("name").is_some());
    let add =
        |behaviour| TestService::new(behaviour).post("/api/campaign/add", json!({"name": "Ab"}));
    assert_eq!(add("campaign-create=campaign")["campaign"], json!("Ab"));
    assert_eq!(add("names=lowered")["domain"], json!("ab"));
    let stored = |texts: &str, sent: &str| {
        let mut service = TestService::new(&format!("texts={texts}"));
        let body = json!({"domain": "https://new.example", "redirectroot": sent});
        let id = service.post("/api/domain/add", body)["id"].as_u64().unwrap();
        service.service.store().domains.get(id).unwrap().redirectroot.clone()
    };
    let sent = "https://a.example/  ü&B/ ";
    for (texts, expected) in [
        ("kept", sent),
        ("trimmed", "https://a.example/  ü&B/"),
        ("collapsed", "https://a.example/ ü&B/"),
        ("lowered", "https://a.example/  ü&b/ "),
        ("encoded", "https://a.example/%20%20%C3%BC&B/%20"),
        ("escaped", "https://a.example/  ü&amp;B/ "),
    ] {
        assert_eq!(stored(texts, sent), expected, "{texts}");
    }
    assert_eq!(stored("without-slash", "https://a.example/b/"), "https://a.example/b");
}

#[test]
fn statuses_follow_the_behaviour() {
    let mut service = TestService::new("create-status=201,error-status=200");
    let body = json!({"name": "A"});
    assert_eq!(service.send(Method::Post, "/api/channel/add", Some(body.clone())).status, 201);
    let again = service.send(Method::Post, "/api/channel/add", Some(body));
    assert_eq!((again.status, &json(&again)["error"]), (200, &json!(1)));
    let mut dropped = TestService::new("authorization=dropped,bad-key=401");
    assert_eq!(dropped.send(Method::Get, "/api/qr", None).status, 401);
}

#[test]
fn a_channel_update_can_answer_the_whole_channel() {
    let mut service = TestService::new("channel-update=whole");
    let answer = service.put("/api/channel/1/update", json!({"starred": false}));
    assert_eq!((&answer["name"], &answer["starred"]), (&json!("Shop window"), &json!(false)));
}

#[test]
fn empty_statistics_follow_the_behaviour() {
    let top = |behaviour| data(behaviour, "/api/qr/12")["topOs"].clone();
    assert_eq!(top(""), json!({}));
    assert_eq!(top("empty-maps=zero"), json!(0));
    assert_eq!(top("empty-maps=array"), json!([]));
}

#[test]
fn a_resource_can_be_missing() {
    let mut service = TestService::new("not-offered=overlay+channels,not-offered-status=403");
    for path in ["/api/overlay", "/api/channels", "/api/channel/1"] {
        assert_eq!(service.send(Method::Get, path, None).status, 403);
    }
    assert_eq!(service.send(Method::Get, "/api/qr", None).status, 200);
}

#[test]
fn a_redirect_names_the_other_host() {
    let mut service = TestService::new("redirect=https://other.example.org");
    let response = service.send(Method::Get, "/api/qr?page=2", None);
    assert_eq!(response.status, 301);
    assert_eq!(response.header("location"), Some("https://other.example.org/api/qr?page=2"));
}

#[test]
fn json_can_be_escaped_and_indented_without_changing() {
    let plain = data("", "/api/campaigns");
    let mut service = TestService::new("json-escapes=php,json-layout=pretty");
    let response = service.send(Method::Get, "/api/campaigns", None);
    let text = String::from_utf8(response.body.clone()).unwrap();
    assert!(text.contains("https:\\/\\/") && text.contains("B\\u00fc") && text.contains("\n  "));
    assert_eq!(json(&response)["data"], plain);
}

#[test]
fn a_prefix_precedes_every_path() {
    let mut service = TestService::new("");
    service.service = service.service.clone().with_prefix("/links/");
    assert_eq!(service.send(Method::Get, "/links/api/qr", None).status, 200);
    assert_eq!(service.send(Method::Get, "/api/qr", None).status, 404);
}

#[test]
fn qr_codes_accept_more_with_that_behaviour() {
    let mut service = TestService::new("qr-name=taken,qr-data=objects,qr-update-type=required");
    let body = json!({"type": "wifi", "data": {"ssid": "x"}, "name": "Hall"});
    let id = service.post("/api/qr/add", body)["id"].clone();
    assert_eq!(service.get(&format!("/api/qr/{id}"))["details"]["name"], json!("Hall"));
    let path = format!("/api/qr/{id}/update");
    assert_eq!(service.put(&path, json!({"data": "y"}))["error"], json!(1));
    assert_eq!(service.put(&path, json!({"data": "y", "type": "text"}))["error"], json!(0));
}
