//! Errors of requests to Temporal.

use std::error::Error;
use std::fmt;

use temporalio_client::errors::ClientConnectError;
use temporalio_client::tonic::{Code, Status};

/// What went wrong, as far as the next step depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemporalErrorKind {
    /// There is no server at the address, or it does not answer.
    NoServer,
    /// The address, a certificate or another setting cannot be used.
    Settings,
    /// The server has no such namespace.
    NoNamespace,
    /// The credentials are not accepted.
    Refused,
    /// There is no such schedule or workflow.
    NotFound,
    /// Another process changed the schedule at the same time.
    Conflict,
    /// Another error of the server.
    Server,
}

/// An error of a request to Temporal.
#[derive(Debug)]
pub struct TemporalError {
    /// What went wrong.
    pub kind: TemporalErrorKind,
    what: String,
}

impl TemporalError {
    /// An error of `kind` that says `what` went wrong.
    #[must_use]
    pub fn new(kind: TemporalErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for TemporalError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.what)
    }
}

impl Error for TemporalError {}

impl From<Status> for TemporalError {
    fn from(status: Status) -> Self {
        use TemporalErrorKind::{
            Conflict, NoNamespace, NoServer, NotFound, Refused, Server, Settings,
        };
        let text = status.message().trim_end_matches('.');
        let kind = match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => NoServer,
            Code::Unauthenticated | Code::PermissionDenied => Refused,
            Code::NotFound if text.to_lowercase().contains("namespace") => NoNamespace,
            Code::NotFound => NotFound,
            Code::AlreadyExists | Code::Aborted => Conflict,
            Code::FailedPrecondition if text.contains("conflict token") => Conflict,
            Code::InvalidArgument => Settings,
            _ => Server,
        };
        let what = match kind {
            NoServer => format!("no answer: {text}"),
            _ if text.is_empty() => status.code().description().to_owned(),
            _ => text.to_owned(),
        };
        Self { kind, what }
    }
}

impl From<ClientConnectError> for TemporalError {
    fn from(error: ClientConnectError) -> Self {
        match error {
            ClientConnectError::SystemInfoCallError(status) => status.into(),
            ClientConnectError::TonicTransportError(error) => {
                Self::new(TemporalErrorKind::NoServer, chain(&error))
            }
            ClientConnectError::DnsResolutionError { source, .. } => {
                Self::new(TemporalErrorKind::NoServer, source.to_string())
            }
            other => Self::new(TemporalErrorKind::Settings, chain(&other)),
        }
    }
}

/// The text of `error` and its causes, each said once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_kind_of_its_code() {
        let kind = |code, text: &str| TemporalError::from(Status::new(code, text)).kind;
        assert_eq!(kind(Code::Unavailable, "tcp connect error"), TemporalErrorKind::NoServer);
        assert_eq!(
            kind(Code::NotFound, "Namespace x is not found."),
            TemporalErrorKind::NoNamespace
        );
        assert_eq!(kind(Code::NotFound, "schedule not found"), TemporalErrorKind::NotFound);
        assert_eq!(kind(Code::PermissionDenied, "no"), TemporalErrorKind::Refused);
        assert_eq!(
            kind(Code::FailedPrecondition, "mismatched conflict token"),
            TemporalErrorKind::Conflict
        );
        assert_eq!(kind(Code::Internal, "panic"), TemporalErrorKind::Server);
    }

    #[test]
    fn a_message_is_never_empty() {
        let error = TemporalError::from(Status::new(Code::Internal, ""));
        assert!(!error.to_string().is_empty());
    }
}
