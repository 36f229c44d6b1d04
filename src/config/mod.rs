//! The configuration: which accounts there are, where their keys come from
//! and how each is to be treated. A file is read whole, every mistake in it is
//! reported at once, and what comes out is checked: nothing here is half valid.
//!
//! Here live reading, checking and extending the file and fetching a key. What
//! must not: printing, the network, and any knowledge of a command.

mod add_account;
mod document;
mod home;
mod key_source;
mod keys;
mod permissions;
mod settings;
mod time_zone;
mod toml_reader;
mod values;

use std::path::{Path, PathBuf};

use crate::api::base_url::BaseUrl;

pub use crate::suggest::suggest;
pub use add_account::{AddAccountError, NewAccount, add_account};
pub use home::{Home, HomeError};
pub use key_source::{KeySource, KeySourceCause, KeySourceError, SecretKind, key_variables};
pub use keys::reference;
pub use permissions::{folder_permission_warning, permission_warning};
pub use settings::{
    AccountSettings, AlertSettings, DaemonSettings, ExportFormat, ExportSettings, RetentionRules,
    StatisticsSetting, Timeouts,
};
pub use time_zone::machine_time_zone;
pub use values::{
    CalendarPeriod, ConfigValueError, ListenAddress, parse_account_name, parse_address,
    parse_duration, parse_listen, parse_period, parse_timezone,
};

/// The account that is always there: a service in this very process.
pub const SANDBOX: &str = "sandbox";

/// One account, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountConfig {
    pub name: String,
    pub place: AccountLocation,
    /// The vault's file.
    pub vault: PathBuf,
    pub settings: AccountSettings,
}

/// Where an account is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountLocation {
    /// The built-in sandbox, in process.
    Sandbox,
    /// A service at `url`.
    Service { url: BaseUrl, key: KeySource, allow_http: bool },
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    home: Home,
    accounts: Vec<AccountConfig>,
    defaults: AccountSettings,
    /// How the daemon itself is run.
    pub daemon: DaemonSettings,
    /// Things a person should know about the file, though it is valid.
    pub warnings: Vec<String>,
}

/// Why there is no such account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// Nothing is configured; `file` is where it would be.
    #[error("no account is configured: there is none in {}", file.display())]
    NothingConfigured { file: PathBuf },
    /// There are accounts, but none of that name.
    #[error("there is no account `{name}`")]
    Unknown { name: String, nearest: Option<String>, known: Vec<String> },
}

/// Why the file gives no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{} cannot be read: {error}", file.display())]
    Unreadable { file: PathBuf, error: std::io::Error },
    /// The file's mistakes, in its order.
    #[error("{}", many(file, problems))]
    Invalid { file: PathBuf, problems: Vec<ConfigProblem> },
}

/// One mistake in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The key, as `accounts.main.url`; empty where the text is no TOML.
    pub key: String,
    pub what: String,
}

impl ConfigProblem {
    /// `file:line:column: key: what`.
    #[must_use]
    pub fn at(&self, file: &Path) -> String {
        let Self { line, column, key, what } = self;
        let colon = if key.is_empty() { "" } else { ": " };
        format!("{}:{line}:{column}: {key}{colon}{what}", file.display())
    }
}

fn many(file: &Path, problems: &[ConfigProblem]) -> String {
    problems.iter().map(|problem| problem.at(file)).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// Reads `home`'s file. No file is a configuration without accounts.
    ///
    /// # Errors
    /// [`ConfigError`] with every mistake of the file.
    pub fn load(home: &Home) -> Result<Self, ConfigError> {
        let file = home.config_file();
        // Who can write to it can put another configuration there.
        let folder = file.parent().and_then(folder_permission_warning);
        let bytes = match document::bytes(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { warnings: folder.into_iter().collect(), ..Self::empty(home) });
            }
            Err(error) => return Err(ConfigError::Unreadable { file, error }),
        };
        let mut config = Self::parse(home, &bytes)
            .map_err(|problems| ConfigError::Invalid { file: file.clone(), problems })?;
        config.warnings.extend(folder);
        config.warnings.extend(permission_warning(&file));
        Ok(config)
    }

    /// Checks the text of a configuration.
    ///
    /// # Errors
    /// Every mistake, in the order of the text.
    pub fn parse(home: &Home, bytes: &[u8]) -> Result<Self, Vec<ConfigProblem>> {
        let keys::ConfigFile { accounts, defaults, daemon } = keys::read(home, bytes)?;
        Ok(Self { accounts, defaults, daemon, ..Self::empty(home) })
    }

    fn empty(home: &Home) -> Self {
        Self {
            home: home.clone(),
            accounts: Vec::new(),
            defaults: AccountSettings::default(),
            daemon: DaemonSettings::default(),
            warnings: Vec::new(),
        }
    }

    /// The configured accounts by name, without the sandbox.
    #[must_use]
    pub fn accounts(&self) -> &[AccountConfig] {
        &self.accounts
    }

    /// The account of that name; `sandbox` is always there.
    ///
    /// # Errors
    /// [`AccountError`] when there is none.
    pub fn account(&self, name: &str) -> Result<AccountConfig, AccountError> {
        if name == SANDBOX {
            return Ok(self.sandbox());
        }
        if let Some(account) = self.accounts.iter().find(|account| account.name == name) {
            return Ok(account.clone());
        }
        if self.accounts.is_empty() {
            return Err(AccountError::NothingConfigured { file: self.home.config_file() });
        }
        let mut known: Vec<_> = self.accounts.iter().map(|a| a.name.clone()).collect();
        known.push(SANDBOX.to_owned());
        let nearest = suggest(name, known.iter().map(String::as_str)).map(str::to_owned);
        Err(AccountError::Unknown { name: name.to_owned(), nearest, known })
    }

    /// The named accounts, each once; every configured one when no name is given.
    ///
    /// # Errors
    /// [`AccountError`] for the first name that is none, or when nothing is configured.
    pub fn select(&self, names: &[String]) -> Result<Vec<AccountConfig>, AccountError> {
        if names.is_empty() && self.accounts.is_empty() {
            return Err(AccountError::NothingConfigured { file: self.home.config_file() });
        }
        if names.is_empty() {
            return Ok(self.accounts.clone());
        }
        let mut chosen: Vec<AccountConfig> = Vec::new();
        for name in names {
            let account = self.account(name)?;
            if !chosen.iter().any(|other| other.name == account.name) {
                chosen.push(account);
            }
        }
        Ok(chosen)
    }

    fn sandbox(&self) -> AccountConfig {
        AccountConfig {
            name: SANDBOX.to_owned(),
            place: AccountLocation::Sandbox,
            vault: self.home.vault_file(SANDBOX),
            settings: self.defaults.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
