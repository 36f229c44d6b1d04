//! Requests and responses as plain data, and the [`Transport`] trait, through which all requests
//! are sent.

use std::fmt;
use std::time::Duration;

pub use crate::model::spec::Method;

/// An API key. `Debug` prints a placeholder, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key, without surrounding white space.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// The key itself. Use it only for the `Authorization` header.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The same text for the same key and service, from which neither can be computed. Keys are long
    /// and random, so that guessing one is no faster with it than with the service.
    #[must_use]
    pub fn fingerprint(&self, service: &str) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("linkvault, the rate limit of a key");
        for part in [service, &self.0] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex()[..FINGERPRINT_LENGTH].to_owned()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Hexadecimal digits of a fingerprint.
const FINGERPRINT_LENGTH: usize = 16;

/// A request to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// Path and query, beginning with `/api`. The transport puts the base URL in front of it.
    pub path: String,
    /// Sent as `Authorization: Bearer …` when present.
    pub key: Option<ApiKey>,
    /// A JSON document, sent with `Content-Type: application/json`.
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// A `GET` of `path` without a key.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::Get, path: path.into(), key: None, body: None }
    }
}

/// A complete response, after decompression.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status, 200 to 599.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header called `name` (lower case), if its value is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No byte of the request was sent: it is safe to repeat.
    #[error("{0}")]
    NotSent(String),
    /// The server's certificate was not accepted: nothing was sent, and a retry would fail in the
    /// same way.
    #[error("{0}")]
    Untrusted(String),
    /// Bytes may have been sent: the service may have carried out the request.
    #[error("{0}")]
    Unknown(String),
    /// The response is larger than this limit, in bytes.
    #[error("the response is larger than {0} bytes")]
    TooLarge(u64),
}

/// The secrets that were removed from the result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedSecrets {
    /// Address of the list of secrets.
    pub list: usize,
    /// Number of secrets, which only grows.
    pub number: usize,
}

/// A read that was begun with [`Transport::begin_read`] and has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRead {
    /// Its number.
    pub id: u64,
    /// What [`Transport::send`] would have returned.
    pub outcome: Result<Response, TransportError>,
    /// The time that the service took, not counting the time until the result was asked for.
    pub time: Duration,
    /// The secrets that the transport itself has removed.
    pub removed: Option<RemovedSecrets>,
}

/// Sends requests to a service. The program has no other way to send one.
pub trait Transport: Send {
    /// Sends one request and waits for the complete response.
    ///
    /// # Errors
    /// [`TransportError`] if there is no response. A response of any HTTP status is not an error.
    fn send(&mut self, request: &Request) -> Result<Response, TransportError>;

    /// Maximum number of reads that can run at once with [`Transport::begin_read`]; 1 if only
    /// [`Transport::send`] works.
    fn lanes(&self) -> usize {
        1
    }

    /// Begins a read, and returns without waiting for its response. Returns `false` if it was not
    /// begun. `id` is not that of another running read.
    fn begin_read(&mut self, _id: u64, _request: &Request) -> bool {
        false
    }

    /// Waits until one of the running reads has ended. `None` if none is running, or after an
    /// interrupt, if none ends soon. The running ones are then given up.
    fn next_read(&mut self) -> Option<FinishedRead> {
        None
    }

    /// One of the running reads that has ended, without waiting.
    fn try_next_read(&mut self) -> Option<FinishedRead> {
        None
    }

    /// The caller will send nothing for `time`: what is kept only for the next request may end.
    fn pause(&mut self, _time: Duration) {}
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        (**self).send(request)
    }

    fn lanes(&self) -> usize {
        (**self).lanes()
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        (**self).begin_read(id, request)
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        (**self).next_read()
    }

    fn try_next_read(&mut self) -> Option<FinishedRead> {
        (**self).try_next_read()
    }

    fn pause(&mut self, time: Duration) {
        (**self).pause(time);
    }
}
