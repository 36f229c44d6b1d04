//! Bodies of responses: `api::envelope`.

use linkvault::api::envelope::{classify, classify_write, page, single};
use linkvault::api::http::Response;
use serde_json::value::RawValue;

pub const WORDS: &[&str] = &[
    "{\"error\":\"0\",\"data\":{\"campaigns\":[",
    "]}}",
    "\"error\":0",
    "\"error\":429",
    "\"error\":\"1\"",
    "\"message\":\"",
    "\"data\":",
    "\"campaigns\":[",
    "\"result\":1",
    "\"perpage\":",
    "\"currentpage\":",
    "\"nextpage\":null",
    "\"maxpage\":",
    "\"Retry-After\":",
    "\"details\":{",
    "\"id\":1",
    "null",
    "false",
    "\\u0000",
    "\\ud800",
    "1e400",
    "{\"0\":",
    ",",
    "}",
    "<html>",
    "API key",
    "too many requests",
];

const STATUS: [u16; 10] = [200, 201, 204, 301, 400, 401, 403, 404, 429, 503];
const KEYS: [&str; 2] = ["campaigns", "campaign"];

/// The longest error that a person is shown.
const MAX_ERROR: usize = 2000;

pub fn run(input: &[u8]) {
    let (status, body) = super::choice(input);
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let response = Response { status: STATUS[status % STATUS.len()], headers, body: body.to_vec() };
    let good = (200..300).contains(&response.status);
    for found in [classify(&response), classify_write(&response)] {
        match found {
            Ok(found) => {
                assert!(good, "{} is no success", response.status);
                assert!(std::ptr::eq(found.bytes, response.body.as_slice()));
                assert!(found.message.is_none_or(|it| within(it.get(), body.len())));
            }
            Err(error) => super::assert_readable(&format!("{error:?}"), MAX_ERROR),
        }
    }
    match page(body, &KEYS) {
        Ok(page) => {
            let whole: usize = page.records.iter().map(|it| it.get().len()).sum();
            assert!(whole <= body.len(), "the records are slices of the body");
        }
        Err(why) => {
            super::assert_readable(&why.replace(char::is_control, " "), MAX_ERROR + body.len())
        }
    }
    let _ = (single(body, "data"), single(body, "details"));
    wrapped(body);
}

fn within(text: &str, length: usize) -> bool {
    text.len() <= length
}

/// Records in a list come out of it as they went in.
fn wrapped(records: &[u8]) {
    let Ok(records) = std::str::from_utf8(records) else { return };
    let Ok(each) = serde_json::from_str::<Vec<&RawValue>>(records) else { return };
    for (list, result) in [("campaigns", "\"3\""), ("campaign", "3")] {
        let body = format!(
            "{{\"error\":\"0\",\"data\":{{\"result\":{result},\"{list}\":{records}}},\"more\":1}}"
        );
        let response = Response { status: 200, body: body.into_bytes(), ..Response::default() };
        let found = classify(&response).unwrap_or_else(|it| panic!("a list is a success: {it:?}"));
        let page = page(found.bytes, &KEYS).unwrap_or_else(|why| panic!("a list has pages: {why}"));
        assert_eq!(page.result, Some(3));
        let [ours, theirs] =
            [&page.records, &each].map(|all| -> Vec<_> { all.iter().map(|it| it.get()).collect() });
        assert_eq!(ours, theirs);
    }
}
