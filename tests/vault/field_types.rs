//! Changes of the fields of records between two snapshots.

use linkvault::health::field_change_text::sentences;
use linkvault::model::{RecordKey, Resource, SnapshotId};
use linkvault::vault::Vault;

use crate::vault::snapshot_builder::{TestService, day};

/// Writes a snapshot in which these channels are new or changed, and `gone` are removed.
fn snapshot(vault: &mut Vault, raws: &[&str], gone: &[i64]) -> SnapshotId {
    let now = day(i64::try_from(vault.all_snapshots().unwrap().len()).unwrap());
    let mut service = TestService::begin(vault, now);
    service.put(Resource::Channels, raws);
    let gone: Vec<_> = gone.iter().map(|id| RecordKey::Id(*id)).collect();
    service.remove(Resource::Channels, &gone);
    service.finish().number
}

fn changes(vault: &mut Vault, before: SnapshotId, after: SnapshotId) -> Vec<String> {
    let outcome = |vault: &Vault, number| {
        vault.snapshot(number).unwrap().outcome(Resource::Channels).unwrap().clone()
    };
    let (one, other) = (outcome(vault, before), outcome(vault, after));
    sentences(&vault.field_changes((before, &one), (after, &other)).unwrap())
}

#[test]
fn a_field_that_only_removed_records_had_is_not_missing() {
    let mut vault = Vault::in_memory().unwrap();
    let first = snapshot(&mut vault, &[r#"{"id":1,"name":"a","icon":"x"}"#], &[]);
    let second = snapshot(&mut vault, &[r#"{"id":2,"name":"b"}"#], &[1]);
    assert!(changes(&mut vault, first, second).is_empty());
    let third = snapshot(&mut vault, &[r#"{"id":2}"#], &[]);
    assert_eq!(
        changes(&mut vault, second, third),
        ["the service no longer sends `name` for channels"]
    );
}

#[test]
fn a_field_is_not_missing_while_an_unchanged_record_has_it() {
    let mut vault = Vault::in_memory().unwrap();
    let both = [r#"{"id":1,"icon":"x"}"#, r#"{"id":2,"icon":"y"}"#];
    let first = snapshot(&mut vault, &both, &[]);
    let second = snapshot(&mut vault, &[r#"{"id":2}"#], &[]);
    assert!(changes(&mut vault, first, second).is_empty());
}

#[test]
fn a_change_is_found_across_snapshots_between_the_two() {
    let mut vault = Vault::in_memory().unwrap();
    let first = snapshot(&mut vault, &[r#"{"id":1,"a":5}"#, r#"{"id":2,"a":6}"#], &[]);
    let second = snapshot(&mut vault, &[r#"{"id":1,"a":"five","b":"x"}"#], &[]);
    let third = snapshot(&mut vault, &[r#"{"id":2,"a":7,"c":{}}"#], &[]);
    assert_eq!(
        changes(&mut vault, first, third),
        [
            "the service now sends `b` (text), `c` (object) for channels",
            "the service sends `a` as text instead of number for channels",
        ]
    );
    assert_eq!(
        changes(&mut vault, second, third),
        ["the service now sends `c` (object) for channels"]
    );
    // What only the snapshot between showed is no change.
    let fourth = snapshot(&mut vault, &[r#"{"id":1,"a":5}"#, r#"{"id":2,"a":6}"#], &[]);
    assert!(changes(&mut vault, first, fourth).is_empty());
}

#[test]
fn records_that_are_stored_whole_are_compared() {
    let mut vault = Vault::in_memory().unwrap();
    let raws: Vec<_> = (0..4200).map(|id| format!(r#"{{"id":{id},"f{id}":"x"}}"#)).collect();
    let first = snapshot(&mut vault, &raws.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let raw = r#"{"id":9000,"f4199":{"a":1},"f1":"x","fresh":true}"#;
    let second = snapshot(&mut vault, &[raw], &[]);
    assert_eq!(
        changes(&mut vault, first, second),
        [
            "the service now sends `fresh` (boolean) for channels",
            "the service sends `f4199` as object instead of text for channels",
        ]
    );
}
