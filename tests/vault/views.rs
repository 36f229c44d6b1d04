//! The views are part of the interface: their names, columns and rows.

use std::path::PathBuf;

use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::vault::Vault;

use crate::vault::snapshot_builder::{TestService, VIEWS, campaigns, day, plain};

/// The columns in `docs/sql.md`, written from the service's document.
const RESOURCES: [(&str, &str); 9] = [
    ("account", "id email username avatar status expires registered"),
    ("domains", "id domain redirectroot redirect404"),
    ("campaigns", "id name public rotator list"),
    ("channels", "id name description color starred"),
    ("channel_items", "channel type id title preview link date"),
    ("qr_codes", "id link scans name date"),
    ("pixels", "id type name tag date"),
    ("overlays", "id type name date"),
    ("splash_pages", "id name date"),
];
const OTHERS: [(&str, &str); 4] = [
    (
        "snapshots",
        "snapshot status started finished tag records added changed removed requests digest",
    ),
    ("qr_scans", "code time scans"),
    ("qr_statistics", "code time scans statistics"),
    (
        "runs",
        "run command status started finished snapshot_before snapshot_after steps done refused \
         skipped unknown verified requests",
    ),
];

struct File {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn new_vault() -> (Vault, File) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    (Vault::open_or_create(&path).unwrap(), File { path, _folder: folder })
}

/// The rows of a query by plain SQLite, as text.
fn rows(file: &File, sql: &str) -> Vec<String> {
    let db = plain(&file.path);
    let mut select = db.prepare(sql).unwrap();
    let columns = select.column_count();
    let all = select.query_map([], |row| {
        let cell = |at| row.get::<_, rusqlite::types::Value>(at).map(shown);
        Ok((0..columns).map(cell).collect::<Result<Vec<_>, _>>()?.join("|"))
    });
    all.unwrap().map(Result::unwrap).collect()
}

fn shown(value: rusqlite::types::Value) -> String {
    use rusqlite::types::Value;
    match value {
        Value::Null => "-".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text,
        other => format!("{other:?}"),
    }
}

#[test]
fn every_documented_view_has_the_columns_of_the_api_in_order() {
    let (_vault, file) = new_vault();
    let db = plain(&file.path);
    let columns = |view: &str| {
        let select = db.prepare(&format!("SELECT * FROM {view}")).unwrap();
        select.column_names().collect::<Vec<_>>().join(" ")
    };
    for (view, expected) in RESOURCES {
        assert_eq!(columns(view), expected, "{view}");
        let history = format!("since_snapshot until_snapshot since until {expected}");
        assert_eq!(columns(&format!("{view}_history")), history);
    }
    for (view, expected) in OTHERS {
        assert_eq!(columns(view), expected, "{view}");
    }
}

#[test]
fn there_are_no_other_views() {
    let (_vault, file) = new_vault();
    let mut all = rows(&file, "SELECT name FROM sqlite_schema WHERE type = 'view'");
    let mut documented = VIEWS.to_vec();
    all.sort();
    documented.sort_unstable();
    assert_eq!(all, documented);
}

