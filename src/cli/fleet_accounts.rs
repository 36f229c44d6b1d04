//! The accounts of a fleet for the web UI: the list is Temporal's, and the vault of an account is
//! fetched from its store when one of its pages is opened.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::fleet_pages::{self, FetchState, StoreFailure, entry, failure, merged};
use super::refreshed::{RefreshRule, Refreshed, RefreshedValue, WorkSlots};
use crate::clock::{Clock, ClockReading, Timestamp};
use crate::config::AccountConfig;
use crate::files::beside;
use crate::health::account_status::AccountStatus;
use crate::ops::fleet::{self, FleetAccount};
use crate::ops::status::{account_status, scheduled_accounts};
use crate::ops::{Env, Events, NextStep, OpError};
use crate::ui::{AccountList, Accounts, FleetEntry, FleetList, Unavailable, VaultFile};

/// The list of Temporal is read again when it is older than this.
const LIST: RefreshRule =
    RefreshRule { fresh: Duration::from_secs(15), wait: Duration::from_secs(2) };

/// A vault is fetched again when the last fetch is older than this, so that a click on a link of a
/// page costs no request.
const FETCH: RefreshRule =
    RefreshRule { fresh: Duration::from_secs(10), wait: Duration::from_secs(10) };

/// How long a page waits after the last try failed: what it showed then is there.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The most vaults that are fetched at the same time.
const MAX_FETCHES: usize = 4;

/// How long a fetch waits for one of the others to end.
const FETCH_TURN: Duration = Duration::from_secs(30);

/// The program does not work as intended if the list is older than this.
const OLDEST_LIST: Duration = Duration::from_secs(300);

/// The accounts of a fleet.
pub struct FleetAccounts {
    env: Arc<Env>,
    events: Arc<PageEvents>,
    list: Arc<Refreshed<ListRead>>,
    /// The fetches by account. Only accounts of the list have one.
    fetches: Mutex<HashMap<String, Arc<Refreshed<Fetched>>>>,
    slots: Arc<WorkSlots>,
}

/// The list as it was read last.
struct ListRead {
    entries: Arc<Vec<FleetEntry>>,
    read: ClockReading,
    at: Timestamp,
    /// Why it could not be read since.
    failure: Option<StoreFailure>,
}

impl ListRead {
    fn new(accounts: &[FleetAccount], clock: &dyn Clock) -> Self {
        let entries = Arc::new(accounts.iter().map(entry).collect());
        Self { entries, read: ClockReading::now(clock), at: clock.now(), failure: None }
    }
}

/// What came of a fetch.
struct Fetched {
    account: AccountConfig,
    failure: Option<StoreFailure>,
    /// When the vault was fetched last.
    good: Option<Timestamp>,
}

/// An account whose pages can be shown.
struct OpenAccount {
    account: AccountConfig,
    entry: FleetEntry,
    /// What its pages must say.
    notice: Option<String>,
}

impl FleetAccounts {
    /// The accounts of the fleet, as Temporal lists them now.
    ///
    /// # Errors
    /// If Temporal cannot be reached, or the configuration has mistakes.
    pub fn read(env: &Arc<Env>) -> Result<Self, OpError> {
        let first = ListRead::new(&fleet::status(env)?, &*env.clock);
        Ok(Self {
            env: Arc::clone(env),
            events: Arc::new(PageEvents { process: env.shared_events(), sent: Mutex::default() }),
            list: Refreshed::new(Arc::clone(&env.clock), Some(first)),
            fetches: Mutex::default(),
            slots: WorkSlots::new(MAX_FETCHES),
        })
    }

    /// The environment of one piece of work. It reads the configuration again, so that changes of
    /// the file count without a restart.
    fn fresh_env(&self) -> Env {
        let events = Arc::clone(&self.events);
        self.env.with_clock(Arc::clone(&self.env.clock), events).with_bounded_cache()
    }

    /// The list, waiting at most `wait` for a newer one.
    fn list_within(&self, wait: Duration) -> RefreshedValue<ListRead> {
        let env = self.fresh_env();
        let has_failed = self.list.last().is_some_and(|it| it.failure.is_some());
        let wait = if has_failed { wait.min(AFTER_FAILURE) } else { wait };
        self.list.get(RefreshRule { wait, ..LIST }, move |last| match (fleet::status(&env), last) {
            (Ok(accounts), _) => ListRead::new(&accounts, &*env.clock),
            (Err(error), last) => {
                let failure = Some(failure(&error, hint(&env, &error)));
                match last {
                    Some(last) => ListRead {
                        entries: Arc::clone(&last.entries),
                        read: last.read,
                        at: last.at,
                        failure,
                    },
                    None => ListRead { failure, ..ListRead::new(&[], &*env.clock) },
                }
            }
        })
    }

    /// What Temporal knows of the account.
    fn entry(&self, name: &str) -> Result<FleetEntry, Unavailable> {
        let find = |list: RefreshedValue<ListRead>| {
            list.last.and_then(|list| list.entries.iter().find(|it| it.account == name).cloned())
        };
        // A schedule may be newer than the list.
        let known = find(self.list_within(Duration::ZERO));
        let found = known.or_else(|| find(self.list_within(LIST.wait)));
        found.ok_or_else(|| fleet_pages::not_listed(name))
    }

