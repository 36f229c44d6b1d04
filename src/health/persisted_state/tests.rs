//! Tests of the persisted state and of the status evaluated from it.

use std::time::Duration;

use crate::health::account_status::{AccountStatus, DueTimes, Health};
use crate::health::attempt::ProblemKind;
use crate::health::persisted_state::*;
use crate::model::field_changes::ServiceFieldChangeKind;
use crate::model::{Resource, SnapshotId};

pub fn attempt(outcome: AttemptOutcome, ended: i64) -> BackupAttempt {
    BackupAttempt {
        snapshot: Some(SnapshotId(7)),
        message: (outcome == AttemptOutcome::Failed).then(|| "no route".to_owned()),
        requests: 3,
        throttled: 1,
        waited: Duration::from_millis(1500),
        added: 1,
        changed: 2,
        removed: 3,
        ..BackupAttempt::new(Timestamp(ended - 1000), Timestamp(ended), outcome)
    }
}

pub fn summary(ended: i64) -> VaultSummary {
    let newest = Some(attempt(AttemptOutcome::Complete, ended));
    VaultSummary { newest, last_complete: Some(Timestamp(ended)), ..VaultSummary::default() }
}

#[test]
fn without_a_state_file_the_newest_snapshot_counts_as_served() {
    let (now, persisted) = (Timestamp(99_000), PersistedState::default());
    assert_eq!(persisted.past("0 3 * * *", &VaultSummary::default(), now), QueueHistory::default());
    let past = persisted.past("0 3 * * *", &summary(5000), now);
    assert_eq!(past.served, Some(Timestamp(4000)));
}

#[test]
fn a_changed_schedule_counts_from_now() {
    let schedule = Some("0 3 * * * UTC".to_owned());
    let persisted =
        PersistedState { schedule, served: Some(Timestamp(3000)), ..PersistedState::default() };
    let now = Timestamp(99_000);
    assert_eq!(persisted.past("0 3 * * * UTC", &summary(5000), now).served, Some(Timestamp(3000)));
    assert_eq!(persisted.past("0 4 * * * UTC", &summary(5000), now).served, Some(now));
}

#[test]
fn failed_and_stopped_backups_are_known_after_a_restart() {
    let now = Timestamp(99_000);
    let mut persisted =
        PersistedState { tries: 2, served: Some(Timestamp(1)), ..PersistedState::default() };
    persisted.schedule = Some("s".to_owned());
    persisted.add(&attempt(AttemptOutcome::Failed, 9000));
    let past = persisted.past("s", &VaultSummary::default(), now);
    assert_eq!((past.failed, past.stopped), (Some((2, Timestamp(9000))), false));
    persisted.add(&attempt(AttemptOutcome::Stopped, 9000));
    let past = persisted.past("s", &summary(5000), now);
    assert_eq!((past.failed, past.stopped), (None, true));
}

pub fn account_status(
    persisted: &PersistedState,
    summary: &VaultSummary,
    old_from: Option<i64>,
) -> AccountStatus {
    let due = DueTimes { old_from: old_from.map(Timestamp), ..DueTimes::default() };
    AccountStatus::evaluate("main", persisted, summary, due, Timestamp(50_000))
}

#[test]
fn health_depends_on_the_newest_backup_of_any_process() {
    let mut persisted = PersistedState::default();
    assert_eq!(account_status(&persisted, &VaultSummary::default(), None).health, Health::New);
    assert_eq!(account_status(&persisted, &summary(5000), None).health, Health::Good);
    persisted.add(&attempt(AttemptOutcome::Failed, 9000));
    let failing = account_status(&persisted, &summary(5000), None);
    // The same text as in the alert.
    let words = "the backup failed: no route";
    assert_eq!((failing.health, failing.words.as_str()), (Health::Failing, words));
    // A user made a newer backup.
    let by_hand = account_status(&persisted, &summary(12_000), None);
    assert_eq!((by_hand.health, by_hand.last_complete), (Health::Good, Some(Timestamp(12_000))));
    persisted.add(&attempt(AttemptOutcome::Partial, 15_000));
    assert_eq!(account_status(&persisted, &summary(12_000), None).health, Health::Warning);
    let refused = BackupAttempt { key_refused: true, ..attempt(AttemptOutcome::Failed, 20_000) };
    persisted.add(&refused);
    assert_eq!(
        account_status(&persisted, &summary(5000), None).problems[0].kind,
        ProblemKind::KeyRefused
    );
}

