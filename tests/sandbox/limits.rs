//! The rate limit and its headers.

use linkvault::api::http::{Method, Request, Response};
use linkvault::clock::Timestamp;
use serde_json::json;

use super::{NOW, TestService, json};

fn get(service: &mut TestService) -> Response {
    service.send(Method::Get, "/api/account", None)
}

/// The response to the 31st request.
fn refused(behaviour: &str) -> Response {
    let mut service = TestService::limited(behaviour);
    for _ in 0..30 {
        assert_eq!(get(&mut service).status, 200);
    }
    service.now = Timestamp(NOW.0 + 19_000);
    get(&mut service)
}

#[test]
fn every_response_has_the_three_headers_and_a_date() {
    let mut service = TestService::limited("");
    let no_key = service.service.handle(NOW, &Request::get("/api/account"));
    for (response, left) in [(no_key, "29"), (get(&mut service), "28"), (refused(""), "0")] {
        assert_eq!(response.header("x-ratelimit-limit"), Some("30"));
        assert_eq!(response.header("x-ratelimit-remaining"), Some(left));
        assert_eq!(response.header("x-ratelimit-reset"), Some("1763640060"));
        assert!(response.header("date").unwrap().ends_with(" GMT"));
    }
}

#[test]
fn the_31st_request_of_a_minute_is_not_executed() {
    let response = refused("");
    assert_eq!(response.status, 429);
    assert_eq!(
        (&json(&response)["error"], &json(&response)["Retry-After"]),
        (&json!(429), &json!(41))
    );
}

#[test]
fn a_refusal_follows_the_behaviour() {
    assert_eq!(refused("throttle=200-json").status, 200);
    assert_eq!(json(&refused("throttle-error=1"))["error"], json!(1));
    let html = refused("throttle=503-html,retry-after=header");
    assert_eq!((html.status, html.header("retry-after")), (503, Some("41")));
    assert!(html.body.starts_with(b"<!DOCTYPE html>"));
    let none = refused("retry-after=none");
    assert_eq!((none.header("retry-after"), json(&none).get("Retry-After")), (None, None));
}

#[test]
fn the_window_resets_after_a_minute() {
    let mut service = TestService::limited("");
    for _ in 0..31 {
        get(&mut service);
    }
    service.now = Timestamp(NOW.0 + 60_000);
    assert_eq!(get(&mut service).status, 200);
    let totals = service.service.totals();
    assert_eq!((totals.handled, totals.throttled), (32, 1));
    assert_eq!(service.service.log().iter().filter(|entry| entry.throttled).count(), 1);
}

#[test]
fn headers_can_be_omitted() {
    let mut service = TestService::limited("rate-headers=none,date-header=no");
    let response = get(&mut service);
    assert_eq!(response.headers.len(), 1);
}

#[test]
fn a_clock_offset_is_in_both_headers() {
    let response = get(&mut TestService::limited("skew=3600"));
    assert_eq!(response.header("x-ratelimit-reset"), Some("1763643660"));
    assert_eq!(response.header("date"), Some("Thu, 20 Nov 2025 13:00:00 GMT"));
}

#[test]
fn the_log_keeps_the_configured_number_of_entries() {
    let mut service = TestService::new("");
    service.service = service.service.clone().with_log_limit(2);
    for path in ["/api/account", "/api/qr?limit=1", "/api/nothing"] {
        service.send(Method::Get, path, None);
    }
    let log: Vec<_> = service.service.log().iter().map(|e| (e.path.as_str(), e.status)).collect();
    assert_eq!(log, [("/api/qr?limit=1", 200), ("/api/nothing", 404)]);
    service.service = service.service.clone().with_log_limit(0);
    service.send(Method::Get, "/api/account", None);
    assert!(service.service.log().is_empty());
}
