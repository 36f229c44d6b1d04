//! Snapshots: beginning, reading and finishing them.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row};

use super::digest::{DigestSum, fields};
use crate::clock::Timestamp;
use crate::model::named::named;
use crate::model::{Resource, SnapshotId};
use crate::vault::version_rows::{TemplateCache, bytes};
use crate::vault::{Transaction, TransactionError, Vault, VaultError, checksums, forget};

named! {
    /// The state of a snapshot.
    pub enum SnapshotStatus {
        /// Unfinished: a crawl is running, or was interrupted and can be continued.
        Running = "running",
        /// Contains all records of the account, except excluded resources.
        Complete = "complete",
        /// Some records could not be read; the outcomes say which.
        Partial = "partial",
    }
}

named! {
    /// How reading one resource ended.
    pub enum ReadState {
        /// Not read yet.
        Pending = "pending",
        /// Every record was read, in a listing that is proven complete and consistent.
        Complete = "complete",
        /// The listing kept changing while it was read. Records are as last read; none is removed.
        Drifted = "drifted",
        /// The account does not have this resource on the service.
        NotOffered = "not_offered",
        /// The resource could not be read; records are as in the snapshot before.
        Failed = "failed",
        /// The resource was not requested; records are as in the snapshot before.
        Skipped = "skipped",
        /// The configuration excludes the resource; records are as in the snapshot before.
        Excluded = "excluded",
    }
}

/// The result of one resource in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceOutcome {
    /// The resource.
    pub resource: Resource,
    /// How reading it ended.
    pub state: ReadState,
    /// Number of records that the snapshot shows.
    pub records: u64,
    /// Records that the snapshot before does not show.
    pub added: u64,
    /// Records with other fields than in the snapshot before.
    pub changed: u64,
    /// Records that only the snapshot before shows.
    pub removed: u64,
    /// What is missing or wrong, for people.
    pub message: Option<String>,
}

impl ResourceOutcome {
    /// Whether the snapshot contains all records of this resource.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let read = match self.state {
            ReadState::Complete => true,
            ReadState::NotOffered => self.records == 0,
            _ => false,
        };
        read && self.message.is_none()
    }

    /// Whether the snapshot contains all records that were requested: it is complete or excluded.
    #[must_use]
    pub fn is_as_requested(&self) -> bool {
        self.is_complete() || self.state == ReadState::Excluded
    }
}

/// The cost of a crawl so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestUsage {
    /// Number of requests sent.
    pub requests: u64,
    /// Number of responses with status 429.
    pub throttled: u64,
    /// Time spent waiting for the rate limit and between retries.
    pub waited: Duration,
}

impl RequestUsage {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            throttled: self.throttled + other.throttled,
            waited: self.waited + other.waited,
        }
    }
}

/// One mirror of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of the snapshot, from 1.
    pub number: SnapshotId,
    /// The state of the snapshot.
    pub status: SnapshotStatus,
    /// When it began.
    pub started: Timestamp,
    /// When the crawl last committed a page.
    pub touched: Timestamp,
    /// When it finished; `None` while it is running.
    pub finished: Option<Timestamp>,
    /// When it was forgotten; its records can no longer be read.
    pub forgotten: Option<Timestamp>,
    /// The user's name for it.
    pub tag: Option<String>,
    /// The cost of its crawl.
    pub usage: RequestUsage,
    /// Digest of its content in hexadecimal; `None` while it is running.
    pub digest: Option<String>,
    /// The result of each resource, in the order of the table.
    pub outcomes: Vec<ResourceOutcome>,
    /// A run made it, of only the resources that the run writes. It does not count as a backup.
    pub of_run: bool,
}

impl Snapshot {
    /// The result of `resource`.
    #[must_use]
    pub fn outcome(&self, resource: Resource) -> Option<&ResourceOutcome> {
        self.outcomes.iter().find(|outcome| outcome.resource == resource)
    }

    /// Number of records that it shows.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.records).sum()
    }
}

const SELECT: &str = "SELECT snapshot, status, started, touched, finished, forgotten, tag,
    requests, throttled, waited, lower(hex(digest)) FROM snapshot";

impl Vault {
    /// Begins a snapshot of the resources in `scope`, and returns its number. Until records are
    /// stored, it shows the records of the snapshot before.
    pub fn begin(
        &mut self,
        now: Timestamp,
        tag: Option<&str>,
        scope: &[Resource],
    ) -> Result<SnapshotId, VaultError> {
        self.begin_excluding(now, tag, scope, &[])
    }

