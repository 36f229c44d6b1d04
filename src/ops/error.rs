//! The error of an operation: its kind, its message, and what the user can do next.

use std::fmt::{self, Display};

use super::NextStep;
use crate::change::csv_files::CsvProblems;
use crate::config::{
    AccountError, AddAccountError, ConfigError, HomeError, KeySourceCause, KeySourceError,
};
use crate::model::named::named;

named! {
    /// The kind of a failure, from which its name in JSON and the exit code follow.
    pub enum OpErrorKind {
        /// A failure of no other kind.
        Failed = "failed",
        /// An invalid command line.
        Usage = "usage",
        /// The configuration is missing or invalid.
        Config = "config",
        /// There is no such account.
        Account = "account",
        /// There is no such snapshot, record or file.
        NotFound = "not_found",
        /// The service did not respond, or not as documented.
        Service = "service",
        /// The file is not a vault, is damaged, or belongs to another account.
        Vault = "vault",
        /// The plan is stale, or was applied before.
        Stale = "stale",
        /// A guard refused the plan, such as `--max-delete`.
        Guard = "guard",
        /// Steps have an unknown outcome, which a person must resolve.
        UnknownOutcome = "unknown_outcome",
        /// The service did not accept the key.
        Unauthorised = "unauthorised",
        /// A limit on time, requests or the service's rate stopped the operation; it can be
        /// continued.
        Stopped = "stopped",
        /// Another process holds the account's lock.
        Locked = "locked",
        /// The user interrupted the operation.
        Interrupted = "interrupted",
    }
}

/// The lines below a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// All lines.
    pub lines: Vec<String>,
    /// Fewer lines that say the same in short, for people who do not ask for details; empty if
    /// there are none.
    pub brief: Vec<String>,
}

impl<T: IntoIterator<Item = String>> From<T> for Details {
    fn from(lines: T) -> Self {
        Self { lines: lines.into_iter().collect(), brief: Vec::new() }
    }
}

impl From<&CsvProblems> for Details {
    fn from(problems: &CsvProblems) -> Self {
        Self { lines: problems.lines(), brief: problems.grouped_lines() }
    }
}

/// Why an operation failed.
///
/// Every operation can fail because its vault cannot be read or written. An `# Errors` section
/// names only further conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpError {
    /// The kind of failure, from which the exit code follows.
    pub kind: OpErrorKind,
    /// One sentence without a full stop.
    pub message: String,
    /// Further lines if one is not enough.
    pub details: Details,
    /// What the user can do next.
    pub next: Option<Box<NextStep>>,
}

impl OpError {
    /// An error without details and without a next step.
    pub fn new(kind: OpErrorKind, message: impl Display) -> Self {
        Self { kind, message: message.to_string(), details: Details::default(), next: None }
    }

    /// The same failure, with what the user can do next.
    #[must_use]
    pub fn next(self, next: impl Into<Option<NextStep>>) -> Self {
        Self { next: next.into().map(Box::new), ..self }
    }

    /// The same failure, with further lines.
    #[must_use]
    pub fn details(self, details: impl Into<Details>) -> Self {
        Self { details: details.into(), ..self }
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
            let message = format!("cannot add an account to {}", file.display());
            let details = problems.iter().map(|problem| problem.at(file));
            return Self::new(OpErrorKind::Config, message)
                .details(details)
                .next(NextStep::FixConfigOrAddByHand);
        }
        let failure = Self::new(OpErrorKind::Config, &error);
        match error {
            AddAccountError::Exists { .. } => failure.next(NextStep::NameNewAccount),
            AddAccountError::KeyFile { .. } => failure.next(NextStep::NameKeyFile),
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
