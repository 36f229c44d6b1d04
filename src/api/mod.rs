//! The HTTP client of the service. Only `api::ureq` uses the network; everything else is decided on
//! plain data.
//!
//! * [`base_url`]: address of a service; rejects addresses to which a key must not be sent
//! * [`webhook_url`]: addresses for alerts and heartbeats
//! * [`http`]: requests, responses, and the [`Transport`](http::Transport) trait
//! * [`error`]: errors of requests
//! * [`envelope`]: the envelope of a response body, parsed leniently
//! * [`rate_limit_headers`]: rate limit and time in a response's headers
//! * `refusal`: recognises the reason of a refusal by its wording
//! * [`pacer`]: when the next request may be sent
//! * [`client`]: one request with its waits, retries and limits
//! * [`parallel`]: a transport that sends several reads at once
//! * [`redact`]: removes secrets from text that comes from outside
//! * [`read_only`]: a transport that refuses writes
//! * [`ureq`]: the network

pub mod base_url;
pub mod client;
pub mod envelope;
pub mod error;
pub mod http;
pub mod pacer;
pub mod parallel;
pub mod rate_limit_headers;
pub mod read_only;
pub mod redact;
mod refusal;
pub mod ureq;
pub mod webhook_url;
