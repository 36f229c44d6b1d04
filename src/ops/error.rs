//! Why an operation failed: what kind of failure it is, what went wrong, and what the user
//! can do next.

use std::fmt::{self, Display};

use super::NextStep;
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
        }
    }
}

/// Why an operation failed: one sentence without a full stop, further lines where one is
/// not enough, and what the user can do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpError {
    pub kind: OpErrorKind,
    pub message: String,
    pub details: Vec<String>,
    pub next: Option<Box<NextStep>>,
}

impl OpError {
    pub fn new(kind: OpErrorKind, message: impl Display) -> Self {
        Self { kind, message: message.to_string(), details: Vec::new(), next: None }
    }

    /// The same failure, with what the user can do next.
    #[must_use]
    pub fn next(self, next: impl Into<Option<NextStep>>) -> Self {
        Self { next: next.into().map(Box::new), ..self }
    }

    /// The same failure, with further lines.
    #[must_use]
    pub fn details(self, details: impl IntoIterator<Item = String>) -> Self {
        Self { details: details.into_iter().collect(), ..self }
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
        Self::new(OpErrorKind::Config, error).next(NextStep::SetHome)
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
        Self::new(OpErrorKind::Config, message).details(details).next(NextStep::FixConfig)
    }
}

impl From<AccountError> for OpError {
    fn from(error: AccountError) -> Self {
        let failure = Self::new(OpErrorKind::Account, &error);
        failure.next(match error {
            AccountError::NothingConfigured { .. } => NextStep::AddAccount,
            AccountError::Unknown { nearest, known, .. } => {
                NextStep::NameAccount { nearest, known }
            }
        })
    }
}

impl From<AddAccountError> for OpError {
    fn from(error: AddAccountError) -> Self {
        if let AddAccountError::Invalid { file, problems } = &error {
            let message = format!("an account cannot be added to {}", file.display());
            let details = problems.iter().map(|problem| problem.at(file));
            return Self::new(OpErrorKind::Config, message)
                .details(details)
                .next(NextStep::FixConfigOrAddByHand);
        }
        let failure = Self::new(OpErrorKind::Config, &error);
        match error {
            AddAccountError::Exists { .. } => failure.next(NextStep::NameNewAccount),
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
