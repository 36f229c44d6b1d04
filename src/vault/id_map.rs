//! Maps ids of records to the ids of the records that replace them: of lost records that were
//! created again, and of records migrated from another account.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::model::{Resource, RunId};
use crate::vault::batch::Batch;
use crate::vault::{Transaction, TransactionError, Vault, VaultError, checksums};

/// A record that replaces another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdMapping {
    /// The account of the old id, as `service#id`; empty for this account.
    pub origin: String,
    /// Resource of both records.
    pub resource: Resource,
    /// Id of the record that is replaced.
    pub old: i64,
    /// Id in this account of the record that replaces it.
    pub new: i64,
}

impl Vault {
    /// The ids in this account, by the old ids in `origin`.
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

    /// Stores mappings that `run` found or made; 0 without a run.
    pub fn note_ids(
        &mut self,
        run: RunId,
        found: &[IdMapping],
        now: Timestamp,
    ) -> Result<(), VaultError> {
        if found.is_empty() {
            return Ok(());
        }
        self.transact_batched(Batch::free(now), |tx, _| {
            found.iter().try_for_each(|it| store(tx, run, it))
        })?;
        self.flush()
    }
}

pub(super) fn store(
    tx: &Transaction<'_>,
    run: RunId,
    it: &IdMapping,
) -> Result<(), TransactionError> {
    let name = it.resource.name();
    checksums::id_map(tx, (&it.origin, name, it.old), || {
        let sql = "INSERT OR REPLACE INTO id_map(origin, resource, old, new, run)
                   VALUES(?1, ?2, ?3, ?4, ?5)";
        tx.prepare_cached(sql)?.execute((&it.origin, name, it.old, it.new, run))?;
        Ok(())
    })
}
