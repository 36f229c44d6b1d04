//! The progress of a crawl in each list, from which an interrupted crawl continues. The notes are
//! text of the crawler; this module only stores them.

use roaring::RoaringTreemap;
use rusqlite::OptionalExtension;

use super::schema::{key_columns, version_table};
use super::snapshot::{ReadState, conclude, signed};
use super::write::remove;
use crate::model::{RecordKey, Resource, SnapshotId};
use crate::vault::{Transaction, TransactionError, Vault, VaultError, version_rows};

/// A page of a listing that is stored in the vault.
#[derive(Debug, Clone)]
pub struct ListedPage {
    /// Number of the page within its listing.
    pub number: u64,
    /// The crawler's note on the page, as JSON.
    pub evidence: String,
    /// Row numbers of the versions of its records.
    pub rows: RoaringTreemap,
}

/// The end of a listing of the running snapshot.
#[derive(Debug, Clone, Copy)]
pub struct ListingEnd<'a> {
    /// Number of the snapshot.
    pub snapshot: SnapshotId,
    /// Resource that was listed.
    pub resource: Resource,
    /// Channel whose items were listed; `None` for other resources.
    pub parent: Option<i64>,
    /// Row numbers of the versions of records that are proven to be deleted.
    pub gone: &'a [i64],
    /// The crawler's last note on the listing.
    pub progress: Option<&'a str>,
    /// How reading the resource ended, with a message on what is missing; `None` if more listings
    /// of the resource follow.
    pub outcome: Option<(ReadState, Option<&'a str>)>,
}

fn note(
    tx: &Transaction<'_>,
    resource: Resource,
    parent: Option<i64>,
    progress: &str,
) -> Result<(), TransactionError> {
    tx.prepare_cached("INSERT OR REPLACE INTO listing VALUES(?1, ?2, ?3)")?.execute((
        resource.name(),
        parent.unwrap_or(0),
        progress,
    ))?;
    Ok(())
}

impl Vault {
    /// The crawler's note on a listing of the running snapshot.
    pub fn listing(
        &self,
        resource: Resource,
        parent: Option<i64>,
    ) -> Result<Option<String>, VaultError> {
        let sql = "SELECT progress FROM listing WHERE resource = ?1 AND parent = ?2";
        self.db
            .prepare_cached(sql)
            .and_then(|mut find| {
                find.query_row((resource.name(), parent.unwrap_or(0)), |row| row.get(0)).optional()
            })
            .map_err(|source| self.sql(source))
    }

    /// Stores the crawler's note on a listing. `restart` deletes the listing's stored pages.
    pub fn note_listing(
        &mut self,
        resource: Resource,
        parent: Option<i64>,
        progress: &str,
        restart: bool,
    ) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            note(tx, resource, parent, progress)?;
            if restart {
                tx.prepare_cached("DELETE FROM listing_page WHERE resource = ?1 AND parent = ?2")?
                    .execute((resource.name(), parent.unwrap_or(0)))?;
            }
            Ok(())
        })
    }

    /// Ends a listing: closes the versions in `gone`, stores the last note, and the outcome of the
    /// resource. All in one transaction, because a crash in between would leave records removed in
    /// a resource that counts as failed.
    pub fn end_listing(&mut self, end: &ListingEnd<'_>) -> Result<(), VaultError> {
        self.transact(|tx, templates| {
            remove(tx, templates, end.snapshot, end.resource, end.gone)?;
            if let Some(progress) = end.progress {
                note(tx, end.resource, end.parent, progress)?;
            }
            match end.outcome {
                Some((state, message)) => conclude(tx, end.snapshot, end.resource, state, message),
                None => Ok(()),
            }
        })
    }

    /// The stored pages of a listing, in order.
    pub fn listing_pages(
        &self,
        resource: Resource,
        parent: Option<i64>,
    ) -> Result<Vec<ListedPage>, VaultError> {
        let read = || -> Result<Vec<ListedPage>, TransactionError> {
            let mut find = self.db.prepare_cached(
                "SELECT page, evidence, seen FROM listing_page
                 WHERE resource = ?1 AND parent = ?2 ORDER BY page",
            )?;
            let mut rows = find.query((resource.name(), parent.unwrap_or(0)))?;
            let mut pages = Vec::new();
            while let Some(row) = rows.next()? {
                let number: i64 = row.get(0)?;
                let blob: Vec<u8> = row.get(2)?;
                let damaged = || TransactionError::Damaged(format!("page {number} of a listing"));
                pages.push(ListedPage {
                    number: u64::try_from(number).map_err(|_| damaged())?,
                    evidence: row.get(1)?,
                    rows: RoaringTreemap::deserialize_from(blob.as_slice())
                        .map_err(|_| damaged())?,
                });
            }
            Ok(pages)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// Stores the page size that worked for `resource`.
    pub fn learn_page_size(&mut self, resource: Resource, size: u64) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            tx.execute(
                "INSERT OR REPLACE INTO learned VALUES(?1, ?2)",
                (resource.name(), signed(size)),
            )?;
            Ok(())
        })
    }

    /// The row numbers and keys of open versions that are not in `seen`.
    pub fn unseen(
        &self,
        resource: Resource,
        parent: Option<i64>,
        seen: &RoaringTreemap,
    ) -> Result<Vec<(i64, RecordKey)>, VaultError> {
        let keys: Vec<_> = key_columns(resource).map(|name| format!("\"{name}\"")).collect();
        let within = if parent.is_some() { "AND channel = ?1" } else { "AND ?1 IS NULL" };
        let sql = format!(
            "SELECT version, {} FROM {} WHERE until IS NULL {within}",
            keys.join(", "),
            version_table(resource)
        );
        let read = || -> Result<Vec<(i64, RecordKey)>, TransactionError> {
            let mut find = self.db.prepare_cached(&sql)?;
            let mut rows = find.query([parent])?;
            let mut unseen = Vec::new();
            while let Some(row) = rows.next()? {
                let version: i64 = row.get(0)?;
                if !seen.contains(version.cast_unsigned()) {
                    unseen.push((version, version_rows::key(resource, row, 1)?));
                }
            }
            Ok(unseen)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// The keys of the open versions of `resource`.
    pub fn open_keys(&self, resource: Resource) -> Result<Vec<RecordKey>, VaultError> {
        let all = self.unseen(resource, None, &RoaringTreemap::new())?;
        Ok(all.into_iter().map(|(_, key)| key).collect())
    }

    /// The ids of the open versions of `resource`, sorted.
    pub fn open_ids(&self, resource: Resource) -> Result<Vec<i64>, VaultError> {
        let mut ids: Vec<_> = self.open_keys(resource)?.iter().map(RecordKey::id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// The ids of channels that have items in open versions.
    pub fn channels_with_items(&self) -> Result<Vec<i64>, VaultError> {
        let read = || -> rusqlite::Result<Vec<i64>> {
            let mut find = self.db.prepare(
                "SELECT DISTINCT channel FROM version_channel_items WHERE until IS NULL
                 ORDER BY channel",
            )?;
            find.query_map([], |row| row.get(0))?.collect()
        };
        read().map_err(|source| self.sql(source))
    }
}
