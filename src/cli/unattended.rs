//! What the daemon has done: a backup without a terminal, what a vault holds,
//! and which accounts have a schedule.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use super::afterwards::post_backup;
use super::alerting;
use super::attempts::{attempt_of_error, attempt_of_snapshot, emptied, is_limited, recent};
use super::configured::configured_backup;
use super::session::{AccountSession, SessionLimits, command_words, reported_limit};
use super::{App, CommandResult, Exit, OpError, OpErrorKind};
use crate::clock::Timestamp;
use crate::config::{AccountConfig, Config, Home, machine_time_zone};
use crate::crawl;
use crate::daemon::{
    AccountStatus, FinishedBackup, PendingAlerts, Schedule, ScheduledAccount, Worker,
};
use crate::escaped::Escaped;
use crate::files::beside;
use crate::format;
use crate::health::attempt::AlertEvent;
use crate::health::attempt::{AttemptOutcome, BackupAttempt, VaultSummary};
use crate::health::pending_alerts::{CircuitBreaker, DeliveryError};
use crate::health::persisted_state::PersistedState;
use crate::health::{alert_message, pending_alerts};
use crate::progress::{Event, Progress};
use crate::schedule::due_queue::Timetable;
use crate::vault::lock::Lock;
use crate::vault::snapshot::{RequestUsage, Snapshot};
use crate::vault::{Vault, VaultError};

/// With `--once` another process may work on an account for so long before its
/// backup is put off.
const PATIENCE: Duration = Duration::from_secs(60);
/// The daemon comes back by itself, and has other accounts to see to.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// The daemon's hands.
pub struct DaemonWorker {
    app: Arc<App>,
    home: Home,
    accounts: RwLock<BTreeMap<String, AccountConfig>>,
    charges: RwLock<Vec<ScheduledAccount>>,
    /// Begins at the very time: an external scheduler starts the process for each run.
    punctual: bool,
    worst: Mutex<Exit>,
    deaf: CircuitBreaker,
    /// The vaults as they were when they were last looked at again.
    seen: Mutex<BTreeMap<String, [Stamp; 2]>>,
}

impl DaemonWorker {
    #[must_use]
    pub fn new(app: &Arc<App>, home: Home, punctual: bool) -> Self {
        let worst = Mutex::new(Exit::Done);
        let (accounts, charges) = (RwLock::default(), RwLock::default());
        let (deaf, seen) = (CircuitBreaker::default(), Mutex::default());
        Self { app: Arc::clone(app), home, accounts, charges, punctual, worst, deaf, seen }
    }

    /// The worst that a backup came to so far.
    #[must_use]
    pub fn worst(&self) -> Exit {
        *self.worst.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, exit: Exit) {
        let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        *worst = worst.or_worse(exit);
    }

    fn account(&self, name: &str) -> Option<AccountConfig> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The scheduled accounts of the configuration, which is kept.
    ///
    /// # Errors
    /// With every mistake in the file.
    pub fn load(&self) -> Result<Vec<ScheduledAccount>, OpError> {
        let config = Config::load(&self.home)?;
        for warning in &config.warnings {
            self.app.out.warn(warning);
        }
        self.app.redact_secrets_of(config.accounts());
        let mut found = scheduled_accounts(config.accounts(), &self.app)?;
        if self.punctual {
            found.iter_mut().for_each(|charge| charge.timetable.offset = Duration::ZERO);
        }
        let accounts = config.accounts().iter().map(|it| (it.name.clone(), it.clone())).collect();
        *self.accounts.write().unwrap_or_else(PoisonError::into_inner) = accounts;
        self.charges.write().unwrap_or_else(PoisonError::into_inner).clone_from(&found);
        Ok(found)
    }

    /// Makes a backup and says what it spent, whether or not it came to an end.
    fn made(
        &self,
        account: &AccountConfig,
        log: &Arc<LogProgress>,
        spent: &mut RequestUsage,
    ) -> Result<Snapshot, OpError> {
        let app = &*self.app;
        let words = command_words("daemon", &account.name);
        let patience = if self.punctual { PATIENCE } else { IMPATIENCE };
        let bounds = SessionLimits { lock_timeout: Some(patience), ..SessionLimits::default() };
        let progress: Arc<dyn Progress + Send + Sync> = Arc::clone(log) as _;
        let mut session = AccountSession::open(app, account, &words, &bounds, progress)?;
        let options = configured_backup(account, &session.service);
        let mut vault = Vault::open_or_create(&account.vault)?;
        let ended = crawl::crawl(&mut session.client, &mut vault, &*app.clock, &**log, &options);
        let counters = session.client.counters();
        *spent = RequestUsage {
            requests: counters.requests,
            throttled: counters.throttled,
            waited: counters.waited,
        };
        let snapshot = ended?.snapshot;
        vault.checkpoint()?;
        Ok(snapshot)
    }
}

