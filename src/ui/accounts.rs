//! The accounts that the web UI shows.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::health::account_status::AccountStatus;
use crate::health::fleet_state::FleetState;

/// The accounts that the web UI shows. The process that serves it implements this.
pub trait Accounts: Send + Sync {
    /// All accounts, for the overview and the metrics.
    fn list(&self) -> AccountList;
    /// The current status of `account`.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    fn account_status(&self, account: &str) -> Result<AccountStatus, Unavailable>;
    /// The vault of `account`. A page asks once, because the vault may be fetched.
    ///
    /// # Errors
    /// If the account does not exist, or its vault cannot be fetched.
    fn vault(&self, account: &str) -> Result<VaultFile, Unavailable>;
    /// Checks that the program works as intended; `/healthz` shows the result.
    ///
    /// # Errors
    /// A sentence with the reason.
    fn alive(&self) -> Result<(), String>;
}

/// The vault of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultFile {
    /// Its path.
    pub path: PathBuf,
    /// A remark for the page that shows it, such as why it is an old one, as sentences.
    pub notice: Option<String>,
    /// Whether other machines work on the account, too.
    pub is_shared: bool,
}

/// Why an account cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// It is not there: a heading, and what to do, as sentences.
    NotFound(String, String),
    /// It cannot be read now: a heading, and the reason with what to do, as sentences.
    Failed(String, String),
}

impl Unavailable {
    /// There is no account of this name.
    #[must_use]
    pub fn no_account(name: &str) -> Self {
        let what = format!("There is no account {name}");
        Self::NotFound(what, "The overview lists all accounts.".to_owned())
    }
}

/// All accounts.
#[derive(Debug, Clone)]
pub enum AccountList {
    /// Their status from their vaults.
    Vaults(Vec<AccountStatus>),
    /// What Temporal knows of them.
    Fleet(FleetList),
}

/// The accounts of a fleet.
#[derive(Debug, Clone)]
pub struct FleetList {
    /// The accounts, problems first.
    pub entries: Arc<Vec<FleetEntry>>,
    /// When they were read from Temporal.
    pub read: Timestamp,
    /// Why they could not be read since, as sentences.
    pub notice: Option<String>,
}

/// What Temporal knows of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetEntry {
    /// Name of the account.
    pub account: String,
    /// Its state, as `fleet status` names it.
    pub state: FleetState,
    /// One sentence about the state.
    pub words: String,
    /// Start of the newest backup, and its result.
    pub last: Option<(Timestamp, &'static str)>,
    /// Start of the newest complete backup that Temporal remembers.
    pub last_complete: Option<Timestamp>,
    /// Start of the next backup.
    pub next: Option<Timestamp>,
    /// Start of the current backup; `None` if none is running.
    pub running: Option<Timestamp>,
}