    /// Like [`Vault::begin`], with the resources that the configuration excludes.
    pub fn begin_excluding(
        &mut self,
        now: Timestamp,
        tag: Option<&str>,
        scope: &[Resource],
        excluded: &[Resource],
    ) -> Result<SnapshotId, VaultError> {
        self.transact(|tx, _| {
            let last: Option<SnapshotId> =
                tx.query_row("SELECT max(snapshot) FROM snapshot", [], |row| row.get(0))?;
            let number = last.unwrap_or_default().0.checked_add(1).map(SnapshotId);
            let number =
                number.ok_or_else(|| TransactionError::Damaged("no number is left".to_owned()))?;
            let insert = "INSERT INTO snapshot(snapshot, status, started, touched, tag, scope)
                          VALUES(?1, 'running', ?2, ?2, ?3, ?4)";
            checksums::snapshot(tx, number, || {
                Ok(tx.execute(insert, (number, now.0, tag, names(scope)))?)
            })?;
            for resource in Resource::ALL {
                let state = if scope.contains(&resource) {
                    ReadState::Pending
                } else if excluded.contains(&resource) {
                    ReadState::Excluded
                } else {
                    ReadState::Skipped
                };
                let before = previous_counts(tx, last, resource)?;
                tx.execute(
                    "INSERT INTO snapshot_resource(snapshot, resource, state, records, sum)
                     VALUES(?1, ?2, ?3, ?4, ?5)",
                    (number, resource.name(), state.name(), before.0, before.1),
                )?;
            }
            Ok(number)
        })
    }

    /// Replaces the tag of the running snapshot `number`.
    pub fn retag(&mut self, number: SnapshotId, tag: &str) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            checksums::snapshot(tx, number, || {
                let sql = "UPDATE snapshot SET tag = ?2 WHERE snapshot = ?1 AND finished IS NULL";
                tx.execute(sql, (number, tag))?;
                Ok(())
            })
        })
    }

    /// The unfinished snapshot, if there is one, and its scope.
    pub fn running(&self) -> Result<Option<(Snapshot, Vec<Resource>)>, VaultError> {
        let sql = "SELECT snapshot, scope FROM snapshot WHERE finished IS NULL
                   ORDER BY snapshot DESC LIMIT 1";
        let found: Option<(SnapshotId, String)> = self
            .db
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(|source| self.sql(source))?;
        let Some((number, scope)) = found else { return Ok(None) };
        let scope = scope.split(',').filter_map(Resource::from_name).collect();
        Ok(Some((self.snapshot(number)?, scope)))
    }

    /// Every snapshot, oldest first, including forgotten and running ones.
    pub fn all_snapshots(&self) -> Result<Vec<Snapshot>, VaultError> {
        self.select_snapshots(&format!("{SELECT} ORDER BY snapshot"), [])
    }

    /// Every readable snapshot, oldest first: finished and not forgotten.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, VaultError> {
        let sql =
            format!("{SELECT} WHERE finished IS NOT NULL AND forgotten IS NULL ORDER BY snapshot");
        self.select_snapshots(&sql, [])
    }

    /// The newest readable snapshot; with `complete`, the newest of status complete.
    pub fn newest(&self, complete: bool) -> Result<Option<Snapshot>, VaultError> {
        let sql = format!(
            "{SELECT} WHERE finished IS NOT NULL AND forgotten IS NULL
               AND (status = 'complete' OR NOT ?1) ORDER BY snapshot DESC LIMIT 1"
        );
        Ok(self.select_snapshots(&sql, [complete])?.pop())
    }

    /// The snapshot with this number.
    ///
    /// # Errors
    /// [`VaultError::NoSnapshot`] if it does not exist.
    pub fn snapshot(&self, number: SnapshotId) -> Result<Snapshot, VaultError> {
        let found = self.select_snapshots(&format!("{SELECT} WHERE snapshot = ?1"), [number])?;
        found.into_iter().next().ok_or(VaultError::NoSnapshot(number))
    }

    /// The snapshots that `condition` selects, which may include `ORDER BY` and `LIMIT`.
    pub(super) fn snapshots_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Snapshot>, VaultError> {
        self.select_snapshots(&format!("{SELECT} WHERE {condition}"), params)
    }

    fn select_snapshots(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Snapshot>, VaultError> {
        let read = || -> Result<Vec<Snapshot>, TransactionError> {
            let mut statement = self.db.prepare(sql)?;
            let mut rows = statement.query(params)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(snapshot(row, &self.db)?);
            }
            Ok(all)
        };
        read().map_err(|failure| failure.at(&self.path))
    }

    /// Number of records of `resource` that snapshot `number` shows so far.
    pub fn record_count(&self, number: SnapshotId, resource: Resource) -> Result<u64, VaultError> {
        let sql = "SELECT records FROM snapshot_resource WHERE snapshot = ?1 AND resource = ?2";
        self.db
            .query_row(sql, (number, resource.name()), |row| unsigned(row, 0))
            .map_err(|source| self.sql(source))
    }

    /// Stores how reading `resource` ended.
    pub fn conclude(
        &mut self,
        number: SnapshotId,
        resource: Resource,
        state: ReadState,
        message: Option<&str>,
    ) -> Result<(), VaultError> {
        self.transact(|tx, _| conclude(tx, number, resource, state, message))
    }

    /// Finishes a snapshot: pending resources become failed, and the status follows from the
    /// outcomes.
    ///
    /// # Errors
    /// [`VaultError::NoSnapshot`] if the snapshot is not running.
    pub fn finish(
        &mut self,
        number: SnapshotId,
        now: Timestamp,
        usage: RequestUsage,
    ) -> Result<Snapshot, VaultError> {
        let deleted_forgotten =
            self.transact(|tx, templates| end(tx, templates, number, now, usage))?;
        self.after_finish(number, deleted_forgotten)
    }

    pub(super) fn after_finish(
        &mut self,
        number: SnapshotId,
        deleted_forgotten: bool,
    ) -> Result<Snapshot, VaultError> {
        if deleted_forgotten {
            self.erase()?;
        } else {
            self.release()?;
        }
        self.snapshot(number)
    }
}

