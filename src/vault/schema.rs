//! The vault's tables and views, generated from the resource table, and the migrations between
//! formats.
//!
//! Users read the views; the tables may change with the format. A `version_…` table holds the
//! versions of records: snapshots from `since` up to, but not including, `until` show a version.
//! Rows are only appended, so a vault grows with the number of changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::model::{FieldKind, Resource, Role};
pub use crate::vault::columns::{columns, counter_place, key_columns, version_table};
use crate::vault::{triggers, wal_mark};

/// Format 3: sent values with versions. A value from an earlier format is shown by every snapshot,
/// because that format does not store when it was first sent.
///
/// `sent_correction` lists the values that the open transaction may change in finished snapshots.
/// It is empty outside of a transaction.
const FORMAT_3: &str = "
ALTER TABLE sent RENAME TO sent_before;
CREATE TABLE sent(
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  sent INTEGER NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER,
  PRIMARY KEY(resource, key, field, since)
) STRICT, WITHOUT ROWID;
INSERT INTO sent SELECT resource, key, field, value, sent, 0, NULL FROM sent_before;
DROP TABLE sent_before;
CREATE TABLE sent_correction(
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  field TEXT NOT NULL,
  PRIMARY KEY(resource, key, field)
) STRICT, WITHOUT ROWID;
";

/// `PRAGMA application_id` of every vault: "LKVT".
pub const APPLICATION_ID: i32 = 0x4c4b_5654;

/// The newest format that this program supports.
pub const FORMAT: i64 = MIGRATIONS.len() as i64;

type Migration = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// Index `n` migrates format `n` to `n + 1`. Format 0 is an empty file.
pub const MIGRATIONS: &[Migration] = &[first_format, second_format, third_format];

/// Migrates `db` from its format to the last of `migrations`, in one transaction. Returns the
/// format it had.
pub fn migrate(db: &mut Connection, migrations: &[Migration]) -> rusqlite::Result<i64> {
    let from = format(db)?;
    if pending(migrations, from).is_empty() {
        return Ok(from);
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = format(&tx)?;
    let pending = pending(migrations, from);
    if pending.is_empty() {
        // Another process has migrated it meanwhile.
        return Ok(from);
    }
    for step in pending {
        step(&tx)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", migrations.len() as i64)?;
    tx.commit()?;
    Ok(from)
}

fn format(db: &Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The migrations from format `from` to the newest.
fn pending(migrations: &[Migration], from: i64) -> &[Migration] {
    usize::try_from(from).map_or(&[], |from| migrations.get(from..).unwrap_or_default())
}

/// The SQL of every table, index, view and trigger of a vault, by name.
pub fn definitions(db: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut all = db.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    all.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// What [`definitions`] returns for an intact vault of the newest format.
pub fn expected() -> rusqlite::Result<&'static BTreeMap<String, String>> {
    Ok(&model()?.definitions)
}

/// What kind of thing a [`SchemaDifference`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaPart {
    /// A table: a view in its place could return any data.
    Table,
    /// A trigger, missing, changed or foreign.
    Trigger,
    /// A view or an index. No command depends on it.
    Other,
}

/// A difference between the schema of a vault and the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaDifference {
    /// What differs.
    pub part: SchemaPart,
    /// The difference as a sentence.
    pub text: String,
}

/// All differences between the schema of `db` and that of an intact vault. `check` reports them,
/// and a vault with some of them is not opened. Tables, views and indexes that other tools added
/// are none.
pub fn differences(db: &Connection) -> rusqlite::Result<Vec<SchemaDifference>> {
    let found = definitions(db)?;
    if is_expected(&found) {
        return Ok(Vec::new());
    }
    let expected = expected()?;
    let changed = expected.iter().filter(|(name, sql)| found.get(*name) != Some(*sql));
    let changed = changed.map(|(name, sql)| {
        let (part, what) = match sql.split_whitespace().nth(1) {
            Some("TABLE") => (SchemaPart::Table, "table"),
            Some("TRIGGER") => (SchemaPart::Trigger, "trigger"),
            Some("VIEW") => (SchemaPart::Other, "view"),
            _ => (SchemaPart::Other, "index"),
        };
        SchemaDifference { part, text: format!("the {what} {name} has a wrong definition") }
    });
    // SQLite goes by the SQL text, not by the `type` column.
    let foreign = found.iter().filter(|(name, sql)| {
        expected.get(*name) != Some(*sql) && sql.to_ascii_lowercase().contains("trigger")
    });
    let foreign = foreign.map(|(name, _)| SchemaDifference {
        part: SchemaPart::Trigger,
        text: format!("the trigger {name} is not part of the schema"),
    });
    let mut all: Vec<_> = changed.chain(foreign).collect();
    // Tables first: without them nothing else can be read.
    all.sort_by_key(|it| it.part != SchemaPart::Table);
    Ok(all)
}

/// Whether `found` is what [`expected`] returns. To create that takes several milliseconds, so that
/// it is compared with a known hash instead.
fn is_expected(found: &BTreeMap<String, String>) -> bool {
    hash(found).to_hex().as_str() == EXPECTED_HASH
}

/// The [`hash`] of [`expected`]. A test compares them.
const EXPECTED_HASH: &str = "700dc50e9a440e6ee93bd9eed33d8913cc6b763da62d08e4fff22590d2a4687a";

fn hash(definitions: &BTreeMap<String, String>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for text in definitions.iter().flat_map(|(name, sql)| [name, sql]) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize()
}

/// The bytes of an empty vault.
pub fn empty() -> rusqlite::Result<&'static [u8]> {
    Ok(&model()?.file)
}

