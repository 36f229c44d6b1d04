//! Refused requests, and the form of their responses.

use linkvault::api::http::{ApiKey, Method, Request};
use serde_json::{Value, json};

use super::{TestService, json};

#[test]
fn every_endpoint_requires_a_valid_key() {
    let mut service = TestService::new("");
    for key in [None, Some(ApiKey::new("")), Some(ApiKey::new("bad"))] {
        let request = Request { key, ..Request::get("/api/account") };
        let response = service.service.handle(service.now, &request);
        assert_eq!(response.status, 403);
        assert_eq!(
            json(&response),
            json!({"error": 1, "message": "A valid API key is required to use this service."})
        );
    }
}

#[test]
fn unknown_paths_are_refused_with_403() {
    let mut service = TestService::new("");
    let response = service.service.handle(service.now, &Request::get("/api/nothing"));
    assert_eq!(response.status, 403);
}

#[test]
fn an_unknown_id_is_refused_with_404() {
    let mut service = TestService::new("");
    for (method, path) in [
        (Method::Put, "/api/domain/99/update"),
        (Method::Delete, "/api/domain/99/delete"),
        (Method::Put, "/api/campaign/99/update"),
        (Method::Delete, "/api/campaign/99/delete"),
        (Method::Post, "/api/campaign/99/assign/1"),
        (Method::Post, "/api/campaign/1/assign/0"),
        (Method::Get, "/api/channel/99"),
        (Method::Put, "/api/channel/99/update"),
        (Method::Delete, "/api/channel/99/delete"),
        (Method::Post, "/api/channel/99/assign/links/1"),
        (Method::Post, "/api/channel/1/assign/qr/99"),
        (Method::Get, "/api/qr/99"),
        (Method::Put, "/api/qr/99/update"),
        (Method::Delete, "/api/qr/99/delete"),
    ] {
        let response = service.send(method, path, None);
        assert_eq!(response.status, 404, "{method} {path}");
        assert_eq!(json(&response)["error"], json!(1));
        assert!(json(&response)["message"].is_string());
    }
}

#[test]
fn undocumented_paths_do_not_exist() {
    let mut service = TestService::new("");
    for (method, path, status) in [
        (Method::Get, "/api/urls", 404),
        (Method::Post, "/api/overlay/add", 404),
        (Method::Delete, "/api/pixel/1/delete", 404),
        (Method::Post, "/api/account", 405),
        (Method::Get, "/api/domain/1/delete", 405),
    ] {
        assert_eq!(service.send(method, path, None).status, status, "{method} {path}");
    }
}

#[test]
fn a_name_cannot_be_used_twice() {
    let mut service = TestService::new("");
    let pixel = json!({"type": "bing", "name": "Again", "tag": "55501234"});
    for (path, body, message) in [
        (
            "/api/campaign/add",
            json!({"name": "PRESS"}),
            "You already have a campaign with that name.",
        ),
        (
            "/api/channel/add",
            json!({"name": "social"}),
            "You already have a channel with this name.",
        ),
        ("/api/pixel/add", pixel, "A pixel with this provider and tag already exists."),
        (
            "/api/domain/add",
            json!({"domain": "http://GO.lantern-books.example.com/"}),
            "The domain has been already used.",
        ),
    ] {
        let response = service.send(Method::Post, path, Some(body));
        assert_eq!((response.status, &json(&response)["message"]), (400, &json!(message)));
    }
    let own = service.put("/api/campaign/1/update", json!({"name": "spring reading list"}));
    assert_eq!(own["error"], json!(0));
    let other = service.put("/api/campaign/1/update", json!({"name": "press"}));
    assert_eq!(other["error"], json!(1));
}

#[test]
fn a_domain_must_point_to_the_service() {
    let mut service = TestService::new("");
    let refused = service.post("/api/domain/add", json!({"domain": "https://go.invalid"}));
    assert!(refused["message"].as_str().unwrap().contains("not pointed to our server"));
    let mut service = TestService::new("dns=missing");
    let refused = service.post("/api/domain/add", json!({"domain": "https://go.example.org"}));
    assert_eq!(refused["error"], json!(1));
}

