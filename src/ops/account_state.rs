//! The recorded state of an account after a backup: its attempts, its problems, and the alerts about
//! them. Each function is a small operation that can be repeated; the daemon shares their parts.

use super::alert_delivery::{channels, deliver_pending};
use super::status::{evaluate, scheduled_accounts};
use super::vault_summary::vault_summary;
use super::{Env, NextStep, OpError, OpErrorKind};
use crate::clock::Timestamp;
use crate::config::{AccountConfig, key_variables};
use crate::health::account_status::AccountStatus;
use crate::health::alert_message;
use crate::health::attempt::{
    AlertEvent, AttemptOutcome, BackupAttempt, FinishedBackup, VaultSummary,
};
use crate::health::pending_alerts::{self, CircuitBreaker};
use crate::health::persisted_state::{self, PersistedState};

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
    fn of(persisted: &PersistedState) -> Self {
        let pending = persisted.pending_alerts();
        let next = pending.as_ref().and_then(|it| it.outbox.iter().map(|item| item.next).min());
        Self { is_pending: pending.is_some(), next, unshared: None }
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
        persisted.add(attempt);
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

/// Evaluates the account's problems, such as a backup that became too old, and queues alerts about
/// those that began or ended.
///
/// # Errors
/// As [`record_backup`].
pub fn evaluate_account(env: &Env, account: &AccountConfig) -> Result<RecordedState, OpError> {
    evaluated(env, account, None, |_, _| ())
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
    let (mut persisted, _) = PersistedState::read(&account.vault);
    let Some(taken) = persisted.pending_alerts() else {
        return Ok(RecordedState::of(&persisted));
    };
    let hidden = key_variables(env.config()?.accounts());
    let mut left = taken.clone();
    deliver_pending(env, account, &hidden, breaker, &mut left);
    if left != taken {
        persisted = update(account, |persisted| persisted.restore_pending(&taken, &left))?;
    }
    Ok(RecordedState::of(&persisted))
}

/// Makes `change`, evaluates the account, and records both.
fn evaluated(
    env: &Env,
    account: &AccountConfig,
    ended: Option<FinishedBackup<'_>>,
    change: impl FnOnce(&mut PersistedState, &VaultSummary),
) -> Result<RecordedState, OpError> {
    let scheduled = scheduled_accounts(env, std::slice::from_ref(account))?;
    let summary = vault_summary(account).unwrap_or_else(|failure| VaultSummary {
        unreadable: Some(failure.message),
        ..VaultSummary::default()
    });
    let now = env.clock.now();
    let persisted = update(account, |persisted| {
        change(persisted, &summary);
        let status = evaluate(account, scheduled.first(), persisted, &summary, now);
        apply_status(account, &status, ended, persisted, now);
    })?;
    Ok(RecordedState::of(&persisted))
}

fn update(
    account: &AccountConfig,
    change: impl FnOnce(&mut PersistedState),
) -> Result<PersistedState, OpError> {
    PersistedState::update(&account.vault, change).map_err(|error| {
        let file = persisted_state::file(&account.vault);
        let message = format!("cannot write {}: {error}", file.display());
        OpError::new(OpErrorKind::Vault, message).next(NextStep::CheckDisk)
    })
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
            AlertEvent::Ended => tracing::info!(account, "{text}"),
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
