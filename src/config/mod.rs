//! The configuration: accounts, sources of their keys, and settings. All mistakes in the file are
//! reported at once; a [`Config`] is always valid.
//!
//! This module reads, checks and extends the file, and reads secrets. It does not print, use the
//! network or depend on commands.

mod account;
mod add_account;
mod age_recipient;
mod document;
mod fleet_settings;
mod home;
mod key_source;
mod keys;
mod permissions;
mod problem;
mod settings;
mod time_zone;
mod toml_reader;
mod values;
mod vault_address;

use std::path::{Path, PathBuf};

pub use crate::suggest::suggest;
pub use account::{AccountConfig, AccountLocation, hidden_from_key_commands, key_variables};
pub use add_account::{AddAccountError, NewAccount, NewKey, add_account, require_new_key_file};
pub use fleet_settings::FleetSettings;
pub use home::{Home, HomeError};
pub use key_source::{
    KeySource, KeySourceCause, KeySourceError, SecretKind, looks_like_a_key, typed_key,
};
pub use keys::reference;
pub use permissions::{folder_permission_warning, permission_warning};
pub use problem::ConfigProblem;
pub use settings::{
    AccountSettings, AlertSettings, DaemonSettings, ExportFormat, ExportSettings, RetentionRules,
    StatisticsSetting, Timeouts,
};
pub use time_zone::machine_time_zone;
pub use values::{
    CalendarPeriod, ConfigValueError, ListenAddress, SANDBOX, parse_account_name, parse_address,
    parse_duration, parse_listen, parse_period, parse_timezone,
};
pub use vault_address::{StoreScheme, VaultAddress};

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    home: Home,
    accounts: Vec<AccountConfig>,
    defaults: AccountSettings,
    /// Settings of the daemon itself.
    pub daemon: DaemonSettings,
    /// Settings of this machine as a part of a fleet.
    pub fleet: FleetSettings,
    /// Warnings about the file and its folder, such as unsafe permissions.
    pub warnings: Vec<String>,
}

/// Why an account was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The configuration has no accounts.
    #[error("no account is configured in {}", file.display())]
    NothingConfigured {
        /// The configuration file, which may not exist.
        file: PathBuf,
    },
    /// No account has this name.
    #[error("there is no account `{name}`")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The most similar name of an account, if any is similar.
        nearest: Option<String>,
        /// Names of all accounts, with the sandbox.
        known: Vec<String>,
    },
}

/// Why the configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file exists and cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Unreadable {
        /// The configuration file.
        file: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The file has mistakes.
    #[error("{}", many(file, problems))]
    Invalid {
        /// The configuration file.
        file: PathBuf,
        /// All mistakes, in the order of the file.
        problems: Vec<ConfigProblem>,
    },
}

fn many(file: &Path, problems: &[ConfigProblem]) -> String {
    problems.iter().map(|problem| problem.at(file)).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// Loads the configuration file of `home`. A missing file is a configuration without accounts.
    ///
    /// # Errors
    /// A [`ConfigError`]: the file cannot be read, or has mistakes.
    pub fn load(home: &Home) -> Result<Self, ConfigError> {
        let file = home.config_file();
        // Users who can write to the folder can replace the configuration.
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

    /// Parses and checks the text of a configuration.
    ///
    /// # Errors
    /// All mistakes, in the order of the text.
    pub fn parse(home: &Home, bytes: &[u8]) -> Result<Self, Vec<ConfigProblem>> {
        let keys::ConfigFile { accounts, defaults, daemon, fleet } = keys::read(home, bytes)?;
        Ok(Self { accounts, defaults, daemon, fleet, ..Self::empty(home) })
    }

    fn empty(home: &Home) -> Self {
        Self {
            home: home.clone(),
            accounts: Vec::new(),
            defaults: AccountSettings::default(),
            daemon: DaemonSettings::default(),
            fleet: FleetSettings::default(),
            warnings: Vec::new(),
        }
    }

    /// The configured accounts sorted by name, without the sandbox.
    #[must_use]
    pub fn accounts(&self) -> &[AccountConfig] {
        &self.accounts
    }

    /// The account called `name`; `sandbox` always exists.
    ///
    /// # Errors
    /// An [`AccountError`] when no account has this name.
    pub fn account(&self, name: &str) -> Result<AccountConfig, AccountError> {
        if name == SANDBOX {
            return Ok(self.sandbox());
        }
        if let Ok(at) = self.accounts.binary_search_by(|account| account.name.as_str().cmp(name)) {
            return Ok(self.accounts[at].clone());
        }
        if self.accounts.is_empty() {
            return Err(AccountError::NothingConfigured { file: self.home.config_file() });
        }
        let mut known: Vec<_> = self.accounts.iter().map(|a| a.name.clone()).collect();
        known.push(SANDBOX.to_owned());
        let nearest = suggest(name, known.iter().map(String::as_str)).map(str::to_owned);
        Err(AccountError::Unknown { name: name.to_owned(), nearest, known })
    }

    /// The named accounts without duplicates; all configured accounts if `names` is empty.
    ///
    /// # Errors
    /// An [`AccountError`] for the first unknown name, or when `names` is empty and no account is
    /// configured.
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
            store: None,
            settings: self.defaults.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
