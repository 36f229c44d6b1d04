//! Requests and responses as plain data, and [`Transport`], the door to the network.

use std::fmt;

pub use crate::model::spec::Method;

/// An API key. `Debug` prints a placeholder, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key as it was read from its source, without surrounding white space.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// The key itself, for the `Authorization` header alone.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// One request. `path` begins with `/api` and may carry a query; the transport
/// puts the base URL in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
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

/// One answer, whole, after decompression.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The first header called `name` (lower case), if its value is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No byte of the request left this machine: it is safe to repeat.
    #[error("{0}")]
    NotSent(String),
    /// The other side's certificate was not accepted: nothing left, and a repeat ends the same.
    #[error("{0}")]
    Untrusted(String),
    /// Bytes may have left: the service may have done the work.
    #[error("{0}")]
    Unknown(String),
    /// The answer began to arrive and was larger than the limit, in bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
}

/// The program's only way to a service.
pub trait Transport: Send {
    /// Sends one request and waits for the whole answer.
    ///
    /// # Errors
    /// [`TransportError`] when no answer arrived; any HTTP status is an answer.
    fn send(&mut self, request: &Request) -> Result<Response, TransportError>;
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        (**self).send(request)
    }
}
