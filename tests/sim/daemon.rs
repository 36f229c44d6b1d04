//! The daemon's state on simulated time: a day of backups of fifty accounts, and a year of a
//! schedule with stops, clock changes and new schedules.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use linkvault::clock::{Clock, SimulatedClock, Timestamp};
use linkvault::daemon::state::BackupJob;
use linkvault::daemon::{DaemonState, Schedule, ScheduledAccount};
use linkvault::health::account_status::Health;
use linkvault::health::attempt::{AttemptOutcome, BackupAttempt, VaultSummary};
use linkvault::health::persisted_state::PersistedState;
use linkvault::model::SnapshotId;
use linkvault::schedule::due_queue::{BackupEnd, DueQueue, QueueHistory, Timetable};
use linkvault::vault::snapshot::SnapshotStatus;

use super::world::World;

/// 2026-11-01T00:00:00Z, the start of every world.
const BEGIN: Timestamp = Timestamp(1_793_491_200_000);
const HOUR: Duration = Duration::from_secs(3600);

fn scheduled(account: &str, line: &str) -> ScheduledAccount {
    let schedule = Schedule::parse(line).unwrap();
    ScheduledAccount {
        account: account.to_owned(),
        vault: PathBuf::from(account),
        schedule: line.to_owned(),
        timetable: Timetable::new(account, schedule, chrono_tz::Europe::Berlin),
        max_age: None,
    }
}

/// A backup of an account in its own world, whose clock is first set to `now`.
fn back_up(world: &mut World, now: Timestamp) -> BackupAttempt {
    world.pass(now.since(world.now()));
    let made = world.start();
    let summary = made.as_ref().ok().map(|summary| summary.snapshot.clone());
    let outcome = match &summary {
        Some(snapshot) if snapshot.status == SnapshotStatus::Complete => AttemptOutcome::Complete,
        Some(_) => AttemptOutcome::Partial,
        None => AttemptOutcome::Failed,
    };
    BackupAttempt {
        snapshot: summary.map(|snapshot| snapshot.number),
        message: made.err().map(|error| error.to_string()),
        ..BackupAttempt::new(now, world.now(), outcome)
    }
}

#[test]
fn fifty_accounts_are_backed_up_for_a_day_despite_failures() {
    const WORKERS: usize = 8;
    let names: Vec<_> = (0..50).map(|nth| format!("account-{nth:02}")).collect();
    let mut worlds: BTreeMap<String, World> = BTreeMap::new();
    for (nth, name) in names.iter().enumerate() {
        let world = World::with_sample_account().seeded(nth as u64);
        if nth % 5 == 0 {
            world.set_faults("html=0.5", nth as u64);
        }
        worlds.insert(name.clone(), world);
    }
    let clock = Arc::new(SimulatedClock::new(BEGIN));
    let daemon_state = DaemonState::new(clock.clone());
    // Every six hours: at 2, 8, 14 and 20 o'clock in Berlin.
    let all_scheduled: Vec<_> =
        names.iter().map(|name| scheduled(name, "0 2,8,14,20 * * *")).collect();
    daemon_state.update_accounts(all_scheduled, BTreeMap::new());
    let mut under_way: Vec<(BackupJob, BackupAttempt)> = Vec::new();
    let mut made: BTreeMap<String, Vec<BackupAttempt>> = BTreeMap::new();
    let end = BEGIN.plus(24 * HOUR);
    while clock.now() < end {
        for _ in 0..daemon_state.reserve_workers(WORKERS) {
            let Some(job) = daemon_state.take() else { break };
            let attempt = back_up(worlds.get_mut(&job.scheduled.account).unwrap(), clock.now());
            under_way.push((job, attempt));
        }
        assert!(under_way.len() <= WORKERS);
        let next = under_way.iter().map(|(_, attempt)| attempt.ended).min();
        let soonest = daemon_state.tick().filter(|soonest| *soonest > clock.now());
        let soonest = soonest.filter(|_| under_way.len() < WORKERS);
        let next = next.into_iter().chain(soonest).min().unwrap_or(end);
        clock.sleep(next.since(clock.now()));
        let now = clock.now();
        let (ended, rest) = under_way.into_iter().partition(|(_, attempt)| attempt.ended <= now);
        under_way = rest;
        let ended: Vec<(BackupJob, BackupAttempt)> = ended;
        for (job, attempt) in ended {
            daemon_state.record_attempt(
                &job,
                &attempt,
                Some(VaultSummary::default()),
                &mut |_, _| {},
            );
            daemon_state.finish_job(&job, &mut |_, _| {});
            daemon_state.release_worker();
            made.entry(job.scheduled.account.clone()).or_default().push(attempt);
        }
    }
    let mut failed = 0;
    for (nth, name) in names.iter().enumerate() {
        let attempts = &made[name];
        // Once at the start, and then at the four times; more often for accounts that fail.
        assert!(attempts.windows(2).all(|pair| pair[0].ended <= pair[1].started), "no overlap");
        let bad = attempts.iter().filter(|it| it.outcome == AttemptOutcome::Failed).count();
        if nth % 5 == 0 {
            failed += bad;
            assert!((5..=20).contains(&attempts.len()), "{name}: {}", attempts.len());
        } else {
            assert_eq!((attempts.len(), bad), (5, 0), "{name}");
            let late = attempts.iter().skip(1).map(|it| it.started.0 % HOUR.as_millis() as i64);
            let late = late.max().unwrap();
            assert!(late < 10 * 60_000, "{name} began {late} ms late, behind who fails");
        }
    }
    assert!(failed >= 5, "the faults did fail backups: {failed}");
    let account_statuses = daemon_state.account_statuses();
    let good = account_statuses.iter().filter(|it| it.health == Health::Good).count();
    assert!(good >= 40, "{good}");
    for world in worlds.values_mut() {
        assert!(world.open().check().unwrap().problems.is_empty());
    }
}

