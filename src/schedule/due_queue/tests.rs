//! Tests of the due queue with given times.

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

/// A queue with `main`, nightly at three, handled until noon on the tenth.
fn nightly() -> DueQueue {
    let mut queue = DueQueue::default();
    let noon = at("2026-11-10T12:00:00");
    queue.insert("main", timetable("0 3 * * *"), served(noon), noon);
    queue
}

const MAIN: [&str; 1] = ["main"];

#[test]
fn many_missed_slots_are_caught_up_with_one_backup() {
    let mut queue = nightly();
    assert!(queue.due(at("2026-11-11T02:59:59")).is_empty());
    assert_eq!(queue.due(at("2026-11-11T03:00:00")), MAIN);
    let late = at("2026-11-20T17:00:00");
    assert_eq!(queue.due(late), MAIN);
    queue.begin("main", late);
    assert!(queue.due(late.plus(Duration::from_secs(86_400))).is_empty(), "no overlap");
    queue.end("main", BackupEnd::Finished, late);
    assert_eq!(queue.next("main"), Some(at("2026-11-21T03:00:00")));
}

#[test]
fn a_slot_that_passes_during_a_backup_is_served_after_it() {
    let mut queue = DueQueue::default();
    let begin = at("2026-11-10T12:00:00");
    queue.insert("main", timetable("*/10 * * * *"), served(begin), begin);
    queue.begin("main", at("2026-11-10T12:10:00"));
    let end = at("2026-11-10T12:45:00");
    queue.end("main", BackupEnd::Finished, end);
    assert_eq!(queue.due(end), MAIN);
    queue.begin("main", end);
    queue.end("main", BackupEnd::Finished, end);
    assert_eq!(queue.next("main"), Some(at("2026-11-10T12:50:00")));
}

#[test]
fn an_account_without_a_backup_and_a_stopped_one_are_due_at_once() {
    let mut queue = DueQueue::default();
    let now = at("2026-11-10T12:00:00");
    queue.insert("new", timetable("0 3 * * *"), QueueHistory::default(), now);
    let stopped = QueueHistory { stopped: true, ..served(now) };
    queue.insert("stopped", timetable("0 3 * * *"), stopped, now);
    queue.insert("other", timetable("0 3 * * *"), served(now), now);
    assert_eq!(queue.due(now), ["new", "stopped"]);
}

#[test]
fn a_failed_backup_is_retried_three_times_and_then_waits_for_its_slot() {
    let mut queue = nightly();
    let mut now = at("2026-11-11T03:00:00");
    for minutes in [5, 15, 60] {
        queue.begin("main", now);
        queue.end("main", BackupEnd::Failed, now);
        now = now.plus(Duration::from_secs(minutes * 60));
        assert_eq!(queue.next("main"), Some(now));
        assert_eq!(queue.due(now), MAIN);
    }
    queue.begin("main", now);
    queue.end("main", BackupEnd::Failed, now);
    let slot = at("2026-11-12T03:00:00");
    assert_eq!(queue.next("main"), Some(slot));
    queue.begin("main", slot);
    queue.end("main", BackupEnd::Failed, slot);
    assert_eq!(queue.next("main"), Some(slot.plus(Duration::from_secs(300))), "counted anew");
}

#[test]
fn a_slot_replaces_a_later_retry_and_a_refused_key_is_not_retried() {
    let mut queue = DueQueue::default();
    let begin = at("2026-11-10T12:00:00");
    queue.insert("main", timetable("* * * * *"), served(begin), begin);
    queue.begin("main", at("2026-11-10T12:01:00"));
    queue.end("main", BackupEnd::Failed, at("2026-11-10T12:01:10"));
    assert_eq!(queue.next("main"), Some(at("2026-11-10T12:02:00")));
    let mut queue = nightly();
    queue.begin("main", at("2026-11-11T03:00:00"));
    queue.end("main", BackupEnd::FailedForGood, at("2026-11-11T03:00:01"));
    assert_eq!(queue.next("main"), Some(at("2026-11-12T03:00:00")));
}

