//! Records that the service's document does not describe.

use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::vault::Vault;

use crate::vault::snapshot_builder::{TestService, assert_sound, day};

/// Campaigns that the document does not describe.
pub const CAMPAIGNS: [&str; 10] = [
    r#"{"id":101,"id":102,"name":"a","domain":"b","name":"c","public":true,"public":false}"#,
    r#"{"id":102,"name":"\ud83d\ude00 \u00E9 \u00e9 / \/ \\ \" \b\f\n\r\t"}"#,
    r#"{"id":103,"name":"NUL \u0000 and SOH \u0001","list":"\u0001i!"}"#,
    r#"{"id":104,"name":"lone \ud800 surrogate"}"#,
    r#"{"id":105,"name":12.50,"public":"maybe","rotator":{"a":[true]},"list":[[[1,[2]]],null]}"#,
    r#"{"id":"106","name":2026,"public":"","rotator":null,"list":false}"#,
    r#" { "id" : 107 , "unknown" : [ 1, {"y":null} ] , "" : "" } "#,
    r#"{"id":-108,"name":"","n\u0061me":"escaped name","public":1}"#,
    r#"{"id":-0,"name":"minus zero"}"#,
    r#"{"id":9223372036854775807,"name":"the largest id"}"#,
];

/// QR codes with counters that are not plain numbers.
pub const QR_CODES: [&str; 7] = [
    r#"{"id":201,"scans":"12","name":"as a string"}"#,
    r#"{"id":202,"scans":"007","name":"with zeros"}"#,
    r#"{"id":203,"scans":null,"name":"none"}"#,
    r#"{"id":204,"scans":"n/a","name":"no number"}"#,
    r#"{"id":205,"scans":1,"scans":2,"name":"twice"}"#,
    r#"{"id":206,"name":"not at all"}"#,
    r#"{"id":207,"scans":-9223372036854775808,"name":"the least"}"#,
];

fn raws(vault: &mut Vault, number: SnapshotId, resource: Resource) -> Vec<String> {
    let mut raws = Vec::new();
    vault.for_each_record(number, resource, |record| raws.push(record.raw.into_owned())).unwrap();
    raws
}

fn sorted(raws: &[impl AsRef<str>]) -> Vec<String> {
    let mut all: Vec<_> = raws.iter().map(|raw| raw.as_ref().to_owned()).collect();
    all.sort();
    all
}

#[test]
fn undocumented_records_are_restored_byte_for_byte() {
    let mut vault = Vault::in_memory().unwrap();
    let mut service = TestService::begin(&mut vault, day(0));
    service.put(Resource::Campaigns, &CAMPAIGNS);
    service.put(Resource::QrCodes, &QR_CODES);
    service.finish();
    assert_eq!(sorted(&raws(&mut vault, SnapshotId(1), Resource::Campaigns)), sorted(&CAMPAIGNS));
    assert_eq!(sorted(&raws(&mut vault, SnapshotId(1), Resource::QrCodes)), sorted(&QR_CODES));
    assert_sound(&mut vault);
}