/// The accounts with a schedule, each with its timetable.
///
/// # Errors
/// When a schedule is none; the configuration was checked, so this is a defect.
pub fn scheduled_accounts(
    accounts: &[AccountConfig],
    app: &App,
) -> Result<Vec<ScheduledAccount>, OpError> {
    let mut machine = None;
    let mut charges = Vec::new();
    for account in accounts {
        let Some(line) = &account.settings.schedule else { continue };
        let schedule = Schedule::parse(line).map_err(|error| {
            OpError::new(
                OpErrorKind::Config,
                format_args!("accounts.{}.schedule: {error}", account.name),
            )
        })?;
        let zone = account.settings.timezone.unwrap_or_else(|| {
            *machine.get_or_insert_with(|| {
                machine_time_zone().unwrap_or_else(|why| {
                    app.out.warn(format_args!("{why}; schedules without `timezone` are in UTC"));
                    chrono_tz::UTC
                })
            })
        });
        charges.push(ScheduledAccount {
            account: account.name.clone(),
            vault: account.vault.clone(),
            schedule: line.clone(),
            timetable: Timetable::new(&account.name, schedule, zone),
            max_age: account.settings.alerts.max_age,
            most_removed: account.settings.alerts.removed,
        });
    }
    Ok(charges)
}

/// What the vault of `account` holds; nothing where there is none.
///
/// # Errors
/// When there is one, and it cannot be read.
pub fn vault_summary(account: &AccountConfig) -> Result<VaultSummary, OpError> {
    let limit = reported_limit(account).or(account.settings.limit.map(u64::from));
    let vault = match Vault::open_read_only(&account.vault) {
        Ok(vault) => vault,
        Err(VaultError::Missing(_)) => {
            return Ok(VaultSummary {
                limit,
                running: backup_running_since(account),
                ..VaultSummary::default()
            });
        }
        Err(error) => return Err(error.into()),
    };
    let complete = vault.newest(true)?;
    let recent = recent(&vault)?;
    let records = recent.first().into_iter().flat_map(|newest| &newest.outcomes);
    let records =
        records.map(|outcome| (outcome.resource.name().to_owned(), outcome.records)).collect();
    let last_complete = complete.as_ref().and_then(|complete| complete.finished);
    // One that was asked for a part alone says nothing of the rest.
    let telling = recent.iter().find(|it| !is_limited(it) && !it.of_run).or(complete.as_ref());
    let newest = telling.map(|snapshot| {
        let (started, ended) = (snapshot.started, snapshot.finished.unwrap_or(snapshot.touched));
        attempt_of_snapshot(snapshot, started, ended, snapshot.usage)
    });
    let emptied = emptied(&recent);
    let (unknown_writes, unknown_since) = vault.unknown_writes()?;
    let unreadable = None;
    let running = backup_running_since(account);
    Ok(VaultSummary {
        newest,
        last_complete,
        records,
        limit,
        unknown_writes,
        unknown_since,
        emptied,
        running,
        unreadable,
    })
}

/// Since when a process has been backing `account` up.
fn backup_running_since(account: &AccountConfig) -> Option<Timestamp> {
    let backs_up = |command: &str| {
        ["linkvault daemon", "linkvault backup"].iter().any(|it| command.starts_with(it))
    };
    Lock::holder(&account.vault).filter(|it| backs_up(&it.command)).map(|it| it.since)
}

impl Worker for DaemonWorker {
    fn scheduled_accounts(&self) -> Result<Vec<ScheduledAccount>, Vec<String>> {
        self.load().map_err(|failure| {
            let mut lines = vec![failure.message];
            lines.extend(failure.details);
            lines
        })
    }

    fn vault_summary_if_changed(&self, account: &str) -> Option<VaultSummary> {
        let vault = self.account(account)?.vault;
        let stamp = stamp(&vault);
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen().get(account) == Some(&stamp) {
            return None;
        }
        seen().insert(account.to_owned(), stamp);
        self.look(account)
    }

    fn look(&self, account: &str) -> Option<VaultSummary> {
        let account = self.account(account)?;
        let failure = match vault_summary(&account) {
            Ok(held) => return Some(held),
            Err(failure) => failure,
        };
        tracing::error!(account = account.name, "the vault: {}", Escaped(&failure.message));
        Some(VaultSummary { unreadable: Some(failure.message), ..VaultSummary::default() })
    }

    fn back_up(&self, account: &str) -> BackupAttempt {
        let started = self.app.clock.now();
        let log =
            Arc::new(LogProgress { account: account.to_owned(), snapshot: AtomicI64::new(0) });
        let mut spent = RequestUsage::default();
        let found = self.account(account).ok_or_else(|| {
            OpError::new(OpErrorKind::Account, "the account is gone from the configuration")
        });
        let made_one = found.and_then(|account| self.made(&account, &log, &mut spent));
        let ended = self.app.clock.now();
        let failure = match made_one {
            Ok(snapshot) => {
                let attempt = attempt_of_snapshot(&snapshot, started, ended, spent);
                let whole = attempt.outcome == AttemptOutcome::Complete;
                self.note(Exit::of(Ok(CommandResult::complete(whole))));
                return attempt;
            }
            Err(failure) => failure,
        };
        self.note(failure.kind.exit());
        BackupAttempt {
            snapshot: log.snapshot(),
            ..attempt_of_error(&failure, started, ended, spent)
        }
    }