/// An empty vault of the newest format.
struct Model {
    definitions: BTreeMap<String, String>,
    file: Vec<u8>,
}

fn model() -> rusqlite::Result<&'static Model> {
    static MODEL: OnceLock<Model> = OnceLock::new();
    if let Some(known) = MODEL.get() {
        return Ok(known);
    }
    let mut fresh = Connection::open_in_memory()?;
    fresh.execute_batch(INCREMENTAL_VACUUM)?;
    let tx = fresh.transaction()?;
    newest_format(&tx)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", FORMAT)?;
    tx.commit()?;
    let (definitions, file) = (definitions(&fresh)?, fresh.serialize(rusqlite::MAIN_DB)?.to_vec());
    Ok(MODEL.get_or_init(|| Model { definitions, file }))
}

/// Creates the same schema as all [`MIGRATIONS`] together, in an order that is faster: each `ALTER
/// TABLE` makes SQLite parse the whole schema, so these run first.
fn newest_format(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    for sql in [COMMON, JOURNAL_TABLES, FORMAT_3, UNUSED_TEMPLATES, wal_mark::TABLE] {
        tx.execute_batch(sql)?;
    }
    for resource in Resource::ALL {
        tx.execute_batch(&tables(resource))?;
        tx.execute_batch(&views(resource))?;
    }
    for sql in [COMMON_VIEWS, DROP_RUNS_VIEW, RUNS_VIEW] {
        tx.execute_batch(sql)?;
    }
    triggers(tx)
}

fn first_format(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(COMMON)?;
    for resource in Resource::ALL {
        tx.execute_batch(&tables(resource))?;
        tx.execute_batch(&views(resource))?;
    }
    tx.execute_batch(COMMON_VIEWS)
}

/// Format 2: the journal of runs.
fn second_format(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    for sql in [DROP_RUNS_VIEW, JOURNAL_TABLES, RUNS_VIEW] {
        tx.execute_batch(sql)?;
    }
    Ok(())
}

/// Format 3: finished snapshots are read-only.
///
/// The file's auto-vacuum mode belongs to this format too. SQLite cannot change it inside a
/// transaction, so [`INCREMENTAL_VACUUM`] is applied when a vault is created or opened for writing.
fn third_format(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(UNUSED_TEMPLATES)?;
    tx.execute_batch(wal_mark::TABLE)?;
    tx.execute_batch(FORMAT_3)?;
    triggers(tx)
}

fn triggers(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(&triggers::of_snapshots())?;
    tx.execute_batch(&triggers::of_sent())?;
    for resource in Resource::ALL {
        tx.execute_batch(&triggers::of_versions(resource))?;
        for series in series_tables(resource) {
            tx.execute_batch(&triggers::of_series(&series))?;
        }
    }
    Ok(())
}

