//! Checksums over data that no snapshot's digest covers: the list of snapshots, the account, sent
//! values, runs, id mappings. They are stored in `meta`, and `check` recomputes them from the rows.

use rusqlite::{Connection, OptionalExtension};

use crate::model::{RunId, SnapshotId};
use crate::vault::digest::DigestSum;
use crate::vault::version_rows::append_bytes;
use crate::vault::{Transaction, TransactionError};

/// The rows that a checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumScope {
    /// Number, times, tag, scope and digest of every snapshot.
    Snapshots,
    /// The service and the account.
    Identity,
    /// The sent values.
    Sent,
    /// Every run.
    Runs,
    /// The steps of every run.
    Steps,
    /// The id mappings.
    Ids,
}

impl ChecksumScope {
    pub const ALL: [Self; 6] =
        [Self::Snapshots, Self::Identity, Self::Sent, Self::Runs, Self::Steps, Self::Ids];

    /// The message of `check` if the rows do not match the checksum.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Snapshots => "the list of snapshots does not match its checksum",
            Self::Identity => "the service or the account's id does not match its checksum",
            Self::Sent => "the sent values do not match their checksum",
            Self::Runs => "the list of runs does not match its checksum",
            Self::Steps => "the steps of the runs do not match their checksum",
            Self::Ids => "the map of old and new ids does not match its checksum",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Snapshots => "sum of snapshots",
            Self::Identity => "sum of identity",
            Self::Sent => "sum of sent",
            Self::Runs => "sum of runs",
            Self::Steps => "sum of steps",
            Self::Ids => "sum of ids",
        }
    }

    /// The checksum of the present rows.
    pub fn recompute(self, db: &Connection) -> Result<DigestSum, TransactionError> {
        match self {
            Self::Snapshots => rows(db, SNAPSHOT, []),
            Self::Identity => identity(db),
            Self::Sent => sent_rows(db, "", []),
            Self::Runs => rows(db, RUN, []),
            Self::Steps => rows(db, STEP, []),
            Self::Ids => rows(db, IDS, []),
        }
    }
}

const SNAPSHOT: &str = "SELECT snapshot, started, finished, forgotten, tag, scope, digest, chain
    FROM snapshot";
const SENT: &str = "SELECT resource, key, field, value, sent FROM sent";
const SENT_SPAN: &str = "SELECT resource, key, field, since, until FROM sent";
const RUN: &str = "SELECT run, command, status, started, finished, before, after, plan_id, plan,
    asked, touched, requests FROM run";
const STEP: &str = "SELECT run, step, spec, state, attempts, sent, answered, id, message, verified,
    remark FROM step";
const IDS: &str = "SELECT origin, resource, old, new, run FROM id_map";

/// The stored checksum; zero if there is none.
pub(super) fn read(db: &Connection, scope: ChecksumScope) -> Result<DigestSum, TransactionError> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    let stored: Option<String> =
        db.prepare_cached(sql)?.query_row([scope.key()], |row| row.get(0)).optional()?;
    let Some(stored) = stored else { return Ok(DigestSum::default()) };
    blake3::Hash::from_hex(&stored)
        .map(|sum| DigestSum::from_bytes(*sum.as_bytes()))
        .map_err(|_| TransactionError::Damaged(format!("the {} is not a checksum", scope.key())))
}

pub(super) fn write(
    tx: &Transaction<'_>,
    scope: ChecksumScope,
    sum: DigestSum,
) -> Result<(), TransactionError> {
    let sql = "INSERT INTO meta VALUES(?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    let text = blake3::Hash::from_bytes(sum.bytes()).to_hex();
    tx.prepare_cached(sql)?.execute((scope.key(), text.as_str()))?;
    Ok(())
}

/// The checksum of the account's identity.
pub(super) fn identity(db: &Connection) -> Result<DigestSum, TransactionError> {
    rows(db, "SELECT key, value FROM meta WHERE key IN ('service', 'account')", [])
}

