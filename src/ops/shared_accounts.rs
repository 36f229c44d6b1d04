//! Finds configured names that mean the same account.

use std::collections::BTreeMap;

use super::account_session::service;
use crate::config::{AccountConfig, AccountLocation};
use crate::vault::Vault;

/// Configured names that mean the same account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedAccount {
    /// The names, at least two.
    pub names: Vec<String>,
    /// The evidence, for people: the id of the account or the same key, and the service.
    pub why: String,
}

impl std::fmt::Display for SharedAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.names.join(", ");
        write!(f, "{names} are the same account ({}); each of them backs it up", self.why)
    }
}

/// The names in `all` that mean the same account: those with the same URL and source of the key, or
/// with the same account id in their vaults. Checks only services of accounts in `asked`.
#[must_use]
pub fn shared_accounts(all: &[AccountConfig], asked: &[AccountConfig]) -> Vec<SharedAccount> {
    let mut services: BTreeMap<String, Vec<&AccountConfig>> = BTreeMap::new();
    for account in all.iter().filter(|it| matches!(it.place, AccountLocation::Service { .. })) {
        services.entry(service(account)).or_default().push(account);
    }
    let mut found = Vec::new();
    for (service, accounts) in services {
        let concerned = accounts.iter().any(|it| asked.iter().any(|asked| asked.name == it.name));
        if accounts.len() < 2 || !concerned {
            continue;
        }
        let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut by_id: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for account in accounts {
            if let AccountLocation::Service { key, .. } = &account.place {
                by_key.entry(format!("{key:?}")).or_default().push(account.name.clone());
            }
            let identity = Vault::open_read_only(&account.vault).and_then(|it| it.identity());
            if let Ok(Some(identity)) = identity {
                by_id.entry(identity.account).or_default().push(account.name.clone());
            }
        }
        let by_id = by_id.into_iter().map(|(id, names)| (names, format!("account {id}")));
        let by_key = by_key.into_values().map(|names| (names, "same key".to_owned()));
        for (names, why) in by_id.chain(by_key) {
            let known = |it: &SharedAccount| names.iter().all(|name| it.names.contains(name));
            let concerns = names.iter().any(|name| asked.iter().any(|it| it.name == *name));
            if names.len() > 1 && concerns && !found.iter().any(known) {
                found.push(SharedAccount { names, why: format!("{why} at {service}") });
            }
        }
    }
    found
}
