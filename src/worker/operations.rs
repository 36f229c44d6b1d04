//! The work of each activity, on the thread that may block.

use std::sync::Arc;
use std::time::Duration;

use crate::config::AccountConfig;
use crate::escaped::Escaped;
use crate::health::attempt::{AttemptOutcome, BackupAttempt};
use crate::health::pending_alerts::CircuitBreaker;
use crate::ops::account_session::SessionLimits;
use crate::ops::account_state::{deliver_alerts, end_session, record_backup, record_post_backup};
use crate::ops::backup::{BackupRequest, attempt_backup};
use crate::ops::post_backup::post_backup;
use crate::ops::{Env, OpError, OpErrorKind};
use crate::temporal::payload::AttemptReport;

/// How long to wait for another process of this machine that works on the account.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The least time until a message is sent again.
const SOON: Duration = Duration::from_secs(5);

/// Makes or continues a backup, and records it. A failure of the backup is a result; an error means
/// that this worker is to stop, and that another one is to try.
pub fn attempt(env: &Env, account: &AccountConfig) -> Result<AttemptReport, OpError> {
    let limits = SessionLimits { lock_timeout: Some(LOCK_TIMEOUT), ..SessionLimits::default() };
    let request = BackupRequest { limits, ..BackupRequest::new("worker", account) };
    let progress = env.progress(&account.name);
    let (attempt, failure) = attempt_backup(env, &request, &progress);
    if let Some(failure) = failure {
        if matches!(failure.kind, OpErrorKind::Stale | OpErrorKind::Interrupted) {
            // Otherwise, the worker that continues it waits for a window of the rate limit.
            let _ = end_session(env, account);
            return Err(failure);
        }
        tracing::warn!(account = account.name, "{}", Escaped(&failure.message));
    }
    let recorded = record_backup(env, account, &attempt)?;
    recorded.unshared.iter().for_each(|why| env.warn(why));
    Ok(report(account, &attempt, recorded.is_pending))
}

fn report(account: &AccountConfig, attempt: &BackupAttempt, has_messages: bool) -> AttemptReport {
    let settings = &account.settings;
    let has_work = settings.keep.is_some() || settings.export.is_some() || settings.copy.is_some();
    let made = matches!(attempt.outcome, AttemptOutcome::Complete | AttemptOutcome::Partial);
    AttemptReport {
        outcome: attempt.outcome,
        key_refused: attempt.key_refused,
        requests: attempt.requests,
        has_post_work: made && has_work,
        has_messages,
    }
}

/// Does the work after a backup. Returns whether there is something to deliver.
pub fn post_work(env: &Env, account: &AccountConfig) -> Result<bool, OpError> {
    env.fetch(account)?;
    let failures = post_backup(env, account);
    for failure in &failures {
        tracing::error!(account = account.name, "{}", Escaped(failure));
    }
    let recorded = record_post_backup(env, account, &failures)?;
    recorded.unshared.iter().for_each(|why| env.warn(why));
    Ok(recorded.is_pending)
}

/// Delivers what waits. Returns the time until the next try, if something remains.
pub fn deliver(
    env: &Env,
    account: &AccountConfig,
    breaker: &Arc<CircuitBreaker>,
) -> Result<Option<Duration>, OpError> {
    let left = deliver_alerts(env, account, breaker)?;
    let wait = left.next.map_or(SOON, |next| next.since(env.clock.now()).max(SOON));
    Ok(left.is_pending.then_some(wait))
}