/// The time after all steps that are marked as sent and have no outcome. A snapshot that is finished
/// now may have their records, so it must not count as older, also if the clock was set back or is
/// that of another machine.
fn after_marks(tx: &Transaction<'_>) -> Result<Timestamp, TransactionError> {
    let sql = "SELECT max(sent) FROM step JOIN run USING(run)
               WHERE run.finished IS NULL AND state IN ('sent', 'unknown')";
    let last: Option<i64> = tx.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(Timestamp(last.map_or(i64::MIN, |last| last.saturating_add(1))))
}

/// Finishes snapshot `number`. Returns whether versions of forgotten snapshots were deleted.
pub(super) fn end(
    tx: &Transaction<'_>,
    templates: &mut TemplateCache,
    number: SnapshotId,
    now: Timestamp,
    usage: RequestUsage,
) -> Result<bool, TransactionError> {
    tx.execute(
        "UPDATE snapshot_resource SET state = 'failed',
           message = coalesce(message, 'the backup ended before it was read')
         WHERE snapshot = ?1 AND state = 'pending'",
        [number],
    )?;
    super::sent_values::close_replaced_codes(tx, number)?;
    let now = now.max(after_marks(tx)?);
    let complete = outcomes(tx, number)?.iter().all(ResourceOutcome::is_as_requested);
    let status = if complete { SnapshotStatus::Complete } else { SnapshotStatus::Partial };
    let end = "UPDATE snapshot SET status = ?2, finished = ?3, touched = ?3, requests = ?4,
                 throttled = ?5, waited = ?6 WHERE snapshot = ?1 AND finished IS NULL";
    let (requests, throttled) = (signed(usage.requests), signed(usage.throttled));
    let waited = signed(u64::try_from(usage.waited.as_millis()).unwrap_or(u64::MAX));
    let end_values = (number, status.name(), now.0, requests, throttled, waited);
    checksums::snapshot(tx, number, || match tx.execute(end, end_values)? {
        1 => seal(tx, number),
        _ => Err(TransactionError::NoSnapshot(number)),
    })?;
    let deleted_forgotten = forget::merge_pending(tx, templates, number)?;
    tx.execute_batch("DELETE FROM listing; DELETE FROM listing_page;")?;
    Ok(deleted_forgotten)
}

/// Stores how reading `resource` ended in snapshot `number`.
pub(super) fn conclude(
    tx: &Transaction<'_>,
    number: SnapshotId,
    resource: Resource,
    state: ReadState,
    message: Option<&str>,
) -> Result<(), TransactionError> {
    tx.prepare_cached(
        "UPDATE snapshot_resource SET state = ?3, message = ?4
         WHERE snapshot = ?1 AND resource = ?2",
    )?
    .execute((number, resource.name(), state.name(), message))?;
    Ok(())
}

/// A count as SQLite's integer type.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count from SQLite's integer type; never negative in an intact vault.
fn unsigned(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|count| u64::try_from(count).unwrap_or(0))
}

fn names(scope: &[Resource]) -> String {
    scope.iter().map(|resource| resource.name()).collect::<Vec<_>>().join(",")
}