/// Lets SQLite return free pages to the file system without rewriting the file. It takes effect
/// on an empty file, or with the next `VACUUM`.
pub const INCREMENTAL_VACUUM: &str = "PRAGMA auto_vacuum = INCREMENTAL";

const COMMON: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE shape(shape INTEGER PRIMARY KEY, template TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE snapshot(
  snapshot INTEGER PRIMARY KEY,
  status TEXT NOT NULL,
  started INTEGER NOT NULL,
  touched INTEGER NOT NULL,
  finished INTEGER,
  forgotten INTEGER,
  tag TEXT,
  scope TEXT NOT NULL,
  requests INTEGER NOT NULL DEFAULT 0,
  throttled INTEGER NOT NULL DEFAULT 0,
  waited INTEGER NOT NULL DEFAULT 0,
  digest BLOB,
  chain BLOB
) STRICT;
CREATE TABLE snapshot_resource(
  snapshot INTEGER NOT NULL,
  resource TEXT NOT NULL,
  state TEXT NOT NULL,
  records INTEGER NOT NULL,
  added INTEGER NOT NULL DEFAULT 0,
  changed INTEGER NOT NULL DEFAULT 0,
  removed INTEGER NOT NULL DEFAULT 0,
  sum BLOB NOT NULL,
  message TEXT,
  PRIMARY KEY(snapshot, resource)
) STRICT, WITHOUT ROWID;
CREATE TABLE listing(
  resource TEXT NOT NULL,
  parent INTEGER NOT NULL,
  progress TEXT NOT NULL,
  PRIMARY KEY(resource, parent)
) STRICT, WITHOUT ROWID;
CREATE TABLE listing_page(
  resource TEXT NOT NULL,
  parent INTEGER NOT NULL,
  page INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  seen BLOB NOT NULL,
  PRIMARY KEY(resource, parent, page)
) STRICT, WITHOUT ROWID;
CREATE TABLE learned(resource TEXT PRIMARY KEY, page_size INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE sent(
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  sent INTEGER NOT NULL,
  PRIMARY KEY(resource, key, field)
) STRICT, WITHOUT ROWID;
CREATE TABLE run(
  run INTEGER PRIMARY KEY,
  command TEXT NOT NULL,
  status TEXT NOT NULL,
  started INTEGER NOT NULL,
  finished INTEGER,
  before INTEGER,
  after INTEGER
) STRICT;
CREATE TABLE statistics_qr_codes(
  id INTEGER NOT NULL,
  snapshot INTEGER NOT NULL,
  scans INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY(id, snapshot)
) STRICT, WITHOUT ROWID;
";

const COMMON_VIEWS: &str = "
CREATE VIEW snapshots AS
  SELECT s.snapshot, s.status,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.started / 1000, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.finished / 1000, 'unixepoch') AS finished,
    s.tag, sum(r.records) AS records, sum(r.added) AS added, sum(r.changed) AS changed,
    sum(r.removed) AS removed, s.requests, lower(hex(s.digest)) AS digest
  FROM snapshot s JOIN snapshot_resource r USING (snapshot)
  WHERE s.finished IS NOT NULL AND s.forgotten IS NULL
  GROUP BY s.snapshot ORDER BY s.snapshot;
CREATE VIEW qr_scans AS
  SELECT c.id AS code,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.started / 1000, 'unixepoch') AS time, c.value AS scans
  FROM sample_qr_codes c JOIN snapshot s USING (snapshot)
  WHERE s.finished IS NOT NULL AND c.value IS NOT NULL ORDER BY c.id, c.snapshot;
CREATE VIEW qr_statistics AS
  SELECT c.id AS code,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.started / 1000, 'unixepoch') AS time, c.scans,
    c.body AS statistics
  FROM statistics_qr_codes c JOIN snapshot s USING (snapshot)
  WHERE s.finished IS NOT NULL ORDER BY c.id, c.snapshot;
CREATE VIEW runs AS
  SELECT run, command, status,
    strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', finished / 1000, 'unixepoch') AS finished,
    before AS snapshot_before, after AS snapshot_after
  FROM run ORDER BY run;
";

const DROP_RUNS_VIEW: &str = "DROP VIEW runs";

