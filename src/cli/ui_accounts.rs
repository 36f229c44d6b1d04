//! The status of accounts, from their vaults and persisted states: what `status`
//! and `ui` show where no daemon is asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Timestamp};
use crate::config::AccountConfig;
use crate::daemon::DaemonState;
use crate::files::beside;
use crate::health::account_status::AccountStatus;
use crate::health::persisted_state;
use crate::health::scheduled_account::ScheduledAccount;
use crate::ops::status::account_status;
use crate::ui::Accounts;

/// The accounts of the daemon that runs.
pub struct DaemonAccounts(pub Arc<DaemonState>);

impl Accounts for DaemonAccounts {
    fn account_statuses(&self) -> Vec<AccountStatus> {
        self.0.account_statuses()
    }

    fn account_status(&self, name: &str) -> Option<AccountStatus> {
        self.0.account_statuses().into_iter().find(|it| it.account == name)
    }

    fn vault(&self, name: &str) -> Option<PathBuf> {
        self.0.vault(name)
    }

    fn alive(&self) -> Result<(), String> {
        self.0.alive()
    }
}

/// The accounts of a configuration, and what their vaults said last.
pub struct VaultAccounts {
    accounts: Vec<AccountConfig>,
    clock: Arc<dyn Clock>,
    all_scheduled: Vec<ScheduledAccount>,
    known: Mutex<HashMap<String, CachedStatus>>,
}

/// What was known of an account, and when.
struct CachedStatus {
    stamp: Stamp,
    at: Timestamp,
    account_status: AccountStatus,
}

impl CachedStatus {
    fn account_status(&self) -> AccountStatus {
        self.account_status.clone()
    }
}

/// What is due changes by time alone, though not by the moment.
const FRESH: Duration = Duration::from_secs(30);

/// What changes when a backup does something: times and sizes of the vault, its
/// log and the persisted state.
type Stamp = [Option<(SystemTime, u64)>; 3];

impl VaultAccounts {
    /// Of these accounts.
    #[must_use]
    pub fn new(
        accounts: Vec<AccountConfig>,
        all_scheduled: Vec<ScheduledAccount>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { accounts, all_scheduled, clock, known: Mutex::default() }
    }

    /// What the vault says; read again only when it changed.
    fn look(&self, account: &AccountConfig) -> AccountStatus {
        let (stamp, now) = (stamp(&account.vault), self.clock.now());
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |seen: &&CachedStatus| {
            seen.stamp == stamp && seen.at <= now && now.since(seen.at) < FRESH
        };
        if let Some(account_status) =
            known().get(&account.name).filter(fresh).map(CachedStatus::account_status)
        {
            return account_status;
        }
        let scheduled =
            self.all_scheduled.iter().find(|scheduled| scheduled.account == account.name);
        let (account_status, _) = account_status(account, scheduled, now);
        let seen = CachedStatus { stamp, at: now, account_status: account_status.clone() };
        known().insert(account.name.clone(), seen);
        account_status
    }
}

impl Accounts for VaultAccounts {
    fn account_statuses(&self) -> Vec<AccountStatus> {
        self.accounts.iter().map(|account| self.look(account)).collect()
    }

    fn account_status(&self, name: &str) -> Option<AccountStatus> {
        self.accounts.iter().find(|account| account.name == name).map(|it| self.look(it))
    }

    fn vault(&self, name: &str) -> Option<PathBuf> {
        let account = self.accounts.iter().find(|account| account.name == name)?;
        Some(account.vault.clone())
    }

    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}

fn stamp(vault: &Path) -> Stamp {
    [vault.to_owned(), beside(vault, "-wal"), persisted_state::file(vault)].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}
