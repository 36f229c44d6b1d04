//! Snapshots: how one begins, what is known of it, how it ends.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row};

use super::digest::{DigestSum, fields};
use super::write::take_back;
use crate::clock::Timestamp;
use crate::model::Resource;
use crate::vault::transaction::prove_running;
use crate::vault::version_rows::{TemplateCache, bytes};
use crate::vault::{Transaction, TransactionError, Vault, VaultError, checksums, forget};

/// What a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotStatus {
    /// Not finished: a crawl works on it, or was stopped and can go on.
    Running,
    /// Holds everything the account held.
    Complete,
    /// Says in its outcomes what it lacks.
    Partial,
}

impl SnapshotStatus {
    /// The one spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Partial => "partial",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Running, Self::Complete, Self::Partial].into_iter().find(|it| it.name() == name)
    }
}

/// How reading one resource ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadState {
    /// Not read yet.
    Pending,
    /// Every record was read, in a listing proven consistent.
    Complete,
    /// The listing would not hold still; records are as last seen, none is removed.
    Drifted,
    /// The service does not offer it to this account.
    NotOffered,
    /// Could not be read; records are as last known.
    Failed,
    /// It was not asked for; records are as last known.
    Skipped,
    /// The configuration leaves it out for good; records are as last known.
    Excluded,
}

impl ReadState {
    const ALL: [Self; 7] = [
        Self::Pending,
        Self::Complete,
        Self::Drifted,
        Self::NotOffered,
        Self::Failed,
        Self::Skipped,
        Self::Excluded,
    ];

    /// The one spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Complete => "complete",
            Self::Drifted => "drifted",
            Self::NotOffered => "not_offered",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Excluded => "excluded",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// What a snapshot says of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceOutcome {
    pub resource: Resource,
    pub state: ReadState,
    /// Records that the snapshot shows.
    pub records: u64,
    /// Against the snapshot before.
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
    /// What is lacking, if anything is.
    pub message: Option<String>,
}

impl ResourceOutcome {
    /// Whether the snapshot holds all that the account had of this resource.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let read = match self.state {
            ReadState::Complete => true,
            ReadState::NotOffered => self.records == 0,
            _ => false,
        };
        read && self.message.is_none()
    }

    /// Whether the snapshot lacks nothing of it that it was meant to hold.
    #[must_use]
    pub fn is_as_requested(&self) -> bool {
        self.is_complete() || self.state == ReadState::Excluded
    }
}

/// What a crawl cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestUsage {
    pub requests: u64,
    pub throttled: u64,
    pub waited: Duration,
}

impl RequestUsage {
    /// This and `other` together.
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
    pub number: i64,
    pub status: SnapshotStatus,
    pub started: Timestamp,
    /// When the crawl last committed something.
    pub touched: Timestamp,
    pub finished: Option<Timestamp>,
    pub forgotten: Option<Timestamp>,
    pub tag: Option<String>,
    pub usage: RequestUsage,
    pub digest: Option<String>,
    pub outcomes: Vec<ResourceOutcome>,
    /// A run made it, of what the run touches alone: a look, and no backup.
    pub of_run: bool,
}

impl Snapshot {
    /// What it says of `resource`.
    #[must_use]
    pub fn outcome(&self, resource: Resource) -> Option<&ResourceOutcome> {
        self.outcomes.iter().find(|outcome| outcome.resource == resource)
    }

    /// How many records it shows.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.records).sum()
    }
}

const SELECT: &str = "SELECT snapshot, status, started, touched, finished, forgotten, tag,
    requests, throttled, waited, lower(hex(digest)) FROM snapshot";