/// Runs `work`, which changes one snapshot's row, and updates the checksum.
pub(super) fn snapshot<T>(
    tx: &Transaction<'_>,
    number: SnapshotId,
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let sql = format!("{SNAPSHOT} WHERE snapshot = ?1");
    update(tx, ChecksumScope::Snapshots, || rows(tx, &sql, [number]), work)
}

/// Runs `work`, which changes versions of one sent value, and updates the checksum.
pub(super) fn sent<T>(
    tx: &Transaction<'_>,
    row: (&str, &str, &str),
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let one = " AND resource = ?1 AND key = ?2 AND field = ?3";
    update(tx, ChecksumScope::Sent, || sent_rows(tx, one, row), work)
}

/// Runs `work`, which may change all sent values, and updates the checksum.
pub(super) fn all_sent<T>(
    tx: &Transaction<'_>,
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    update(tx, ChecksumScope::Sent, || sent_rows(tx, "", []), work)
}

/// The checksum of sent values and of their spans. A value from a format without spans, which every
/// snapshot shows, is summed without a span: so its old checksum remains valid.
fn sent_rows(
    db: &Connection,
    which: &str,
    params: impl rusqlite::Params + Clone,
) -> Result<DigestSum, TransactionError> {
    let mut sum = rows(db, &format!("{SENT} WHERE TRUE{which}"), params.clone())?;
    let spans = format!("{SENT_SPAN} WHERE (since <> 0 OR until IS NOT NULL){which}");
    sum.plus(rows(db, &spans, params)?);
    Ok(sum)
}

/// Runs `work`, which changes one run's row, and updates the checksum.
pub(super) fn run<T>(
    tx: &Transaction<'_>,
    number: RunId,
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let sql = format!("{RUN} WHERE run = ?1");
    update(tx, ChecksumScope::Runs, || rows(tx, &sql, [number]), work)
}

/// Runs `work`, which changes these steps of a run, and updates the checksum.
pub(super) fn steps<T>(
    tx: &Transaction<'_>,
    run: RunId,
    steps: &[u32],
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let sql = format!("{STEP} WHERE run = ?1 AND step = ?2");
    let now = || {
        steps.iter().try_fold(DigestSum::default(), |mut sum, step| {
            sum.plus(rows(tx, &sql, (run, step))?);
            Ok(sum)
        })
    };
    update(tx, ChecksumScope::Steps, now, work)
}

/// Runs `work`, which may change all steps of a run, and updates the checksum.
pub(super) fn all_steps<T>(
    tx: &Transaction<'_>,
    run: RunId,
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let sql = format!("{STEP} WHERE run = ?1");
    update(tx, ChecksumScope::Steps, || rows(tx, &sql, [run]), work)
}

/// Runs `work`, which changes one id mapping, and updates the checksum.
pub(super) fn id_map<T>(
    tx: &Transaction<'_>,
    row: (&str, &str, i64),
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let sql = format!("{IDS} WHERE origin = ?1 AND resource = ?2 AND old = ?3");
    update(tx, ChecksumScope::Ids, || rows(tx, &sql, row), work)
}

fn update<T>(
    tx: &Transaction<'_>,
    scope: ChecksumScope,
    now: impl Fn() -> Result<DigestSum, TransactionError>,
    work: impl FnOnce() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let mut sum = read(tx, scope)?;
    sum.minus(now()?);
    let done = work()?;
    sum.plus(now()?);
    write(tx, scope, sum)?;
    Ok(done)
}

/// The sum of the hashes of the rows that `sql` selects.
fn rows(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<DigestSum, TransactionError> {
    let mut select = db.prepare_cached(sql)?;
    let columns = select.column_count();
    let mut rows = select.query(params)?;
    let (mut sum, mut text) = (DigestSum::default(), Vec::new());
    while let Some(row) = rows.next()? {
        text.clear();
        for at in 0..columns {
            let begin = text.len();
            text.extend_from_slice(&[0; 8]);
            append_bytes(row.get_ref(at)?, &mut text);
            let length = (text.len() - begin - 8) as u64;
            text[begin..begin + 8].copy_from_slice(&length.to_le_bytes());
        }
        // As `digest::fields` of the columns, which is slower for many short ones.
        sum.add(blake3::hash(&text));
    }
    Ok(sum)
}
