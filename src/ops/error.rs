//! Why an operation failed, as data: what kind of failure it is, what went wrong, and
//! what to do next.

use std::fmt::{self, Display};
use std::io;

use serde_json::{Value, json};

use crate::config::{
    AccountError, AddAccountError, ConfigError, HomeError, KeySourceCause, KeySourceError,
};

/// What kind of failure it is: the word in the JSON document, and an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpErrorKind {
    /// What has no kind of its own.
    Failed,
    /// The command line.
    Usage,
    /// The configuration.
    Config,
    /// There is no such account.
    Account,
    /// There is no such snapshot, record or file.
    NotFound,
    /// The service did not answer, or not as the API does.
    Service,
    /// The vault is not one, is damaged, or belongs to another account.
    Vault,
    Stale,
    Guard,
    UnknownOutcome,
    Unauthorised,
    Stopped,
    Locked,
    Interrupted,
    /// The reader of our output went away. Nothing is said about it.
    Closed,
}

impl OpErrorKind {
    /// The word for it in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Config => "config",
            Self::Account => "account",
            Self::NotFound => "not_found",
            Self::Service => "service",
            Self::Vault => "vault",
            Self::Stale => "stale",
            Self::Guard => "guard",
            Self::UnknownOutcome => "unknown_outcome",
            Self::Unauthorised => "unauthorised",
            Self::Stopped => "stopped",
            Self::Locked => "locked",
            Self::Interrupted => "interrupted",
            Self::Closed => "closed",
        }
    }
}

/// Why a command failed, for a person: one sentence without a full stop,
/// further lines where one is not enough, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpError {
    pub kind: OpErrorKind,
    pub message: String,
    pub details: Vec<String>,
    pub hint: Option<String>,
}

impl OpError {
    pub fn new(kind: OpErrorKind, message: impl Display) -> Self {
        Self { kind, message: message.to_string(), details: Vec::new(), hint: None }
    }

    /// The same failure, with what to do next.
    #[must_use]
    pub fn hint(self, hint: impl Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// The same failure, with further lines.
    #[must_use]
    pub fn details(self, details: impl IntoIterator<Item = String>) -> Self {
        Self { details: details.into_iter().collect(), ..self }
    }

    /// The failure as the one document of `--json`.
    #[must_use]
    pub fn document(&self) -> Value {
        let Self { kind, message, details, hint } = self;
        json!({
            "format": 1,
            "error": {"kind": kind.name(), "message": message, "details": details, "hint": hint},
        })
    }
}

impl From<io::Error> for OpError {
    /// A failure to write our own output; other errors of files name the file.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(OpErrorKind::Closed, "the output was closed");
        }
        Self::new(OpErrorKind::Failed, format_args!("the output cannot be written: {error}"))
    }
}

impl Display for OpError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.message)
    }
}

impl std::error::Error for OpError {}

impl From<HomeError> for OpError {
    fn from(error: HomeError) -> Self {
        Self::new(OpErrorKind::Config, error).hint("set LINKVAULT_HOME to a folder for them")
    }
}

impl From<ConfigError> for OpError {
    fn from(error: ConfigError) -> Self {
        let ConfigError::Invalid { file, problems } = error else {
            return Self::new(OpErrorKind::Config, error);
        };
        let message = match problems.len() {
            1 => "the configuration has a mistake".to_owned(),
            many => format!("the configuration has {many} mistakes"),
        };
        let details = problems.iter().map(|problem| problem.at(&file));
        Self::new(OpErrorKind::Config, message)
            .details(details)
            .hint("mend the file and run the command again; nothing was done")
    }
}

impl From<AccountError> for OpError {
    fn from(error: AccountError) -> Self {
        let failure = Self::new(OpErrorKind::Account, &error);
        match error {
            AccountError::NothingConfigured { .. } => failure.hint(
                "run `linkvault init` to add an account, \
                 or try things with the built-in account `sandbox`",
            ),
            AccountError::Unknown { nearest, known, .. } => {
                let known = known.join(", ");
                failure.hint(match nearest {
                    Some(near) => format!("did you mean `{near}`? The accounts are: {known}"),
                    None => format!("the accounts are: {known}"),
                })
            }
        }
    }
}

impl From<AddAccountError> for OpError {
    fn from(error: AddAccountError) -> Self {
        if let AddAccountError::Invalid { file, problems } = &error {
            let message = format!("an account cannot be added to {}", file.display());
            let details = problems.iter().map(|problem| problem.at(file));
            return Self::new(OpErrorKind::Config, message)
                .details(details)
                .hint("mend the file, or add the account to it by hand");
        }
        let failure = Self::new(OpErrorKind::Config, &error);
        match error {
            AddAccountError::Exists { .. } => failure.hint("choose another name, or edit the file"),
            _ => failure,
        }
    }
}

impl From<KeySourceError> for OpError {
    fn from(error: KeySourceError) -> Self {
        let kind = match error.cause {
            KeySourceCause::Interrupted(_) => OpErrorKind::Interrupted,
            _ => OpErrorKind::Config,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_holds_kind_message_and_hint() {
        let failure = OpError::new(OpErrorKind::Locked, "busy").hint("wait");
        assert_eq!(
            failure.document().to_string(),
            r#"{"format":1,"error":{"kind":"locked","message":"busy","details":[],"hint":"wait"}}"#
        );
    }
}
