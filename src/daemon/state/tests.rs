//! Tests of the daemon's state in simulated time.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::{SimulatedClock, SleepOutcome};
use crate::daemon::state::*;
use crate::health::attempt::ProblemKind;
use crate::health::attempt::{Alert, AlertEvent};
use crate::health::pending_alerts::PendingAlert;
use crate::schedule::crontab::Schedule;
use crate::schedule::due_queue::Timetable;

fn scheduled(account: &str) -> ScheduledAccount {
    let line = "0 3 * * *";
    ScheduledAccount {
        account: account.to_owned(),
        vault: PathBuf::from(account),
        schedule: line.to_owned(),
        timetable: Timetable::new(account, Schedule::parse(line).unwrap(), chrono_tz::UTC),
        max_age: None,
    }
}

/// A clock whose wall time can jump.
struct Wall(SimulatedClock, AtomicI64);

impl Wall {
    fn jump(&self, millis: i64) {
        self.1.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.now().0 + self.1.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, time: Duration) -> SleepOutcome {
        self.0.sleep(time)
    }

    fn interrupted(&self) -> bool {
        false
    }
}

fn daemon_state(accounts: &[&str]) -> (DaemonState, Arc<Wall>) {
    let begin = SimulatedClock::new(Timestamp(1_793_491_200_000));
    let clock = Arc::new(Wall(begin, AtomicI64::new(0)));
    let daemon_state = DaemonState::new(clock.clone());
    daemon_state.update_accounts(
        accounts.iter().map(|account| scheduled(account)).collect(),
        BTreeMap::new(),
    );
    (daemon_state, clock)
}

fn attempt(daemon_state: &DaemonState, outcome: AttemptOutcome) -> BackupAttempt {
    let now = daemon_state.clock.now();
    BackupAttempt {
        requests: u64::MAX,
        throttled: u64::MAX,
        waited: Duration::MAX,
        ..BackupAttempt::new(now, now, outcome)
    }
}

fn ends(daemon_state: &DaemonState, job: &BackupJob, outcome: AttemptOutcome) {
    daemon_state.record_attempt(job, &attempt(daemon_state, outcome), None, &mut |_, _| {});
    daemon_state.finish_job(job, &mut |_, _| {});
    daemon_state.release_worker();
}

fn turn(daemon_state: &DaemonState, outcome: AttemptOutcome) -> bool {
    if daemon_state.reserve_workers(1) == 0 {
        return false;
    }
    let job = daemon_state.take().unwrap();
    ends(daemon_state, &job, outcome);
    true
}

fn persisted(daemon_state: &DaemonState, account: &str) -> PersistedState {
    daemon_state.state().accounts[account].persisted.clone()
}

#[test]
fn a_locked_account_is_tried_each_minute_and_nothing_is_recorded() {
    let (daemon_state, clock) = daemon_state(&["main"]);
    for _ in 0..100 {
        assert!(turn(&daemon_state, AttemptOutcome::Locked));
        assert!(!turn(&daemon_state, AttemptOutcome::Locked), "not at once again");
        clock.sleep(Duration::from_secs(60));
    }
    let known = persisted(&daemon_state, "main");
    assert_eq!((known.last, known.tries, known.totals.failures), (None, 0, 0));
    assert!(turn(&daemon_state, AttemptOutcome::Complete));
    assert!(!turn(&daemon_state, AttemptOutcome::Complete));
}

#[test]
fn a_slot_of_a_locked_account_stays_due_for_the_next_process() {
    let (daemon_state, clock) = daemon_state(&["main"]);
    assert!(turn(&daemon_state, AttemptOutcome::Complete));
    let served = persisted(&daemon_state, "main").served;
    clock.sleep(Duration::from_secs(86_400));
    assert!(turn(&daemon_state, AttemptOutcome::Locked));
    assert_eq!(persisted(&daemon_state, "main").served, served);
    // A clock that is set back makes no account wait for longer.
    clock.jump(-7_200_000);
    assert!(turn(&daemon_state, AttemptOutcome::Complete));
}

#[test]
fn once_ends_after_changes_of_clock_and_configuration() {
    let (daemon_state, clock) = daemon_state(&["a", "b"]);
    daemon_state.only_once();
    clock.jump(-100_000_000);
    assert!(turn(&daemon_state, AttemptOutcome::Locked));
    assert!(!daemon_state.is_once_done());
    daemon_state.update_accounts(vec![scheduled("a")], BTreeMap::new());
    assert!(daemon_state.is_once_done());
}

#[test]
fn an_account_is_evaluated_during_its_backup() {
    let (daemon_state, _) = daemon_state(&["main"]);
    assert_eq!(daemon_state.reserve_workers(1), 1);
    let job = daemon_state.take().unwrap();
    let since = Timestamp(7);
    assert!(daemon_state.evaluate("main", &mut |account_status, persisted| {
        assert!(account_status.running.is_some());
        persisted.watched = Some(since);
    }));
    ends(&daemon_state, &job, AttemptOutcome::Complete);
    assert_eq!(persisted(&daemon_state, "main").watched, Some(since), "both changes are kept");
    assert_eq!(persisted(&daemon_state, "main").totals.complete, 1);
}

