//! How far a crawl came in each list, so that the next start goes on there.
//! What the notes mean is the crawler's business; here they are only kept.

use roaring::RoaringTreemap;
use rusqlite::OptionalExtension;

use super::schema::{key_columns, version_table};
use super::snapshot::{ReadState, conclude, signed};
use super::write::remove;
use crate::model::{RecordKey, Resource};
use crate::vault::{Transaction, TransactionError, Vault, VaultError, version_rows};

/// A page of a listing that is in the vault.
#[derive(Debug, Clone)]
pub struct ListedPage {
    pub number: u64,
    pub evidence: String,
    /// The versions its records are, by row number.
    pub rows: RoaringTreemap,
}

/// How a listing of the running snapshot ends.
#[derive(Debug, Clone, Copy)]
pub struct ListingEnd<'a> {
    pub snapshot: i64,
    pub resource: Resource,
    pub parent: Option<i64>,
    /// The versions that are proven to be gone, by row number.
    pub gone: &'a [i64],
    /// The last note on the listing.
    pub progress: Option<&'a str>,
    /// How reading the whole resource ended, and what it lacks.
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
    /// The note on a listing of the running snapshot.
    ///
    /// # Errors
    /// When the vault cannot be read.
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

    /// Writes the note on a listing. `restart` drops the pages it had so far.
    ///
    /// # Errors
    /// When the vault cannot be written.
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

    /// Ends a listing: closes the versions that it proved to be gone, writes its
    /// note, and concludes the resource if the listing is all of it. This is one
    /// transaction: a crash between the parts would leave records removed by a
    /// resource that counts as failed.
    ///
    /// # Errors
    /// When the vault cannot be written; nothing of it is then kept.
    pub fn end_listing(&mut self, end: &ListingEnd<'_>) -> Result<(), VaultError> {
        self.transact(|tx, shapes| {
            remove(tx, shapes, end.snapshot, end.resource, end.gone)?;
            if let Some(progress) = end.progress {
                note(tx, end.resource, end.parent, progress)?;
            }
            match end.outcome {
                Some((state, message)) => conclude(tx, end.snapshot, end.resource, state, message),
                None => Ok(()),
            }
        })
    }

    /// The pages of a listing that are in the vault, in order.
    ///
    /// # Errors
    /// When the vault cannot be read.
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

    /// Remembers the page size that worked for `resource`.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn learn_page_size(&mut self, resource: Resource, size: u64) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            tx.execute(
                "INSERT OR REPLACE INTO learned VALUES(?1, ?2)",
                (resource.name(), signed(size)),
            )?;
            Ok(())
        })
    }

    /// The open versions that no page of a listing showed: by row, with their keys.
    ///
    /// # Errors
    /// When the vault cannot be read.
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

    /// The keys of the records that `resource` has now, as far as is known.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn open_keys(&self, resource: Resource) -> Result<Vec<RecordKey>, VaultError> {
        let all = self.unseen(resource, None, &RoaringTreemap::new())?;
        Ok(all.into_iter().map(|(_, key)| key).collect())
    }

    /// The ids of the records that `resource` has now, as far as is known.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn open_ids(&self, resource: Resource) -> Result<Vec<i64>, VaultError> {
        let mut ids: Vec<_> = self.open_keys(resource)?.iter().map(RecordKey::id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// The channels that have items in the vault now.
    ///
    /// # Errors
    /// When the vault cannot be read.
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