#[test]
fn a_resource_view_shows_the_newest_finished_snapshot() {
    let (mut vault, file) = new_vault();
    assert_eq!(rows(&file, "SELECT * FROM campaigns"), Vec::<String>::new());
    campaigns(&mut vault, day(0), &[(1, "one"), (2, "two")]);
    campaigns(&mut vault, day(1), &[(1, "uno"), (3, "three")]);
    let newest = ["1|uno", "3|three"];
    let select = "SELECT id, name FROM campaigns ORDER BY id";
    assert_eq!(rows(&file, select), newest);
    let mut service = TestService::begin(&mut vault, day(2));
    service.put(Resource::Campaigns, &[r#"{"id":1,"name":"eins"}"#, r#"{"id":4,"name":"vier"}"#]);
    service.remove(Resource::Campaigns, &[RecordKey::Id(3)]);
    assert_eq!(rows(&file, select), newest);
    service.finish();
    assert_eq!(rows(&file, select), ["1|eins", "4|vier"]);
    vault.forget(&[SnapshotId(3)], day(3)).unwrap();
    assert_eq!(rows(&file, select), newest);
}

#[test]
fn the_query_of_the_readme_works() {
    let (mut vault, file) = new_vault();
    let mut service = TestService::begin(&mut vault, day(0));
    service.put(
        Resource::Campaigns,
        &[
            r#"{"id":1,"name":"Sample","public":false,"rotator":false,"list":"l"}"#,
            r#"{"id":2,"domain":"Facebook","public":true,"rotator":"https:\/\/x\/r\/t","list":"l"}"#,
        ],
    );
    service.finish();
    let answer = rows(&file, "select name, rotator from campaigns");
    assert_eq!(answer, ["Sample|-", "Facebook|https://x/r/t"]);
}

#[test]
fn a_history_shows_each_version_with_the_span_of_its_snapshots() {
    let (mut vault, file) = new_vault();
    campaigns(&mut vault, day(0), &[(1, "one")]);
    campaigns(&mut vault, day(1), &[(1, "uno")]);
    campaigns(&mut vault, day(2), &[]);
    campaigns(&mut vault, day(3), &[(1, "uno")]);
    let select = "SELECT since_snapshot, until_snapshot, since, until, name
                  FROM campaigns_history WHERE id = 1 ORDER BY since_snapshot";
    let spans = [
        "1|2|2026-11-01T00:00:00Z|2026-11-02T00:00:00Z|one",
        "2|3|2026-11-02T00:00:00Z|2026-11-03T00:00:00Z|uno",
        "4|-|2026-11-04T00:00:00Z|-|uno",
    ];
    assert_eq!(rows(&file, select), spans);
    let mut service = TestService::begin(&mut vault, day(4));
    service.put(Resource::Campaigns, &[r#"{"id":1,"name":"running"}"#]);
    assert_eq!(rows(&file, select), spans);
}

#[test]
fn a_counter_in_a_history_is_as_it_was_at_the_end_of_the_span() {
    let (mut vault, file) = new_vault();
    for (number, (scans, name)) in [(1, "a"), (5, "a"), (7, "b"), (9, "b")].iter().enumerate() {
        let mut service = TestService::begin(&mut vault, day(number.try_into().unwrap()));
        let raw = format!(r#"{{"id":1,"scans":{scans},"name":"{name}"}}"#);
        service.put(Resource::QrCodes, &[raw]);
        service.finish();
    }
    let select = "SELECT name, scans FROM qr_codes_history ORDER BY since_snapshot";
    assert_eq!(rows(&file, select), ["a|5", "b|9"]);
    assert_eq!(rows(&file, "SELECT id, scans, name FROM qr_codes"), ["1|9|b"]);
}

#[test]
fn scans_and_statistics_keep_their_times_after_forget() {
    let (mut vault, file) = new_vault();
    for (number, scans) in [(0, 1), (1, 1), (2, 4), (3, 6)] {
        let mut service = TestService::begin(&mut vault, day(number));
        service.put(Resource::QrCodes, &[format!(r#"{{"id":8,"scans":{scans}}}"#)]);
        service.statistics(8, scans, &format!(r#"{{"clicks":{scans}}}"#));
        if number < 3 {
            service.finish();
        }
    }
    vault.forget(&[SnapshotId(1)], day(3)).unwrap();
    assert_eq!(
        rows(&file, "SELECT * FROM qr_scans"),
        ["8|2026-11-01T00:00:00Z|1", "8|2026-11-03T00:00:00Z|4"]
    );
    assert_eq!(
        rows(&file, "SELECT * FROM qr_statistics"),
        [
            r#"8|2026-11-01T00:00:00Z|1|{"clicks":1}"#,
            r#"8|2026-11-02T00:00:00Z|1|{"clicks":1}"#,
            r#"8|2026-11-03T00:00:00Z|4|{"clicks":4}"#,
        ]
    );
}

#[test]
fn the_snapshots_view_lists_readable_snapshots() {
    let (mut vault, file) = new_vault();
    campaigns(&mut vault, day(0), &[(1, "one")]);
    campaigns(&mut vault, day(1), &[(1, "uno"), (2, "two")]);
    campaigns(&mut vault, day(2), &[(2, "two")]);
    vault.forget(&[SnapshotId(1)], day(3)).unwrap();
    let _running = TestService::begin(&mut vault, day(4));
    assert_eq!(
        rows(
            &file,
            "SELECT snapshot, status, started, finished, tag, records, added, changed, removed,
             requests, length(digest) FROM snapshots"
        ),
        [
            "2|complete|2026-11-02T00:00:00Z|2026-11-02T00:01:30Z|-|2|1|1|0|1|64",
            "3|complete|2026-11-03T00:00:00Z|2026-11-03T00:01:30Z|-|1|0|0|1|1|64",
        ]
    );
}
