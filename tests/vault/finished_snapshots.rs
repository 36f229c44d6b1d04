//! Finished snapshots are read-only for every statement of every SQLite tool.

use std::path::PathBuf;
use std::time::Duration;

use linkvault::model::{DecodedRecord, Resource, SnapshotId};
use linkvault::vault::schema::version_table;
use linkvault::vault::snapshot::{ReadState, RequestUsage};
use linkvault::vault::statistics::StoredStatistics;
use linkvault::vault::triggers::READ_ONLY_SNAPSHOT;
use linkvault::vault::write::CrawledPage;
use linkvault::vault::{Vault, VaultError};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use super::sample;
use crate::vault::snapshot_builder::{TestService, assert_sound, campaigns, contents, day};

/// A vault with finished snapshots and a running one, and a connection of another tool to it.
struct Finished {
    vault: Vault,
    tool: Connection,
    path: PathBuf,
    running: SnapshotId,
    /// Its readable content.
    before: Value,
    _folder: TempDir,
}

impl Finished {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        let mut vault = sample::write(&path);
        let running = vault.begin(day(30), None, &Resource::ALL).unwrap();
        let before = contents(&mut vault, &path).unwrap();
        let tool = Connection::open(&path).unwrap();
        Self { vault, tool, path, running, before, _folder: folder }
    }

    #[track_caller]
    fn refuses(&mut self, change: &str) {
        let error = self.tool.execute_batch(change).expect_err(change).to_string();
        assert!(error.contains(READ_ONLY_SNAPSHOT), "{change}: {error}");
    }

    /// Asserts that the refused statements changed nothing.
    #[track_caller]
    fn assert_unchanged(mut self) {
        assert_eq!(contents(&mut self.vault, &self.path).unwrap(), self.before);
        assert_sound(&mut self.vault);
    }

    fn count(&self, table: &str) -> i64 {
        self.tool.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }
}

#[test]
fn no_statement_changes_the_rows_of_a_finished_snapshot() {
    let mut it = Finished::new();
    for column in ["status", "tag", "scope"] {
        it.refuses(&format!("UPDATE snapshot SET {column} = 'other' WHERE snapshot = 1"));
    }
    for column in ["snapshot", "started", "touched", "finished", "requests", "throttled", "waited"]
    {
        it.refuses(&format!("UPDATE snapshot SET {column} = 77 WHERE snapshot = 1"));
    }
    it.refuses("UPDATE snapshot SET digest = NULL WHERE snapshot = 1");
    it.refuses("UPDATE snapshot SET chain = x'00' WHERE snapshot = 1");
    it.refuses("DELETE FROM snapshot WHERE snapshot = 1");
    it.refuses("DELETE FROM snapshot");
    it.refuses(
        "INSERT OR REPLACE INTO snapshot(snapshot, status, started, touched, scope)
                VALUES(1, 'running', 1, 1, '')",
    );
    let resource = "snapshot_resource";
    it.refuses(&format!("UPDATE {resource} SET records = records + 1 WHERE snapshot = 1"));
    it.refuses(&format!("UPDATE {resource} SET snapshot = 1 WHERE snapshot = {}", it.running));
    it.refuses(&format!("DELETE FROM {resource} WHERE snapshot = 1"));
    it.refuses(&format!(
        "INSERT OR REPLACE INTO {resource}(snapshot, resource, state, records, sum)
         VALUES(1, 'campaigns', 'complete', 0, x'00')"
    ));
    it.assert_unchanged();
}

