//! The error of a command, as text and as JSON.

use std::fmt::Display;
use std::io;

use serde_json::{Value, json};

use super::hints;
use crate::config::{AccountError, ConfigError};
use crate::ops::{Details, OpError, OpErrorKind};
use crate::vault::VaultError;
use crate::vault::lock::LockError;

/// The kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliErrorKind {
    /// A failure of an operation, or of the command line.
    Op(OpErrorKind),
    /// The reader of stdout closed the pipe. No message is printed.
    Closed,
}

impl CliErrorKind {
    /// The name of the kind in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Op(kind) => kind.name(),
            Self::Closed => "closed",
        }
    }
}

impl From<OpErrorKind> for CliErrorKind {
    fn from(kind: OpErrorKind) -> Self {
        Self::Op(kind)
    }
}

/// Why a command failed.
///
/// Every function that prints can fail because the stream cannot be written. An `# Errors` section
/// names only further conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// The kind of failure, from which the exit code follows.
    pub kind: CliErrorKind,
    /// One sentence without a full stop.
    pub message: String,
    /// Further lines if one is not enough.
    pub details: Details,
    /// What the user can do next, as an imperative.
    pub hint: Option<String>,
}

impl CliError {
    /// An error without details and without a hint.
    pub fn new(kind: impl Into<CliErrorKind>, message: impl Display) -> Self {
        let message = message.to_string();
        Self { kind: kind.into(), message, details: Details::default(), hint: None }
    }

    /// The same failure, with a hint from [`hints`].
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same failure, with further lines.
    #[must_use]
    pub fn details(self, details: impl Into<Details>) -> Self {
        Self { details: details.into(), ..self }
    }

    /// The JSON document of the failure, for `--json`.
    #[must_use]
    pub fn document(&self) -> Value {
        let Self { kind, message, details, hint } = self;
        json!({
            "format": 1,
            "error": {"kind": kind.name(), "message": message, "details": details.lines, "hint": hint},
        })
    }
}

impl From<OpError> for CliError {
    fn from(error: OpError) -> Self {
        let OpError { kind, message, details, next } = error;
        let hint = next.map(|next| hints::hint(&next).into_owned());
        Self { kind: kind.into(), message, details, hint }
    }
}

impl From<io::Error> for CliError {
    /// The error of a failure to write to stdout. Errors of files are made elsewhere, with the
    /// path.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(CliErrorKind::Closed, "the output was closed");
        }
        Self::new(OpErrorKind::Failed, format_args!("cannot write the output: {error}"))
    }
}

/// Converts errors that no operation has wrapped as operations do.
macro_rules! as_in_operations {
    ($($error:ty),*) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                OpError::from(error).into()
            }
        })*
    };
}
as_in_operations!(AccountError, ConfigError, LockError, VaultError);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::NextStep;

    #[test]
    fn the_document_has_kind_message_and_hint() {
        let failure = OpError::new(OpErrorKind::Locked, "busy").next(NextStep::Confirm);
        assert_eq!(
            CliError::from(failure).document().to_string(),
            r#"{"format":1,"error":{"kind":"locked","message":"busy","details":[],"hint":"pass --yes to confirm"}}"#
        );
    }
}
