//! Which record of the account stands for which other: for one of its own that
//! was lost and created anew, or for one of another account that moved here.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::model::Resource;
use crate::vault::{Transaction, TransactionError, Vault, VaultError, checksums};

/// One record that stands for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdMapping {
    /// The account that the old id is of, as `service#id`; empty is this one.
    pub origin: String,
    pub resource: Resource,
    pub old: i64,
    pub new: i64,
}

impl Vault {
    /// The ids of this account, by the old ones of `origin` that they stand for.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn id_map(&self, origin: &str) -> Result<BTreeMap<(Resource, i64), i64>, VaultError> {
        let read = || -> Result<BTreeMap<(Resource, i64), i64>, TransactionError> {
            let sql = "SELECT resource, old, new FROM id_map WHERE origin = ?1";
            let mut find = self.db.prepare(sql)?;
            let mut rows = find.query([origin])?;
            let mut all = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let name: String = row.get(0)?;
                let resource = Resource::from_name(&name)
                    .ok_or_else(|| TransactionError::Damaged(format!("`{name}` is no resource")))?;
                all.insert((resource, row.get(1)?), row.get(2)?);
            }
            Ok(all)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// Notes records that were found to stand for others; `run` is 0 where no
    /// run did it.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn note_ids(
        &mut self,
        run: i64,
        found: &[IdMapping],
        now: Timestamp,
    ) -> Result<(), VaultError> {
        if found.is_empty() {
            return Ok(());
        }
        self.transact_batched(now, |tx, _| found.iter().try_for_each(|it| keep(tx, run, it)))?;
        self.flush()
    }
}

pub(super) fn keep(tx: &Transaction<'_>, run: i64, it: &IdMapping) -> Result<(), TransactionError> {
    let name = it.resource.name();
    checksums::id_map(tx, (&it.origin, name, it.old), || {
        let sql = "INSERT OR REPLACE INTO id_map(origin, resource, old, new, run)
                   VALUES(?1, ?2, ?3, ?4, ?5)";
        tx.prepare_cached(sql)?.execute((&it.origin, name, it.old, it.new, run))?;
        Ok(())
    })
}
