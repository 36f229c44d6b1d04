//! Records backups of the daemon and of `linkvault backup` as attempts, for `status` and alerts.

use std::collections::BTreeMap;

use super::stored_state::{self, Recorded};
use super::{Env, Events, OpError, OpErrorKind};
use crate::clock::Timestamp;
use crate::config::AccountConfig;
use crate::health::attempt::{AttemptOutcome, BackupAttempt};
use crate::health::persisted_state::{self, PersistedState};
use crate::model::field_changes::ServiceFieldChange;
use crate::vault::browse::PageRange;
use crate::vault::snapshot::{ReadState, RequestUsage, ResourceOutcome, Snapshot};
use crate::vault::{Vault, VaultError};

/// Whether `snapshot` was requested for some resources only.
#[must_use]
pub fn is_limited(snapshot: &Snapshot) -> bool {
    snapshot.outcomes.iter().any(|it| it.state == ReadState::Skipped)
}

/// A finished snapshot as an attempt. A resource that was not requested does not count as missing.
#[must_use]
pub fn attempt_of_snapshot(
    snapshot: &Snapshot,
    started: Timestamp,
    ended: Timestamp,
    spent: RequestUsage,
) -> BackupAttempt {
    let asked = snapshot.outcomes.iter().filter(|it| it.state != ReadState::Skipped);
    let lacking: Vec<_> = asked.filter(|it| !it.is_as_requested()).collect();
    let outcome = match lacking.is_empty() {
        true => AttemptOutcome::Complete,
        false => AttemptOutcome::Partial,
    };
    let sum = |count: fn(&ResourceOutcome) -> u64| snapshot.outcomes.iter().map(count).sum();
    let lacks = lacking.iter().map(|it| {
        let why = it.message.as_deref().unwrap_or_else(|| it.state.name());
        format!("{} ({why})", it.resource.name())
    });
    let lacks = lacks.collect::<Vec<_>>().join(", ");
    BackupAttempt {
        snapshot: Some(snapshot.number),
        message: (!lacking.is_empty()).then(|| format!("not read whole: {lacks}")),
        requests: spent.requests,
        throttled: spent.throttled,
        waited: spent.waited,
        added: sum(|it| it.added),
        changed: sum(|it| it.changed),
        removed: sum(|it| it.removed),
        limited: is_limited(snapshot),
        ..BackupAttempt::new(started, ended, outcome)
    }
}

/// A backup that failed, as an attempt. `events` returns the text of the hint.
#[must_use]
pub fn attempt_of_error(
    failure: &OpError,
    events: &dyn Events,
    started: Timestamp,
    ended: Timestamp,
    spent: RequestUsage,
) -> BackupAttempt {
    let outcome = match failure.kind {
        OpErrorKind::Interrupted => AttemptOutcome::Stopped,
        OpErrorKind::Locked => AttemptOutcome::Locked,
        _ => AttemptOutcome::Failed,
    };
    let hint = failure.next.as_deref().and_then(|next| events.hint(next));
    let message = [Some(failure.message.clone()), hint].into_iter().flatten();
    let message = message.collect::<Vec<_>>().join("; ");
    BackupAttempt {
        // The message is continued where it is shown, so it has no full stop.
        message: Some(message.trim_end_matches('.').to_owned()),
        requests: spent.requests,
        throttled: spent.throttled,
        waited: spent.waited,
        key_refused: failure.kind == OpErrorKind::Unauthorised,
        ..BackupAttempt::new(started, ended, outcome)
    }
}

/// Records an attempt of `linkvault backup`.
///
/// # Errors
/// A message for people, if the attempt cannot be recorded. The backup itself is not affected.
pub fn save_attempt(
    env: &Env,
    account: &AccountConfig,
    attempt: &BackupAttempt,
) -> Result<(), String> {
    let attempt = BackupAttempt { by_hand: true, ..attempt.clone() };
    let file = persisted_state::file(&account.vault);
    let file = file.display();
    match stored_state::update(env, account, Some(&attempt), &mut |_| ()) {
        Ok(Recorded { unshared: None, .. }) => Ok(()),
        Ok(Recorded { unshared: Some(why), .. }) => {
            Err(format!("this backup is recorded only in {file}, for now: {why}"))
        }
        Err(error) => Err(format!("cannot record this backup in {file}: {}", error.message)),
    }
}

/// The changes of the service's fields since the backup before `snapshot` that no recorded attempt
/// has reported. Each resource is compared with the newest backup that read it completely.
pub fn field_changes(
    account: &AccountConfig,
    vault: &mut Vault,
    snapshot: &Snapshot,
) -> Result<Vec<ServiceFieldChange>, VaultError> {
    let is_read = |outcome: &&ResourceOutcome| outcome.state == ReadState::Complete;
    let read: Vec<_> = snapshot.outcomes.iter().filter(is_read).collect();
    let mut before = BTreeMap::new();
    for skip in (0..).step_by(FEW) {
        let page = vault.newest_snapshots(PageRange { skip, take: FEW as u64 })?;
        for earlier in page.iter().filter(|it| it.number < snapshot.number && !it.of_run) {
            for outcome in earlier.outcomes.iter().filter(is_read) {
                let found = || (earlier.number, outcome.clone());
                before.entry(outcome.resource).or_insert_with(found);
            }
        }
        if page.len() < FEW || read.iter().all(|it| before.contains_key(&it.resource)) {
            break;
        }
    }
    let mut changes = Vec::new();
    for after in read {
        if let Some((number, before)) = before.get(&after.resource) {
            changes.extend(vault.field_changes((*number, before), (snapshot.number, after))?);
        }
    }
    if !changes.is_empty() {
        let (persisted, _) = PersistedState::read(&account.vault);
        changes.retain(|change| !persisted.has_reported(change));
    }
    Ok(changes)
}

/// The number of snapshots that [`field_changes`] reads at once. The backup before is mostly among
/// them.
const FEW: usize = 5;
