//! Errors of requests. Each names its request; none contains the API key.

use super::http::Method;
use crate::api::refusal;
use crate::escaped::Escaped;
use crate::format::truncate;
use std::fmt;

/// Maximum number of characters of foreign text in an error.
const MAX_TEXT: usize = 500;

/// Why a request has no usable response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiErrorKind {
    /// No byte of the request was sent: it is safe to repeat.
    NotSent(String),
    /// The service's certificate was not accepted: nothing was sent.
    Untrusted(String),
    /// Bytes may have been sent: the service may have carried out the request.
    Unknown(String),
    /// Every attempt was refused because of the rate limit: the request was not executed.
    Throttled(String),
    /// The service refused the request.
    Refused {
        /// The HTTP status, or the code in the envelope.
        status: u16,
        /// The service's message, truncated.
        message: String,
    },
    /// The key is missing or not accepted.
    Unauthorised {
        /// The HTTP status, or the code in the envelope.
        status: u16,
        /// The service's message, truncated.
        message: String,
    },
    /// The service does not offer this path to this account.
    NotOffered {
        /// The HTTP status, or the code in the envelope.
        status: u16,
        /// The service's message, truncated.
        message: String,
    },
    /// The response is not what the service's documentation describes.
    Malformed {
        /// The HTTP status.
        status: u16,
        /// The `Content-Type` header; empty if there is none.
        content_type: String,
        /// The beginning of the body.
        excerpt: String,
        /// What is wrong with the body, for people.
        why: String,
        /// Whether the body is empty or cut off.
        cut: bool,
    },
    /// The service redirects the request, which is not followed, so that the key is not sent there.
    Redirected {
        /// The HTTP status.
        status: u16,
        /// The `Location` header.
        target: String,
    },
    /// The response is larger than this many bytes.
    TooLarge(u64),
    /// The user interrupted the program.
    Interrupted,
    /// A limit on time or on requests is reached; the operation can be continued.
    LimitReached(String),
}

impl ApiErrorKind {
    /// Whether the same read may succeed if it is retried.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Unknown(_) => true,
            Self::Malformed { cut: true, .. } => true,
            Self::Refused { status, .. } | Self::Malformed { status, .. } => {
                (*status >= 500 && *status != 501) || *status == 408
            }
            _ => false,
        }
    }

    /// Whether the service may have carried out the write that failed so. Such a write must not be
    /// repeated without a check.
    #[must_use]
    pub const fn has_unknown_outcome(&self) -> bool {
        match self {
            Self::Unknown(_)
            | Self::TooLarge(_)
            | Self::Redirected { .. }
            | Self::NotOffered { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 408,
            Self::Malformed { status, .. } => !matches!(*status, 401 | 403),
            Self::NotSent(_)
            | Self::Untrusted(_)
            | Self::Throttled(_)
            | Self::Unauthorised { .. }
            | Self::Interrupted
            | Self::LimitReached(_) => false,
        }
    }

    /// Whether the response came from something that would respond the same way again: a redirect,
    /// or a status below 500 without an envelope of the API.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Redirected { .. } | Self::NotOffered { .. } => true,
            Self::Malformed { status, .. } => *status >= 300 && *status < 500 && *status != 408,
            _ => false,
        }
    }
}

/// An error with its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// What failed.
    pub kind: ApiErrorKind,
    /// The HTTP method of the request.
    pub method: Method,
    /// The path of the request with its query.
    pub path: String,
}

impl ApiError {
    /// An error of the request with this method and path.
    #[must_use]
    pub fn new(kind: ApiErrorKind, method: Method, path: &str) -> Self {
        Self { kind, method, path: path.to_owned() }
    }

    /// Whether fewer records per request may help: the service was too slow, failed, or sent too
    /// much.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        match &self.kind {
            ApiErrorKind::Unknown(_) | ApiErrorKind::TooLarge(_) => true,
            ApiErrorKind::Malformed { cut: true, .. } => true,
            ApiErrorKind::Refused { status, .. } | ApiErrorKind::Malformed { status, .. } => {
                *status >= 500 || *status == 408 || *status == 413
            }
            _ => false,
        }
    }

    /// Whether a resource that is not offered may mean an invalid key: the message names neither a
    /// missing path nor the subscription as the reason.
    #[must_use]
    pub fn may_be_a_key_error(&self) -> bool {
        match &self.kind {
            ApiErrorKind::NotOffered { status, message } => {
                *status != 404
                    && !refusal::mentions_subscription(message)
                    && !refusal::mentions_absence(message)
            }
            _ => false,
        }
    }

    /// Whether the response is not one of the API.
    #[must_use]
    pub const fn is_malformed(&self) -> bool {
        matches!(self.kind, ApiErrorKind::Malformed { .. })
    }

    /// Whether the write may have been executed: [`ApiErrorKind::has_unknown_outcome`].
    #[must_use]
    pub fn has_unknown_outcome(&self) -> bool {
        self.kind.has_unknown_outcome()
    }
}

impl std::error::Error for ApiError {}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.method, one_line(&self.path), self.kind)
    }
}

