//! The loop with its threads, on work that does nothing.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::clock::{Interrupt, SystemClock};
use crate::daemon::main_loop::*;
use crate::health::account_status::Health;
use crate::model::CountOrPercent;
use crate::schedule::crontab::Schedule;
use crate::schedule::due_queue::Timetable;

/// Work that tells what it was asked to do. `stuck` waits to be let go, `broken`
/// panics, `failing` fails.
struct Fake {
    folder: tempfile::TempDir,
    accounts: Mutex<Result<Vec<&'static str>, Vec<String>>>,
    told: Mutex<Sender<String>>,
    gate: Mutex<Receiver<()>>,
    clock: Arc<dyn Clock>,
}

impl Worker for Fake {
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
            most_removed: CountOrPercent::default(),
        });
        Ok(all_scheduled.collect())
    }

    fn look(&self, _account: &str) -> Option<VaultSummary> {
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
        self.told.lock().unwrap().send(account.to_owned()).unwrap();
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
            let _ = self.told.lock().unwrap().send(format!("judged {}", account_status.account));
        }
        persisted.heartbeat |= ended.is_some();
    }

    fn deliver(&self, account: &str, pending: &mut PendingAlerts) {
        if account == "deaf" {
            let _ = self.told.lock().unwrap().send("delivers".to_owned());
            let _ = self.gate.lock().unwrap().recv();
            return;
        }
        pending.heartbeat = false;
    }
}

