//! What Temporal stores of a backup. Inputs and results name the account and count; they hold no
//! keys and nothing of what the account contains.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::health::attempt::AttemptOutcome;
use crate::schedule::due_queue::{LOCKED_RETRY, retry_delay};

/// The type of the workflow that backs one account up.
pub const WORKFLOW: &str = "back_up_account";

/// The input of the workflow and of its activities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountInput {
    /// The name of the account. The worker finds the rest in its own configuration.
    pub account: String,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Whether the service refused the key, so that a repetition fails too.
    #[serde(default)]
    pub key_refused: bool,
    /// Requests that were sent to the service.
    #[serde(default)]
    pub requests: u64,
    /// Whether retention, an export or a copy is configured.
    #[serde(default)]
    pub has_post_work: bool,
    /// Whether alerts or a heartbeat wait to be sent.
    #[serde(default)]
    pub has_messages: bool,
}

/// The progress of an activity, in its heartbeats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityHeartbeat {
    /// The number of the snapshot, once it has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<i64>,
    /// The lists that were read.
    pub lists: u64,
    /// The records of these lists.
    pub records: u64,
}

/// What the workflow does after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAttempt {
    /// The backup is complete.
    End,
    /// The backup failed or is partial, and is not repeated before its next time.
    Fail,
    /// The attempt is repeated after this time.
    Repeat(Duration),
}

/// Decides it. `failures` counts the failed attempts of this backup, with this one.
#[must_use]
pub fn after_attempt(report: &AttemptReport, failures: u32) -> AfterAttempt {
    match report.outcome {
        AttemptOutcome::Complete => AfterAttempt::End,
        AttemptOutcome::Partial => AfterAttempt::Fail,
        AttemptOutcome::Failed if report.key_refused => AfterAttempt::Fail,
        AttemptOutcome::Failed => {
            retry_delay(failures).map_or(AfterAttempt::Fail, AfterAttempt::Repeat)
        }
        AttemptOutcome::Locked | AttemptOutcome::Stopped => AfterAttempt::Repeat(LOCKED_RETRY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: AttemptOutcome) -> AttemptReport {
        AttemptReport {
            outcome,
            key_refused: false,
            requests: 0,
            has_post_work: false,
            has_messages: false,
        }
    }

    #[test]
    fn a_failed_attempt_is_repeated_as_by_the_daemon_and_then_fails() {
        let failed = report(AttemptOutcome::Failed);
        let minutes = |failures| match after_attempt(&failed, failures) {
            AfterAttempt::Repeat(time) => Some(time.as_secs() / 60),
            _ => None,
        };
        assert_eq!([1, 2, 3, 4].map(minutes), [Some(5), Some(15), Some(60), None]);
        assert_eq!(after_attempt(&failed, 4), AfterAttempt::Fail);
        assert_eq!(after_attempt(&failed, 0), AfterAttempt::Fail);
    }

    #[test]
    fn a_refused_key_is_not_tried_again() {
        let refused = AttemptReport { key_refused: true, ..report(AttemptOutcome::Failed) };
        assert_eq!(after_attempt(&refused, 1), AfterAttempt::Fail);
    }

    #[test]
    fn only_a_complete_backup_succeeds() {
        assert_eq!(after_attempt(&report(AttemptOutcome::Complete), 0), AfterAttempt::End);
        assert_eq!(after_attempt(&report(AttemptOutcome::Partial), 0), AfterAttempt::Fail);
    }
}