impl Vault {
    /// Begins a snapshot of the resources in `scope`. It shows what the one
    /// before showed until records are put into it.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn begin(
        &mut self,
        now: Timestamp,
        tag: Option<&str>,
        scope: &[Resource],
    ) -> Result<i64, VaultError> {
        self.begin_excluding(now, tag, scope, &[])
    }

    /// The same, where the configuration leaves `excluded` out for good.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn begin_excluding(
        &mut self,
        now: Timestamp,
        tag: Option<&str>,
        scope: &[Resource],
        excluded: &[Resource],
    ) -> Result<i64, VaultError> {
        self.transact(|tx, _| {
            let last: Option<i64> =
                tx.query_row("SELECT max(snapshot) FROM snapshot", [], |row| row.get(0))?;
            let number = last.unwrap_or(0).checked_add(1);
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
                let before = carried(tx, last, resource)?;
                tx.execute(
                    "INSERT INTO snapshot_resource(snapshot, resource, state, records, sum)
                     VALUES(?1, ?2, ?3, ?4, ?5)",
                    (number, resource.name(), state.name(), before.0, before.1),
                )?;
            }
            Ok(number)
        })
    }

    /// Gives the running snapshot `number` this tag instead of the one it has.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn retag(&mut self, number: i64, tag: &str) -> Result<(), VaultError> {
        self.transact(|tx, _| {
            checksums::snapshot(tx, number, || {
                let sql = "UPDATE snapshot SET tag = ?2 WHERE snapshot = ?1 AND finished IS NULL";
                tx.execute(sql, (number, tag))?;
                Ok(())
            })
        })
    }

    /// The snapshot that is not finished, if there is one, and its scope.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn running(&self) -> Result<Option<(Snapshot, Vec<Resource>)>, VaultError> {
        let sql = "SELECT snapshot, scope FROM snapshot WHERE finished IS NULL
                   ORDER BY snapshot DESC LIMIT 1";
        let found: Option<(i64, String)> = self
            .db
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(|source| self.sql(source))?;
        let Some((number, scope)) = found else { return Ok(None) };
        let scope = scope.split(',').filter_map(Resource::from_name).collect();
        Ok(Some((self.snapshot(number)?, scope)))
    }

    /// Every snapshot, oldest first, the forgotten and the running included.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn all_snapshots(&self) -> Result<Vec<Snapshot>, VaultError> {
        self.select_snapshots(&format!("{SELECT} ORDER BY snapshot"), [])
    }

    /// Every snapshot that can be read back, oldest first.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, VaultError> {
        let sql =
            format!("{SELECT} WHERE finished IS NOT NULL AND forgotten IS NULL ORDER BY snapshot");
        self.select_snapshots(&sql, [])
    }

    /// The newest snapshot that can be read back; the newest complete one if so asked.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn newest(&self, complete: bool) -> Result<Option<Snapshot>, VaultError> {
        let sql = format!(
            "{SELECT} WHERE finished IS NOT NULL AND forgotten IS NULL
               AND (status = 'complete' OR NOT ?1) ORDER BY snapshot DESC LIMIT 1"
        );
        Ok(self.select_snapshots(&sql, [complete])?.pop())
    }

    /// The snapshot of that number.
    ///
    /// # Errors
    /// [`VaultError::NoSnapshot`] when there is none.
    pub fn snapshot(&self, number: i64) -> Result<Snapshot, VaultError> {
        let found = self.select_snapshots(&format!("{SELECT} WHERE snapshot = ?1"), [number])?;
        found.into_iter().next().ok_or(VaultError::NoSnapshot(number))
    }

    /// The snapshots that `condition`, the end of a statement, selects.
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

    /// How many records of `resource` snapshot `number` shows so far.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn shown(&self, number: i64, resource: Resource) -> Result<u64, VaultError> {
        let sql = "SELECT records FROM snapshot_resource WHERE snapshot = ?1 AND resource = ?2";
        self.db
            .query_row(sql, (number, resource.name()), |row| unsigned(row, 0))
            .map_err(|source| self.sql(source))
    }

    /// Records how reading `resource` ended.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn conclude(
        &mut self,
        number: i64,
        resource: Resource,
        state: ReadState,
        message: Option<&str>,
    ) -> Result<(), VaultError> {
        self.transact(|tx, _| conclude(tx, number, resource, state, message))
    }

    /// Ends a snapshot: what is still pending counts as failed, and the status
    /// follows from the outcomes.
    ///
    /// # Errors
    /// When the vault cannot be written, or the snapshot is not running.
    pub fn finish(
        &mut self,
        number: i64,
        now: Timestamp,
        usage: RequestUsage,
    ) -> Result<Snapshot, VaultError> {
        let forgot = self.transact(|tx, shapes| end(tx, shapes, number, now, usage))?;
        self.finished(number, forgot)
    }

    /// Takes back all that was put into the running snapshot `number`, and ends it: it shows
    /// what the one before showed, and each resource that it was to hold counts as failed.
    ///
    /// # Errors
    /// As [`Vault::finish`]; nothing is then taken back.
    pub fn discard(
        &mut self,
        number: i64,
        why: &str,
        now: Timestamp,
        usage: RequestUsage,
    ) -> Result<Snapshot, VaultError> {
        // Held pages belong to what is taken back.
        self.drop_held();
        let forgot = self.transact(|tx, shapes| {
            prove_running(tx, number)?;
            take_back(tx, shapes, number, why)?;
            end(tx, shapes, number, now, usage)
        })?;
        self.finished(number, forgot)
    }

    fn finished(&mut self, number: i64, forgot: bool) -> Result<Snapshot, VaultError> {
        if forgot {
            self.erase()?;
        } else {
            self.release()?;
        }
        self.snapshot(number)
    }
}

