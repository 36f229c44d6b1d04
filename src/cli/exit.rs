//! The exit code of every command.

use std::process::ExitCode;

use super::{CliError, CliErrorKind};
use crate::ops::OpErrorKind;

/// The exit codes. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    /// Failed for a reason without a code of its own.
    Failed = 1,
    /// There are changes, and a flag asked for this code.
    Changes = 2,
    /// A resource was not read, some steps were refused, or the API cannot do a part of the input.
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
    /// Another process holds the account's lock.
    Locked = 11,
    /// The command line is invalid.
    Usage = 64,
    /// Interrupted; resumable.
    Interrupted = 130,
}

/// The result of a command that did not fail, from which its exit code follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// The number of writes of unknown outcome, which need `resolve`.
    pub unknown: u64,
    /// Others changed the records that the steps were planned for, and nothing was written.
    pub stale: bool,
    /// The number of parts of the input that were not executed or not read: resources, steps that
    /// were refused, skipped or not sent, and changes that the API cannot make.
    pub missing: u64,
    /// There are changes, and a flag asked for an exit code for that.
    pub changes: bool,
}

impl CommandResult {
    /// The result of a command that did all of its work (`complete`), or only a part.
    #[must_use]
    pub const fn complete(complete: bool) -> Self {
        Self { unknown: 0, stale: false, missing: !complete as u64, changes: false }
    }
}

impl Exit {
    /// The exit code of every command. Only this function decides it; the table in `docs/json.md`
    /// describes it.
    #[must_use]
    pub const fn of(result: Result<CommandResult, OpErrorKind>) -> Self {
        match result {
            Ok(CommandResult { unknown: 1.., .. }) => Self::Unknown,
            Ok(CommandResult { stale: true, .. }) => Self::Stale,
            Ok(CommandResult { missing: 1.., .. }) => Self::Partial,
            Ok(CommandResult { changes: true, .. }) => Self::Changes,
            Ok(_) => Self::Done,
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

    /// The more severe of two codes: interrupted, then any failure, then partial, then done. Of two
    /// failures, `self`.
    #[must_use]
    pub const fn or_worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Interrupted, _) | (_, Self::Interrupted) => Self::Interrupted,
            (Self::Done, other) => other,
            (Self::Partial, other) if !matches!(other, Self::Done) => other,
            (one, _) => one,
        }
    }

    /// This code, after the result was printed. A closed output (`| head`) does not change it.
    ///
    /// # Errors
    /// If the output cannot be written for another reason.
    pub fn after(self, printed: Result<(), CliError>) -> Result<Self, CliError> {
        match printed {
            Ok(()) | Err(CliError { kind: CliErrorKind::Closed, .. }) => Ok(self),
            Err(failure) => Err(failure),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<OpErrorKind> for Exit {
    fn from(kind: OpErrorKind) -> Self {
        Self::of(Err(kind))
    }
}

impl From<CliErrorKind> for Exit {
    fn from(kind: CliErrorKind) -> Self {
        match kind {
            CliErrorKind::Op(kind) => Self::from(kind),
            CliErrorKind::Closed => Self::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn each_error_kind_has_its_exit_code() {
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
        ];
        for (kind, code) in codes {
            assert_eq!(Exit::from(kind) as u8, code, "{kind:?}");
        }
        assert_eq!(Exit::from(CliErrorKind::Closed) as u8, 0);
    }

    #[test]
    fn an_unknown_outcome_outranks_partial_which_outranks_changes() {
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
    fn an_interrupt_outranks_a_failure_which_outranks_partial() {
        let order = [Exit::Done, Exit::Partial, Exit::Failed, Exit::Interrupted];
        for (at, worse) in order.iter().enumerate() {
            for other in &order[..at] {
                assert_eq!((worse.or_worse(*other), other.or_worse(*worse)), (*worse, *worse));
            }
        }
        assert_eq!(Exit::Unauthorised.or_worse(Exit::Stopped), Exit::Unauthorised);
    }

    #[test]
    fn a_closed_output_does_not_hide_the_exit_code() {
        let gone = Err(CliError::from(io::Error::from(io::ErrorKind::BrokenPipe)));
        assert_eq!(Exit::Partial.after(gone), Ok(Exit::Partial));
        let full = Err(CliError::from(io::Error::from(io::ErrorKind::StorageFull)));
        assert_eq!(Exit::Partial.after(full).unwrap_err().kind, OpErrorKind::Failed.into());
    }
}
