//! How accounts fare, told from their vaults alone: what `linkvault ui` shows,
//! where no daemon knows more.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::clock::{Clock, Timestamp};
use crate::config::Account;
use crate::daemon::Condition;
use crate::daemon::condition::{Attempt, AttemptOutcome, Health, Problem, ProblemKind, Totals};
use crate::files::beside;
use crate::human;
use crate::vault::browse::Slice;
use crate::vault::snapshot::{ReadState, Snapshot, Status};
use crate::vault::{Vault, VaultError};
use crate::web::Accounts;

/// The accounts of a configuration, and what their vaults said last.
pub struct VaultBoard {
    accounts: Vec<Account>,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<PathBuf, (Stamp, Condition)>>,
}

/// What changes when a vault does: times and sizes of the file and its log.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl VaultBoard {
    /// A board of these accounts.
    #[must_use]
    pub fn new(accounts: Vec<Account>, clock: Arc<dyn Clock>) -> Self {
        Self { accounts, clock, known: Mutex::default() }
    }

    /// What the vault says; read again only when it changed.
    fn look(&self, account: &Account) -> Condition {
        let stamp = stamp(&account.vault);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().get(&account.vault).filter(|(at, _)| *at == stamp).cloned();
        if let Some((_, condition)) = before {
            return condition;
        }
        let condition = if stamp[0].is_none() {
            empty(account)
        } else {
            read(account).unwrap_or_else(|error| unreadable(account, &error, self.clock.now()))
        };
        known().insert(account.vault.clone(), (stamp, condition.clone()));
        condition
    }
}

impl Accounts for VaultBoard {
    fn conditions(&self) -> Vec<Condition> {
        self.accounts.iter().map(|account| self.look(account)).collect()
    }

    fn condition(&self, name: &str) -> Option<Condition> {
        self.accounts.iter().find(|account| account.name == name).map(|it| self.look(it))
    }

    fn vault(&self, name: &str) -> Option<PathBuf> {
        let account = self.accounts.iter().find(|account| account.name == name)?;
        Some(account.vault.clone())
    }

    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}

fn stamp(vault: &Path) -> Stamp {
    [vault.to_owned(), beside(vault, "-wal")].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn empty(account: &Account) -> Condition {
    Condition {
        account: account.name.clone(),
        health: Health::New,
        words: "there is no backup yet".to_owned(),
        schedule: account.settings.schedule.clone(),
        next: None,
        running: None,
        last: None,
        last_success: None,
        last_complete: None,
        records: BTreeMap::new(),
        problems: Vec::new(),
        totals: Totals::default(),
        limit: account.settings.limit.map(u64::from),
        unknown_writes: 0,
    }
}

fn unreadable(account: &Account, error: &VaultError, now: Timestamp) -> Condition {
    let problem = Problem {
        kind: ProblemKind::Failed,
        since: now,
        message: format!("the vault cannot be read: {error}"),
        hint: Some(format!("`linkvault check {}` tells more", account.name)),
    };
    let words = problem.message.clone();
    Condition { health: Health::Failing, words, problems: vec![problem], ..empty(account) }
}

fn read(account: &Account) -> Result<Condition, VaultError> {
    let vault = Vault::open_read_only(&account.vault)?;
    let newest = vault.newest_snapshots(Slice { skip: 0, take: 1 })?.pop();
    let complete = vault.newest_complete()?;
    let unknown = vault.unknown_writes()?;
    let mut told = empty(account);
    told.unknown_writes = unknown;
    told.running = vault.running()?.map(|(snapshot, _)| snapshot.started);
    told.last_complete = complete.as_ref().and_then(|it| it.finished);
    if let Some(newest) = &newest {
        told.last = Some(attempt(newest));
        told.last_success = newest.finished;
        let records = newest.outcomes.iter().map(|it| (it.resource.name().to_owned(), it.records));
        told.records = records.collect();
        told.health = Health::Good;
        told.words = "the newest backup is complete".to_owned();
        told.problems.extend(partial(account, newest));
    }
    if unknown > 0 {
        told.problems.push(Problem {
            kind: ProblemKind::Unknown,
            since: unknown_since(&vault)?,
            message: format!(
                "nobody knows the outcome of {}",
                human::counted(unknown, "write", "writes")
            ),
            hint: Some(format!("`linkvault runs {}` shows the run to resolve", account.name)),
        });
    }
    if let Some(worst) = told.problems.first() {
        told.health = Health::Warning;
        told.words = worst.message.clone();
    }
    Ok(told)
}

/// When the newest run with such a write began.
fn unknown_since(vault: &Vault) -> Result<Timestamp, VaultError> {
    Ok(vault.unfinished_run()?.map_or(Timestamp(0), |run| run.started))
}

fn attempt(snapshot: &Snapshot) -> Attempt {
    let sum = |of: fn(&crate::vault::snapshot::Outcome) -> u64| {
        snapshot.outcomes.iter().map(of).fold(0_u64, u64::saturating_add)
    };
    Attempt {
        started: snapshot.started,
        ended: snapshot.finished.unwrap_or(snapshot.touched),
        outcome: match snapshot.status {
            Status::Complete => AttemptOutcome::Complete,
            Status::Partial => AttemptOutcome::Partial,
            Status::Running => AttemptOutcome::Stopped,
        },
        snapshot: Some(snapshot.number),
        message: None,
        requests: snapshot.usage.requests,
        throttled: snapshot.usage.throttled,
        waited: snapshot.usage.waited,
        added: sum(|it| it.added),
        changed: sum(|it| it.changed),
        removed: sum(|it| it.removed),
    }
}

/// What the snapshot could not read. What nobody asked it to, as when a run looks
/// at the resources that it touched, is not lacking.
fn partial(account: &Account, snapshot: &Snapshot) -> Option<Problem> {
    let asked = snapshot.outcomes.iter().filter(|outcome| outcome.state != ReadState::Skipped);
    let lacking = asked.filter(|outcome| !outcome.is_whole());
    let lacking: Vec<_> = lacking.map(|outcome| outcome.resource.name()).collect();
    (!lacking.is_empty()).then(|| Problem {
        kind: ProblemKind::Partial,
        since: snapshot.started,
        message: format!("the newest backup lacks {}", lacking.join(", ")),
        hint: Some(format!("`linkvault backup {}` tries again", account.name)),
    })
}