    fn post_backup(&self, account: &str, attempt: &BackupAttempt) -> Option<Vec<String>> {
        if attempt.outcome == AttemptOutcome::Failed {
            // Also of one that broke off, and could not say so itself.
            self.note(Exit::of(Err(OpErrorKind::Failed)));
        }
        if !matches!(attempt.outcome, AttemptOutcome::Complete | AttemptOutcome::Partial) {
            return None;
        }
        let account = self.account(account)?;
        let failures = post_backup(&account, &*self.app.clock);
        for failure in &failures {
            tracing::error!(account = account.name, "{}", Escaped(failure));
            self.note(Exit::of(Ok(CommandResult::complete(false))));
        }
        Some(failures)
    }

    fn evaluate(
        &self,
        condition: &AccountStatus,
        ended: Option<FinishedBackup<'_>>,
        notes: &mut PersistedState,
    ) {
        let Some(account) = self.account(&condition.account) else { return };
        let now = self.app.clock.now();
        if let Some(FinishedBackup { attempt, after: None }) = ended {
            // One that waits still, and is not so any more, would lie.
            notes.heartbeat = match attempt.outcome {
                AttemptOutcome::Complete => account.settings.heartbeat.is_some(),
                AttemptOutcome::Partial | AttemptOutcome::Failed => false,
                AttemptOutcome::Stopped | AttemptOutcome::Locked => notes.heartbeat,
            };
        }
        notes.watched = Some(notes.watched.map_or(now, |since| since.min(now)));
        let news = &condition.news;
        for alert in news {
            let (account, text) = (&account.name, alert_message::sentence(&account.name, alert));
            match alert.event {
                AlertEvent::Begun => tracing::warn!(account, "{text}"),
                AlertEvent::Ended => tracing::info!(account, "{text}"),
            }
        }
        notes.problems.clone_from(&condition.problems);
        pending_alerts::enqueue(
            &mut notes.outbox,
            news,
            &alerting::channels(&account.settings.alerts),
        );
    }

    fn deliver(&self, account: &str, mail: &mut PendingAlerts) {
        let Some(account) = self.account(account) else { return };
        let hidden = {
            let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
            alerting::key_variables(accounts.values())
        };
        let clock = &*self.app.clock;
        let mut failures = pending_alerts::deliver(&mut mail.outbox, clock.now(), |item| {
            let target = alerting::target(&account, item.channel);
            self.deaf.call(clock, target, || {
                alerting::deliver(&account, item, &hidden, &self.app.redactor, clock)
            })
        });
        if let Some(hook) = account.settings.heartbeat.as_ref().filter(|_| mail.heartbeat) {
            match self.deaf.call(clock, hook.to_string(), || alerting::heartbeat(&account)) {
                Ok(()) => mail.heartbeat = false,
                Err(DeliveryError::Failed(why)) => failures.push(why),
                Err(DeliveryError::CircuitOpen) => {}
            }
        } else {
            mail.heartbeat = false;
        }
        for failure in failures {
            let failure = self.app.redactor.text(&failure);
            tracing::warn!(account = account.name, "{}", Escaped(failure));
        }
    }
}

/// When a file was written, and how long it is.
type Stamp = Option<(SystemTime, u64)>;

/// What changes when somebody writes to a vault.
fn stamp(vault: &Path) -> [Stamp; 2] {
    [vault.to_owned(), beside(vault, "-wal")].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

/// The progress of a backup as lines of the log.
struct LogProgress {
    account: String,
    /// The snapshot that is made; 0 before there is one.
    snapshot: AtomicI64,
}

impl LogProgress {
    fn snapshot(&self) -> Option<i64> {
        Some(self.snapshot.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }
}

impl Progress for LogProgress {
    fn event(&self, event: &Event<'_>) {
        let (account, run) = (self.account.as_str(), self.snapshot());
        match *event {
            Event::Snapshot { number, resumed } => {
                self.snapshot.store(number, Ordering::Relaxed);
                let how = if resumed { "goes on" } else { "begins" };
                tracing::info!(account, run = number, "backup {how}");
            }
            Event::Finished { resource, state, records } => {
                tracing::debug!(account, run, resource, state, records, "read");
            }
            Event::Waiting { time, why } => {
                let time = format::duration(time);
                tracing::debug!(account, run, "waiting {time} for {}", Escaped(why));
            }
            Event::Warning { text } => tracing::warn!(account, run, "{}", Escaped(text)),
            Event::Listing { .. } | Event::Records { .. } | Event::Steps { .. } => {}
        }
    }
}
