//! Tests with bodies as services send them: valid, unusual and damaged.

use super::*;
use proptest::prelude::*;

fn answer(status: u16, body: impl AsRef<[u8]>) -> Response {
    Response {
        status,
        headers: vec![("content-type".into(), "application/json".into())],
        body: body.as_ref().to_vec(),
    }
}

fn kind(status: u16, body: &str) -> ApiErrorKind {
    classify(&answer(status, body)).expect_err(body)
}

fn raws<'a>(page: &ResponsePage<'a>) -> Vec<&'a str> {
    page.records.iter().map(|raw| raw.get()).collect()
}

#[test]
fn every_spelling_of_success_is_success() {
    for error in ["0", "\"0\"", "false", "null", "\"\"", "\"false\"", "0.0"] {
        for status in [200, 201, 202] {
            let body = format!(r#"{{"error":{error},"data":{{}}}}"#);
            assert!(classify(&answer(status, &body)).is_ok(), "{status} {body}");
        }
    }
    assert!(classify(&answer(200, r#"{"data":{}}"#)).is_ok());
}

#[test]
fn every_spelling_of_failure_keeps_the_exact_message() {
    for error in ["1", "\"1\"", "true", "400", "\"yes\"", "\"[]\""] {
        let body = format!(r#"{{"error":{error},"message":"No \u00e4, \"really\""}}"#);
        let ApiErrorKind::Refused { message, .. } = kind(200, &body) else { panic!("{body}") };
        assert_eq!(message, "No ä, \"really\"");
    }
}

/// A write with such a response may have been executed.
#[test]
fn a_success_status_with_an_unusual_error_is_not_a_refusal() {
    for error in ["[]", "{}", "[1]", r#"{"name":["taken"]}"#] {
        let body = format!(r#"{{"error":{error},"message":"No"}}"#);
        for status in [200, 201] {
            assert!(matches!(kind(status, &body), ApiErrorKind::Malformed { .. }), "{body}");
        }
        assert!(matches!(kind(400, &body), ApiErrorKind::Refused { status: 400, .. }), "{body}");
    }
    let throttled = r#"{"error":{},"message":"Too many requests"}"#;
    assert!(matches!(kind(200, throttled), ApiErrorKind::Throttled(_)));
}

#[test]
fn a_refused_key_is_distinguished_from_other_refusals_with_any_status() {
    let body = r#"{"error":1,"message":"A valid API key is required to use this service."}"#;
    for status in [200, 400, 401, 403] {
        assert!(matches!(kind(status, body), ApiErrorKind::Unauthorised { .. }), "{status}");
    }
    let failing = r#"{"error":1,"message":"The API key cache is down"}"#;
    assert!(matches!(kind(500, failing), ApiErrorKind::Refused { status: 500, .. }));
    let plain = r#"{"error":1,"message":"no"}"#;
    assert!(matches!(kind(401, plain), ApiErrorKind::Unauthorised { .. }));
    assert!(matches!(kind(403, plain), ApiErrorKind::Refused { status: 403, .. }));
    assert!(matches!(kind(401, "<html>"), ApiErrorKind::Unauthorised { .. }));
    assert!(matches!(kind(404, "<html>"), ApiErrorKind::NotOffered { .. }));
}

#[test]
fn throttling_is_detected_in_status_or_body() {
    let body = r#"{"error":429,"message":"Too Many Requests.","Retry-After":41}"#;
    for (status, body) in [
        (200, body),
        (429, body),
        (429, "<html>slow down"),
        (429, ""),
        (200, r#"{"error":"429","message":"x"}"#),
        (400, r#"{"error":1,"message":"Too Many Requests. Please retry later."}"#),
        (503, r#"{"error":1,"retry-after":"3"}"#),
    ] {
        assert!(matches!(kind(status, body), ApiErrorKind::Throttled(_)), "{status} {body}");
        assert!(throttle(&answer(status, body)).refused, "{status} {body}");
    }
    assert!(!throttle(&answer(200, r#"{"error":0,"retry-after":3}"#)).refused);
}

#[test]
fn a_redirect_is_an_error_that_names_its_target() {
    let mut response = answer(302, "");
    response.headers.push(("location".into(), "https://elsewhere.example/".into()));
    let expected =
        ApiErrorKind::Redirected { status: 302, target: "https://elsewhere.example/".into() };
    assert_eq!(classify(&response).expect_err("redirect"), expected);
}

#[test]
fn other_documents_are_malformed_and_only_truncated_ones_are_cut() {
    for (body, is_cut) in [
        ("", true),
        (" \n", true),
        (r#"{"error":0,"data":{"#, true),
        (r#"{"error":0,"message":"abc"#, true),
        ("<html>", false),
        ("[]", false),
        ("5", false),
        ("\"", false),
        ("{}", false),
        (r#"{"hello":1}"#, false),
        (r#"{"error":0} trailing"#, false),
    ] {
        let ApiErrorKind::Malformed { cut, .. } = kind(200, body) else { panic!("{body}") };
        assert_eq!(cut, is_cut, "{body}");
    }
    let bad = answer(200, b"{\"error\":0,\"data\":\"\xff\xfe\"}");
    assert!(matches!(classify(&bad), Err(ApiErrorKind::Malformed { .. })));
}

#[test]
fn a_success_in_the_body_does_not_hide_a_failing_status() {
    assert!(matches!(kind(500, r#"{"error":0}"#), ApiErrorKind::Refused { status: 500, .. }));
    assert!(matches!(kind(200, r#"{"error":503}"#), ApiErrorKind::Refused { status: 503, .. }));
}

#[test]
fn a_page_is_read_with_numbers_in_any_spelling() {
    let body = br#"{"error":"0","data":{"result":"13","perpage":15,"currentpage":1.0,
        "nextpage":null,"maxpage":false,"domains":[{"id":1},{"id":"2"}]}}"#;
    let page = page(body, &["domains"]).expect("page");
    assert_eq!(raws(&page), [r#"{"id":1}"#, r#"{"id":"2"}"#]);
    assert_eq!((page.result, page.perpage, page.currentpage), (Some(13), Some(15), Some(1)));
    assert_eq!((page.nextpage, page.maxpage), (None, None));
}

#[test]
fn huge_and_invalid_counts_are_unknown_and_not_an_error() {
    let body = br#"{"data":{"result":1e999,"perpage":-3,"currentpage":[1],"nextpage":{"a":1},
        "maxpage":99999999999999999999999999,"domains":[]}}"#;
    let page = page(body, &["domains"]).expect("page");
    assert_eq!((page.result, page.perpage, page.currentpage), (None, None, None));
    assert_eq!((page.nextpage, page.maxpage), (None, None));
}

#[test]
fn a_missing_or_mistyped_list_is_never_an_empty_one() {
    for body in [
        r#"{"error":0}"#,
        r#"{"error":0,"data":null}"#,
        r#"{"error":0,"data":[]}"#,
        r#"{"error":0,"data":{}}"#,
        r#"{"error":0,"data":{"domains":null}}"#,
        r#"{"error":0,"data":{"domains":false}}"#,
        r#"{"error":0,"data":{"domains":0}}"#,
        r#"{"error":0,"data":{"domains":"[]"}}"#,
        r#"{"error":0,"data":{"domains":{"id":1}}}"#,
        r#"{"error":0,"data":{"campaigns":[]}}"#,
        r#"{"error":0,"data":{"domains":[],"domains":[1]}}"#,
        r#"{"data":{"domains":[]},"data":{"domains":[1]}}"#,
        r#"{"data":{"domains":[]}"#,
        r#"{"data":{"domains":[]}} x"#,
    ] {
        assert!(page(body.as_bytes(), &["domains"]).is_err(), "{body}");
    }
}

#[test]
fn an_object_with_numeric_names_is_a_list_in_its_order() {
    let body = br#"{"data":{"domains":{"4":{"id":4},"2":{"id":2}}}}"#;
    assert_eq!(raws(&page(body, &["domains"]).expect("page")), [r#"{"id":4}"#, r#"{"id":2}"#]);
    assert!(page(br#"{"data":{"domains":{}}}"#, &["domains"]).expect("page").records.is_empty());
}

#[test]
fn a_list_is_found_under_either_of_its_names() {
    let keys = ["cta", "overlay"];
    for body in [r#"{"data":{"overlay":[1]}}"#, r#"{"data":{"cta":[1],"overlay":[]}}"#] {
        assert_eq!(page(body.as_bytes(), &keys).expect(body).records.len(), 1, "{body}");
    }
}

#[test]
fn single_values_are_found_by_name_and_null_is_missing() {
    let body = br#"{"error":0,"details":{"id":1},"data":null}"#;
    assert_eq!(single(body, "details").expect("details").get(), r#"{"id":1}"#);
    assert!(single(body, "data").is_err());
    assert!(single(body, "other").is_err());
}

#[test]
fn deep_nesting_never_overflows_the_stack() {
    for depth in [200, 1_000_000] {
        let nest = "[".repeat(depth);
        let closed = format!(r#"{{"error":0,"data":{{"domains":[{nest}{}]}}}}"#, "]".repeat(depth));
        let _either = classify(&answer(200, &closed));
        let _either = page(closed.as_bytes(), &["domains"]);
        assert!(page(nest.as_bytes(), &["domains"]).is_err());
        let objects = r#"{"data":"#.repeat(depth);
        assert!(page(objects.as_bytes(), &["domains"]).is_err());
        assert!(classify(&answer(200, &objects)).is_err());
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_envelope_panic(body in proptest::collection::vec(any::<u8>(), 0..200), status in 0u16..700) {
        let response = answer(status, &body);
        let _any = classify(&response);
        let _any = throttle(&response);
        let _any = page(&body, &["domains"]);
        let _any = single(&body, "data");
    }

    #[test]
    fn a_truncated_page_is_never_accepted(at in 0usize..100) {
        let whole = br#"{"error":"0","data":{"result":2,"perpage":2,"domains":[{"id":1},{"id":2}],"maxpage":1}}"#;
        let at = at.min(whole.len() - 1);
        prop_assert!(page(&whole[..at], &["domains"]).is_err());
        prop_assert!(classify(&answer(200, &whole[..at])).is_err());
    }
}

#[test]
fn a_long_list_is_a_success_unless_it_is_cut_or_has_an_error() {
    let records = vec![r#"{"id":1,"name":"long enough"}"#; 200].join(",");
    let list = format!(r#"{{"error":"0","data":{{"result":200,"qrs":[{records}]}}}}"#);
    classify(&answer(200, &list)).unwrap();
    for cut in [1, 2, 3, 30, 1000] {
        let body = &list[..list.len() - cut];
        let ApiErrorKind::Malformed { cut: found, .. } = kind(200, body) else { panic!("{cut}") };
        assert!(found, "{cut}");
    }
    assert!(matches!(kind(500, &list), ApiErrorKind::Refused { status: 500, .. }));
    let failed = list.replace(r#""error":"0""#, r#""error":"1""#);
    assert!(matches!(kind(200, &failed), ApiErrorKind::Refused { .. }));
    // A body that is damaged inside is not a page.
    page(list.replacen("},{", "}{", 1).as_bytes(), &["qrs"]).unwrap_err();
}
