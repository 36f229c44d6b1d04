//! Sent values that no list returns.

use linkvault::model::{RecordKey, Resource, RunId, SentValue, SnapshotId};
use linkvault::vault::Vault;
use linkvault::vault::journal::{NewRun, StepResult, StepState, StepVerification, VerifiedState};

use serde_json::json;

use crate::vault::snapshot_builder::{TestService, assert_sound, campaigns, day};

#[test]
fn the_last_sent_value_of_each_record_and_field_is_stored() {
    let mut vault = Vault::in_memory().unwrap();
    let key = RecordKey::Item { channel: 1, kind: "odd/kind".to_owned(), id: -3 };
    let code = RecordKey::Id(5);
    vault.remember(Resource::QrCodes, &code, "data", r#""old""#, day(0)).unwrap();
    vault.remember(Resource::QrCodes, &code, "data", r#"["new"]"#, day(1)).unwrap();
    vault.remember(Resource::QrCodes, &code, "type", r#""text""#, day(2)).unwrap();
    vault.remember(Resource::QrCodes, &RecordKey::Id(55), "type", r#""wifi""#, day(2)).unwrap();
    let sent = vault.remembered_all(Resource::QrCodes).unwrap().remove(&code).unwrap();
    let told: Vec<_> = sent.iter().map(|it| (&*it.field, it.value.clone(), it.time)).collect();
    assert_eq!(told, [("data", json!(["new"]), day(1)), ("type", json!("text"), day(2))]);
    let other = vault.remembered(Resource::QrCodes, &RecordKey::Id(55)).unwrap();
    assert_eq!(other.into_iter().collect::<Vec<_>>(), [("type".to_owned(), json!("wifi"))]);
    assert_eq!(vault.remembered_all(Resource::QrCodes).unwrap().len(), 2);
    assert!(vault.remembered_all(Resource::Campaigns).unwrap().is_empty());
    assert!(vault.remembered(Resource::ChannelItems, &key).unwrap().is_empty());
    assert_sound(&mut vault);
}

fn values(vault: &Vault, number: Option<SnapshotId>, field: &str) -> Vec<String> {
    let all = vault.sent_values(number, &[Resource::Campaigns]).unwrap();
    all.values().filter_map(|fields| Some(fields.get(field)?.as_str()?.to_owned())).collect()
}

/// Spans are counted in snapshots, so the clock does not matter.
#[test]
fn a_snapshot_shows_values_sent_before_its_end() {
    let mut vault = Vault::in_memory().unwrap();
    let key = RecordKey::Id(1);
    let send = |vault: &mut Vault, value: &str| {
        vault.remember(Resource::Campaigns, &key, "slug", value, day(-7)).unwrap();
        assert_sound(vault);
    };
    campaigns(&mut vault, day(0), &[(1, "a")]);
    send(&mut vault, r#""between""#);
    send(&mut vault, r#""first""#);
    campaigns(&mut vault, day(1), &[(1, "a")]);
    campaigns(&mut vault, day(2), &[(1, "a")]);
    send(&mut vault, r#""second""#);
    assert_eq!(
        values(&vault, Some(SnapshotId(3)), "slug"),
        ["first"],
        "a finished snapshot stays as it was"
    );
    // The next snapshot has begun already.
    let mut service = TestService::begin(&mut vault, day(3));
    service.put(Resource::Campaigns, &[r#"{"id":1,"name":"a"}"#]);
    send(service.vault, r#""third""#);
    service.finish();
    let shown: Vec<_> =
        (1..=4).map(|number| values(&vault, Some(SnapshotId(number)), "slug")).collect();
    assert_eq!(
        shown,
        [vec![], vec!["first".to_owned()], vec!["first".into()], vec!["third".into()]]
    );
    assert_eq!(values(&vault, None, "slug"), ["third"]);
    let history = vault.sent_history(Resource::Campaigns, &RecordKey::Id(1)).unwrap();
    let spans: Vec<_> =
        history.iter().map(|it| (it.since.0, it.until.map(|it| it.0), &it.value)).collect();
    assert_eq!(spans, [(2, Some(4), &json!("first")), (4, None, &json!("third"))]);
}

/// Begins a run of two steps after snapshot `before`, of which the first creates a QR code.
fn begun_run(vault: &mut Vault, before: SnapshotId) -> RunId {
    let new = NewRun {
        plan_id: "abc".to_owned(),
        touched: vec![Resource::Campaigns],
        before,
        steps: vec![json!({"resource": "qr_codes"}).to_string(), String::new()],
        ..NewRun::default()
    };
    vault.begin_run(&new, day(3)).unwrap()
}

/// Records that the run created QR code 1 with data `mine`.
fn code_created(vault: &mut Vault, run: RunId) {
    let (resource, key, field) = (Resource::QrCodes, RecordKey::Id(1), "data".to_owned());
    let sent = SentValue { resource, key, field, value: "mine".into(), created: true };
    let made = StepResult { id: Some(1), remember: vec![sent], ..StepResult::of(StepState::Done) };
    vault.record_result(run, 1, &made, day(2), false).unwrap();
}

/// The slug of a campaign, as a sent value of a step.
fn slug(id: i64, value: &str, created: bool) -> Vec<SentValue> {
    let (resource, key, field) = (Resource::Campaigns, RecordKey::Id(id), "slug".to_owned());
    vec![SentValue { resource, key, field, value: value.into(), created }]
}

/// The only writes to `sent` that change finished snapshots.
#[test]
fn a_finished_snapshot_shows_values_that_its_run_had_sent() {
    let mut vault = Vault::in_memory().unwrap();
    vault.claim(&super::sample::identity(), false).unwrap();
    campaigns(&mut vault, day(0), &[(1, "a")]);
    vault.remember(Resource::Campaigns, &RecordKey::Id(1), "slug", r#""old""#, day(0)).unwrap();
    campaigns(&mut vault, day(1), &[(1, "a"), (2, "b")]);
    campaigns(&mut vault, day(2), &[(1, "a"), (2, "b")]);
    let run = begun_run(&mut vault, SnapshotId(1));
    let made = StepResult { remember: slug(2, "made", true), ..StepResult::of(StepState::Done) };
    vault.record_result(run, 1, &made, day(3), false).unwrap();
    let seen = StepVerification {
        step: 2,
        result: VerifiedState::Verified,
        remark: None,
        id: None,
        remember: slug(1, "seen", false),
        maps: None,
    };
    vault.verify_steps(run, &[seen], day(3)).unwrap();
    let shown = (1..=3).map(|number| values(&vault, Some(SnapshotId(number)), "slug"));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [vec![], vec!["old".to_owned(), "made".to_owned()], vec!["seen".into(), "made".into()]]
    );
    assert_sound(&mut vault);
}

/// If the service reuses ids, the version of the deleted record is still open when the result of
/// the create is stored.
#[test]
fn a_create_that_got_the_id_of_a_deleted_record_changes_no_finished_snapshot() {
    let mut vault = Vault::in_memory().unwrap();
    vault.claim(&super::sample::identity(), false).unwrap();
    campaigns(&mut vault, day(0), &[(1, "a")]);
    vault.remember(Resource::Campaigns, &RecordKey::Id(4), "slug", r#""hello""#, day(0)).unwrap();
    vault.remember(Resource::Campaigns, &RecordKey::Id(4), "links", "[3]", day(0)).unwrap();
    campaigns(&mut vault, day(1), &[(1, "a"), (4, "x")]);
    campaigns(&mut vault, day(2), &[(1, "a"), (4, "x")]);
    let run = begun_run(&mut vault, SnapshotId(3));
    vault.record_result(run, 1, &StepResult::of(StepState::Done), day(3), false).unwrap();
    let made = StepResult { remember: slug(4, "made", true), ..StepResult::of(StepState::Done) };
    vault.record_result(run, 2, &made, day(3), false).unwrap();
    assert_sound(&mut vault);
    campaigns(&mut vault, day(4), &[(1, "a"), (4, "y")]);
    let shown: Vec<_> =
        (1..=4).map(|number| values(&vault, Some(SnapshotId(number)), "slug")).collect();
    let hello = || vec!["hello".to_owned()];
    assert_eq!(shown, [vec![], hello(), hello(), vec!["made".to_owned()]]);
    let links = |number: Option<i64>| {
        let sent = vault.sent_values(number.map(SnapshotId), &[Resource::Campaigns]).unwrap();
        sent[&(Resource::Campaigns, RecordKey::Id(4))].contains_key("links")
    };
    assert_eq!([Some(2), Some(3), Some(4), None].map(links), [true, true, false, false]);
    assert_sound(&mut vault);
}

/// A snapshot of only QR code 1.
fn code(vault: &mut Vault, number: i64, link: &str, date: &str) {
    let raw = format!(r#"{{"id":1,"link":"https://x/{link}","name":"","date":"{date} 10:00:00"}}"#);
    let mut service = TestService::begin(vault, day(number));
    service.put(Resource::QrCodes, &[raw]);
    service.finish();
    assert_sound(vault);
}

/// The data of QR code 1 in these snapshots, and the current one.
fn data(vault: &Vault, numbers: &[i64]) -> Vec<Option<String>> {
    let numbers = numbers.iter().map(|number| Some(SnapshotId(*number))).chain([None]);
    let data = |number| {
        let sent = vault.sent_values(number, &[Resource::QrCodes]).unwrap();
        let fields = sent.get(&(Resource::QrCodes, RecordKey::Id(1)))?;
        Some(fields.get("data")?.as_str()?.to_owned())
    };
    numbers.map(data).collect()
}

/// Another user deletes a code and creates another one, which gets the same id.
#[test]
fn values_sent_for_a_code_end_when_its_id_is_reused() {
    let mut vault = Vault::in_memory().unwrap();
    let key = RecordKey::Id(1);
    let mine = || Some("mine".to_owned());
    vault.remember(Resource::QrCodes, &key, "data", r#""mine""#, day(0)).unwrap();
    code(&mut vault, 0, "a", "2026-01-01");
    code(&mut vault, 1, "b", "2026-01-01");
    code(&mut vault, 2, "b", "2026-01-02");
    assert_eq!(data(&vault, &[1, 2, 3]), [mine(), mine(), mine(), mine()]);
    code(&mut vault, 3, "c", "2026-01-03");
    assert_eq!(data(&vault, &[1, 2, 3, 4]), [mine(), mine(), mine(), None, None]);
    // The record is missing in one snapshot, and its id is reused.
    vault.remember(Resource::QrCodes, &key, "data", r#""mine""#, day(3)).unwrap();
    code(&mut vault, 4, "c", "2026-01-03");
    let mut service = TestService::begin(&mut vault, day(5));
    service.remove(Resource::QrCodes, std::slice::from_ref(&key));
    service.finish();
    assert_eq!(data(&vault, &[5, 6]), [mine(), mine(), mine()]);
    code(&mut vault, 6, "d", "2026-01-06");
    assert_eq!(data(&vault, &[5, 6, 7]), [mine(), mine(), None, None]);
}

#[test]
fn values_sent_for_a_code_with_a_reused_id_are_kept_even_if_equal() {
    let mut vault = Vault::in_memory().unwrap();
    vault.claim(&super::sample::identity(), false).unwrap();
    vault.remember(Resource::QrCodes, &RecordKey::Id(1), "data", r#""mine""#, day(0)).unwrap();
    code(&mut vault, 0, "a", "2026-01-01");
    let run = begun_run(&mut vault, SnapshotId(1));
    code_created(&mut vault, run);
    code(&mut vault, 2, "b", "2026-01-02");
    assert_eq!(data(&vault, &[1, 2]), vec![Some("mine".to_owned()); 3]);
}

/// The run creates a code that gets the id of a deleted one, and the list cannot be read after it.
#[test]
fn values_sent_for_a_code_are_kept_until_a_snapshot_shows_it() {
    let mut vault = Vault::in_memory().unwrap();
    vault.claim(&super::sample::identity(), false).unwrap();
    code(&mut vault, 0, "a", "2026-01-01");
    let mut service = TestService::begin(&mut vault, day(1));
    service.remove(Resource::QrCodes, &[RecordKey::Id(1)]);
    service.finish();
    let run = begun_run(&mut vault, SnapshotId(2));
    code_created(&mut vault, run);
    campaigns(&mut vault, day(2), &[(1, "a")]);
    code(&mut vault, 3, "b", "2026-01-02");
    assert_eq!(data(&vault, &[1, 2, 4]), [None, None, Some("mine".into()), Some("mine".into())]);
}

/// The run deletes a code and creates one that gets its id, and the list cannot be read after it.
#[test]
fn what_a_run_sent_for_a_code_is_kept_although_a_snapshot_still_shows_the_one_that_it_deleted() {
    let mut vault = Vault::in_memory().unwrap();
    vault.claim(&super::sample::identity(), false).unwrap();
    code(&mut vault, 0, "a", "2026-01-01");
    let run = begun_run(&mut vault, SnapshotId(1));
    code_created(&mut vault, run);
    campaigns(&mut vault, day(1), &[(1, "a")]);
    code(&mut vault, 2, "b", "2026-01-02");
    let mine = || Some("mine".to_owned());
    assert_eq!(data(&vault, &[1, 3]), [None, mine(), mine()]);
    // Another user deletes that code, too.
    code(&mut vault, 3, "c", "2026-01-03");
    assert_eq!(data(&vault, &[3, 4]), [mine(), None, None]);
}

/// A run updates a code, others delete it before the next snapshot, and its id is reused.
#[test]
fn what_was_sent_for_a_code_that_is_gone_is_not_taken_for_the_next_one_with_its_id() {
    let mut vault = Vault::in_memory().unwrap();
    let key = RecordKey::Id(1);
    code(&mut vault, 0, "a", "2026-01-01");
    vault.remember(Resource::QrCodes, &key, "data", r#""mine""#, day(0)).unwrap();
    let mut service = TestService::begin(&mut vault, day(1));
    service.remove(Resource::QrCodes, std::slice::from_ref(&key));
    service.finish();
    code(&mut vault, 2, "b", "2026-01-02");
    assert_eq!(data(&vault, &[3]), [None, None]);
}

#[test]
fn forget_drops_only_values_of_forgotten_snapshots() {
    let mut vault = Vault::in_memory().unwrap();
    let send = |vault: &mut Vault, id: i64, value: &str| {
        vault.remember(Resource::Campaigns, &RecordKey::Id(id), "slug", value, day(0)).unwrap();
    };
    send(&mut vault, 1, r#""one""#);
    vault.remember(Resource::Campaigns, &RecordKey::Id(1), "links", "[3]", day(0)).unwrap();
    send(&mut vault, 2, r#""of a record that goes""#);
    campaigns(&mut vault, day(0), &[(1, "a"), (2, "b")]);
    send(&mut vault, 1, r#""two""#);
    campaigns(&mut vault, day(1), &[(1, "a")]);
    send(&mut vault, 1, r#""three""#);
    send(&mut vault, 3, r#""not in a snapshot yet""#);
    vault.forget(&[SnapshotId(1)], day(2)).unwrap();
    assert_sound(&mut vault);
    assert_eq!(values(&vault, Some(SnapshotId(2)), "slug"), ["two"]);
    let mut now = values(&vault, None, "slug");
    now.sort();
    assert_eq!(now, ["not in a snapshot yet", "three"]);
    let history = vault.sent_history(Resource::Campaigns, &RecordKey::Id(1)).unwrap();
    // The earlier value begins with the first readable snapshot.
    let spans: Vec<_> = history.iter().map(|it| (&*it.field, it.since.0, it.until)).collect();
    assert_eq!(spans, [("links", 2, None), ("slug", 2, None)]);
    campaigns(&mut vault, day(2), &[(1, "a"), (3, "c")]);
    vault.forget(&[SnapshotId(2)], day(3)).unwrap();
    assert_sound(&mut vault);
    let mut shown = values(&vault, Some(SnapshotId(3)), "slug");
    shown.sort();
    assert_eq!(shown, ["not in a snapshot yet", "three"]);
    assert!(vault.sent_history(Resource::Campaigns, &RecordKey::Id(2)).unwrap().is_empty());
}

#[test]
fn a_password_is_never_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    let secret = r#""correct horse battery""#;
    vault.remember(Resource::Account, &RecordKey::Id(1), "password", secret, day(0)).unwrap();
    assert!(vault.remembered_all(Resource::Account).unwrap().is_empty());
    vault.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(13).any(|part| part == b"correct horse"));
}