const JOURNAL_TABLES: &str = "
ALTER TABLE run ADD COLUMN plan_id TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN plan TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN asked TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN touched TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;
CREATE TABLE step(
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  spec TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  sent INTEGER,
  answered INTEGER,
  id INTEGER,
  message TEXT,
  verified TEXT,
  remark TEXT,
  PRIMARY KEY(run, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE id_map(
  origin TEXT NOT NULL DEFAULT '',
  resource TEXT NOT NULL,
  old INTEGER NOT NULL,
  new INTEGER NOT NULL,
  run INTEGER NOT NULL,
  PRIMARY KEY(origin, resource, old)
) STRICT, WITHOUT ROWID;
";

const RUNS_VIEW: &str = "
CREATE VIEW runs AS
  SELECT r.run, r.command, r.status,
    strftime('%Y-%m-%dT%H:%M:%SZ', r.started / 1000, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', r.finished / 1000, 'unixepoch') AS finished,
    r.before AS snapshot_before, r.after AS snapshot_after,
    count(s.step) AS steps,
    count(*) FILTER (WHERE s.state = 'done') AS done,
    count(*) FILTER (WHERE s.state = 'refused') AS refused,
    count(*) FILTER (WHERE s.state = 'skipped') AS skipped,
    count(*) FILTER (WHERE s.state = 'unknown') AS unknown,
    count(*) FILTER (WHERE s.verified = 'verified') AS verified,
    r.requests
  FROM run r LEFT JOIN step s USING (run) GROUP BY r.run ORDER BY r.run;
";

/// Format 3: the templates that `forget` may delete. It fills and empties this table in one
/// transaction.
const UNUSED_TEMPLATES: &str = "
CREATE TABLE unused_template(shape INTEGER PRIMARY KEY) STRICT;
";

/// The names of the tables of a resource's series: counter samples and statistics.
fn series_tables(resource: Resource) -> Vec<String> {
    let named = |kind: &str| format!("{kind}_{resource}");
    let series = ["sample", "statistics"].map(named);
    if resource.spec().counter().is_some() { series.into() } else { Vec::new() }
}

fn tables(resource: Resource) -> String {
    let mut sql = format!(
        "CREATE TABLE {}(\n  version INTEGER PRIMARY KEY,\n  since INTEGER NOT NULL,\n  \
         until INTEGER,\n  shape INTEGER NOT NULL,\n",
        version_table(resource)
    );
    for field in columns(resource) {
        let kind = match field.kind {
            FieldKind::Int | FieldKind::Bool => "INTEGER",
            _ => "TEXT",
        };
        let not_null = if field.role == Role::Identity { " NOT NULL" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(sql, "  \"{}\" {kind}{not_null},", field.name);
    }
    let keys: Vec<_> = key_columns(resource).map(|name| format!("\"{name}\"")).collect();
    let _ = write!(
        sql,
        "  extra TEXT\n) STRICT;\nCREATE UNIQUE INDEX open_{resource} ON {}({}) \
         WHERE until IS NULL;\n",
        version_table(resource),
        keys.join(", ")
    );
    if resource.spec().counter().is_some() {
        let _ = writeln!(
            sql,
            "CREATE TABLE sample_{resource}(\n  id INTEGER NOT NULL,\n  snapshot INTEGER NOT \
             NULL,\n  value INTEGER,\n  PRIMARY KEY(id, snapshot)\n) STRICT, WITHOUT \
             ROWID;"
        );
    }
    sql
}

fn views(resource: Resource) -> String {
    let newest = "SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS \
                  NULL";
    let select = |at: &str| {
        let fields = resource.spec().read_fields().map(|field| match field.role {
            Role::Counter => format!(
                "(SELECT value FROM sample_{resource} c WHERE c.id = v.id AND c.snapshot <= {at} \
                 ORDER BY c.snapshot DESC LIMIT 1) AS {}",
                field.name
            ),
            _ => format!("v.\"{}\"", field.name),
        });
        fields.collect::<Vec<_>>().join(", ")
    };
    let table = version_table(resource);
    let current = select("n.newest");
    // A version that the running snapshot closed counts as current.
    let ended = "CASE WHEN v.until <= n.newest THEN v.until END";
    let history = select(&format!("coalesce({ended} - 1, n.newest)"));
    let time = |snapshot: &str| {
        format!(
            "(SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot \
             WHERE snapshot = {snapshot})"
        )
    };
    let (from, to) = (time("v.since"), time(ended));
    format!(
        "CREATE VIEW {resource} AS\n  SELECT {current}\n  FROM {table} v, ({newest}) AS n\n  \
         WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);\n\
         CREATE VIEW {resource}_history AS\n  SELECT v.since AS since_snapshot, {ended} AS \
         until_snapshot,\n    {from} AS since, {to} AS until,\n    {history}\n  FROM {table} v, \
         ({newest}) AS n\n  WHERE v.since <= n.newest;\n"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_migration_that_fails_leaves_the_file_as_it_was() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db, &MIGRATIONS[..1]).unwrap();
        let broken: &[Migration] = &[
            first_format,
            |tx| tx.execute_batch("CREATE TABLE second(x)"),
            |_| Err(rusqlite::Error::InvalidQuery),
        ];
        migrate(&mut db, broken).unwrap_err();
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, 1);
        assert!(db.prepare("SELECT * FROM second").is_err());
    }

    #[test]
    fn a_vault_of_an_older_format_gets_every_migration() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db, &MIGRATIONS[..1]).unwrap();
        let longer: &[Migration] = &[
            |_| Err(rusqlite::Error::InvalidQuery),
            |tx| tx.execute_batch("CREATE TABLE second(x)"),
            |tx| tx.execute_batch("ALTER TABLE second ADD COLUMN y"),
        ];
        migrate(&mut db, longer).unwrap();
        db.prepare("SELECT x, y FROM second").unwrap();
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, 3);
    }

    #[test]
    fn the_hash_of_the_schema_is_known() {
        let expected = expected().unwrap();
        assert_eq!(hash(expected).to_hex().as_str(), EXPECTED_HASH);
        assert!(is_expected(expected));
        let mut other = expected.clone();
        other.insert("a_table".to_owned(), "CREATE TABLE a_table(x)".to_owned());
        assert!(!is_expected(&other));
    }

    #[test]
    fn a_new_vault_equals_a_migrated_one() {
        let mut migrated = Connection::open_in_memory().unwrap();
        migrated.execute_batch(INCREMENTAL_VACUUM).unwrap();
        migrate(&mut migrated, MIGRATIONS).unwrap();
        assert_eq!(definitions(&migrated).unwrap(), *expected().unwrap());
        let mut fresh = Connection::open_in_memory().unwrap();
        let file = empty().unwrap();
        fresh.deserialize_read_exact(rusqlite::MAIN_DB, file, file.len(), true).unwrap();
        for name in ["application_id", "user_version", "auto_vacuum"] {
            let of =
                |db: &Connection| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            assert_eq!(of(&fresh), of(&migrated), "{name}");
        }
        let rows = |db: &Connection| {
            let sql = "SELECT (SELECT mark FROM log_mark), (SELECT count(*) FROM sent)";
            db.query_row(sql, [], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?)))
        };
        assert_eq!(rows(&fresh), rows(&migrated));
    }

    /// Set when a connection waits for another that writes.
    static WAITS: AtomicBool = AtomicBool::new(false);

    #[test]
    fn two_connections_that_create_a_vault_at_once_both_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("main.db");
        let mut first = Connection::open(&file).unwrap();
        let tx = first.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let second = std::thread::spawn(move || {
            let mut second = Connection::open(&file).unwrap();
            second
                .busy_handler(Some(|_| {
                    WAITS.store(true, Ordering::SeqCst);
                    std::thread::yield_now();
                    true
                }))
                .unwrap();
            migrate(&mut second, MIGRATIONS)
        });
        // The second connection has seen an empty file by now and waits to fill it.
        while !WAITS.load(Ordering::SeqCst) && !second.is_finished() {
            std::thread::yield_now();
        }
        for step in MIGRATIONS {
            step(&tx).unwrap();
        }
        tx.pragma_update(None, "user_version", FORMAT).unwrap();
        tx.commit().unwrap();
        assert_eq!(second.join().unwrap(), Ok(FORMAT));
    }
}