    /// The account, with its vault fetched from its store.
    fn open(&self, name: &str) -> Result<OpenAccount, Unavailable> {
        let entry = self.entry(name)?;
        let fetch = {
            let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Refreshed::new(Arc::clone(&self.env.clock), None);
            Arc::clone(fetches.entry(name.to_owned()).or_insert_with(new))
        };
        let (account, fetched) = match fetch.fresh(FETCH.fresh) {
            Some(last) => {
                (last.account.clone(), RefreshedValue { last: Some(last), under_way: None })
            }
            None => {
                let env = self.fresh_env();
                let account = self.configured(&env, name)?;
                (account.clone(), self.fetch(&fetch, env, account))
            }
        };
        let good = fetched.last.as_ref().and_then(|it| it.good);
        let state = match (fetched.last, fetched.under_way) {
            (Some(last), _) if last.failure.is_some() => FetchState::Failed(last.failure.clone()),
            (_, Some(time)) => FetchState::UnderWay(time),
            (Some(_), None) => FetchState::Current,
            // The thread could not be started, or panicked.
            (None, None) => FetchState::Failed(None),
        };
        let copy = account.vault.is_file().then(|| good.or_else(|| fetch_time(&account)));
        let notice = fleet_pages::shown(name, &state, copy, self.env.clock.now())?;
        Ok(OpenAccount { account, entry, notice })
    }

    /// The account in the configuration, if its vault is in a store.
    fn configured(&self, env: &Env, name: &str) -> Result<AccountConfig, Unavailable> {
        let unusable =
            |error: OpError| fleet_pages::not_shown(name, &failure(&error, hint(env, &error)).text);
        let config = env.config().map_err(unusable)?;
        match config.accounts().iter().find(|it| it.name == name) {
            Some(account) if account.store.is_some() => Ok(account.clone()),
            found => {
                let file = env.home().map_err(unusable)?.config_file();
                Err(fleet_pages::not_stored(name, found.is_some(), &file))
            }
        }
    }

    /// The newest fetch of the vault of `account`, not older than [`FETCH`] says.
    fn fetch(
        &self,
        fetch: &Arc<Refreshed<Fetched>>,
        env: Env,
        account: AccountConfig,
    ) -> RefreshedValue<Fetched> {
        let slots = Arc::clone(&self.slots);
        let has_failed = fetch.last().is_some_and(|it| it.failure.is_some());
        let wait = if has_failed { AFTER_FAILURE } else { FETCH.wait };
        fetch.get(RefreshRule { wait, ..FETCH }, move |last| {
            let before = last.and_then(|it| it.good);
            let fetched = match slots.take(FETCH_TURN) {
                Some(_slot) => env
                    .fetch_with_state(&account)
                    .map_err(|error| failure(&error, hint(&env, &error))),
                None => Err(fleet_pages::too_many_fetches()),
            };
            let good = if fetched.is_ok() { Some(env.clock.now()) } else { before };
            Fetched { account, failure: fetched.err(), good }
        })
    }
}

impl Accounts for FleetAccounts {
    fn list(&self) -> AccountList {
        let known = self.list_within(LIST.wait);
        let Some(list) = known.last else {
            let (entries, read) = (Arc::default(), self.env.clock.now());
            return AccountList::Fleet(FleetList { entries, read, notice: None });
        };
        let age = list.read.age(&*self.env.clock);
        AccountList::Fleet(FleetList {
            entries: Arc::clone(&list.entries),
            read: list.at,
            notice: fleet_pages::list_notice(age, list.failure.as_ref(), known.under_way),
        })
    }

    fn account_status(&self, name: &str) -> Result<AccountStatus, Unavailable> {
        let OpenAccount { account, entry, .. } = self.open(name)?;
        let env = self.fresh_env();
        let scheduled = scheduled_accounts(&env, std::slice::from_ref(&account));
        let scheduled = scheduled.unwrap_or_default().pop();
        let (status, _) = account_status(&account, scheduled.as_ref(), env.clock.now());
        Ok(merged(status, &entry))
    }

    fn vault(&self, name: &str) -> Result<VaultFile, Unavailable> {
        let OpenAccount { account, notice, .. } = self.open(name)?;
        Ok(VaultFile { path: account.vault, notice, is_shared: true })
    }

    fn alive(&self) -> Result<(), String> {
        let known = self.list_within(LIST.wait);
        let Some(list) = known.last else { return Ok(()) };
        let age = list.read.age(&*self.env.clock);
        fleet_pages::alive(age, OLDEST_LIST, list.failure.as_ref())
    }
}

/// When the local copy was made from an object of the store, or put there.
fn fetch_time(account: &AccountConfig) -> Option<Timestamp> {
    let file = beside(&account.vault, ".fetched").metadata().ok()?;
    let since = file.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp::default().plus(since))
}

/// What to do about `error` on a page.
fn hint(env: &Env, error: &OpError) -> Option<String> {
    match error.next.as_deref()? {
        NextStep::RunAgain | NextStep::RunAgainLater | NextStep::WaitForProcess => {
            Some("load the page again".to_owned())
        }
        next => env.events().hint(next),
    }
}

/// Receives the messages of the work for pages. Each of them is sent once: a page that is opened
/// again has the same ones.
struct PageEvents {
    process: Arc<dyn Events>,
    sent: Mutex<BTreeSet<String>>,
}

/// The most messages that are remembered.
const MAX_MESSAGES: usize = 1000;

impl PageEvents {
    fn is_new(&self, text: &str) -> bool {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.len() < MAX_MESSAGES && sent.insert(text.to_owned())
    }
}

impl Events for PageEvents {
    fn warning(&self, text: &str) {
        if self.is_new(text) {
            self.process.warning(text);
        }
    }

    fn note(&self, text: &str) {
        if self.is_new(text) {
            self.process.note(text);
        }
    }

    fn confirm(&self, question: &str) -> Result<bool, OpError> {
        self.process.confirm(question)
    }

    fn hint(&self, next: &NextStep) -> Option<String> {
        self.process.hint(next)
    }
}
