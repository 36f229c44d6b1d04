//! Serialises JSON, HTML and dates, in the form that the behaviour selects.

use std::fmt::Write as _;

use serde_json::Value;

use super::behaviour::{Behaviour, Escapes, Layout};
use super::render::Object;
use crate::api::http::Response;
use crate::clock::Timestamp;

/// A JSON response.
pub fn json(status: u16, object: Object, behaviour: &Behaviour) -> Response {
    let value = Value::Object(object);
    let text = match behaviour.layout {
        Layout::Compact => value.to_string(),
        Layout::Pretty => format!("{value:#}"),
    };
    let text = match behaviour.escapes {
        Escapes::Plain => text,
        Escapes::Php => escaped(&text),
    };
    Response {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: text.into_bytes(),
    }
}

/// An HTML page, as a web server in front of the service sends it.
#[must_use]
pub fn html(status: u16, title: &str) -> Response {
    let body = format!(
        "<!DOCTYPE html>\n<html><head><title>{title}</title></head>\
         <body><h1>{title}</h1></body></html>\n"
    );
    Response {
        status,
        headers: vec![("content-type".to_owned(), "text/html; charset=utf-8".to_owned())],
        body: body.into_bytes(),
    }
}

/// Escapes slashes and non-ASCII characters. In JSON they occur only within strings, so the
/// finished
/// text can be escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        match c {
            '/' => out.push_str("\\/"),
            c if c.is_ascii() => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out
}

/// The time as an HTTP date: `Tue, 14 Nov 2023 22:13:51 GMT`.
#[must_use]
pub fn http_date(time: Timestamp) -> String {
    let format = "%a, %d %b %Y %H:%M:%S GMT";
    time.utc().map_or_else(String::new, |time| time.format(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_change_the_text_and_not_the_meaning() {
        let value = serde_json::json!({"a/b": "ü \u{1f4a1} \"\\\u{1}", "n": [1, null]});
        let text = escaped(&value.to_string());
        assert!(text.is_ascii() && text.contains("\\/") && text.contains("\\ud83d\\udca1"));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
