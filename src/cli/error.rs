//! What a command ends with: an exit code, or a failure that says what went
//! wrong and what to do next.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::config::{AccountError, AddAccountError, ConfigError, HomeError, KeySourceError};

/// How the program ends. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    Failed = 1,
    /// There are changes, and somebody asked for a code that says so.
    Changes = 2,
    /// A resource was not read, some steps were refused, or the API cannot do
    /// a part of the input.
    Partial = 3,
    /// A stale plan or a conflict; nothing was written.
    Stale = 4,
    /// A guard refused; nothing was written.
    Guarded = 5,
    /// A write's outcome is unknown and needs `resolve`.
    Unknown = 6,
    /// The key was not accepted.
    Unauthorised = 7,
    /// Stopped at a limit of time or requests; resumable.
    Stopped = 8,
    /// The account is locked by another process.
    Locked = 11,
    Usage = 64,
    /// Interrupted; resumable.
    Interrupted = 130,
}

/// The result of a command that did not fail, as far as its exit code tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// How many writes have an unknown outcome and need `resolve`.
    pub unknown: u64,
    /// Others changed the records that the steps were planned for, and nothing was
    /// written.
    pub stale: bool,
    /// How much of the input is not carried out or not read: resources, steps that
    /// were refused, skipped or not sent, and everything that the API cannot do.
    pub missing: u64,
    /// There are changes, and a flag asks for a code that says so.
    pub changes: bool,
}

impl CommandResult {
    /// The command did everything, or not.
    #[must_use]
    pub const fn complete(complete: bool) -> Self {
        Self { unknown: 0, stale: false, missing: !complete as u64, changes: false }
    }
}

impl Exit {
    /// The exit code of every command, and the only place that decides it. The
    /// table in `docs/json.md` says the same.
    #[must_use]
    pub const fn of(result: Result<CommandResult, OpErrorKind>) -> Self {
        match result {
            Ok(CommandResult { unknown: 1.., .. }) => Self::Unknown,
            Ok(CommandResult { stale: true, .. }) => Self::Stale,
            Ok(CommandResult { missing: 1.., .. }) => Self::Partial,
            Ok(CommandResult { changes: true, .. }) => Self::Changes,
            Ok(_) | Err(OpErrorKind::Closed) => Self::Done,
            Err(
                OpErrorKind::Failed
                | OpErrorKind::Config
                | OpErrorKind::Account
                | OpErrorKind::NotFound
                | OpErrorKind::Service
                | OpErrorKind::Vault,
            ) => Self::Failed,
            Err(OpErrorKind::Usage) => Self::Usage,
            Err(OpErrorKind::Stale) => Self::Stale,
            Err(OpErrorKind::Guard) => Self::Guarded,
            Err(OpErrorKind::UnknownOutcome) => Self::Unknown,
            Err(OpErrorKind::Unauthorised) => Self::Unauthorised,
            Err(OpErrorKind::Stopped) => Self::Stopped,
            Err(OpErrorKind::Locked) => Self::Locked,
            Err(OpErrorKind::Interrupted) => Self::Interrupted,
        }
    }

    /// The code for both: an interrupt outweighs everything, a failure outweighs
    /// what is partial, and that what is done.
    #[must_use]
    pub const fn or_worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Interrupted, _) | (_, Self::Interrupted) => Self::Interrupted,
            (Self::Done, other) => other,
            (Self::Partial, other) if !matches!(other, Self::Done) => other,
            (one, _) => one,
        }
    }

    /// This code, after its news was printed. A closed output (`| head`)
    /// does not change what happened.
    ///
    /// # Errors
    /// When the output could not be written for another reason.
    pub fn after(self, printed: Result<(), OpError>) -> Result<Self, OpError> {
        match printed {
            Ok(()) | Err(OpError { kind: OpErrorKind::Closed, .. }) => Ok(self),
            Err(failure) => Err(failure),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

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

    /// The code that it ends the program with.
    #[must_use]
    pub const fn exit(self) -> Exit {
        Exit::of(Err(self))
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
        let kind = match error {
            KeySourceError::Interrupted(_) => OpErrorKind::Interrupted,
            _ => OpErrorKind::Config,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_the_code_of_the_design() {
        let codes = [
            (OpErrorKind::Failed, 1),
            (OpErrorKind::Usage, 64),
            (OpErrorKind::Config, 1),
            (OpErrorKind::Stale, 4),
            (OpErrorKind::Guard, 5),
            (OpErrorKind::UnknownOutcome, 6),
            (OpErrorKind::Unauthorised, 7),
            (OpErrorKind::Stopped, 8),
            (OpErrorKind::Locked, 11),
            (OpErrorKind::Interrupted, 130),
            (OpErrorKind::Closed, 0),
        ];
        for (kind, code) in codes {
            assert_eq!(kind.exit() as u8, code, "{kind:?}");
        }
    }

    #[test]
    fn an_unknown_outcome_outweighs_what_is_missing_and_that_outweighs_changes() {
        let all = CommandResult { unknown: 1, stale: true, missing: 2, changes: true };
        assert_eq!(Exit::of(Ok(all)), Exit::Unknown);
        let all = CommandResult { unknown: 0, ..all };
        assert_eq!(Exit::of(Ok(all)), Exit::Stale);
        let all = CommandResult { stale: false, ..all };
        assert_eq!(Exit::of(Ok(all)), Exit::Partial);
        assert_eq!(Exit::of(Ok(CommandResult { missing: 0, ..all })), Exit::Changes);
        assert_eq!(Exit::of(Ok(CommandResult::default())), Exit::Done);
    }

    #[test]
    fn an_interrupt_outweighs_a_failure_and_that_outweighs_what_is_partial() {
        let order = [Exit::Done, Exit::Partial, Exit::Failed, Exit::Interrupted];
        for (at, worse) in order.iter().enumerate() {
            for other in &order[..at] {
                assert_eq!((worse.or_worse(*other), other.or_worse(*worse)), (*worse, *worse));
            }
        }
        assert_eq!(Exit::Unauthorised.or_worse(Exit::Stopped), Exit::Unauthorised);
    }

    #[test]
    fn a_reader_that_went_away_does_not_change_what_happened() {
        let gone = Err(OpError::from(io::Error::from(io::ErrorKind::BrokenPipe)));
        assert_eq!(Exit::Partial.after(gone), Ok(Exit::Partial));
        let full = Err(OpError::from(io::Error::from(io::ErrorKind::StorageFull)));
        assert_eq!(Exit::Partial.after(full).unwrap_err().kind, OpErrorKind::Failed);
    }

    #[test]
    fn the_document_holds_kind_message_and_hint() {
        let failure = OpError::new(OpErrorKind::Locked, "busy").hint("wait");
        assert_eq!(
            failure.document().to_string(),
            r#"{"format":1,"error":{"kind":"locked","message":"busy","details":[],"hint":"wait"}}"#
        );
    }
}
