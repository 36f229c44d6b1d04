//! The accounts that the web UI shows.

use std::path::PathBuf;

use crate::health::account_status::AccountStatus;

/// The accounts that the web UI shows. The process that serves it implements this.
pub trait Accounts: Send + Sync {
    /// The current status of every account.
    fn account_statuses(&self) -> Vec<AccountStatus>;
    /// The current status of `account`; `None` if it does not exist.
    fn account_status(&self, account: &str) -> Option<AccountStatus> {
        self.account_statuses().into_iter().find(|it| it.account == account)
    }
    /// Path of the account's vault; `None` if the account does not exist.
    fn vault(&self, account: &str) -> Option<PathBuf>;
    /// Checks that the program works as intended; `/healthz` shows the result.
    ///
    /// # Errors
    /// A sentence with the reason.
    fn alive(&self) -> Result<(), String>;
}