#[test]
fn failed_attempts_are_known_after_a_restart() {
    let mut queue = DueQueue::default();
    let (ended, now) = (at("2026-11-11T03:10:00"), at("2026-11-11T03:12:00"));
    let past = QueueHistory { failed: Some((2, ended)), ..served(ended) };
    queue.insert("main", timetable("0 3 * * *"), past, now);
    assert_eq!(queue.next("main"), Some(at("2026-11-11T03:25:00")));
    let past = QueueHistory { failed: Some((4, ended)), ..served(ended) };
    queue.insert("tired", timetable("0 3 * * *"), past, now);
    assert_eq!(queue.next("tired"), Some(at("2026-11-12T03:00:00")));
}

#[test]
fn another_timetable_counts_from_now_and_the_same_one_changes_nothing() {
    let mut queue = nightly();
    let now = at("2026-11-11T02:00:00");
    queue.insert("main", timetable("0 1 * * *"), QueueHistory::default(), now);
    assert!(queue.due(now).is_empty());
    assert_eq!(queue.next("main"), Some(at("2026-11-12T01:00:00")));
    let late = at("2026-11-12T01:30:00");
    queue.insert("main", timetable("0 1 * * *"), QueueHistory::default(), late);
    assert_eq!(queue.due(late), MAIN, "it was missed, and still is");
    queue.retain(|account| account != "main");
    assert_eq!((queue.due(late).len(), queue.next("main")), (0, None));
}

#[test]
fn a_small_setback_repeats_no_slot_and_a_large_one_resets_times() {
    let mut queue = nightly();
    let three = at("2026-11-11T03:00:00");
    queue.begin("main", three);
    queue.end("main", BackupEnd::Finished, three);
    assert!(queue.due(Timestamp(three.0 - HOUR)).is_empty());
    assert!(queue.due(three.plus(Duration::from_secs(1))).is_empty());
    // It was a year ahead and is right again.
    let ahead = at("2027-11-11T03:00:00");
    queue.begin("main", ahead);
    queue.end("main", BackupEnd::Failed, ahead);
    let right = at("2026-11-11T12:00:00");
    queue.due(right);
    assert!(queue.next("main").is_some_and(|next| next <= at("2026-11-12T03:00:00")));
    queue.begin("main", right);
    queue.end("main", BackupEnd::Finished, right);
    assert_eq!(queue.next("main"), Some(at("2026-11-12T03:00:00")));
}

#[test]
fn an_offset_delays_the_start_and_no_slot_is_lost_by_it() {
    let mut queue = DueQueue::default();
    let begin = at("2026-11-10T12:00:00");
    let late = Timetable { offset: Duration::from_secs(40), ..timetable("* * * * *") };
    queue.insert("main", late, served(begin), begin);
    let mut served = 0;
    for second in 0..3600 {
        let now = begin.plus(Duration::from_secs(second));
        if !queue.due(now).is_empty() {
            assert_eq!(second % 60, 40);
            queue.begin("main", now);
            queue.end("main", BackupEnd::Finished, now);
            served += 1;
        }
    }
    assert_eq!(served, 59);
}

#[test]
fn the_longest_overdue_account_is_first() {
    let mut queue = DueQueue::default();
    let begin = at("2026-11-10T00:00:00");
    for (account, line) in [("a", "0 5 * * *"), ("b", "0 3 * * *"), ("c", "0 4 * * *")] {
        queue.insert(account, timetable(line), served(begin), begin);
    }
    assert_eq!(queue.next_due(), Some(at("2026-11-10T03:00:00")));
    assert_eq!(queue.due(at("2026-11-10T06:00:00")), ["b", "c", "a"]);
    queue.begin("b", at("2026-11-10T06:00:00"));
    assert_eq!(queue.next_due(), Some(at("2026-11-10T04:00:00")));
}

#[test]
fn a_backup_is_old_when_two_slots_passed_without_another() {
    let nightly = timetable("0 3 * * *");
    let old = nightly.old_from(at("2026-11-10T03:04:00"));
    assert_eq!(old, Some(at("2026-11-12T04:00:00")));
}

#[test]
fn a_new_timetable_of_an_account_that_is_locked_loses_no_backup() {
    let mut queue = nightly();
    let three = at("2026-11-11T03:00:00");
    queue.begin("main", three);
    queue.insert("main", timetable("0 5 * * *"), QueueHistory::default(), three);
    queue.end("main", BackupEnd::Locked, three);
    assert_eq!(queue.next("main"), Some(three.plus(LOCKED_RETRY)));
}
