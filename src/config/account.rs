//! An account, as the configuration names it.

use std::path::PathBuf;

use super::key_source::KeySource;
use super::settings::AccountSettings;
use crate::api::base_url::BaseUrl;

/// One checked account.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountConfig {
    /// Name of the account.
    pub name: String,
    /// Its service, or the sandbox.
    pub place: AccountLocation,
    /// Path of its vault.
    pub vault: PathBuf,
    /// Its settings, with the defaults of the file.
    pub settings: AccountSettings,
}

/// Where the service of an account is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountLocation {
    /// The built-in sandbox, in process.
    Sandbox,
    /// A service on the network.
    Service {
        /// Base URL, everything before `/api`.
        url: BaseUrl,
        /// Where the API key comes from.
        key: KeySource,
        /// Whether the API key may be sent over plain HTTP.
        allow_http: bool,
    },
}

/// The environment variables with secrets of `accounts`, which are hidden from alert commands.
#[must_use]
pub fn key_variables<'a>(
    accounts: impl IntoIterator<Item = &'a AccountConfig> + Clone,
) -> Vec<String> {
    let keys = accounts.clone().into_iter().filter_map(|account| match &account.place {
        AccountLocation::Service { key, .. } => Some(key),
        AccountLocation::Sandbox => None,
    });
    let secrets =
        accounts.into_iter().filter_map(|account| account.settings.alerts.secret.as_ref());
    let names = keys.chain(secrets).filter_map(|source| match source {
        KeySource::Variable(name) => Some(name.clone()),
        KeySource::File(_) | KeySource::Command(_) => None,
    });
    names.collect()
}