#[test]
fn no_statement_changes_the_versions_that_a_finished_snapshot_shows() {
    let mut it = Finished::new();
    for resource in Resource::ALL {
        let table = version_table(resource);
        assert!(it.count(&table) > 0, "{table}");
        it.refuses(&format!("DELETE FROM {table}"));
        it.refuses(&format!(
            "DELETE FROM {table} WHERE version = (SELECT min(version) FROM {table})"
        ));
        it.refuses(&format!("UPDATE {table} SET since = since + 1"));
        it.refuses(&format!("UPDATE {table} SET until = 1"));
        it.refuses(&format!("UPDATE {table} SET version = version + 1000"));
        let columns: Vec<String> = {
            let mut names =
                it.tool.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
            let names = names.query_map([], |row| row.get(0)).unwrap();
            names.map(Result::unwrap).collect()
        };
        let kept = ["version", "since", "until"];
        for column in columns.iter().filter(|name| !kept.contains(&name.as_str())) {
            it.refuses(&format!(
                "UPDATE {table} SET \"{column}\" = coalesce(\"{column}\", 0) || '7'"
            ));
        }
        let others: Vec<_> = columns[4..].iter().map(|name| format!("\"{name}\"")).collect();
        let others = others.join(", ");
        let newest = format!("FROM {table} ORDER BY version DESC LIMIT 1");
        for since in [0, 1, 3] {
            it.refuses(&format!(
                "INSERT INTO {table}(since, until, shape, {others})
                 SELECT {since}, {since} + 1, shape, {others} {newest}"
            ));
        }
        // These replace a row without a DELETE.
        let running = it.running;
        it.refuses(&format!(
            "INSERT OR REPLACE INTO {table}(version, since, shape, {others})
             SELECT min(version), {running}, shape, {others} FROM {table}"
        ));
        if it.count(&format!("{table} WHERE until IS NULL")) > 0 {
            it.refuses(&format!(
                "INSERT OR REPLACE INTO {table}(since, shape, {others})
                 SELECT {running}, shape, {others} FROM {table} WHERE until IS NULL LIMIT 1"
            ));
        }
    }
    it.assert_unchanged();
}

#[test]
fn no_statement_changes_a_series_or_a_template_of_a_finished_snapshot() {
    let mut it = Finished::new();
    for (table, value) in [("sample_qr_codes", "value"), ("statistics_qr_codes", "scans")] {
        assert!(it.count(table) > 0, "{table}");
        it.refuses(&format!("DELETE FROM {table}"));
        it.refuses(&format!("UPDATE {table} SET {value} = 77"));
        it.refuses(&format!("UPDATE {table} SET snapshot = {}", it.running));
        it.refuses(&format!("UPDATE {table} SET id = id + 100"));
        it.refuses(&format!("INSERT OR REPLACE INTO {table} SELECT * FROM {table}"));
    }
    it.refuses("UPDATE shape SET template = template || ' '");
    it.refuses("DELETE FROM shape");
    it.refuses("INSERT OR REPLACE INTO shape SELECT shape, 'other' FROM shape");
    it.refuses("INSERT OR REPLACE INTO shape SELECT shape + 1000, template FROM shape");
    it.assert_unchanged();
}

#[test]
fn no_statement_changes_a_sent_value_of_a_finished_snapshot() {
    let mut it = Finished::new();
    assert_eq!(it.count("sent WHERE until IS NOT NULL"), 2);
    it.refuses("DELETE FROM sent");
    it.refuses("DELETE FROM sent WHERE until = (SELECT min(until) FROM sent)");
    for column in ["value", "sent", "field"] {
        it.refuses(&format!("UPDATE sent SET {column} = {column} || '7'"));
    }
    it.refuses("UPDATE sent SET resource = 'domains'");
    it.refuses("UPDATE sent SET key = '77'");
    it.refuses("UPDATE sent SET since = since + 1");
    it.refuses("UPDATE sent SET since = 1 WHERE since = 2");
    it.refuses("UPDATE sent SET until = until - 1");
    it.refuses("UPDATE sent SET until = NULL");
    for since in [0, 1, 5] {
        it.refuses(&format!(
            "INSERT INTO sent VALUES('campaigns', '3', 'slug', '\"x\"', 0, {since}, NULL)"
        ));
    }
    it.refuses(
        "INSERT OR REPLACE INTO sent SELECT resource, key, field, 'x', sent, since, until
         FROM sent WHERE until IS NOT NULL",
    );
    let listed = "BEGIN; INSERT INTO sent_correction VALUES('campaigns', '1', 'slug')";
    it.refuses(&format!("{listed}; UPDATE sent SET key = '3' WHERE until IS NOT NULL"));
    assert_eq!(it.count("sent_correction"), 0);
    it.assert_unchanged();
}

