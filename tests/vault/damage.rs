//! Changes every kind of content in every table of a closed vault by plain SQL. `check` must report
//! each change.

use std::path::{Path, PathBuf};

use linkvault::vault::Vault;
use rusqlite::Connection;

use super::sample;
use crate::vault::snapshot_builder::{TestService, assert_sound, contents, day, plain};

/// A closed vault, and its readable content.
pub struct Original {
    pub folder: tempfile::TempDir,
    pub bytes: Vec<u8>,
    pub contents: serde_json::Value,
}

impl Original {
    pub fn new() -> Self {
        Self::of(sample::write)
    }

    fn of(write: impl FnOnce(&Path) -> Vault) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("original.db");
        let mut vault = write(&path);
        assert_sound(&mut vault);
        let contents = contents(&mut vault, &path).unwrap();
        vault.close().unwrap();
        Self { bytes: std::fs::read(&path).unwrap(), folder, contents }
    }

    pub fn copy(&self) -> PathBuf {
        let path = self.folder.path().join("copy.db");
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(self.folder.path().join(format!("copy.db{suffix}")));
        }
        std::fs::write(&path, &self.bytes).unwrap();
        path
    }

    /// A connection to the original, to look up rows to change.
    fn unchanged(&self) -> Connection {
        plain(&self.folder.path().join("original.db"))
    }

    /// Whether the damage of a copy with this change is reported. `None` if SQLite refuses the
    /// change, or if it does not affect anything that can be read and is not reported.
    fn notices(&self, change: &str) -> Option<bool> {
        let path = self.copy();
        let db = plain(&path);
        db.execute_batch("PRAGMA writable_schema = ON").unwrap();
        match db.execute_batch(change) {
            Ok(()) => {}
            Err(error) if is_refusal(&error.to_string()) => return None,
            Err(error) => panic!("{change}: {error}"),
        }
        drop(db);
        if reported(&path) {
            return Some(true);
        }
        let found = contents(&mut Vault::open(&path).unwrap(), &path).unwrap();
        if found == self.contents { None } else { Some(false) }
    }
}

/// Whether SQLite itself refuses such a change.
fn is_refusal(error: &str) -> bool {
    ["constraint failed", "datatype mismatch", "cannot store"].iter().any(|it| error.contains(it))
}

/// Whether opening or checking the vault at `path` reports a problem.
pub fn reported(path: &Path) -> bool {
    match Vault::open(path).and_then(|mut vault| vault.check()) {
        Ok(report) => !report.problems.is_empty(),
        Err(_) => true,
    }
}

/// Tables without content of the account: the progress of a crawl, learned page sizes, the log
/// mark, and templates, which matter only if a record uses them.
const NO_CONTENT: [&str; 8] = [
    "learned",
    "listing",
    "listing_page",
    "log_mark",
    "sent_correction",
    "sqlite_sequence",
    "sqlite_stat1",
    "unused_template",
];

fn tables(db: &Connection) -> Vec<String> {
    let mut select = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .unwrap();
    let all = select.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    all.filter(|name| !NO_CONTENT.contains(&name.as_str())).collect()
}

struct Column {
    name: String,
    kind: String,
    key: bool,
}

fn columns(db: &Connection, table: &str) -> Vec<Column> {
    let mut select = db.prepare(&format!("PRAGMA table_info({table})")).unwrap();
    let all = select.query_map([], |row| {
        Ok(Column { name: row.get(1)?, kind: row.get(2)?, key: row.get::<_, i64>(5)? > 0 })
    });
    all.unwrap().map(Result::unwrap).collect()
}

/// SQL conditions for the first and the last row of a table.
fn some_rows(db: &Connection, table: &str) -> Vec<String> {
    let keys: Vec<_> = columns(db, table).into_iter().filter(|it| it.key).collect();
    let literal = |name: &str| format!("quote(\"{name}\")");
    let condition: Vec<_> =
        keys.iter().map(|key| format!("'\"{}\" = ' || {}", key.name, literal(&key.name))).collect();
    let sql = format!("SELECT {} FROM {table}", condition.join(" || ' AND ' || "));
    let mut select = db.prepare(&sql).unwrap();
    let all: Vec<String> =
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let (first, last) = (all.first().cloned(), all.last().cloned());
    let two = last.filter(|last| first.as_ref() != Some(last));
    first.into_iter().chain(two).collect()
}