#[test]
fn the_result_of_an_abandoned_backup_is_ignored() {
    let (daemon_state, _) = daemon_state(&["main"]);
    assert_eq!(daemon_state.reserve_workers(1), 1);
    let job = daemon_state.take().unwrap();
    let taken = daemon_state.abandon_running();
    assert_eq!(taken.len(), 1);
    ends(&daemon_state, &job, AttemptOutcome::Complete);
    assert_eq!(persisted(&daemon_state, "main").last, None);
}

#[test]
fn a_recorded_backup_is_not_abandoned() {
    let (daemon_state, _) = daemon_state(&["main"]);
    assert_eq!(daemon_state.reserve_workers(1), 1);
    let job = daemon_state.take().unwrap();
    daemon_state.record_attempt(
        &job,
        &attempt(&daemon_state, AttemptOutcome::Complete),
        None,
        &mut |_, _| {},
    );
    assert!(daemon_state.abandon_running().is_empty(), "only the work after it is abandoned");
    assert_eq!(persisted(&daemon_state, "main").totals.complete, 1);
}

#[test]
fn alerts_added_during_a_delivery_are_kept() {
    let (daemon_state, _) = daemon_state(&["main"]);
    let item = |at| PendingAlert {
        alert: Alert {
            kind: ProblemKind::Failed,
            event: AlertEvent::Begun,
            since: Timestamp(at),
            at: Timestamp(at),
            message: String::new(),
            hint: None,
        },
        channel: crate::health::pending_alerts::AlertChannel::Webhook,
        tries: 0,
        next: Timestamp(at),
        error: None,
    };
    let add = |items: &[i64]| {
        daemon_state.evaluate("main", &mut |_, persisted| {
            persisted.outbox.extend(items.iter().map(|at| item(*at)))
        });
    };
    assert_eq!(daemon_state.take_pending("main"), None, "nothing is pending");
    add(&[1, 2]);
    let taken = daemon_state.take_pending("main").unwrap();
    assert_eq!(daemon_state.take_pending("main"), None, "a delivery is running");
    add(&[3]);
    let left = PendingAlerts {
        outbox: vec![PendingAlert { tries: 1, ..item(2) }],
        ..PendingAlerts::default()
    };
    daemon_state.restore_pending("main", &taken, &left);
    let pending: Vec<_> = persisted(&daemon_state, "main")
        .outbox
        .iter()
        .map(|it| (it.alert.at.0, it.tries))
        .collect();
    assert_eq!(pending, [(2, 1), (3, 0)]);
}

#[test]
fn times_of_a_clock_that_was_ahead_are_ignored() {
    let (daemon_state, clock) = daemon_state(&["main"]);
    clock.jump(400 * 86_400_000);
    assert!(turn(&daemon_state, AttemptOutcome::Complete));
    let ahead = attempt(&daemon_state, AttemptOutcome::Complete);
    clock.jump(-400 * 86_400_000);
    let summary = VaultSummary {
        last_complete: Some(ahead.ended),
        newest: Some(ahead),
        ..VaultSummary::default()
    };
    daemon_state.state().accounts.get_mut("main").unwrap().vault_summary = summary;
    clock.sleep(Duration::from_secs(86_400));
    let _ = daemon_state.reserve_workers(1);
    clock.sleep(Duration::from_secs(86_400));
    let job = daemon_state.take().unwrap();
    daemon_state.record_attempt(
        &job,
        &attempt(&daemon_state, AttemptOutcome::Failed),
        None,
        &mut |account_status, _| {
            let last = account_status.last.as_ref().map(|last| last.outcome);
            assert_eq!(last, Some(AttemptOutcome::Failed));
            assert_eq!(account_status.last_complete, None);
            assert_ne!(account_status.health, crate::health::account_status::Health::Good);
        },
    );
}

/// The state file may contain any values.
#[test]
fn no_recorded_state_stops_the_daemon() {
    for time in [i64::MIN, -1, 0, 1 << 50, i64::MAX] {
        let (daemon_state, clock) = daemon_state(&["other"]);
        let at = Some(Timestamp(time));
        let last = BackupAttempt {
            started: Timestamp(!time),
            ended: Timestamp(time),
            ..attempt(&daemon_state, AttemptOutcome::Failed)
        };
        let mut known = PersistedState {
            schedule: Some(scheduled("main").schedule_id()),
            served: at,
            tries: u32::MAX,
            last: Some(last),
            last_success: at,
            last_complete: at,
            watched: at,
            ..PersistedState::default()
        };
        known.totals.backups = u64::MAX;
        known.totals.failures = u64::MAX;
        known.totals.requests = u64::MAX;
        let found = BTreeMap::from([("main".to_owned(), (known, VaultSummary::default()))]);
        daemon_state.update_accounts(vec![scheduled("main")], found);
        let mut turns = 0;
        for _ in 0..30 {
            let _ = daemon_state.account_statuses();
            turns += u32::from(turn(&daemon_state, AttemptOutcome::Failed));
            clock.sleep(Duration::from_secs(3600));
        }
        assert!(turns > 0, "{time}");
    }
}