#[test]
fn invalid_values_are_refused() {
    let mut service = TestService::new("");
    let qr = |field: &str, value: &str| -> Value {
        let mut body = json!({"type": "text", "data": "x"});
        body[field] = json!(value);
        body
    };
    for (path, body) in [
        ("/api/qr/add", qr("background", "#ffffff")),
        ("/api/qr/add", qr("foreground", "rgb(1,2,999)")),
        ("/api/qr/add", qr("type", "geo")),
        ("/api/qr/add", qr("logo", "logo.svg")),
        ("/api/qr/add", json!({"type": "text", "data": {"ssid": "x"}})),
        ("/api/channel/add", json!({"name": "x", "color": "red"})),
        ("/api/domain/add", json!({"domain": "go.example.org"})),
        ("/api/domain/add", json!({"domain": "https://go.example.org", "redirectroot": "nowhere"})),
        ("/api/channel/1/assign/pages/4", json!({})),
    ] {
        assert_eq!(service.send(Method::Post, path, Some(body)).status, 400, "{path}");
    }
    assert_eq!(service.service.revision(), 0);
}

#[test]
fn a_body_that_is_not_json_is_refused() {
    let mut service = TestService::new("");
    for body in ["{", "[]", "7", "\u{0}", "{\"name\":\"\\ud800\"}"] {
        let request = Request {
            method: Method::Post,
            path: "/api/channel/add".to_owned(),
            key: Some(ApiKey::new(super::KEY)),
            body: Some(body.as_bytes().to_vec()),
        };
        assert_eq!(service.service.handle(service.now, &request).status, 400, "{body}");
    }
}

#[test]
fn a_plan_caps_each_resource() {
    let caps = "cap-domains=3,cap-campaigns=8,cap-channels=5,cap-pixels=4,cap-qr=12";
    let mut service = TestService::new(caps);
    for (path, body) in [
        ("/api/domain/add", json!({"domain": "https://n.example.org"})),
        ("/api/campaign/add", json!({"name": "n"})),
        ("/api/channel/add", json!({"name": "n"})),
        ("/api/pixel/add", json!({"type": "bing", "name": "n", "tag": "n"})),
        ("/api/qr/add", json!({"type": "text", "data": "n"})),
    ] {
        let message = service.post(path, body)["message"].clone();
        assert_eq!(message, json!("You have reach the maximum limit for this feature."), "{path}");
    }
}

#[test]
fn every_request_gets_a_json_response() {
    let mut service = TestService::new("");
    let mut rng = fastrand::Rng::with_seed(11);
    let words = [
        "api",
        "qr",
        "channel",
        "channels",
        "campaign",
        "domain",
        "assign",
        "add",
        "update",
        "delete",
        "links",
        "1",
        "0",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "",
        "..",
        "%2F",
        "ü",
        "?limit=1e9&page=0",
        "?page=18446744073709551615&limit=2",
        "?",
    ];
    let bodies = [
        "",
        "null",
        "{}",
        "[{}]",
        "{\"name\":\"\"}",
        "{\"name\":\"\\u0000\",\"slug\":\"/\"}",
        "{\"type\":\"text\",\"data\":[[[]]],\"name\":null}",
        "{\"name\":1,\"name\":\"x\"}",
        "\u{feff}{}",
    ];
    for _ in 0..20_000 {
        let method = [Method::Get, Method::Post, Method::Put, Method::Delete][rng.usize(..4)];
        let mut path = String::from(if rng.bool() { "/api" } else { "" });
        for _ in 0..rng.usize(..6) {
            path.push('/');
            path.push_str(words[rng.usize(..words.len())]);
        }
        let body = Some(bodies[rng.usize(..bodies.len())].as_bytes().to_vec());
        let request = Request { method, path, key: Some(ApiKey::new(super::KEY)), body };
        let response = service.service.handle(service.now, &request);
        assert!(json(&response)["error"].is_u64() || json(&response)["error"] == "0");
    }
}