/// SQL expressions for other values of a column.
fn edits(column: &Column) -> Vec<String> {
    let name = format!("\"{}\"", column.name);
    match column.kind.as_str() {
        "INTEGER" => vec![format!("coalesce({name}, 0) + 1"), "NULL".to_owned()],
        "TEXT" => vec![format!("coalesce({name}, '') || 'x'"), "NULL".to_owned()],
        "BLOB" => vec![format!("CAST(substr({name}, 2) || x'07' AS BLOB)")],
        other => panic!("{other}"),
    }
}

/// Whether the column is only the row number, which has no meaning.
fn is_number_of_row(table: &str, column: &Column) -> bool {
    table.starts_with("version_") && column.name == "version"
}

#[test]
fn every_column_of_every_table_is_checked() {
    let original = Original::new();
    let db = original.unchanged();
    let mut made = 0;
    for table in tables(&db) {
        for row in some_rows(&db, &table) {
            let columns = columns(&db, &table);
            for column in columns.iter().filter(|column| !is_number_of_row(&table, column)) {
                for edit in edits(column) {
                    let set = format!("\"{}\" = {edit}", column.name);
                    let change = format!("UPDATE {table} SET {set} WHERE {row}");
                    let Some(noticed) = original.notices(&change) else { continue };
                    made += 1;
                    assert!(noticed, "{change}");
                }
            }
        }
    }
    assert!(made > 200, "{made}");
}

#[test]
fn a_deleted_row_of_any_table_is_noticed() {
    let original = Original::new();
    let db = original.unchanged();
    for table in tables(&db) {
        for row in some_rows(&db, &table) {
            let change = format!("DELETE FROM {table} WHERE {row}");
            assert_eq!(original.notices(&change), Some(true), "{change}");
        }
    }
}

#[test]
fn an_added_row_is_noticed() {
    let original = Original::new();
    for change in [
        "INSERT INTO version_campaigns(since, until, shape, id, name)
           SELECT 1, NULL, shape, 77, name FROM version_campaigns LIMIT 1",
        "INSERT INTO version_domains(since, until, shape, id, domain)
           SELECT 1, 2, shape, 78, domain FROM version_domains LIMIT 1",
        "INSERT INTO sample_qr_codes VALUES(99, 2, 5)",
        "INSERT INTO sample_qr_codes SELECT id, 3, value FROM sample_qr_codes WHERE id = 5",
        "INSERT INTO sample_qr_codes VALUES(5, 99, 5)",
        "INSERT INTO sample_qr_codes VALUES(5, -1, 5)",
        "INSERT INTO statistics_qr_codes VALUES(3, 3, 1, '{}')",
        "INSERT INTO statistics_qr_codes SELECT id, 4, scans, body FROM statistics_qr_codes
           WHERE id = 2",
        "INSERT INTO sent VALUES('qr_codes', '4', 'type', '\"text\"', 0, 0, NULL)",
        "INSERT INTO step SELECT run, 99, spec, state, attempts, sent, answered, id, message,
           verified, remark FROM step LIMIT 1",
        "INSERT INTO run(run, command, status, started) VALUES(99, 'apply', 'complete', 0)",
        "INSERT INTO id_map VALUES('', 'campaigns', 77, 78, 1)",
        "INSERT INTO snapshot(snapshot, status, started, touched, scope)
           VALUES(6, 'running', 0, 0, 'domains')",
        "INSERT INTO snapshot SELECT 6, status, started, touched, finished, forgotten, tag, scope,
           requests, throttled, waited, digest, chain FROM snapshot WHERE snapshot = 5",
        "INSERT INTO snapshot_resource SELECT 6, resource, state, records, added, changed, removed,
           sum, message FROM snapshot_resource WHERE snapshot = 5",
        "INSERT INTO snapshot_resource SELECT 5, 'links', state, records, added, changed, removed,
           sum, message FROM snapshot_resource WHERE snapshot = 5 LIMIT 1",
    ] {
        assert_eq!(original.notices(change), Some(true), "{change}");
    }
}

