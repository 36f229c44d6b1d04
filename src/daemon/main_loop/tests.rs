//! Tests of the loop with its threads and a fake worker.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::clock::{Interrupt, SystemClock};
use crate::daemon::main_loop::*;
use crate::health::account_status::Health;
use crate::schedule::crontab::Schedule;
use crate::schedule::due_queue::Timetable;

/// A worker that reports its calls. `stuck` waits for the gate, `broken` panics, `failing` fails.
struct FakeWorker {
    folder: tempfile::TempDir,
    accounts: Mutex<Result<Vec<&'static str>, Vec<String>>>,
    calls: Mutex<Sender<String>>,
    gate: Mutex<Receiver<()>>,
    clock: Arc<dyn Clock>,
}

impl Worker for FakeWorker {
    fn scheduled_accounts(&self) -> Result<Vec<ScheduledAccount>, Vec<String>> {
        let accounts = self.accounts.lock().unwrap().clone()?;
        let all_scheduled = accounts.into_iter().map(|account| ScheduledAccount {
            account: account.to_owned(),
            vault: self.folder.path().join(account),
            schedule: "* * * * * *".to_owned(),
            timetable: Timetable::new(
                account,
                Schedule::parse("* * * * * *").unwrap(),
                chrono_tz::UTC,
            ),
            max_age: None,
        });
        Ok(all_scheduled.collect())
    }

    fn vault_summary(&self, _account: &str) -> Option<VaultSummary> {
        Some(VaultSummary::default())
    }

    fn vault_summary_if_changed(&self, account: &str) -> Option<VaultSummary> {
        (account == "by hand").then(|| VaultSummary {
            unknown_writes: 7,
            limit: Some(9),
            ..VaultSummary::default()
        })
    }

    fn back_up(&self, account: &str) -> BackupAttempt {
        self.calls.lock().unwrap().send(account.to_owned()).unwrap();
        match account {
            "stuck" => self.gate.lock().unwrap().recv().unwrap_or_default(),
            "broken" => panic!("it broke"),
            _ => {}
        }
        let now = self.clock.now();
        let failing = account == "failing";
        let outcome = if failing { AttemptOutcome::Failed } else { AttemptOutcome::Complete };
        BackupAttempt {
            message: failing.then(|| "no route".to_owned()),
            requests: 1,
            ..BackupAttempt::new(now, now, outcome)
        }
    }

    fn post_backup(&self, _account: &str, _attempt: &BackupAttempt) -> Option<Vec<String>> {
        None
    }

    fn evaluate(
        &self,
        account_status: &AccountStatus,
        ended: Option<FinishedBackup<'_>>,
        persisted: &mut PersistedState,
    ) {
        if ended.is_none() {
            let _ =
                self.calls.lock().unwrap().send(format!("evaluated {}", account_status.account));
        }
        persisted.heartbeat |= ended.is_some();
    }

    fn deliver(&self, account: &str, pending: &mut PendingAlerts) {
        if account == "slow" {
            let _ = self.calls.lock().unwrap().send("delivers".to_owned());
            let _ = self.gate.lock().unwrap().recv();
            return;
        }
        pending.heartbeat = false;
    }
}

struct Running {
    daemon: DaemonLoop,
    work: Arc<FakeWorker>,
    interrupt: Interrupt,
    calls: Receiver<String>,
    gate: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(accounts: &[&'static str], workers: usize, once: bool) -> Self {
        let interrupt = Interrupt::default();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(interrupt.clone()));
        let ((tell, calls), (open, gate)) = (channel(), channel());
        let work = Arc::new(FakeWorker {
            folder: tempfile::tempdir().unwrap(),
            accounts: Mutex::new(Ok(accounts.to_vec())),
            calls: Mutex::new(tell),
            gate: Mutex::new(gate),
            clock: Arc::clone(&clock),
        });
        let daemon = DaemonLoop {
            state: Arc::new(DaemonState::new(Arc::clone(&clock))),
            worker: Arc::clone(&work) as _,
            clock,
            waker: Waker::default(),
            reload: Arc::default(),
            workers,
            tick: Duration::from_secs(10),
            shutdown_timeout: Duration::from_millis(if accounts == ["stuck"] {
                50
            } else {
                10_000
            }),
        };
        daemon.load().unwrap();
        let loops = daemon.clone();
        let thread = Some(std::thread::spawn(move || loops.run(once, &|_| {})));
        Self { daemon, work, interrupt, calls, gate: Some(open), thread }
    }

    /// Waits until all these calls were reported.
    fn wait_for(&self, calls: &[&str]) {
        let mut left: BTreeSet<_> = calls.iter().map(|call| (*call).to_owned()).collect();
        while !left.is_empty() {
            let call = self.calls.recv_timeout(Duration::from_secs(30));
            left.remove(&call.unwrap_or_else(|_| panic!("missing calls {left:?}")));
        }
    }

    fn ended(mut self) -> Arc<FakeWorker> {
        self.thread.take().unwrap().join().unwrap();
        Arc::clone(&self.work)
    }

    fn stopped(mut self) -> Arc<FakeWorker> {
        // First, so that no account is backed up again when the gate opens.
        self.interrupt.raise();
        self.daemon.waker.wake();
        self.gate = None;
        self.ended()
    }
}

fn persisted(work: &FakeWorker, account: &str) -> PersistedState {
    PersistedState::read(&work.folder.path().join(account)).0
}

