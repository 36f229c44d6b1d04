//! Values that linkvault sent and that no list gives back: a QR code's type,
//! data and colours, a campaign's slug. They belong to no snapshot, so a sum of
//! their own covers them in `check`. Passwords never come here.

use std::collections::BTreeMap;

use super::{Failure, Tx, Vault, VaultError, ledger};
use crate::clock::Timestamp;
use crate::model::{Key, Resource};

/// A value that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// As JSON text.
    pub value: String,
    pub time: Timestamp,
}

/// A record's sent values, by field.
pub type SentFields = BTreeMap<String, Sent>;

/// The field that is never kept, whatever record it belongs to.
const PASSWORD: &str = "password";

impl Vault {
    /// Remembers that `value`, a JSON text, was sent as the record's `field`; what
    /// was sent before is replaced. A password is not kept.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn remember(
        &mut self,
        resource: Resource,
        key: &Key,
        field: &str,
        value: &str,
        now: Timestamp,
    ) -> Result<(), VaultError> {
        self.transact(|tx, _| remember_in(tx, resource, key, field, value, now))
    }

    /// What was sent for one record.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn remembered(&self, resource: Resource, key: &Key) -> Result<SentFields, VaultError> {
        let all = self.sent(resource, Some(key))?;
        Ok(all.into_values().next().unwrap_or_default())
    }

    /// What was sent for every record of `resource`.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn remembered_all(
        &self,
        resource: Resource,
    ) -> Result<BTreeMap<Key, SentFields>, VaultError> {
        self.sent(resource, None)
    }

    fn sent(
        &self,
        resource: Resource,
        key: Option<&Key>,
    ) -> Result<BTreeMap<Key, SentFields>, VaultError> {
        let read = || -> Result<BTreeMap<Key, SentFields>, Failure> {
            let mut find = self.db.prepare_cached(
                "SELECT key, field, value, sent FROM sent
                 WHERE resource = ?1 AND (?2 IS NULL OR key = ?2)",
            )?;
            let mut rows = find.query((resource.name(), key.map(Key::to_string)))?;
            let mut all: BTreeMap<Key, SentFields> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let text: String = row.get(0)?;
                let key = Key::parse(resource, &text)
                    .ok_or_else(|| Failure::Damaged(format!("{resource} have no key {text}")))?;
                let sent = Sent { value: row.get(2)?, time: Timestamp(row.get(3)?) };
                all.entry(key).or_default().insert(row.get(1)?, sent);
            }
            Ok(all)
        };
        read().map_err(|failure| failure.at(&self.path))
    }
}

/// [`Vault::remember`] within a transaction.
pub(super) fn remember_in(
    tx: &Tx<'_>,
    resource: Resource,
    key: &Key,
    field: &str,
    value: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    if field == PASSWORD {
        return Ok(());
    }
    let key = key.to_string();
    ledger::sent(tx, (resource.name(), &key, field), || {
        tx.prepare_cached("INSERT OR REPLACE INTO sent VALUES(?1, ?2, ?3, ?4, ?5)")?.execute((
            resource.name(),
            &key,
            field,
            value,
            now.0,
        ))?;
        Ok(())
    })
}