#[test]
fn two_rows_that_swap_a_value_are_noticed() {
    let original = Original::new();
    let db = original.unchanged();
    let mut swapped = 0;
    for table in tables(&db) {
        let rows = some_rows(&db, &table);
        let (Some(one), Some(other)) = (rows.first(), rows.last()) else { continue };
        for column in columns(&db, &table).iter().filter(|it| !is_number_of_row(&table, it)) {
            let name = format!("\"{}\"", column.name);
            let change = format!(
                "BEGIN;
                 CREATE TEMP TABLE kept AS SELECT (SELECT {name} FROM {table} WHERE {one}) AS one,
                   (SELECT {name} FROM {table} WHERE {other}) AS other;
                 UPDATE {table} SET {name} = CASE WHEN {one} THEN (SELECT other FROM kept)
                   ELSE (SELECT one FROM kept) END
                 WHERE (({one}) OR ({other})) AND (SELECT one IS NOT other FROM kept);
                 COMMIT;"
            );
            let Some(noticed) = original.notices(&change) else { continue };
            swapped += 1;
            assert!(noticed, "{change}");
        }
    }
    assert!(swapped > 30, "{swapped}");
}

#[test]
fn a_dropped_or_edited_view_table_or_index_is_noticed() {
    let original = Original::new();
    let db = original.unchanged();
    let mut select =
        db.prepare("SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
    let all = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    for (kind, name) in all.unwrap().map(Result::unwrap) {
        let change = format!("DROP {kind} {name}");
        assert_eq!(original.notices(&change), Some(true), "{change}");
        if kind == "view" {
            let change = format!(
                "UPDATE sqlite_schema SET sql = replace(sql, 'SELECT', 'SELECT DISTINCT')
                 WHERE name = '{name}'"
            );
            assert_eq!(original.notices(&change), Some(true), "{change}");
        }
    }
}

#[test]
fn a_running_snapshot_is_checked_as_well() {
    let original = Original::of(|path| {
        let mut vault = sample::write(path);
        let mut service = TestService::begin_tagged(&mut vault, day(8), Some("running"));
        service.put(linkvault::model::Resource::Overlays, &[r#"{"id":5,"name":"new"}"#]);
        vault
    });
    for change in [
        "UPDATE snapshot SET tag = 'other' WHERE snapshot = 6",
        "UPDATE snapshot SET started = started + 1 WHERE snapshot = 6",
        "UPDATE snapshot SET scope = 'domains' WHERE snapshot = 6",
        "UPDATE snapshot SET status = 'complete' WHERE snapshot = 6",
        "UPDATE snapshot SET finished = touched WHERE snapshot = 6",
        "UPDATE snapshot SET forgotten = touched WHERE snapshot = 6",
        "DELETE FROM snapshot WHERE snapshot = 6",
        "UPDATE snapshot_resource SET records = records + 1 WHERE snapshot = 6",
        "UPDATE version_overlays SET name = 'old' WHERE id = 5",
        "UPDATE version_overlays SET since = 5 WHERE id = 5",
        "DELETE FROM version_overlays WHERE id = 5",
    ] {
        assert_eq!(original.notices(change), Some(true), "{change}");
    }
}

#[test]
fn a_span_that_begins_or_ends_in_a_forgotten_snapshot_is_noticed() {
    let original = Original::new();
    // These do not affect anything that can be read.
    for change in [
        "UPDATE version_qr_codes SET since = 4 WHERE since = 5",
        "UPDATE version_qr_codes SET until = 4 WHERE until = 5",
    ] {
        assert_eq!(original.notices(change), Some(true), "{change}");
    }
}

#[test]
fn tables_that_sqlite_tools_add_are_not_damage() {
    let original = Original::new();
    for change in [
        "CREATE VIEW mine AS SELECT name FROM campaigns",
        "CREATE INDEX mine ON version_qr_codes(name)",
        "CREATE TABLE mine(x)",
    ] {
        assert_eq!(original.notices(change), None, "{change}");
    }
}

#[test]
fn an_open_vault_notices_a_template_changed_by_another_connection() {
    let original = Original::new();
    let path = original.copy();
    let mut vault = Vault::open(&path).unwrap();
    assert_sound(&mut vault);
    let change = "UPDATE shape SET template = replace(template, 'link', 'knil')";
    plain(&path).execute_batch(change).unwrap();
    assert_ne!(vault.check().unwrap().problems, Vec::<String>::new());
}
