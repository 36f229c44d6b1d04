//! How accounts fare, told from their vaults and the daemon's notes: what `status`
//! and `ui` show where no daemon is asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::alerting::most_removed;
use super::unattended::held;

use crate::clock::{Clock, Timestamp};
use crate::config::Account;
use crate::daemon::agenda::Agenda;
use crate::daemon::condition::{Due, age_from};
use crate::daemon::facts::Held;
use crate::daemon::notes::{self, Notes};
use crate::daemon::{Board, Charge, Condition};
use crate::files::beside;
use crate::web::Accounts;

/// The daemon's own board, as the page wants it.
pub struct DaemonBoard(pub Arc<Board>);

impl Accounts for DaemonBoard {
    fn conditions(&self) -> Vec<Condition> {
        self.0.conditions()
    }

    fn condition(&self, name: &str) -> Option<Condition> {
        self.0.conditions().into_iter().find(|it| it.account == name)
    }

    fn vault(&self, name: &str) -> Option<PathBuf> {
        self.0.vault(name)
    }

    fn alive(&self) -> Result<(), String> {
        self.0.alive()
    }
}

/// The accounts of a configuration, and what their vaults said last.
pub struct VaultBoard {
    accounts: Vec<Account>,
    clock: Arc<dyn Clock>,
    charges: Vec<Charge>,
    known: Mutex<HashMap<String, Seen>>,
}

/// What was known of an account, and when.
struct Seen {
    stamp: Stamp,
    at: Timestamp,
    condition: Condition,
}

impl Seen {
    fn condition(&self) -> Condition {
        self.condition.clone()
    }
}

/// What is due changes by time alone, though not by the moment.
const FRESH: Duration = Duration::from_secs(30);

/// What changes when a backup does something: times and sizes of the vault, its
/// log and the daemon's notes.
type Stamp = [Option<(SystemTime, u64)>; 3];

impl VaultBoard {
    /// A board of these accounts.
    #[must_use]
    pub fn new(accounts: Vec<Account>, charges: Vec<Charge>, clock: Arc<dyn Clock>) -> Self {
        Self { accounts, charges, clock, known: Mutex::default() }
    }

    /// What the vault says; read again only when it changed.
    fn look(&self, account: &Account) -> Condition {
        let (stamp, now) = (stamp(&account.vault), self.clock.now());
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh =
            |seen: &&Seen| seen.stamp == stamp && seen.at <= now && now.since(seen.at) < FRESH;
        if let Some(condition) = known().get(&account.name).filter(fresh).map(Seen::condition) {
            return condition;
        }
        let charge = self.charges.iter().find(|charge| charge.account == account.name);
        let (condition, _) = condition(account, charge, now);
        let seen = Seen { stamp, at: now, condition: condition.clone() };
        known().insert(account.name.clone(), seen);
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
    [vault.to_owned(), beside(vault, "-wal"), notes::file(vault)].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

/// How `account` fares, by the daemon's notes, the vault, and its schedule; and
/// what could not be read on the way.
#[must_use]
pub fn condition(
    account: &Account,
    charge: Option<&Charge>,
    now: Timestamp,
) -> (Condition, Vec<String>) {
    let (notes, broken) = Notes::read(&account.vault);
    let mut trouble: Vec<_> = broken.into_iter().collect();
    let held = held(account).unwrap_or_else(|failure| {
        let why = failure.message;
        trouble.push(format!("{}: the vault cannot be read: {why}", account.name));
        Held { unreadable: Some(why), ..Held::default() }
    });
    let mut due = Due::default();
    let alerts = &account.settings.alerts;
    let from = age_from(&notes, &held, now);
    // Without a schedule only `max_age` says how old a backup may be.
    due.old_from = from.zip(alerts.max_age).map(|(from, age)| from.plus(age));
    if let Some(charge) = charge {
        let mut agenda = Agenda::default();
        let past = notes.past(&charge.counts_by(), &held, now);
        agenda.enter(&account.name, charge.timetable.clone(), past, now);
        due.schedule = Some(charge.schedule.clone());
        due.next = agenda.next(&account.name);
        due.old_from = from.and_then(|from| charge.old_from(from));
    }
    let most = most_removed(alerts);
    (Condition::of(&account.name, &notes, &held, due, most, now), trouble)
}
