//! The contents of an account's vault on which its status depends.

use super::account_session::known_limit;
use super::backup_attempts::{attempt_of_snapshot, emptied, is_limited, recent};
use super::{OpError, state_ref};
use crate::clock::Timestamp;
use crate::config::AccountConfig;
use crate::health::attempt::VaultSummary;
use crate::vault::lock::{Lock, LockPurpose};

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
    let recent = recent(&vault)?;
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
    let emptied = emptied(&recent);
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
        emptied,
        running,
        unreadable,
    })
}

/// Since when a process has been backing up `account`; `None` if none is.
fn backup_running_since(account: &AccountConfig) -> Option<Timestamp> {
    Lock::holder_for(&account.vault, LockPurpose::Backup).map(|holder| holder.since)
}