struct Running {
    service: DaemonLoop,
    work: Arc<Fake>,
    interrupt: Interrupt,
    told: Receiver<String>,
    gate: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(accounts: &[&'static str], workers: usize, once: bool) -> Self {
        let interrupt = Interrupt::default();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(interrupt.clone()));
        let ((tell, told), (open, gate)) = (channel(), channel());
        let work = Arc::new(Fake {
            folder: tempfile::tempdir().unwrap(),
            accounts: Mutex::new(Ok(accounts.to_vec())),
            told: Mutex::new(tell),
            gate: Mutex::new(gate),
            clock: Arc::clone(&clock),
        });
        let service = DaemonLoop {
            state: Arc::new(DaemonState::new(Arc::clone(&clock))),
            work: Arc::clone(&work) as _,
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
        service.load().unwrap();
        let loops = service.clone();
        let thread = Some(std::thread::spawn(move || loops.run(once, &|_| {})));
        Self { service, work, interrupt, told, gate: Some(open), thread }
    }

    /// Waits until all of these were told.
    fn hear(&self, words: &[&str]) {
        let mut left: BTreeSet<_> = words.iter().map(|word| (*word).to_owned()).collect();
        while !left.is_empty() {
            let heard = self.told.recv_timeout(Duration::from_secs(30));
            left.remove(&heard.unwrap_or_else(|_| panic!("never heard of {left:?}")));
        }
    }

    fn ended(mut self) -> Arc<Fake> {
        self.thread.take().unwrap().join().unwrap();
        Arc::clone(&self.work)
    }

    fn stopped(mut self) -> Arc<Fake> {
        self.gate = None;
        self.interrupt.raise();
        self.service.waker.wake();
        self.ended()
    }
}

fn persisted(work: &Fake, account: &str) -> PersistedState {
    PersistedState::read(&work.folder.path().join(account)).0
}

#[test]
fn one_account_that_is_stuck_delays_no_other() {
    let running = Running::start(&["a", "b", "stuck"], 2, false);
    running.hear(&["stuck", "a", "b"]);
    running.hear(&["a", "b"]);
    running.hear(&["a", "b"]);
    let daemon_state = &running.service.state;
    assert_eq!(daemon_state.alive(), Ok(()));
    let stuck = &daemon_state.account_statuses()[2];
    assert_eq!((stuck.account.as_str(), stuck.running.is_some()), ("stuck", true));
    let work = running.stopped();
    assert!(persisted(&work, "a").totals.complete >= 2);
    assert_eq!(persisted(&work, "stuck").totals.backups, 1);
}

#[test]
fn a_panic_is_a_failed_backup_of_that_account_alone() {
    let running = Running::start(&["broken", "good"], 1, true);
    running.hear(&["broken", "good"]);
    let daemon_state = Arc::clone(&running.service.state);
    let work = running.ended();
    let last = persisted(&work, "broken").last.unwrap();
    assert_eq!(last.outcome, AttemptOutcome::Failed);
    assert_eq!(last.message.as_deref(), Some("the program has a defect: it broke"));
    let health: Vec<_> = daemon_state.account_statuses().iter().map(|it| it.health).collect();
    assert_eq!(health, [Health::Failing, Health::Good]);
}

#[test]
fn once_gives_each_a_turn_and_ends() {
    let running = Running::start(&["a", "b", "c", "failing"], 2, true);
    let work = running.ended();
    for account in ["a", "b", "c", "failing"] {
        assert_eq!(persisted(&work, account).totals.backups, 1, "{account}");
    }
    assert_eq!(persisted(&work, "failing").tries, 1);
}

#[test]
fn a_configuration_read_again_brings_and_takes_accounts_and_a_wrong_one_changes_nothing() {
    let running = Running::start(&["a", "b"], 2, false);
    running.hear(&["a", "b", "judged a"]);
    let reload = |accounts| {
        *running.work.accounts.lock().unwrap() = accounts;
        running.service.reload.store(true, Ordering::SeqCst);
        running.service.waker.wake();
    };
    reload(Ok(vec!["b", "c"]));
    running.hear(&["c"]);
    running.hear(&["b", "c"]);
    assert_eq!(running.service.state.accounts(), ["b", "c"]);
    reload(Err(vec!["line 3 is wrong".to_owned()]));
    running.hear(&["b", "c"]);
    running.hear(&["b", "c"]);
    assert_eq!(running.service.state.accounts(), ["b", "c"]);
    running.stopped();
}

#[test]
fn who_does_not_stop_is_noted_as_stopped_and_is_due_at_the_next_start() {
    let mut running = Running::start(&["stuck"], 1, false);
    running.hear(&["stuck"]);
    let gate = running.gate.take();
    running.interrupt.raise();
    running.service.waker.wake();
    let work = running.ended();
    let persisted = persisted(&work, "stuck");
    assert_eq!(persisted.last.as_ref().map(|last| last.outcome), Some(AttemptOutcome::Stopped));
    assert!(persisted.past("* * * * * * UTC", &VaultSummary::default(), Timestamp(0)).stopped);
    drop(gate);
}

/// The next process would say that the new schedule counts from its own start.
#[test]
fn from_when_a_new_schedule_counts_outlives_the_process() {
    let running = Running::start(&["stuck"], 1, false);
    running.hear(&["stuck"]);
    let work = running.stopped();
    let vault = work.folder.path().join("stuck");
    let mut known = persisted(&work, "stuck");
    known.schedule = Some("0 3 1 1 * UTC".to_owned());
    known.write(&vault).unwrap();
    let interrupt = Interrupt::default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(interrupt));
    let service = DaemonLoop {
        state: Arc::new(DaemonState::new(Arc::clone(&clock))),
        work: Arc::clone(&work) as _,
        clock: Arc::clone(&clock),
        waker: Waker::default(),
        reload: Arc::default(),
        workers: 1,
        tick: Duration::from_secs(10),
        shutdown_timeout: Duration::ZERO,
    };
    service.load().unwrap();
    assert_eq!(persisted(&work, "stuck").schedule.as_deref(), Some("* * * * * * UTC"));
}

#[test]
fn who_is_slow_to_listen_delays_no_backup_and_loses_none() {
    let running = Running::start(&["deaf"], 2, false);
    running.hear(&["deaf"]);
    running.hear(&["deaf", "delivers"]);
    assert!(persisted(&running.work, "deaf").heartbeat, "it is on the disk before it is delivered");
    let work = running.stopped();
    let last = persisted(&work, "deaf").last.unwrap();
    assert_eq!(last.outcome, AttemptOutcome::Complete);
}

#[test]
fn once_looks_everybody_over_at_the_end() {
    let running = Running::start(&["a", "failing"], 2, true);
    running.hear(&["a", "judged a", "judged failing"]);
    running.ended();
}

#[test]
fn what_is_done_to_a_vault_by_hand_is_seen_between_backups() {
    let running = Running::start(&["by hand"], 1, true);
    let daemon_state = Arc::clone(&running.service.state);
    running.ended();
    assert_eq!(daemon_state.account_statuses()[0].unknown_writes, 7);
}
