//! An account, as the configuration names it.

use std::path::PathBuf;

use super::key_source::KeySource;
use super::settings::AccountSettings;
use super::vault_address::{StoreScheme, VaultAddress};
use crate::api::base_url::BaseUrl;

/// One checked account.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountConfig {
    /// Name of the account.
    pub name: String,
    /// Its service, or the sandbox.
    pub place: AccountLocation,
    /// Path of its vault; for a vault in a store, of the copy on which this machine works.
    pub vault: PathBuf,
    /// The store where the vault lives; `None` for a vault that is a file.
    pub store: Option<VaultAddress>,
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

/// The environment variables with secrets of `accounts`, which are hidden from other programs.
#[must_use]
pub fn key_variables<'a>(
    accounts: impl IntoIterator<Item = &'a AccountConfig> + Clone,
) -> Vec<String> {
    let keys = accounts.clone().into_iter().filter_map(|account| match &account.place {
        AccountLocation::Service { key, .. } => Some(key),
        AccountLocation::Sandbox => None,
    });
    let stores = accounts.clone().into_iter().filter_map(|account| account.store.as_ref());
    let secrets =
        accounts.into_iter().filter_map(|account| account.settings.alerts.secret.as_ref());
    let names = keys.chain(secrets).filter_map(|source| match source {
        KeySource::Variable(name) => Some(name.clone()),
        KeySource::File(_) | KeySource::Command(_) => None,
    });
    let of_stores = stores.flat_map(|store| store_secrets(store.scheme)).copied();
    names.chain(of_stores.map(str::to_owned)).collect()
}

/// Those of `variables` that a command which prints a secret must not see: not the credentials of
/// stores, with which it may fetch the secret.
#[must_use]
pub fn hidden_from_key_commands(variables: &[String]) -> Vec<String> {
    let schemes = [StoreScheme::S3, StoreScheme::Azure, StoreScheme::Google];
    let of_stores: Vec<_> = schemes.into_iter().flat_map(store_secrets).collect();
    variables.iter().filter(|name| !of_stores.contains(&&name.as_str())).cloned().collect()
}

/// The environment variables with secrets of a kind of store.
const fn store_secrets(scheme: StoreScheme) -> &'static [&'static str] {
    match scheme {
        StoreScheme::File => &[],
        StoreScheme::S3 => &[
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_TOKEN",
            "AWS_SERVER_SIDE_ENCRYPTION_CUSTOMER_KEY_BASE64",
            "AWS_SSE_CUSTOMER_KEY_BASE64",
        ],
        StoreScheme::Azure => &[
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCESS_KEY",
            "AZURE_STORAGE_MASTER_KEY",
            "AZURE_STORAGE_CLIENT_SECRET",
            "AZURE_STORAGE_SAS_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_TOKEN",
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_CLIENT_SECRET",
        ],
        StoreScheme::Google => &["GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_BEARER_TOKEN"],
    }
}
