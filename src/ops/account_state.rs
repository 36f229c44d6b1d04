//! The recorded state of an account after a backup: its attempts, its problems, and the alerts about
//! them. Each function is a small operation that can be repeated; the daemon shares their parts.

use super::alert_delivery::{channels, deliver_pending};
use super::status::{evaluate, scheduled_accounts};
use super::stored_state::{self, Recorded};
use super::vault_summary::vault_summary;
use super::{Env, OpError};
use crate::clock::Timestamp;
use crate::config::{AccountConfig, key_variables};
use crate::health::account_status::AccountStatus;
use crate::health::alert_message;
use crate::health::attempt::{
    AlertEvent, AttemptOutcome, BackupAttempt, FinishedBackup, HealthProblem, ProblemKind,
    VaultSummary,
};
use crate::health::pending_alerts::{self, CircuitBreaker};
use crate::health::persisted_state::PersistedState;

/// What the recorded state of an account says after an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedState {
    /// Whether an alert or a heartbeat is still to be delivered.
    pub is_pending: bool,
    /// From when the first pending alert may be sent; earlier ones of a channel delay later ones.
    pub next: Option<Timestamp>,
    /// Why the change is on this machine only, if the vault lives in a store. The next operation
    /// that reaches the store adds it there.
    pub unshared: Option<String>,
}

impl RecordedState {
    fn of(recorded: Recorded) -> Self {
        let pending = recorded.persisted.pending_alerts();
        let next = pending.as_ref().and_then(|it| it.outbox.iter().map(|item| item.next).min());
        Self { is_pending: pending.is_some(), next, unshared: recorded.unshared }
    }
}

/// Records the end of a backup, evaluates the account's problems, and queues alerts about those
/// that began or ended.
///
/// # Errors
/// If the state cannot be recorded, or the schedule is invalid.
pub fn record_backup(
    env: &Env,
    account: &AccountConfig,
    attempt: &BackupAttempt,
) -> Result<RecordedState, OpError> {
    let ended = FinishedBackup { attempt, after: None };
    evaluated(env, account, Some(ended), |persisted, summary| {
        if !summary.records.is_empty() {
            persisted.records.clone_from(&summary.records);
        }
    })
}

/// Records the errors of the work after a backup, evaluates the account's problems, and queues
/// alerts about those that began or ended.
///
/// # Errors
/// As [`record_backup`].
pub fn record_post_backup(
    env: &Env,
    account: &AccountConfig,
    failures: &[String],
) -> Result<RecordedState, OpError> {
    evaluated(env, account, None, |persisted, _| persisted.after = Some(failures.to_vec()))
}

/// Acknowledges the removals that are problems of `status`, so that they no longer are. Returns
/// these problems; without any, nothing is recorded.
///
/// # Errors
/// If it cannot be recorded.
pub fn acknowledge_removals(
    env: &Env,
    account: &AccountConfig,
    status: &AccountStatus,
) -> Result<Vec<HealthProblem>, OpError> {
    let is_removal =
        |it: &&HealthProblem| matches!(it.kind, ProblemKind::Removed | ProblemKind::Emptied);
    let problems: Vec<_> = status.problems.iter().filter(is_removal).cloned().collect();
    if problems.is_empty() {
        return Ok(problems);
    }
    let now = env.clock.now();
    let recorded = stored_state::update(env, account, None, &mut |it| it.acknowledged = Some(now))?;
    if let Some(why) = recorded.unshared {
        env.warn(format_args!("{}: recorded on this machine only: {why}", account.name));
    }
    Ok(problems)
}

/// Records the end of a backup's session with the service without its result, so that another
/// machine that continues it need not wait for a window of the rate limit.
///
/// # Errors
/// If it cannot be recorded.
pub fn end_session(env: &Env, account: &AccountConfig) -> Result<(), OpError> {
    stored_state::update(env, account, None, &mut |_| ()).map(drop)
}

/// Delivers the alerts and the heartbeat of `account` that are due. `breaker` is one for all
/// accounts of a process. Failed deliveries are in the log and are tried again by later calls.
///
/// # Errors
/// If the state cannot be recorded, or the configuration has mistakes.
pub fn deliver_alerts(
    env: &Env,
    account: &AccountConfig,
    breaker: &CircuitBreaker,
) -> Result<RecordedState, OpError> {
    let hidden = key_variables(env.config()?.accounts());
    Ok(RecordedState::of(delivered(env, account, &hidden, breaker)?))
}