impl fmt::Display for ApiErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) => write!(f, "not sent: {}", one_line(why)),
            Self::Untrusted(why) => write!(f, "no secure connection: {}", one_line(why)),
            Self::Unknown(why) => write!(f, "outcome unknown: {}", one_line(why)),
            Self::Throttled(why) => write!(f, "refused by the rate limit: {}", one_line(why)),
            Self::Refused { status, message } => {
                write!(f, "refused: {} (HTTP {status})", one_line(message))
            }
            Self::Unauthorised { status, message } => {
                write!(f, "the key was not accepted: {} (HTTP {status})", one_line(message))
            }
            Self::NotOffered { status, message } if message.is_empty() => {
                write!(f, "not offered (HTTP {status})")
            }
            Self::NotOffered { status, message } => {
                write!(f, "not offered: {} (HTTP {status})", one_line(message))
            }
            // A failing service, or a proxy in front of it, does not send JSON.
            Self::Malformed { status: status @ 500.., excerpt, .. } => {
                let text = page_title(excerpt).unwrap_or(excerpt);
                let colon = if text.is_empty() { "" } else { ": " };
                write!(f, "the service answered with HTTP {status}{colon}{}", one_line(text))
            }
            Self::Malformed { status, content_type, excerpt, why, .. } => write!(
                f,
                "expected a JSON document of the API, but {}; got HTTP {status}, {}: {}",
                one_line(why),
                if content_type.is_empty() {
                    "no content type".into()
                } else {
                    one_line(content_type)
                },
                if excerpt.is_empty() { "an empty body".into() } else { one_line(excerpt) },
            ),
            Self::Redirected { status, target } => {
                write!(f, "redirected to {} (HTTP {status}), not followed", one_line(target))
            }
            Self::TooLarge(bytes) => write!(f, "the response is larger than {bytes} bytes"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::LimitReached(which) => write!(f, "stopped: {}", one_line(which)),
        }
    }
}

/// The title of an HTML page, which is more useful than its markup.
fn page_title(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    Some(title.trim()).filter(|title| !title.is_empty())
}

/// Escapes everything in `text` that could move a terminal's cursor or break a line.
fn one_line(text: &str) -> String {
    Escaped(text).to_string()
}

/// A service's message, truncated.
#[must_use]
pub(super) fn message(text: &str) -> String {
    truncate(text, MAX_TEXT).into_owned()
}

/// The beginning of a body for people, with control characters escaped.
#[must_use]
pub(super) fn excerpt(body: &[u8]) -> String {
    const MAX: usize = 120;
    // A character has at most four bytes, so this many are enough.
    let head = &body[..body.len().min(4 * MAX + 4)];
    one_line(&truncate(String::from_utf8_lossy(head).trim(), MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ApiErrorKind) -> ApiError {
        ApiError::new(kind, Method::Get, "/api/domains?limit=1000")
    }

    #[test]
    fn a_message_is_one_line_even_when_the_service_sends_control_characters() {
        let kind = ApiErrorKind::Refused { status: 400, message: "a\nb\u{1b}[2J\u{202e}".into() };
        let message = error(kind).to_string();
        assert_eq!(
            message,
            "GET /api/domains?limit=1000: refused: a\\nb\\u{1b}[2J\\u{202e} (HTTP 400)"
        );
    }

    #[test]
    fn a_server_failure_is_described_by_status_and_page_title() {
        let message_of = |status, body: &str| {
            let (content_type, why) = ("text/html".to_owned(), "it is not JSON".to_owned());
            let excerpt = excerpt(body.as_bytes());
            let kind = ApiErrorKind::Malformed { status, content_type, excerpt, why, cut: false };
            error(kind).to_string()
        };
        let text = |what: &str| format!("GET /api/domains?limit=1000: {what}");
        let page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>";
        assert_eq!(
            message_of(502, page),
            text("the service answered with HTTP 502: 502 Bad Gateway")
        );
        assert_eq!(
            message_of(503, "no <title>"),
            text("the service answered with HTTP 503: no <title>")
        );
        assert_eq!(message_of(500, ""), text("the service answered with HTTP 500"));
        assert_eq!(
            message_of(200, page),
            text(
                "expected a JSON document of the API, but it is not JSON; got HTTP 200, \
                  text/html: <html>\\r\\n<head><title>502 Bad Gateway</title></head>\\r\\n<body>"
            )
        );
    }

    #[test]
    fn an_excerpt_of_any_bytes_is_short_and_escaped() {
        assert_eq!(excerpt(b"<html>\n\x00"), "<html>\\n\\u{0}");
        assert_eq!(excerpt(&[0xff; 5000]).chars().count(), 121);
        assert_eq!(excerpt("ä".repeat(500).as_bytes()).chars().count(), 121);
        assert_eq!(excerpt(b""), "");
    }

    #[test]
    fn a_server_failure_has_an_unknown_outcome_and_a_refusal_does_not() {
        let broken = error(ApiErrorKind::Refused { status: 502, message: String::new() });
        assert!(broken.is_overload() && broken.has_unknown_outcome() && broken.kind.is_transient());
        let refused = error(ApiErrorKind::Refused { status: 400, message: String::new() });
        assert!(
            !refused.is_overload()
                && !refused.has_unknown_outcome()
                && !refused.kind.is_transient()
        );
        let not_sent = error(ApiErrorKind::NotSent(String::new()));
        assert!(!not_sent.has_unknown_outcome() && not_sent.kind.is_transient());
    }
}