/// Runs a schedule minute by minute, like a daemon that is stopped between `off`.
fn year(line: &str, zone: chrono_tz::Tz, off: impl Fn(Timestamp) -> bool) -> Vec<Timestamp> {
    let timetable =
        Timetable { schedule: Schedule::parse(line).unwrap(), zone, offset: Duration::ZERO };
    let mut agenda = DueQueue::default();
    let past = QueueHistory { served: Some(BEGIN), ..QueueHistory::default() };
    agenda.insert("main", timetable.clone(), past, BEGIN);
    let (mut served, mut was_off) = (Vec::new(), false);
    for minute in 1..=366 * 24 * 60 {
        let now = BEGIN.plus(Duration::from_secs(minute * 60));
        if off(now) {
            was_off = true;
            continue;
        }
        if std::mem::take(&mut was_off) {
            // Another process, with the persisted state.
            let past = QueueHistory {
                served: agenda.served("main").map(|it| it.0),
                ..QueueHistory::default()
            };
            agenda = DueQueue::default();
            agenda.insert("main", timetable.clone(), past, now);
        }
        for account in agenda.due(now) {
            agenda.begin(&account, now);
            agenda.end(&account, BackupEnd::Finished, now);
            served.push(now);
        }
    }
    served
}

#[test]
fn a_year_of_a_nightly_backup_has_a_backup_for_each_night() {
    for zone in [chrono_tz::Europe::Berlin, chrono_tz::America::New_York, chrono_tz::UTC] {
        let nights = year("30 2 * * *", zone, |_| false);
        assert_eq!(nights.len(), 366, "{zone}");
    }
}

#[test]
fn a_daemon_stopped_for_weeks_makes_one_backup_at_each_start() {
    // Stopped for the second half of each fortnight.
    let fortnight = |now: Timestamp| now.since(BEGIN).as_secs() / 86_400 % 14 >= 7;
    let served = year("0 * * * *", chrono_tz::UTC, fortnight);
    // Seven days of hourly backups in each fortnight. The first after the return is both the one of
    // that hour and the catch-up of the week.
    assert_eq!(served.len(), (366 / 14 * 7 + 2) * 24);
    assert!(served.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_lost_persisted_state_neither_skips_nor_repeats_a_backup() {
    let persisted = PersistedState::default();
    let attempt = BackupAttempt {
        snapshot: Some(SnapshotId(1)),
        ..BackupAttempt::new(BEGIN, BEGIN.plus(HOUR), AttemptOutcome::Complete)
    };
    let held = VaultSummary { newest: Some(attempt), ..VaultSummary::default() };
    let now = BEGIN.plus(2 * HOUR);
    let clock = Arc::new(SimulatedClock::new(now));
    let daemon_state = DaemonState::new(clock.clone());
    let all_scheduled = vec![scheduled("main", "0 3 * * *")];
    daemon_state
        .update_accounts(all_scheduled, BTreeMap::from([("main".to_owned(), (persisted, held))]));
    // It began at 1 o'clock in Berlin; now it is 3 there, and its minute has come.
    clock.sleep(Duration::from_secs(60));
    assert_eq!(daemon_state.reserve_workers(1), 1);
    assert_eq!(daemon_state.take().map(|job| job.scheduled.account), Some("main".to_owned()));
}