/// Number of records and checksum of `resource` in the snapshot before.
pub(super) fn previous_counts(
    tx: &Transaction<'_>,
    last: Option<SnapshotId>,
    resource: Resource,
) -> rusqlite::Result<(i64, [u8; 32])> {
    tx.query_row(
        "SELECT records, sum FROM snapshot_resource WHERE snapshot = ?1 AND resource = ?2",
        (last, resource.name()),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
    .optional()
    .map(|found| found.unwrap_or((0, DigestSum::default().bytes())))
}

fn snapshot(row: &Row<'_>, db: &rusqlite::Connection) -> Result<Snapshot, TransactionError> {
    let number = row.get(0)?;
    let status: String = row.get(1)?;
    let status = SnapshotStatus::from_name(&status).ok_or_else(|| {
        TransactionError::Damaged(format!("snapshot #{number} has an unknown status"))
    })?;
    let (started, outcomes) = (Timestamp(row.get(2)?), outcomes(db, number)?);
    let scoped = outcomes.iter().any(|it| it.state == ReadState::Skipped);
    Ok(Snapshot {
        number,
        status,
        of_run: scoped && is_within_run(db, number, started)?,
        started,
        touched: Timestamp(row.get(3)?),
        finished: row.get::<_, Option<_>>(4)?.map(Timestamp),
        forgotten: row.get::<_, Option<_>>(5)?.map(Timestamp),
        tag: row.get(6)?,
        usage: RequestUsage {
            requests: unsigned(row, 7)?,
            throttled: unsigned(row, 8)?,
            waited: Duration::from_millis(unsigned(row, 9)?),
        },
        digest: row.get::<_, Option<String>>(10)?.filter(|digest| !digest.is_empty()),
        outcomes,
    })
}

fn is_within_run(
    db: &rusqlite::Connection,
    number: SnapshotId,
    started: Timestamp,
) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM run WHERE before <= ?1
               AND (finished IS NULL OR finished >= ?2))";
    db.prepare_cached(sql)?.query_row((number, started.0), |row| row.get(0))
}

/// The result of each resource in snapshot `number`, in the order of the table.
pub(super) fn outcomes(
    db: &rusqlite::Connection,
    number: SnapshotId,
) -> Result<Vec<ResourceOutcome>, TransactionError> {
    let mut statement = db.prepare_cached(
        "SELECT resource, state, records, added, changed, removed, message
         FROM snapshot_resource WHERE snapshot = ?1",
    )?;
    let mut rows = statement.query([number])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let (resource, state): (String, String) = (row.get(0)?, row.get(1)?);
        let known = Resource::from_name(&resource).zip(ReadState::from_name(&state));
        let (resource, state) = known.ok_or_else(|| {
            TransactionError::Damaged(format!(
                "snapshot #{number} has an unknown resource or state"
            ))
        })?;
        all.push(ResourceOutcome {
            resource,
            state,
            records: unsigned(row, 2)?,
            added: unsigned(row, 3)?,
            changed: unsigned(row, 4)?,
            removed: unsigned(row, 5)?,
            message: row.get(6)?,
        });
    }
    all.sort_by_key(|outcome| outcome.resource);
    Ok(all)
}

/// Stores the digest of a finished snapshot and its link in the chain.
fn seal(tx: &Transaction<'_>, number: SnapshotId) -> Result<(), TransactionError> {
    let digest = digest(tx, number)?;
    let chain = chain(tx, number, &digest)?;
    tx.execute(
        "UPDATE snapshot SET digest = ?2, chain = ?3 WHERE snapshot = ?1",
        (number, digest.as_bytes(), chain.as_bytes()),
    )?;
    Ok(())
}

/// The digest of a snapshot's outcomes and of its resources' checksums.
pub(super) fn digest(
    db: &rusqlite::Connection,
    number: SnapshotId,
) -> Result<blake3::Hash, TransactionError> {
    let mut statement = db.prepare_cached(
        "SELECT resource, state, records, added, changed, removed, message, sum
         FROM snapshot_resource WHERE snapshot = ?1 ORDER BY resource",
    )?;
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut rows = statement.query([number])?;
    while let Some(row) = rows.next()? {
        for at in 0..8 {
            parts.push(bytes(row, at)?);
        }
    }
    Ok(fields(parts.iter().map(Vec::as_slice)))
}

/// The hash of the chain at a snapshot: of the previous hash, the digest and the snapshot's own
/// fields.
pub(super) fn chain(
    db: &rusqlite::Connection,
    number: SnapshotId,
    digest: &blake3::Hash,
) -> Result<blake3::Hash, TransactionError> {
    let before: Option<Vec<u8>> = db
        .query_row("SELECT chain FROM snapshot WHERE snapshot = ?1", [number.previous()], |row| {
            row.get(0)
        })
        .optional()?;
    let parts: Vec<Vec<u8>> = db.query_row(
        "SELECT snapshot, status, started, finished, tag, scope, requests, throttled, waited
         FROM snapshot WHERE snapshot = ?1",
        [number],
        |row| (0..9).map(|at| bytes(row, at)).collect(),
    )?;
    let before = before.unwrap_or_default();
    let all = [before.as_slice(), digest.as_bytes()].into_iter();
    Ok(fields(all.chain(parts.iter().map(Vec::as_slice))))
}