/// As [`deliver_alerts`]; alert commands do not see the environment variables `hidden`. Returns the
/// recorded state.
///
/// # Errors
/// If the state cannot be recorded.
pub fn deliver_shared(
    env: &Env,
    account: &AccountConfig,
    hidden: &[String],
    breaker: &CircuitBreaker,
) -> Result<PersistedState, OpError> {
    Ok(delivered(env, account, hidden, breaker)?.persisted)
}

fn delivered(
    env: &Env,
    account: &AccountConfig,
    hidden: &[String],
    breaker: &CircuitBreaker,
) -> Result<Recorded, OpError> {
    stored_state::deliver(env, account, &mut |pending| {
        deliver_pending(env, account, hidden, breaker, pending);
    })
}

/// Writes the state that a process has in memory, and merges what others have recorded. Returns why
/// it is on this machine only, if the vault lives in a store that cannot be reached.
///
/// # Errors
/// If it cannot be recorded.
pub fn write_state(
    env: &Env,
    account: &AccountConfig,
    persisted: &mut PersistedState,
) -> Result<Option<String>, OpError> {
    let mut mine = persisted.clone();
    let base = mine.base.take().map_or_else(PersistedState::default, |base| *base);
    let mut attempts = std::mem::take(&mut mine.pending);
    let last = attempts.pop();
    for attempt in &attempts {
        stored_state::update(env, account, Some(attempt), &mut |_| ())?;
    }
    let recorded = stored_state::update(env, account, last.as_ref(), &mut |present| {
        let theirs = present.clone();
        present.clone_from(&mine);
        present.rebase(&base, &theirs);
    })?;
    *persisted = PersistedState { base: None, ..recorded.persisted };
    persisted.pending.clear();
    persisted.base = Some(Box::new(persisted.clone()));
    Ok(recorded.unshared)
}

/// Makes `change`, evaluates the account, and records both.
fn evaluated(
    env: &Env,
    account: &AccountConfig,
    ended: Option<FinishedBackup<'_>>,
    mut change: impl FnMut(&mut PersistedState, &VaultSummary),
) -> Result<RecordedState, OpError> {
    let attempt = ended.map(|ended| ended.attempt);
    let scheduled = scheduled_accounts(env, std::slice::from_ref(account))?;
    let summary = vault_summary(account).unwrap_or_else(|failure| VaultSummary {
        unreadable: Some(failure.message),
        ..VaultSummary::default()
    });
    let now = env.clock.now();
    let recorded = stored_state::update(env, account, attempt, &mut |persisted| {
        change(persisted, &summary);
        let status = evaluate(account, scheduled.first(), persisted, &summary, now);
        apply_status(account, &status, ended, persisted, now);
    })?;
    Ok(RecordedState::of(recorded))
}

/// Stores the problems of `status` in `persisted`, and queues alerts about those that began or
/// ended. After a backup that `ended`, also its heartbeat.
pub fn apply_status(
    account: &AccountConfig,
    status: &AccountStatus,
    ended: Option<FinishedBackup<'_>>,
    persisted: &mut PersistedState,
    now: Timestamp,
) {
    if let Some(FinishedBackup { attempt, after: None }) = ended {
        // A pending heartbeat of an older backup would be wrong now.
        persisted.heartbeat = match attempt.outcome {
            AttemptOutcome::Complete => account.settings.heartbeat.is_some(),
            AttemptOutcome::Partial | AttemptOutcome::Failed => false,
            AttemptOutcome::Stopped | AttemptOutcome::Locked => persisted.heartbeat,
        };
    }
    persisted.watched = Some(persisted.watched.map_or(now, |since| since.min(now)));
    for alert in &status.new_alerts {
        let (account, text) = (&account.name, alert_message::sentence(&account.name, alert));
        match alert.event {
            AlertEvent::Begun => tracing::warn!(account, "{text}"),
            AlertEvent::Ended | AlertEvent::Test => tracing::info!(account, "{text}"),
        }
    }
    persisted.problems.clone_from(&status.problems);
    pending_alerts::enqueue(
        &mut persisted.outbox,
        &status.new_alerts,
        &channels(&account.settings.alerts),
    );
}

#[cfg(test)]
mod tests;
