//! The work after a scheduled backup: retention, an export, a copy of the vault. A failure of
//! one does not stop the others.

use std::time::Duration;

use super::export;
use super::forget::plan_locked;
use super::state_ref;
use super::vault_copy::write_copy;
use super::{Env, OpError, StoredWork};
use crate::change::csv_files::write::CsvDialect;
use crate::config::{AccountConfig, ExportSettings};

/// How long to wait for another process that holds the account's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Does the work that is configured for `account`, and returns its failures.
#[must_use]
pub fn post_backup(env: &Env, account: &AccountConfig) -> Vec<OpError> {
    let settings = &account.settings;
    let mut failures = Vec::new();
    let mut note = |what: &str, result: Result<(), OpError>| {
        if let Err(failure) = result {
            let message = format!("{what}: {}", failure.message);
            failures.push(OpError { message, ..failure });
        }
    };
    if let Some(rules) = &settings.keep {
        let command = "daemon (retention)";
        let clock = &*env.clock;
        let forgotten = env.with_stored(&[account], StoredWork::Vault, || {
            plan_locked(account, rules, command, LOCK_TIMEOUT, clock)?.forget_without_copy(clock)
        });
        note("old snapshots were not forgotten", forgotten);
    }
    if let Some(to) = &settings.export {
        note("the newest snapshot was not exported", export(account, to));
    }
    if settings.copy.is_some() {
        let copy = state_ref::open(account).and_then(|vault| write_copy(env, account, &vault));
        note("the vault was not copied", copy);
    }
    failures
}

fn export(account: &AccountConfig, to: &ExportSettings) -> Result<(), OpError> {
    let mut loaded = state_ref::newest_state(account)?;
    let folder = to.folder.join(&account.name);
    export::export(account, &mut loaded, &folder, to.format, CsvDialect::Plain)?;
    Ok(())
}
