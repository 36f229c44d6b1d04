//! The journal of runs: what it stores, and when it is synced to disk.

use linkvault::model::{RecordKey, Resource, RunId, SentValue, SnapshotId};
use linkvault::vault::id_map::IdMapping;
use linkvault::vault::journal::{NewRun, RunCommand, RunStatus, StepResult, StepState};
use linkvault::vault::{Vault, VaultError};

use super::sample;
use crate::vault::snapshot_builder::{assert_sound, campaigns, day};

fn new(steps: usize) -> NewRun {
    NewRun {
        command: RunCommand::Apply,
        plan_id: "abc".to_owned(),
        touched: vec![Resource::Campaigns],
        before: SnapshotId(1),
        steps: (1..=steps).map(|nth| format!("step {nth}")).collect(),
        ..NewRun::default()
    }
}

fn states(vault: &Vault, run: RunId) -> Vec<(StepState, u32)> {
    vault.steps(run).unwrap().iter().map(|it| (it.state, it.attempts)).collect()
}

#[test]
fn a_step_is_planned_then_sent_then_closed_or_planned_again() {
    use StepState::{Done, Planned, Sent};
    let mut vault = Vault::in_memory().unwrap();
    let run = vault.begin_run(&new(3), day(0)).unwrap();
    assert_eq!(states(&vault, run), [(Planned, 0), (Planned, 0), (Planned, 0)]);
    vault.mark_sent(run, &[1, 2], day(0)).unwrap();
    assert_eq!(states(&vault, run), [(Sent, 1), (Sent, 1), (Planned, 0)]);
    let done = StepResult { id: Some(9), ..StepResult::of(Done) };
    vault.record_result(run, 1, &done, day(1), false).unwrap();
    vault.revert_to_planned(run, &[2], day(1)).unwrap();
    assert_eq!(states(&vault, run), [(Done, 1), (Planned, 0), (Planned, 0)]);
    let steps = vault.steps(run).unwrap();
    assert_eq!(
        (steps[0].id, steps[0].answered, &*steps[2].spec),
        (Some(9), Some(day(1)), "step 3")
    );
    assert_sound(&mut vault);
}

#[test]
fn a_batched_result_is_committed_with_the_next_sent_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    let run = vault.begin_run(&new(2), day(0)).unwrap();
    vault.mark_sent(run, &[1], day(0)).unwrap();
    vault.record_result(run, 1, &StepResult::of(StepState::Done), day(0), true).unwrap();
    let other = || Vault::open_read_only(&path).unwrap();
    assert_eq!(states(&other(), run)[0].0, StepState::Sent);
    vault.mark_sent(run, &[2], day(0)).unwrap();
    assert_eq!(states(&other(), run), [(StepState::Done, 1), (StepState::Sent, 1)]);
}

#[test]
fn sent_values_are_stored_with_their_step() {
    let mut vault = Vault::in_memory().unwrap();
    let run = vault.begin_run(&new(1), day(0)).unwrap();
    let sent = |field: &str| SentValue {
        resource: Resource::Campaigns,
        key: RecordKey::Id(7),
        field: field.to_owned(),
        value: "x".into(),
        created: true,
    };
    let done = StepResult {
        remember: vec![sent("slug"), sent("password")],
        maps: Some(IdMapping {
            origin: String::new(),
            resource: Resource::Campaigns,
            old: 3,
            new: 7,
        }),
        ..StepResult::of(StepState::Done)
    };
    vault.record_result(run, 1, &done, day(0), false).unwrap();
    let kept = vault.remembered(Resource::Campaigns, &RecordKey::Id(7)).unwrap();
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["slug"]);
    assert_eq!(vault.id_map("").unwrap()[&(Resource::Campaigns, 3)], 7);
    assert_sound(&mut vault);
}

#[test]
fn ids_of_other_accounts_are_separate_and_follow_restored_records() {
    let mut vault = Vault::in_memory().unwrap();
    let campaigns = Resource::Campaigns;
    let stands = |origin: &str, old, new| {
        let origin = origin.to_owned();
        IdMapping { origin, resource: campaigns, old, new }
    };
    let found = [stands("a#1", 3, 30), stands("b#1", 3, 31), stands("", 30, 40), stands("", 3, 5)];
    vault.note_ids(RunId(0), &found, day(0)).unwrap();
    assert_sound(&mut vault);
    let of = |vault: &Vault, origin: &str| vault.id_map(origin).unwrap()[&(campaigns, 3)];
    assert_eq!((of(&vault, "a#1"), of(&vault, "b#1"), of(&vault, "")), (30, 31, 5));
    let moved = linkvault::apply::account_memory_with_ids_of(&vault, "a#1").unwrap().ids;
    assert_eq!(moved[&(campaigns, 3)], 40);
    assert_eq!(moved.len(), 1);
    vault.note_ids(RunId(2), &[stands("a#1", 3, 33)], day(1)).unwrap();
    assert_eq!((of(&vault, "a#1"), of(&vault, "b#1")), (33, 31));
    assert_sound(&mut vault);
}

#[test]
fn an_applied_plan_is_recorded_and_an_unfinished_run_keeps_its_snapshots() {
    let mut vault = Vault::in_memory().unwrap();
    vault.claim(&sample::identity(), false).unwrap();
    campaigns(&mut vault, day(0), &[(1, "one")]);
    let run = vault.begin_run(&new(1), day(0)).unwrap();
    assert_eq!(vault.run_of_plan("abc").unwrap(), Some(run));
    assert_eq!(vault.run_of_plan("other").unwrap(), None);
    assert_eq!(vault.run_of_plan("").unwrap(), None);
    assert_eq!(vault.needed_by_runs().unwrap(), [SnapshotId(1)]);
    vault.suspend_run(run, RunStatus::Unknown, Some(SnapshotId(1)), 4, day(0)).unwrap();
    assert_eq!(vault.unfinished_run().unwrap().unwrap().number, run);
    vault.suspend_run(run, RunStatus::Complete, None, 5, day(0)).unwrap();
    assert!(vault.needed_by_runs().unwrap().is_empty());
    let told = vault.run(run).unwrap();
    assert_eq!((told.requests, told.after, told.finished), (9, Some(SnapshotId(1)), Some(day(0))));
    assert_eq!(told.count(StepState::Planned), 1);
    assert!(matches!(vault.run(RunId(99)), Err(VaultError::NoRun(RunId(99)))));
}
