//! The API client from end to end: redaction, certificates, malformed responses.

mod certificate_errors;
mod malformed_responses;
mod secret_redaction;
mod unexpected_hosts;
