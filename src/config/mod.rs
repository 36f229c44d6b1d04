//! The configuration: which accounts there are, where their keys come from
//! and how each is to be treated. A file is read whole, every mistake in it is
//! reported at once, and what comes out is checked: nothing here is half valid.
//!
//! Here live reading, checking and extending the file and fetching a key. What
//! must not: printing, the network, and any knowledge of a command.

mod document;
mod home;
mod key;
mod permissions;
mod reader;
mod schema;
mod settings;
mod table;
mod values;
mod write;
mod zone;

use std::path::{Path, PathBuf};

use crate::api::base_url::BaseUrl;

pub use crate::nearest::nearest;
pub use home::{Home, HomeError};
pub use key::{KeyError, KeySource};
pub use permissions::{folder_open_to_others, open_to_others};
pub use settings::{
    Alerts, Amount, DaemonSettings, Export, ExportFormat, Keep, Settings, Stats, Timeouts,
};
pub use values::{
    Listen, Period, ValueError, parse_account_name, parse_address, parse_duration, parse_listen,
    parse_period, parse_timezone,
};
pub use write::{AddError, NewAccount, add_account};
pub use zone::machine_zone;

/// The account that is always there: a service in this very process.
pub const SANDBOX: &str = "sandbox";

/// One account, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    pub name: String,
    pub place: Place,
    /// The vault's file.
    pub vault: PathBuf,
    pub settings: Settings,
}

/// Where an account is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The built-in sandbox, in process.
    Sandbox,
    /// A service at `url`.
    Service { url: BaseUrl, key: KeySource, allow_http: bool },
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    home: Home,
    accounts: Vec<Account>,
    defaults: Settings,
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
    Invalid { file: PathBuf, problems: Vec<Problem> },
}

/// One mistake in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The key, as `accounts.main.url`; empty where the text is no TOML.
    pub key: String,
    pub what: String,
}

impl Problem {
    /// `file:line:column: key: what`.
    #[must_use]
    pub fn at(&self, file: &Path) -> String {
        let Self { line, column, key, what } = self;
        let colon = if key.is_empty() { "" } else { ": " };
        format!("{}:{line}:{column}: {key}{colon}{what}", file.display())
    }
}

fn many(file: &Path, problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.at(file)).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// Reads `home`'s file. No file is a configuration without accounts.
    ///
    /// # Errors
    /// [`ConfigError`] with every mistake of the file.
    pub fn load(home: &Home) -> Result<Self, ConfigError> {
        let file = home.config_file();
        let bytes = match document::bytes(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::empty(home));
            }
            Err(error) => return Err(ConfigError::Unreadable { file, error }),
        };
        let mut config = Self::parse(home, &bytes)
            .map_err(|problems| ConfigError::Invalid { file: file.clone(), problems })?;
        config.warnings.extend(open_to_others(&file));
        Ok(config)
    }

    /// Checks the text of a configuration.
    ///
    /// # Errors
    /// Every mistake, in the order of the text.
    pub fn parse(home: &Home, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let schema::File { accounts, defaults, daemon } = schema::read(home, bytes)?;
        Ok(Self { accounts, defaults, daemon, ..Self::empty(home) })
    }

    fn empty(home: &Home) -> Self {
        Self {
            home: home.clone(),
            accounts: Vec::new(),
            defaults: Settings::default(),
            daemon: DaemonSettings::default(),
            warnings: Vec::new(),
        }
    }

    /// The configured accounts by name, without the sandbox.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// The account of that name; `sandbox` is always there.
    ///
    /// # Errors
    /// [`AccountError`] when there is none.
    pub fn account(&self, name: &str) -> Result<Account, AccountError> {
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
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        Err(AccountError::Unknown { name: name.to_owned(), nearest, known })
    }

    /// The named accounts, each once; every configured one when no name is given.
    ///
    /// # Errors
    /// [`AccountError`] for the first name that is none, or when nothing is configured.
    pub fn select(&self, names: &[String]) -> Result<Vec<Account>, AccountError> {
        if names.is_empty() && self.accounts.is_empty() {
            return Err(AccountError::NothingConfigured { file: self.home.config_file() });
        }
        if names.is_empty() {
            return Ok(self.accounts.clone());
        }
        let mut chosen: Vec<Account> = Vec::new();
        for name in names {
            let account = self.account(name)?;
            if !chosen.iter().any(|other| other.name == account.name) {
                chosen.push(account);
            }
        }
        Ok(chosen)
    }

    fn sandbox(&self) -> Account {
        Account {
            name: SANDBOX.to_owned(),
            place: Place::Sandbox,
            vault: self.home.vault_file(SANDBOX),
            settings: self.defaults.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
