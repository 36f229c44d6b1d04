//! Logs requests: a line for each at level debug, and their content at level trace.

use std::time::Duration;

use serde_json::Value;
use tracing::Level;

use crate::api::http::{Request, Response, TransportError};
use crate::api::redact::{PLACEHOLDER, Redactor};
use crate::escaped::Escaped;

/// The log target of requests and responses.
pub const WIRE: &str = "requests";

/// Maximum number of bytes of a body that are logged.
const MAX_LOGGED: usize = 4 << 10;

/// Logs a request.
pub(super) fn request(request: &Request, redactor: &Redactor) {
    if !tracing::enabled!(target: WIRE, Level::TRACE) {
        return;
    }
    let (method, path) = (request.method, Escaped(&request.path));
    let key = if request.key.is_some() { "; authorization: Bearer [redacted]" } else { "" };
    let body = request.body.as_deref().map(|body| without_password(body, redactor));
    let body = body.map(|body| format!("; body: {}", Escaped(&body))).unwrap_or_default();
    tracing::trace!(target: WIRE, "> {method} {path}{key}{body}");
}

/// Logs the result of a request.
pub(super) fn outcome(
    request: &Request,
    outcome: &Result<Response, TransportError>,
    time: Duration,
) {
    if !tracing::enabled!(target: WIRE, Level::DEBUG) {
        return;
    }
    let (method, path, time) = (request.method, Escaped(&request.path), time.as_millis());
    let response = match outcome {
        Ok(response) => response,
        Err(why) => {
            tracing::debug!(target: WIRE, "{method} {path}: {}, {time} ms", Escaped(why));
            return;
        }
    };
    let (status, size) = (response.status, response.body.len());
    let remaining = response.header("x-ratelimit-remaining").unwrap_or("unknown");
    let remaining = Escaped(remaining);
    tracing::debug!(
        target: WIRE,
        "{method} {path}: HTTP {status}, {size} bytes, {time} ms, limit left: {remaining}"
    );
    for (name, value) in &response.headers {
        tracing::trace!(target: WIRE, "< {}: {}", Escaped(name), Escaped(value));
    }
    if size > 0 {
        tracing::trace!(target: WIRE, "< {}", Escaped(bounded(&response.body)));
    }
}

/// The beginning of a body, and the number of bytes left out.
fn bounded(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_LOGGED)]).into_owned();
    match body.len().checked_sub(MAX_LOGGED) {
        None | Some(0) => text,
        Some(more) => format!("{text}… and {more} bytes more"),
    }
}

/// A request's body without secrets. The password is replaced explicitly, because it may be too
/// short for the redactor.
fn without_password(body: &[u8], redactor: &Redactor) -> String {
    let mut text = String::from_utf8_lossy(body).into_owned();
    if let Ok(Value::Object(mut members)) = serde_json::from_slice(body)
        && let Some(password) = members.get_mut("password")
    {
        *password = PLACEHOLDER.into();
        text = Value::Object(members).to_string();
    }
    bounded(redactor.text(&text).as_bytes())
}
