//! The agenda, told the time by hand.

use crate::schedule::due_queue::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn at(text: &str) -> Timestamp {
    let time = chrono::DateTime::parse_from_rfc3339(&format!("{text}Z"));
    Timestamp(time.unwrap_or_else(|error| panic!("{text}: {error}")).timestamp_millis())
}

fn timetable(line: &str) -> Timetable {
    let schedule = Schedule::parse(line).unwrap();
    Timetable { schedule, zone: chrono_tz::UTC, offset: Duration::ZERO }
}

fn served(at: Timestamp) -> QueueHistory {
    QueueHistory { served: Some(at), ..QueueHistory::default() }
}

/// An agenda with `main`, nightly at three, served until noon on the tenth.
fn nightly() -> DueQueue {
    let mut agenda = DueQueue::default();
    let noon = at("2026-11-10T12:00:00");
    agenda.insert("main", timetable("0 3 * * *"), served(noon), noon);
    agenda
}

const MAIN: [&str; 1] = ["main"];

#[test]
fn many_missed_slots_are_caught_up_with_one_backup() {
    let mut agenda = nightly();
    assert!(agenda.due(at("2026-11-11T02:59:59")).is_empty());
    assert_eq!(agenda.due(at("2026-11-11T03:00:00")), MAIN);
    let late = at("2026-11-20T17:00:00");
    assert_eq!(agenda.due(late), MAIN);
    agenda.begin("main", late);
    assert!(agenda.due(late.plus(Duration::from_secs(86_400))).is_empty(), "no overlap");
    agenda.end("main", BackupEnd::Finished, late);
    assert_eq!(agenda.next("main"), Some(at("2026-11-21T03:00:00")));
}

#[test]
fn a_slot_that_passes_during_a_backup_is_served_after_it() {
    let mut agenda = DueQueue::default();
    let begin = at("2026-11-10T12:00:00");
    agenda.insert("main", timetable("*/10 * * * *"), served(begin), begin);
    agenda.begin("main", at("2026-11-10T12:10:00"));
    let end = at("2026-11-10T12:45:00");
    agenda.end("main", BackupEnd::Finished, end);
    assert_eq!(agenda.due(end), MAIN);
    agenda.begin("main", end);
    agenda.end("main", BackupEnd::Finished, end);
    assert_eq!(agenda.next("main"), Some(at("2026-11-10T12:50:00")));
}

#[test]
fn an_account_without_a_backup_and_a_stopped_one_are_due_at_once() {
    let mut agenda = DueQueue::default();
    let now = at("2026-11-10T12:00:00");
    agenda.insert("new", timetable("0 3 * * *"), QueueHistory::default(), now);
    let stopped = QueueHistory { stopped: true, ..served(now) };
    agenda.insert("stopped", timetable("0 3 * * *"), stopped, now);
    agenda.insert("other", timetable("0 3 * * *"), served(now), now);
    assert_eq!(agenda.due(now), ["new", "stopped"]);
}

#[test]
fn a_failed_backup_is_tried_again_three_times_and_then_waits_for_its_slot() {
    let mut agenda = nightly();
    let mut now = at("2026-11-11T03:00:00");
    for minutes in [5, 15, 60] {
        agenda.begin("main", now);
        agenda.end("main", BackupEnd::Failed, now);
        now = now.plus(Duration::from_secs(minutes * 60));
        assert_eq!(agenda.next("main"), Some(now));
        assert_eq!(agenda.due(now), MAIN);
    }
    agenda.begin("main", now);
    agenda.end("main", BackupEnd::Failed, now);
    let slot = at("2026-11-12T03:00:00");
    assert_eq!(agenda.next("main"), Some(slot));
    agenda.begin("main", slot);
    agenda.end("main", BackupEnd::Failed, slot);
    assert_eq!(agenda.next("main"), Some(slot.plus(Duration::from_secs(300))), "counted anew");
}

#[test]
fn a_slot_before_the_next_try_is_enough_and_a_refused_key_is_not_tried_again() {
    let mut agenda = DueQueue::default();
    let begin = at("2026-11-10T12:00:00");
    agenda.insert("main", timetable("* * * * *"), served(begin), begin);
    agenda.begin("main", at("2026-11-10T12:01:00"));
    agenda.end("main", BackupEnd::Failed, at("2026-11-10T12:01:10"));
    assert_eq!(agenda.next("main"), Some(at("2026-11-10T12:02:00")));
    let mut agenda = nightly();
    agenda.begin("main", at("2026-11-11T03:00:00"));
    agenda.end("main", BackupEnd::FailedForGood, at("2026-11-11T03:00:01"));
    assert_eq!(agenda.next("main"), Some(at("2026-11-12T03:00:00")));
}

