//! How to speak to the service. Only `api::ureq` touches the network; all
//! else is decided here on plain data.
//!
//! * [`base_url`]: where a service lives, and whether a key may go there
//! * [`webhook_url`]: addresses for messages to the owner
//! * [`http`]: requests, responses, and the door they go through
//! * [`error`]: what can go wrong, and what to do about it
//! * [`envelope`]: what a body says, read leniently
//! * [`rate_limit_headers`]: what an answer says about the limit and the time
//! * `refusal`: what the words of a refusal say about its reason
//! * [`pacer`]: when the next request may leave
//! * [`client`]: one request, with its waits, repeats and bounds
//! * [`redact`]: secrets are removed from what comes from outside
//! * [`read_only`]: a way on which nothing can be changed
//! * [`ureq`]: the real network

pub mod base_url;
pub mod client;
pub mod envelope;
pub mod error;
pub mod http;
pub mod pacer;
pub mod rate_limit_headers;
pub mod read_only;
pub mod redact;
mod refusal;
pub mod ureq;
pub mod webhook_url;
