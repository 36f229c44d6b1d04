//! The contents of an account's vault on which its status depends.

use super::account_session::known_limit;
use super::backup_attempts::{attempt_of_snapshot, is_limited};
use super::{OpError, state_ref};
use crate::clock::Timestamp;
use crate::config::AccountConfig;
use crate::health::attempt::VaultSummary;
use crate::health::persisted_state::PersistedState;
use crate::health::removals::{HELD, ListRemoval, OpenRemovals};
use crate::vault::browse::PageRange;
use crate::vault::lock::{Lock, LockPurpose};
use crate::vault::{Vault, VaultError};

/// The number of newest snapshots among which the newest backup of the whole account is looked for.
const MAX_SCANNED: u64 = 40;

/// The summary of the vault of `account`; without a vault, only the rate limit and a running
/// backup.
///
/// # Errors
/// If the vault exists and cannot be read.
pub fn vault_summary(account: &AccountConfig) -> Result<VaultSummary, OpError> {
    let limit = known_limit(account);
    let Some(vault) = state_ref::open_if_there(account)? else {
        let running = backup_running_since(account);
        return Ok(VaultSummary { limit, running, ..VaultSummary::default() });
    };
    let complete = vault.newest(true)?;
    let recent = vault.newest_snapshots(PageRange { skip: 0, take: MAX_SCANNED })?;
    let records = recent.first().into_iter().flat_map(|newest| &newest.outcomes);
    let records =
        records.map(|outcome| (outcome.resource.name().to_owned(), outcome.records)).collect();
    let last_complete = complete.as_ref().and_then(|complete| complete.finished);
    // A limited backup does not show the state of the other resources.
    let telling = recent.iter().find(|it| !is_limited(it) && !it.of_run).or(complete.as_ref());
    let newest = telling.map(|snapshot| {
        let (started, ended) = (snapshot.started, snapshot.finished.unwrap_or(snapshot.touched));
        attempt_of_snapshot(snapshot, started, ended, snapshot.usage)
    });
    let removals = open_removals(account, &vault)?;
    let unknown = vault.unknown_writes()?;
    let unreadable = None;
    let running = backup_running_since(account);
    Ok(VaultSummary {
        newest,
        last_complete,
        records,
        limit,
        unknown_writes: unknown.count,
        unknown_since: unknown.since,
        removals,
        running,
        unreadable,
    })
}

/// The removals of the recent snapshots that are problems of `account` at `now`.
pub(super) fn unacknowledged_removals(
    account: &AccountConfig,
    vault: &Vault,
    now: Timestamp,
) -> Result<OpenRemovals, VaultError> {
    let (persisted, _) = PersistedState::read(&account.vault);
    Ok(open_removals(account, vault)?.unacknowledged(persisted.acknowledged, now))
}

/// The removals of the recent snapshots that are problems by the settings of `account`, until they
/// are acknowledged.
fn open_removals(account: &AccountConfig, vault: &Vault) -> Result<OpenRemovals, VaultError> {
    let found = vault.recent_removals(HELD)?;
    let Some(newest) = vault.newest(false)? else { return Ok(OpenRemovals::default()) };
    let removals = found.into_iter().map(|it| ListRemoval {
        snapshot: it.snapshot,
        at: it.at,
        kept: it.kept,
        resource: it.resource,
        removed: it.removed,
        before: it.before,
        all_before: it.all_before,
    });
    let removals: Vec<_> = removals.collect();
    let missing = |it: &ListRemoval| match it.kept {
        Some(kept) => vault.missing_since(kept, it.resource),
        None => Ok(it.removed),
    };
    let is_empty = |resource| newest.outcome(resource).is_some_and(|it| it.records == 0);
    OpenRemovals::find(&removals, account.settings.alerts.removed, missing, is_empty)
}

/// Since when a process has been backing up `account`; `None` if none is.
fn backup_running_since(account: &AccountConfig) -> Option<Timestamp> {
    Lock::holder_for(&account.vault, LockPurpose::Backup).map(|holder| holder.since)
}