#[test]
fn a_running_snapshot_can_be_written_and_a_forgotten_one_dropped() {
    let mut it = Finished::new();
    let running = it.running;
    it.tool
        .execute_batch(&format!(
            "UPDATE snapshot SET touched = touched + 1 WHERE snapshot = {running};
             UPDATE snapshot_resource SET message = 'late' WHERE snapshot = {running};
             INSERT INTO sample_qr_codes VALUES(99, {running}, 5);
             UPDATE sample_qr_codes SET value = 6 WHERE snapshot = {running};
             DELETE FROM sample_qr_codes WHERE snapshot = {running};"
        ))
        .unwrap();
    it.vault.retag(running, "again").unwrap();
    TestService::continue_running(&mut it.vault).finish();
    let before = it.vault.state(running, &Resource::ALL).unwrap();
    let known = it.vault.snapshots().unwrap();
    let old: Vec<_> = known.iter().map(|it| it.number).filter(|number| *number < running).collect();
    it.vault.forget(&old, day(40)).unwrap();
    assert_eq!(it.vault.state(running, &Resource::ALL).unwrap(), before);
    campaigns(&mut it.vault, day(41), &[(1, "one")]);
    assert_sound(&mut it.vault);
}

/// Two processes write to one snapshot, as if the lock had failed.
#[test]
fn writing_to_a_snapshot_finished_by_another_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut one = Vault::open_or_create(&path).unwrap();
    let mut other = Vault::open(&path).unwrap();
    let mut service = TestService::begin(&mut one, day(0));
    service.put(Resource::Campaigns, &[r#"{"id":1,"name":"a"}"#, r#"{"id":2,"name":"b"}"#]);
    service.put(Resource::QrCodes, &[r#"{"id":5,"scans":7}"#]);
    let number = service.finish().number;
    let before = contents(&mut one, &path).unwrap();
    let mut late: Vec<(&str, Result<(), VaultError>)> = Vec::new();
    for hold in [false, true] {
        let page = CrawledPage {
            snapshot: number,
            resource: Resource::Campaigns,
            parent: None,
            number: 2,
            now: day(1),
            usage: RequestUsage::default(),
            batch: hold.then_some(Duration::ZERO),
        };
        let raw = r#"{"id":3,"name":"late"}"#;
        let records = [DecodedRecord::read(Resource::Campaigns, None, raw).unwrap()];
        let seen = roaring::RoaringTreemap::new();
        let put = other.put_page(&page, &records, &seen, |_| String::new());
        late.push(("a page", put.map(drop)));
    }
    late.push(("a removal", other.remove(number, Resource::Campaigns, &[1])));
    let found = StoredStatistics {
        snapshot: number,
        code: 5,
        scans: 9,
        body: "{}",
        now: day(1),
        usage: RequestUsage::default(),
    };
    late.push(("statistics", other.put_statistics(&found)));
    let failed = ReadState::Failed;
    late.push(("an ending", other.conclude(number, Resource::Pixels, failed, None)));
    late.push(("the end", other.finish(number, day(1), RequestUsage::default()).map(drop)));
    for (what, result) in late {
        assert!(result.is_err(), "{what}");
        assert_eq!(contents(&mut other, &path).unwrap(), before, "{what}");
    }
    assert_sound(&mut other);
    campaigns(&mut other, day(2), &[(1, "a")]);
    assert_sound(&mut one);
}

#[test]
fn a_foreign_or_missing_trigger_is_refused_before_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (name, change) in [
        ("added", "CREATE TRIGGER evil AFTER INSERT ON meta BEGIN DELETE FROM step; END"),
        ("dropped", "DROP TRIGGER snapshot_update"),
        (
            "replaced",
            "DROP TRIGGER snapshot_update;
             CREATE TRIGGER snapshot_update BEFORE UPDATE ON snapshot WHEN 0 BEGIN SELECT 1; END",
        ),
    ] {
        let path = folder.path().join(name);
        sample::write(&path).close().unwrap();
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let refused = Vault::open(&path).unwrap_err();
        assert!(matches!(refused, VaultError::Damaged { .. }), "{name}: {refused}");
        assert!(refused.to_string().contains("trigger"), "{name}: {refused}");
        // A trigger does not fire if no row is written. `check` names what keeps the vault closed.
        let problems = Vault::open_read_only(&path).unwrap().check().unwrap().problems;
        let told = |it: &String| refused.to_string().contains(it.as_str());
        assert!(problems.iter().any(told), "{name}: {problems:?}, but {refused}");
    }
}
