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
use crate::worker::metrics::WorkerMetrics;

/// How long to wait for another process of this machine that works on the account.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The least time until a message is sent again.
const SOON: Duration = Duration::from_secs(5);

/// Makes or continues a backup, counts and records it. A failure of the backup is a result; an error
/// means that this worker is to stop, and that another one is to try.
pub fn attempt(
    env: &Env,
    account: &AccountConfig,
    metrics: &WorkerMetrics,
) -> Result<AttemptReport, OpError> {
    let limits = SessionLimits { lock_timeout: Some(LOCK_TIMEOUT), ..SessionLimits::default() };
    let request = BackupRequest { limits, ..BackupRequest::new("worker", account) };
    let progress = env.progress(&account.name);
    let (attempt, failure) = attempt_backup(env, &request, &progress);
    if let Some(failure) = failure {
        if is_to_stop(&failure) {
            metrics.attempted(&account.name, &attempt, AttemptOutcome::Stopped);
            // Otherwise, the worker that continues it waits for a window of the rate limit.
            let _ = end_session(env, account);
            return Err(failure);
        }
        tracing::warn!(account = account.name, "{}", Escaped(&failure.message));
    }
    metrics.attempted(&account.name, &attempt, attempt.outcome);
    let recorded = record_backup(env, account, &attempt)?;
    recorded.unshared.iter().for_each(|why| env.warn(why));
    Ok(report(account, &attempt, recorded.is_pending))
}

/// Whether the account is no longer that of this worker.
const fn is_to_stop(failure: &OpError) -> bool {
    matches!(failure.kind, OpErrorKind::Stale | OpErrorKind::Interrupted)
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

/// Does the work after a backup, and records its failures; the next backup does it again. Returns
/// whether there is something to deliver. An error means that another worker is to try.
pub fn post_work(env: &Env, account: &AccountConfig) -> Result<bool, OpError> {
    let failures = match env.fetch(account) {
        Ok(()) => post_backup(env, account),
        Err(failure) => vec![failure],
    };
    let (stops, failures): (Vec<_>, Vec<_>) = failures.into_iter().partition(is_to_stop);
    for failure in &failures {
        tracing::error!(account = account.name, "{}", Escaped(&failure.message));
    }
    if let Some(failure) = stops.into_iter().next() {
        return Err(failure);
    }
    let failures: Vec<_> = failures.into_iter().map(|it| it.message).collect();
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;
    use crate::api::http::{ApiKey, Transport};
    use crate::clock::{Clock as _, SimulatedClock, Timestamp};
    use crate::config::Home;
    use crate::health::persisted_state::PersistedState;
    use crate::ops::NoEvents;
    use crate::sandbox::{Behaviour, SandboxService, SandboxTransport, Store};
    use crate::vault::lock::Lock;

    /// The account `main`, whose vault is in a folder, and which `settings` configures.
    fn environment(home: &Path, settings: &str) -> (Arc<SimulatedClock>, Env, AccountConfig) {
        let store = home.join("store");
        std::fs::create_dir(&store).unwrap();
        let text = format!(
            "[accounts.main]\nurl = \"https://a.example\"\nkey_env = \"LINKS_KEY\"\n\
             vault = \"file://{}/main\"\n{settings}",
            store.display()
        );
        crate::files::write_private(&home.join("config.toml"), text.as_bytes()).unwrap();
        let clock = Arc::new(SimulatedClock::new(Timestamp(1_760_000_000_000)));
        let env = Env::new(Arc::clone(&clock) as _, Arc::new(NoEvents)).with_home(Home::at(home));
        let account = env.config().unwrap().account("main").unwrap();
        (clock, env, account)
    }

    #[test]
    fn an_account_on_which_another_process_works_keeps_its_slot_for_seconds_only() {
        let home = tempfile::tempdir().unwrap();
        let (clock, env, account) = environment(home.path(), "");
        let _other =
            Lock::take(&account.vault, "linkvault apply", Duration::ZERO, &*clock).unwrap();
        let report = attempt(&env, &account, &WorkerMetrics::default()).unwrap();
        assert_eq!(report.outcome, AttemptOutcome::Locked);
        assert!(clock.monotonic() < 2 * LOCK_TIMEOUT, "{:?}", clock.monotonic());
    }

    #[test]
    fn a_backup_that_may_not_be_put_is_not_recorded_as_complete() {
        let home = tempfile::tempdir().unwrap();
        let (clock, env, account) = environment(home.path(), "");
        let key = || ApiKey::new("a-key-of-the-account");
        let service = SandboxService::new(Store::default(), key(), Behaviour::default());
        let service = Arc::new(Mutex::new(service));
        let connector = move |_: &AccountConfig| {
            let transport = SandboxTransport::new(Arc::clone(&service), Arc::clone(&clock) as _);
            Ok((Box::new(transport) as Box<dyn Transport>, key()))
        };
        let env = env.with_connector(Box::new(connector));
        let lost = env
            .with_clock(Arc::clone(&env.clock), Arc::new(NoEvents))
            .with_permission(Arc::new(|| false));
        let failure = attempt(&lost, &account, &WorkerMetrics::default()).unwrap_err();
        assert_eq!(failure.kind, OpErrorKind::Interrupted);
        assert!(!home.path().join("store/main/HEAD").exists());
        assert_eq!(PersistedState::read(&account.vault).0.last, None);
        let report = attempt(&env, &account, &WorkerMetrics::default()).unwrap();
        assert_eq!(report.outcome, AttemptOutcome::Complete);
        assert!(home.path().join("store/main/HEAD").exists());
    }

    #[test]
    fn a_damaged_store_is_a_failure_of_the_work_after_the_backup() {
        let home = tempfile::tempdir().unwrap();
        let (_, env, account) = environment(home.path(), "keep = { last = 2 }\n");
        let folder = home.path().join("store/main");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("HEAD"), "{").unwrap();
        post_work(&env, &account).unwrap();
        let (persisted, _) = PersistedState::read(&account.vault);
        let failures = persisted.after.unwrap();
        assert!(failures[0].contains("HEAD"), "{failures:?}");
    }
}