#[test]
fn a_stuck_account_does_not_delay_others() {
    let running = Running::start(&["a", "b", "stuck"], 2, false);
    running.wait_for(&["stuck", "a", "b"]);
    running.wait_for(&["a", "b"]);
    running.wait_for(&["a", "b"]);
    let daemon_state = &running.daemon.state;
    assert_eq!(daemon_state.alive(), Ok(()));
    let stuck = &daemon_state.account_statuses()[2];
    assert_eq!((stuck.account.as_str(), stuck.running.is_some()), ("stuck", true));
    let work = running.stopped();
    assert!(persisted(&work, "a").totals.complete >= 2);
    assert_eq!(persisted(&work, "stuck").totals.backups, 1);
}

#[test]
fn a_panic_is_a_failed_backup_of_one_account() {
    let running = Running::start(&["broken", "good"], 1, true);
    running.wait_for(&["broken", "good"]);
    let daemon_state = Arc::clone(&running.daemon.state);
    let work = running.ended();
    let last = persisted(&work, "broken").last.unwrap();
    assert_eq!(last.outcome, AttemptOutcome::Failed);
    assert_eq!(last.message.as_deref(), Some("internal error: it broke"));
    let health: Vec<_> = daemon_state.account_statuses().iter().map(|it| it.health).collect();
    assert_eq!(health, [Health::Failing, Health::Good]);
}

#[test]
fn once_backs_up_each_account_and_ends() {
    let running = Running::start(&["a", "b", "c", "failing"], 2, true);
    let work = running.ended();
    for account in ["a", "b", "c", "failing"] {
        assert_eq!(persisted(&work, account).totals.backups, 1, "{account}");
    }
    assert_eq!(persisted(&work, "failing").tries, 1);
}

#[test]
fn a_reload_adds_and_removes_accounts_and_an_invalid_one_changes_nothing() {
    let running = Running::start(&["a", "b"], 2, false);
    running.wait_for(&["a", "b", "evaluated a"]);
    let reload = |accounts| {
        *running.work.accounts.lock().unwrap() = accounts;
        running.daemon.reload.store(true, Ordering::SeqCst);
        running.daemon.waker.wake();
    };
    reload(Ok(vec!["b", "c"]));
    running.wait_for(&["c"]);
    running.wait_for(&["b", "c"]);
    assert_eq!(running.daemon.state.accounts(), ["b", "c"]);
    reload(Err(vec!["line 3 is wrong".to_owned()]));
    running.wait_for(&["b", "c"]);
    running.wait_for(&["b", "c"]);
    assert_eq!(running.daemon.state.accounts(), ["b", "c"]);
    running.stopped();
}

#[test]
fn a_slow_reload_delays_neither_backups_nor_the_end() {
    let running = Running::start(&["a"], 1, false);
    running.wait_for(&["a"]);
    let work = Arc::clone(&running.work);
    let slow = work.accounts.lock().unwrap();
    running.daemon.reload.store(true, Ordering::SeqCst);
    running.daemon.waker.wake();
    for _ in 0..3 {
        running.wait_for(&["a"]);
    }
    running.stopped();
    drop(slow);
}

#[test]
fn a_hanging_backup_is_recorded_as_stopped_and_due_at_the_next_start() {
    let mut running = Running::start(&["stuck"], 1, false);
    running.wait_for(&["stuck"]);
    let gate = running.gate.take();
    running.interrupt.raise();
    running.daemon.waker.wake();
    let work = running.ended();
    let persisted = persisted(&work, "stuck");
    assert_eq!(persisted.last.as_ref().map(|last| last.outcome), Some(AttemptOutcome::Stopped));
    assert!(persisted.past("* * * * * * UTC", &VaultSummary::default(), Timestamp(0)).stopped);
    drop(gate);
}

/// Otherwise the next process would count the new schedule from its own start.
#[test]
fn the_start_of_a_new_schedule_is_persisted() {
    let running = Running::start(&["stuck"], 1, false);
    running.wait_for(&["stuck"]);
    let work = running.stopped();
    let vault = work.folder.path().join("stuck");
    let mut known = persisted(&work, "stuck");
    known.schedule = Some("0 3 1 1 * UTC".to_owned());
    known.write(&vault).unwrap();
    let interrupt = Interrupt::default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(interrupt));
    let daemon = DaemonLoop {
        state: Arc::new(DaemonState::new(Arc::clone(&clock))),
        worker: Arc::clone(&work) as _,
        clock: Arc::clone(&clock),
        waker: Waker::default(),
        reload: Arc::default(),
        workers: 1,
        tick: Duration::from_secs(10),
        shutdown_timeout: Duration::ZERO,
    };
    daemon.load().unwrap();
    assert_eq!(persisted(&work, "stuck").schedule.as_deref(), Some("* * * * * * UTC"));
}

#[test]
fn a_backup_is_persisted_before_a_slow_delivery() {
    let running = Running::start(&["slow"], 2, false);
    running.wait_for(&["slow"]);
    running.wait_for(&["slow", "delivers"]);
    assert!(persisted(&running.work, "slow").heartbeat, "it is on the disk before it is delivered");
    let work = running.stopped();
    let last = persisted(&work, "slow").last.unwrap();
    assert_eq!(last.outcome, AttemptOutcome::Complete);
}

#[test]
fn once_evaluates_all_accounts_at_the_end() {
    let running = Running::start(&["a", "failing"], 2, true);
    running.wait_for(&["a", "evaluated a", "evaluated failing"]);
    running.ended();
}

#[test]
fn vault_changes_by_other_commands_are_noticed_between_backups() {
    let running = Running::start(&["by hand"], 1, true);
    let daemon_state = Arc::clone(&running.daemon.state);
    running.ended();
    assert_eq!(daemon_state.account_statuses()[0].unknown_writes, 7);
}
