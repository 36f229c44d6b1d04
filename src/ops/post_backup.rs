//! What the daemon does after a backup: retention, an export, a copy of the
//! vault. Each is tried whatever became of the others.

use std::time::Duration;

use super::OpError;
use super::account_options;
use super::account_session::command_words;
use super::export;
use super::state_ref;
use crate::clock::Clock;
use crate::config::{AccountConfig, ExportSettings};
use crate::vault::Vault;
use crate::vault::lock::Lock;

/// How long another process that works on the vault is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does what `account` asks for, and returns what went wrong.
#[must_use]
pub fn post_backup(account: &AccountConfig, clock: &dyn Clock) -> Vec<String> {
    let settings = &account.settings;
    let mut failures = Vec::new();
    let mut note = |what: &str, result: Result<(), OpError>| {
        if let Err(failure) = result {
            failures.push(format!("{what}: {}", failure.message));
        }
    };
    if settings.keep.is_some() {
        note("old snapshots were not forgotten", apply_retention(account, clock));
    }
    if let Some(to) = &settings.export {
        note("the newest snapshot was not exported", export(account, to));
    }
    if let Some(folder) = &settings.copy {
        let file = folder.join(format!("{}.db", account.name));
        let copy = state_ref::open(account).and_then(|vault| Ok(vault.copy_to(&file)?));
        note("the vault was not copied", copy);
    }
    failures
}

fn apply_retention(account: &AccountConfig, clock: &dyn Clock) -> Result<(), OpError> {
    let words = command_words("daemon (retention)", &account.name);
    let _lock = Lock::take(&account.vault, &words, PATIENCE, clock)?;
    let mut vault = Vault::open(&account.vault)?;
    let snapshots = vault.snapshots()?;
    let (Some(rules), Some(newest)) = (&account.settings.keep, snapshots.last()) else {
        return Ok(());
    };
    let needed = vault.needed_by_runs()?;
    let decisions =
        account_options::retention_decisions(account, &snapshots, &needed, rules, newest.started);
    let gone: Vec<_> =
        decisions.iter().filter(|it| it.reasons.is_empty()).map(|it| it.number).collect();
    if !gone.is_empty() {
        vault.forget(&gone, clock.now())?;
    }
    Ok(vault.close()?)
}

fn export(account: &AccountConfig, to: &ExportSettings) -> Result<(), OpError> {
    let mut loaded = state_ref::newest_state(account)?;
    let folder = to.folder.join(&account.name);
    export::export(account, &mut loaded, &folder, to.format)?;
    Ok(())
}
