//! The accounts that the web UI shows: those of the running daemon, or, without a daemon, from
//! vaults and persisted states.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::config::AccountConfig;
use crate::daemon::DaemonState;
use crate::files::{FileStamp, beside};
use crate::health::account_status::AccountStatus;
use crate::health::persisted_state;
use crate::health::scheduled_account::ScheduledAccount;
use crate::ops::status::account_status;
use crate::ui::{AccountList, Accounts, Unavailable, VaultFile};

/// The accounts of the running daemon.
pub struct DaemonAccounts(pub Arc<DaemonState>);

impl Accounts for DaemonAccounts {
    fn list(&self) -> AccountList {
        AccountList::Vaults(self.0.account_statuses())
    }

    fn account_status(&self, name: &str) -> Result<AccountStatus, Unavailable> {
        let found = self.0.account_statuses().into_iter().find(|it| it.account == name);
        found.ok_or_else(|| Unavailable::no_account(name))
    }

    fn vault(&self, name: &str) -> Result<VaultFile, Unavailable> {
        let path = self.0.vault(name).ok_or_else(|| Unavailable::no_account(name))?;
        Ok(VaultFile { path, notice: None, is_shared: false })
    }

    fn alive(&self) -> Result<(), String> {
        self.0.alive()
    }
}

/// The accounts of a configuration, with their status from the vaults, cached.
pub struct VaultAccounts {
    accounts: Vec<AccountConfig>,
    clock: Arc<dyn Clock>,
    all_scheduled: Vec<ScheduledAccount>,
    known: Mutex<HashMap<String, CachedStatus>>,
}

/// The status of an account, and when it was read.
struct CachedStatus {
    stamps: Stamps,
    at: Timestamp,
    account_status: AccountStatus,
}

impl CachedStatus {
    fn account_status(&self) -> AccountStatus {
        self.account_status.clone()
    }
}

/// The maximum age of a cached status: the status also changes with time alone, but slowly.
const FRESH: Duration = Duration::from_secs(30);

/// Times and sizes of the vault, its log and the persisted state. A backup changes them.
type Stamps = [Option<FileStamp>; 3];

impl VaultAccounts {
    /// Shows these accounts, with their schedules.
    #[must_use]
    pub fn new(
        accounts: Vec<AccountConfig>,
        all_scheduled: Vec<ScheduledAccount>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { accounts, all_scheduled, clock, known: Mutex::default() }
    }

    fn account(&self, name: &str) -> Result<&AccountConfig, Unavailable> {
        let found = self.accounts.iter().find(|account| account.name == name);
        found.ok_or_else(|| Unavailable::no_account(name))
    }

    /// The status of the account. The vault is read again only if it changed or the cached status
    /// is too old.
    fn read_status(&self, account: &AccountConfig) -> AccountStatus {
        let (stamps, now) = (stamps(&account.vault), self.clock.now());
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |seen: &&CachedStatus| {
            seen.stamps == stamps && seen.at <= now && now.since(seen.at) < FRESH
        };
        if let Some(account_status) =
            known().get(&account.name).filter(fresh).map(CachedStatus::account_status)
        {
            return account_status;
        }
        let scheduled =
            self.all_scheduled.iter().find(|scheduled| scheduled.account == account.name);
        let (account_status, _) = account_status(account, scheduled, now);
        let seen = CachedStatus { stamps, at: now, account_status: account_status.clone() };
        known().insert(account.name.clone(), seen);
        account_status
    }
}

impl Accounts for VaultAccounts {
    fn list(&self) -> AccountList {
        let all = self.accounts.iter().map(|account| self.read_status(account));
        AccountList::Vaults(all.collect())
    }

    fn account_status(&self, name: &str) -> Result<AccountStatus, Unavailable> {
        self.account(name).map(|account| self.read_status(account))
    }

    fn vault(&self, name: &str) -> Result<VaultFile, Unavailable> {
        let AccountConfig { vault, store, .. } = self.account(name)?;
        Ok(VaultFile { path: vault.clone(), notice: None, is_shared: store.is_some() })
    }

    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}

fn stamps(vault: &Path) -> Stamps {
    [vault.to_owned(), beside(vault, "-wal"), persisted_state::file(vault)]
        .map(|path| FileStamp::of(&path))
}