/// Ends snapshot `number`. Whether that dropped what forgotten snapshots had left.
fn end(
    tx: &Transaction<'_>,
    shapes: &mut TemplateCache,
    number: i64,
    now: Timestamp,
    usage: RequestUsage,
) -> Result<bool, TransactionError> {
    tx.execute(
        "UPDATE snapshot_resource SET state = 'failed',
           message = coalesce(message, 'the backup ended before it was read')
         WHERE snapshot = ?1 AND state = 'pending'",
        [number],
    )?;
    super::sent_values::end_of_replaced_codes(tx, number)?;
    let whole = outcomes(tx, number)?.iter().all(ResourceOutcome::is_as_requested);
    let status = if whole { SnapshotStatus::Complete } else { SnapshotStatus::Partial };
    let end = "UPDATE snapshot SET status = ?2, finished = ?3, touched = ?3, requests = ?4,
                 throttled = ?5, waited = ?6 WHERE snapshot = ?1 AND finished IS NULL";
    let (requests, throttled) = (signed(usage.requests), signed(usage.throttled));
    let waited = signed(u64::try_from(usage.waited.as_millis()).unwrap_or(u64::MAX));
    let end_values = (number, status.name(), now.0, requests, throttled, waited);
    checksums::snapshot(tx, number, || match tx.execute(end, end_values)? {
        1 => seal(tx, number),
        _ => Err(TransactionError::NoSnapshot(number)),
    })?;
    let forgot = forget::settle(tx, shapes, number)?;
    tx.execute_batch("DELETE FROM listing; DELETE FROM listing_page;")?;
    Ok(forgot)
}

/// Writes how reading `resource` ended into snapshot `number`.
pub(super) fn conclude(
    tx: &Transaction<'_>,
    number: i64,
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

/// A count as SQLite holds it.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count as SQLite gave it; never negative in a sound vault.
fn unsigned(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|count| u64::try_from(count).unwrap_or(0))
}

fn names(scope: &[Resource]) -> String {
    scope.iter().map(|resource| resource.name()).collect::<Vec<_>>().join(",")
}

/// What the snapshot before showed of `resource`: number of records and sum.
pub(super) fn carried(
    tx: &Transaction<'_>,
    last: Option<i64>,
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
    number: i64,
    started: Timestamp,
) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM run WHERE before <= ?1
               AND (finished IS NULL OR finished >= ?2))";
    db.prepare_cached(sql)?.query_row((number, started.0), |row| row.get(0))
}

/// What snapshot `number` says of each resource, in the order of the table.
pub(super) fn outcomes(
    db: &rusqlite::Connection,
    number: i64,
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

/// Writes a finished snapshot's digest, and ties it to the chain.
fn seal(tx: &Transaction<'_>, number: i64) -> Result<(), TransactionError> {
    let digest = digest(tx, number)?;
    let chain = chain(tx, number, &digest)?;
    tx.execute(
        "UPDATE snapshot SET digest = ?2, chain = ?3 WHERE snapshot = ?1",
        (number, digest.as_bytes(), chain.as_bytes()),
    )?;
    Ok(())
}

/// The digest over all that a snapshot says, from its resources' sums.
pub(super) fn digest(
    db: &rusqlite::Connection,
    number: i64,
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

/// The chain's value at a snapshot: the one before, and what this one adds.
pub(super) fn chain(
    db: &rusqlite::Connection,
    number: i64,
    digest: &blake3::Hash,
) -> Result<blake3::Hash, TransactionError> {
    let before: Option<Vec<u8>> = db
        .query_row("SELECT chain FROM snapshot WHERE snapshot = ?1", [number - 1], |row| row.get(0))
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