#[test]
fn tries_are_remembered_over_a_restart() {
    let mut agenda = DueQueue::default();
    let (ended, now) = (at("2026-11-11T03:10:00"), at("2026-11-11T03:12:00"));
    let past = QueueHistory { failed: Some((2, ended)), ..served(ended) };
    agenda.insert("main", timetable("0 3 * * *"), past, now);
    assert_eq!(agenda.next("main"), Some(at("2026-11-11T03:25:00")));
    let past = QueueHistory { failed: Some((4, ended)), ..served(ended) };
    agenda.insert("tired", timetable("0 3 * * *"), past, now);
    assert_eq!(agenda.next("tired"), Some(at("2026-11-12T03:00:00")));
}

#[test]
fn another_timetable_counts_from_now_and_the_same_one_changes_nothing() {
    let mut agenda = nightly();
    let now = at("2026-11-11T02:00:00");
    agenda.insert("main", timetable("0 1 * * *"), QueueHistory::default(), now);
    assert!(agenda.due(now).is_empty());
    assert_eq!(agenda.next("main"), Some(at("2026-11-12T01:00:00")));
    let late = at("2026-11-12T01:30:00");
    agenda.insert("main", timetable("0 1 * * *"), QueueHistory::default(), late);
    assert_eq!(agenda.due(late), MAIN, "it was missed, and still is");
    agenda.retain(|account| account != "main");
    assert_eq!((agenda.due(late).len(), agenda.next("main")), (0, None));
}

#[test]
fn a_clock_set_back_a_little_serves_nothing_twice_and_one_set_back_far_is_believed() {
    let mut agenda = nightly();
    let three = at("2026-11-11T03:00:00");
    agenda.begin("main", three);
    agenda.end("main", BackupEnd::Finished, three);
    assert!(agenda.due(Timestamp(three.0 - HOUR)).is_empty());
    assert!(agenda.due(three.plus(Duration::from_secs(1))).is_empty());
    // It was a year ahead, and is right again.
    let ahead = at("2027-11-11T03:00:00");
    agenda.begin("main", ahead);
    agenda.end("main", BackupEnd::Failed, ahead);
    let right = at("2026-11-11T12:00:00");
    agenda.due(right);
    assert!(agenda.next("main").is_some_and(|next| next <= at("2026-11-12T03:00:00")));
    agenda.begin("main", right);
    agenda.end("main", BackupEnd::Finished, right);
    assert_eq!(agenda.next("main"), Some(at("2026-11-12T03:00:00")));
}

#[test]
fn an_offset_delays_the_start_and_no_slot_is_lost_by_it() {
    let mut agenda = DueQueue::default();
    let begin = at("2026-11-10T12:00:00");
    let late = Timetable { offset: Duration::from_secs(40), ..timetable("* * * * *") };
    agenda.insert("main", late, served(begin), begin);
    let mut served = 0;
    for second in 0..3600 {
        let now = begin.plus(Duration::from_secs(second));
        if !agenda.due(now).is_empty() {
            assert_eq!(second % 60, 40);
            agenda.begin("main", now);
            agenda.end("main", BackupEnd::Finished, now);
            served += 1;
        }
    }
    assert_eq!(served, 59);
}

#[test]
fn the_account_that_waits_longest_is_first_and_the_one_due_next_is_known() {
    let mut agenda = DueQueue::default();
    let begin = at("2026-11-10T00:00:00");
    for (account, line) in [("a", "0 5 * * *"), ("b", "0 3 * * *"), ("c", "0 4 * * *")] {
        agenda.insert(account, timetable(line), served(begin), begin);
    }
    assert_eq!(agenda.next_due(), Some(at("2026-11-10T03:00:00")));
    assert_eq!(agenda.due(at("2026-11-10T06:00:00")), ["b", "c", "a"]);
    agenda.begin("b", at("2026-11-10T06:00:00"));
    assert_eq!(agenda.next_due(), Some(at("2026-11-10T04:00:00")));
}

#[test]
fn a_backup_is_old_when_two_slots_passed_without_another() {
    let nightly = timetable("0 3 * * *");
    let old = nightly.old_from(at("2026-11-10T03:04:00"));
    assert_eq!(old, Some(at("2026-11-12T04:00:00")));
}

#[test]
fn a_new_timetable_of_an_account_that_is_locked_loses_no_backup() {
    let mut agenda = nightly();
    let three = at("2026-11-11T03:00:00");
    agenda.begin("main", three);
    agenda.insert("main", timetable("0 5 * * *"), QueueHistory::default(), three);
    agenda.end("main", BackupEnd::Locked, three);
    assert_eq!(agenda.next("main"), Some(three.plus(SOON)));
}
