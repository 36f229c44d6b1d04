//! QR codes' statistics: a series of its own, which takes one request for each code.

use rusqlite::{OptionalExtension, Row};

use super::digest::{self, DigestSum};
use super::snapshot::RequestUsage;
use super::write::{add_to_sum, touch};
use super::{TransactionError, Vault, VaultError};
use crate::clock::Timestamp;
use crate::model::{Resource, SnapshotId};

/// The response to one request for a QR code's statistics.
#[derive(Debug, Clone, Copy)]
pub struct StoredStatistics<'a> {
    /// Number of the running snapshot.
    pub snapshot: SnapshotId,
    /// Id of the QR code.
    pub code: i64,
    /// Number of scans in the list of QR codes.
    pub scans: i64,
    /// The statistics as unchanged JSON text.
    pub body: &'a str,
    /// The present time.
    pub now: Timestamp,
    /// Cost of the crawl so far.
    pub usage: RequestUsage,
}

/// A QR code whose statistics must be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueStatistics {
    /// Id of the QR code.
    pub code: i64,
    /// Number of scans in the list of QR codes.
    pub scans: i64,
}

impl Vault {
    /// The QR codes whose statistics must be fetched, those fetched longest ago first: codes whose scans changed since the last fetch; with `all`, every code not fetched in
    /// this snapshot.
    pub fn statistics_to_fetch(
        &self,
        snapshot: SnapshotId,
        all: bool,
    ) -> Result<Vec<DueStatistics>, VaultError> {
        let sql = "
            SELECT id, scans FROM (
              SELECT v.id AS id,
                coalesce((SELECT c.value FROM sample_qr_codes c WHERE c.id = v.id
                  ORDER BY c.snapshot DESC LIMIT 1), 0) AS scans,
                coalesce((SELECT s.scans FROM statistics_qr_codes s WHERE s.id = v.id
                  ORDER BY s.snapshot DESC LIMIT 1), 0) AS fetched,
                coalesce((SELECT max(s.snapshot) FROM statistics_qr_codes s
                  WHERE s.id = v.id), 0) AS at
              FROM version_qr_codes v WHERE v.until IS NULL)
            WHERE CASE WHEN ?1 THEN at < ?2 ELSE scans <> fetched END
            ORDER BY at, id";
        let read = || -> rusqlite::Result<Vec<DueStatistics>> {
            let mut find = self.db.prepare_cached(sql)?;
            let due = |row: &Row<'_>| Ok(DueStatistics { code: row.get(0)?, scans: row.get(1)? });
            find.query_map((all, snapshot), due)?.collect()
        };
        read().map_err(|source| self.sql(source))
    }

    /// Stores a code's statistics.
    pub fn put_statistics(&mut self, found: &StoredStatistics<'_>) -> Result<(), VaultError> {
        self.transact_page(found.snapshot, None, |tx, _| {
            let mut delta = DigestSum::default();
            let known: Option<(SnapshotId, i64, String)> = tx
                .prepare_cached(
                    "SELECT snapshot, scans, body FROM statistics_qr_codes WHERE id = ?1
                     ORDER BY snapshot DESC LIMIT 1",
                )?
                .query_row([found.code], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            if let Some((snapshot, scans, body)) = known {
                delta.sub(digest::statistics(found.code, snapshot, scans, &body));
            }
            delta.add(digest::statistics(found.code, found.snapshot, found.scans, found.body));
            tx.prepare_cached("INSERT OR REPLACE INTO statistics_qr_codes VALUES(?1, ?2, ?3, ?4)")?
                .execute((found.code, found.snapshot, found.scans, found.body))?;
            add_to_sum(tx, found.snapshot, Resource::QrCodes, delta)?;
            touch(tx, found.snapshot, found.now, found.usage)?;
            Ok::<_, TransactionError>(())
        })
    }
}