#[test]
fn changed_fields_are_a_problem_until_the_next_backup_of_the_whole_account() {
    let change = |nth: usize| ServiceFieldChange {
        resource: Resource::Pixels,
        field: format!("field {nth}"),
        kind: ServiceFieldChangeKind::Missing,
    };
    let with = |attempt, field_changes| BackupAttempt { field_changes, ..attempt };
    let complete = |ended| attempt(AttemptOutcome::Complete, ended);
    let limited = |ended| BackupAttempt { limited: true, ..complete(ended) };
    let problems = |persisted: &PersistedState| {
        let status = account_status(persisted, &summary(5000), None);
        let of = |it: HealthProblem| {
            (it.kind == ProblemKind::Fields).then_some((it.since.0, it.message))
        };
        status.problems.into_iter().filter_map(of).collect::<Vec<_>>()
    };
    let mut persisted = PersistedState::default();
    persisted.add(&with(complete(6000), vec![change(1)]));
    persisted.add(&with(limited(7000), vec![change(2)]));
    persisted.add(&attempt(AttemptOutcome::Failed, 8000));
    let both = "the service no longer sends `field 1`, `field 2` for pixels";
    assert_eq!(problems(&persisted), [(6000, both.to_owned())]);
    let json = serde_json::to_string(&persisted).unwrap();
    let mut reread: PersistedState = serde_json::from_str(&json).unwrap();
    assert_eq!(problems(&reread), problems(&persisted));
    // The daemon merges what another process recorded.
    let mut merged = PersistedState::default();
    merged.take_record(&reread);
    assert_eq!(merged.field_changes, persisted.field_changes);
    reread.add(&complete(9000));
    assert!(problems(&reread).is_empty());
    assert!(reread.has_reported(&change(1)) && !reread.has_reported(&change(3)));
    reread.add(&with(complete(9500), (0..5000).map(change).collect()));
    assert_eq!(reread.field_changes.len(), MAX_FIELD_CHANGES);
    assert!(reread.has_reported(&change(4999)) && !reread.has_reported(&change(0)));
}

#[test]
fn an_old_backup_is_a_problem_without_a_daemon() {
    let persisted = PersistedState::default();
    assert_eq!(account_status(&persisted, &summary(5000), Some(50_001)).health, Health::Good);
    let old = account_status(&persisted, &summary(5000), Some(50_000));
    assert_eq!((old.health, old.problems[0].kind), (Health::Failing, ProblemKind::Old));
    assert_eq!(old.words, "the newest complete backup is from 1970-01-01T00:00:05Z");
}

#[test]
fn a_recorded_problem_keeps_its_start_until_it_is_resolved() {
    let mut persisted = PersistedState::default();
    persisted.add(&attempt(AttemptOutcome::Failed, 9000));
    let recorded = HealthProblem {
        kind: ProblemKind::Failed,
        since: Timestamp(2000),
        message: "down".to_owned(),
        hint: Some("look".to_owned()),
        newest: None,
    };
    let after = HealthProblem { kind: ProblemKind::PostBackup, ..recorded.clone() };
    persisted.problems = vec![after.clone(), recorded];
    // It keeps its start and has the newest reason.
    let found = |persisted: &PersistedState| {
        let problems = account_status(persisted, &summary(5000), None).problems;
        problems.into_iter().map(|it| (it.kind, it.since.0, it.message)).collect::<Vec<_>>()
    };
    let failed = (ProblemKind::Failed, 2000, "the backup failed: no route".to_owned());
    let both = [failed, (ProblemKind::PostBackup, 2000, "down".to_owned())];
    assert_eq!(found(&persisted), both);
    persisted.add(&attempt(AttemptOutcome::Stopped, 9500));
    assert_eq!(found(&persisted), both);
    persisted.add(&attempt(AttemptOutcome::Complete, 9900));
    assert_eq!(account_status(&persisted, &summary(9900), None).problems, [after]);
}

#[test]
fn a_backup_of_some_resources_does_not_clear_problems_of_the_others() {
    let mut persisted = PersistedState::default();
    persisted.add(&BackupAttempt { limited: true, ..attempt(AttemptOutcome::Complete, 5000) });
    let found = account_status(&persisted, &VaultSummary::default(), None);
    assert_eq!((found.health, found.last_complete), (Health::New, None));
    assert_eq!(found.words, "there has been no backup of the whole account yet");
    persisted.add(&attempt(AttemptOutcome::Partial, 6000));
    persisted.add(&BackupAttempt { limited: true, ..attempt(AttemptOutcome::Complete, 7000) });
    let partial = VaultSummary {
        newest: Some(attempt(AttemptOutcome::Partial, 6000)),
        ..VaultSummary::default()
    };
    let found = account_status(&persisted, &partial, None);
    assert_eq!(found.problems[0].kind, ProblemKind::Partial);
    persisted.add(&BackupAttempt { limited: true, ..attempt(AttemptOutcome::Failed, 8000) });
    assert_eq!(account_status(&persisted, &partial, None).problems[0].kind, ProblemKind::Failed);
}

#[test]
fn a_held_lock_is_a_problem_after_an_hour() {
    let mut persisted = PersistedState::default();
    persisted.add(&attempt(AttemptOutcome::Complete, 5000));
    let found = |persisted: &PersistedState, now| {
        let due = DueTimes::default();
        let it = AccountStatus::evaluate("main", persisted, &summary(5000), due, now);
        it.problems.into_iter().map(|it| it.kind).collect::<Vec<_>>()
    };
    persisted.add(&attempt(AttemptOutcome::Locked, 10_000));
    persisted.add(&attempt(AttemptOutcome::Locked, 99_000));
    assert!(found(&persisted, Timestamp(3_608_999)).is_empty());
    assert_eq!(found(&persisted, Timestamp(3_609_000)), [ProblemKind::Locked]);
    persisted.add(&attempt(AttemptOutcome::Complete, 3_600_000));
    assert!(found(&persisted, Timestamp(9_999_000)).is_empty());
}