#[test]
fn huge_and_deep_members_are_restored_byte_for_byte() {
    let huge = format!(r#"{{"id":1,"name":"n","blob":"{}"}}"#, "é\\n".repeat(400_000));
    let deep = format!(r#"{{"id":2,"name":"n","deep":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    let wide = format!(
        r#"{{"id":3{}}}"#,
        (0..3000).map(|nth| format!(r#","k{nth}":{nth}"#)).collect::<String>()
    );
    let mut vault = Vault::in_memory().unwrap();
    let mut service = TestService::begin(&mut vault, day(0));
    service.put(Resource::Overlays, &[&huge, &deep, &wide]);
    service.finish();
    assert_eq!(raws(&mut vault, SnapshotId(1), Resource::Overlays), [huge, deep, wide]);
    assert_sound(&mut vault);
}

fn shapes(path: &std::path::Path) -> i64 {
    crate::vault::snapshot_builder::plain(path)
        .query_row("SELECT count(*) FROM shape", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn the_number_of_templates_is_limited_and_records_stay_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.db");
    // Each record has its own member, and so its own template.
    let all: Vec<_> =
        (0..6000).map(|id| format!(r#"{{"id":{id},"k{id}":1,"scans":{id}}}"#)).collect();
    for round in 1..=3 {
        let mut vault = Vault::open_or_create(&path).unwrap();
        let mut service = TestService::begin(&mut vault, day(round));
        // In another order each time, so that other records exceed the limit first.
        let from = usize::try_from(round).unwrap() * 1500;
        service.put(Resource::QrCodes, &[&all[from..], &all[..from]].concat());
        let snapshot = service.finish();
        let outcome = snapshot.outcome(Resource::QrCodes).unwrap();
        assert_eq!((outcome.records, outcome.changed, outcome.removed), (6000, 0, 0));
        assert_eq!(outcome.added, if round == 1 { 6000 } else { 0 });
        assert_eq!(raws(&mut vault, SnapshotId(round), Resource::QrCodes), all);
        if round == 3 {
            assert_sound(&mut vault);
        }
        vault.close().unwrap();
        assert!(shapes(&path) <= 4097, "{}", shapes(&path));
    }
}

#[test]
fn a_verbatim_record_is_unchanged_when_its_template_is_added() {
    let mut vault = Vault::in_memory().unwrap();
    let raw = |id: i64| format!(r#"{{"id":{id},"k{id}":1}}"#);
    let all: Vec<_> = (0..4200).map(raw).collect();
    let mut service = TestService::begin(&mut vault, day(0));
    service.put(Resource::Overlays, &all);
    service.finish();
    let mut service = TestService::begin(&mut vault, day(1));
    let gone: Vec<_> = (0..4000).map(RecordKey::Id).collect();
    service.remove(Resource::Overlays, &gone);
    service.finish();
    vault.forget(&[SnapshotId(1)], day(2)).unwrap();
    let mut service = TestService::begin(&mut vault, day(2));
    service.put(Resource::Overlays, &all[4000..]);
    let snapshot = service.finish();
    let outcome = snapshot.outcome(Resource::Overlays).unwrap();
    assert_eq!((outcome.records, outcome.added, outcome.changed), (200, 0, 0));
    assert_sound(&mut vault);
}

#[test]
fn scans_of_a_verbatim_record_are_a_series() {
    let mut vault = Vault::in_memory().unwrap();
    for (number, scans) in [(1, "007"), (2, "008")] {
        let mut service = TestService::begin(&mut vault, day(number));
        service.put(Resource::QrCodes, &[format!(r#"{{"id":1,"scans":"{scans}"}}"#)]);
        service.finish();
    }
    let scans: Vec<_> = vault.scans(1).unwrap().into_iter().map(|it| it.value).collect();
    assert_eq!(scans, [7, 8]);
    assert_sound(&mut vault);
}

#[test]
fn a_counter_that_is_no_longer_sent_is_no_longer_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counter.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    for (number, scans) in [(1, "5"), (2, "null"), (3, "5")] {
        let mut service = TestService::begin(&mut vault, day(number));
        service.put(Resource::QrCodes, &[format!(r#"{{"id":1,"scans":{scans}}}"#)]);
        service.finish();
        let shown: Option<i64> = crate::vault::snapshot_builder::plain(&path)
            .query_row("SELECT scans FROM qr_codes", [], |row| row.get(0))
            .unwrap();
        assert_eq!(shown, scans.parse().ok());
        let raw = format!(r#"{{"id":1,"scans":{scans}}}"#);
        let record = vault
            .record(SnapshotId(number), Resource::QrCodes, &RecordKey::Id(1))
            .unwrap()
            .unwrap();
        assert_eq!(record.raw, raw);
    }
    let told: Vec<_> = vault.scans(1).unwrap().iter().map(|it| (it.snapshot.0, it.value)).collect();
    assert_eq!(told, [(1, 5), (3, 5)]);
    assert_sound(&mut vault);
}

#[test]
fn the_last_of_duplicate_records_in_a_snapshot_is_kept() {
    let mut vault = Vault::in_memory().unwrap();
    crate::vault::snapshot_builder::campaigns(&mut vault, day(0), &[(1, "old")]);
    let mut service = TestService::begin(&mut vault, day(1));
    service.put(Resource::Campaigns, &[r#"{"id":1,"name":"a"}"#, r#"{"id":2,"name":"b"}"#]);
    service.put(Resource::Campaigns, &[r#"{"id":1,"name":"c"}"#, r#"{"id":2,"name":"d"}"#]);
    let snapshot = service.finish();
    let outcome = snapshot.outcome(Resource::Campaigns).unwrap();
    assert_eq!((outcome.records, outcome.added, outcome.changed), (2, 1, 1));
    let last = [r#"{"id":1,"name":"c"}"#, r#"{"id":2,"name":"d"}"#];
    assert_eq!(raws(&mut vault, SnapshotId(2), Resource::Campaigns), last);
    assert_eq!(raws(&mut vault, SnapshotId(1), Resource::Campaigns), [r#"{"id":1,"name":"old"}"#]);
    assert_sound(&mut vault);
}

#[test]
fn a_record_that_changed_and_disappeared_counts_as_removed() {
    let mut vault = Vault::in_memory().unwrap();
    crate::vault::snapshot_builder::campaigns(&mut vault, day(0), &[(1, "one"), (2, "two")]);
    let mut service = TestService::begin(&mut vault, day(1));
    // The first reading saw 1 changed and 3 new; the second saw neither.
    service.put(Resource::Campaigns, &[r#"{"id":1,"name":"x"}"#, r#"{"id":3,"name":"y"}"#]);
    service.put(Resource::Campaigns, &[r#"{"id":2,"name":"two"}"#]);
    service.remove(Resource::Campaigns, &[RecordKey::Id(1), RecordKey::Id(3)]);
    let snapshot = service.finish();
    let outcome = snapshot.outcome(Resource::Campaigns).unwrap();
    let counts = (outcome.records, outcome.added, outcome.changed, outcome.removed);
    assert_eq!(counts, (1, 0, 0, 1));
    assert_sound(&mut vault);
}
