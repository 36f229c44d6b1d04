//! The environment of every operation: configuration, clock, secrets of the process, and the
//! receiver of events.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::error_sources::vault_error;
use super::events::{Events, PlanAnswer, PlanQuestion};
use super::stored_state::{self, EndedSessions};
use super::stored_vault::{self, IdentityCache, LocalFile, StoredVault, StoredWork};
use super::{NextStep, OpError, OpErrorKind};
use crate::api::http::{ApiKey, Transport};
use crate::api::redact::{Redactor, STRONG_SECRET_LENGTH};
use crate::clock::Clock;
use crate::config::{
    AccountConfig, Config, Home, KeySource, SecretKind, hidden_from_key_commands, key_variables,
};
use crate::files::FileStamp;
use crate::progress::Progress;
use crate::vault::Vault;

/// Makes the transport to an account, with the account's API key.
pub type Connector =
    Box<dyn Fn(&AccountConfig) -> Result<(Box<dyn Transport>, ApiKey), OpError> + Send + Sync>;

/// The bound of the local copies of vaults in bytes, for a process that works on many accounts.
const DEFAULT_CACHE: u64 = 10 << 30;

/// A configuration, and the file as it was before it was read.
struct ReadConfig {
    stamp: Option<FileStamp>,
    config: Arc<Config>,
}

/// The environment of every operation.
pub struct Env {
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Removes the secrets of this process from every response.
    pub redactor: Redactor,
    /// Whether output files replace files that are not earlier outputs: `--force`.
    pub force: bool,
    events: Arc<dyn Events>,
    home: Option<Home>,
    connector: Option<Arc<Connector>>,
    config: OnceLock<Arc<Config>>,
    /// The configuration that was last read, for all environments of this process.
    latest: Arc<Mutex<Option<ReadConfig>>>,
    /// Names of the accounts whose vaults were fetched from their stores for reading.
    fetched: Mutex<BTreeSet<String>>,
    /// The bound of local copies that applies if the configuration has none.
    cache: Option<u64>,
    /// Whether this process may still put the vaults that it works on.
    may_put: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    identity: Arc<IdentityCache>,
    /// Sessions whose end is not recorded yet.
    pub(super) sessions: Arc<EndedSessions>,
}

impl Env {
    /// An environment that has not read the configuration yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, events: Arc<dyn Events>) -> Self {
        let redactor = Redactor::default();
        redact_address_passwords(&redactor);
        Self {
            clock,
            redactor,
            force: false,
            events,
            home: None,
            connector: None,
            config: OnceLock::new(),
            latest: Arc::default(),
            fetched: Mutex::default(),
            cache: None,
            may_put: None,
            identity: Default::default(),
            sessions: Default::default(),
        }
    }

    /// Lets output files replace files that are not earlier outputs.
    #[must_use]
    pub fn with_force(self, force: bool) -> Self {
        Self { force, ..self }
    }

    /// Uses `home` for configuration and vaults instead of the user's own folders.
    #[must_use]
    pub fn with_home(self, home: Home) -> Self {
        Self { home: Some(home), ..self }
    }

    /// Bounds the size of the local copies of vaults in stores, unless the configuration does.
    #[must_use]
    pub fn with_bounded_cache(self) -> Self {
        Self { cache: Some(DEFAULT_CACHE), ..self }
    }

    /// Puts no vault after an operation once `may_put` returns false. The operation then counts as
    /// interrupted.
    #[must_use]
    pub fn with_permission(self, may_put: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        Self { may_put: Some(may_put), ..self }
    }

    /// Uses `connector` instead of the network and the built-in sandbox.
    #[must_use]
    pub fn with_connector(self, connector: Connector) -> Self {
        Self { connector: Some(Arc::new(connector)), ..self }
    }

    /// The same environment with another clock and another receiver of messages, for one piece of
    /// work in a process that does several. It reads the configuration again if the file has changed.
    #[must_use]
    pub fn with_clock(&self, clock: Arc<dyn Clock>, events: Arc<dyn Events>) -> Self {
        Self {
            clock,
            redactor: self.redactor.clone(),
            force: self.force,
            events,
            home: self.home.clone(),
            connector: self.connector.clone(),
            config: OnceLock::new(),
            latest: Arc::clone(&self.latest),
            fetched: Mutex::default(),
            cache: self.cache,
            may_put: self.may_put.clone(),
            identity: Arc::clone(&self.identity),
            sessions: Arc::clone(&self.sessions),
        }
    }

    /// The receiver of events, to be shared.
    #[must_use]
    pub fn shared_events(&self) -> Arc<dyn Events> {
        Arc::clone(&self.events)
    }

    /// The connector that replaces the network, if there is one.
    pub(super) fn connector(&self) -> Option<&Connector> {
        self.connector.as_deref()
    }

    /// Lets interrupts end the waits of the clock from now on, instead of the process.
    pub fn catch_interrupts(&self) {
        self.events.catch_interrupts();
    }

    /// Sends a warning: a problem that does not stop the operation.
    pub fn warn(&self, text: impl Display) {
        self.events.warning(&text.to_string());
    }

    /// Sends a remark that can be left out.
    pub fn note(&self, text: impl Display) {
        self.events.note(&text.to_string());
    }

    /// Sends a warning with what the user can do, if the receiver has a text for that.
    pub(super) fn warn_with(&self, text: impl Display, next: &NextStep) {
        self.warn(self.with_hint(text, next));
    }

    /// Sends a remark with what the user can do, if the receiver has a text for that.
    pub(super) fn note_with(&self, text: impl Display, next: &NextStep) {
        self.note(self.with_hint(text, next));
    }

    fn with_hint(&self, text: impl Display, next: &NextStep) -> String {
        match self.events.hint(next) {
            Some(hint) => format!("{text}; {hint}"),
            None => text.to_string(),
        }
    }

    /// The receiver of events.
    #[must_use]
    pub fn events(&self) -> &dyn Events {
        &*self.events
    }

    /// The folders of the configuration and the vaults.
    ///
    /// # Errors
    /// If the user has no home folder and no variable names one.
    pub fn home(&self) -> Result<Home, OpError> {
        match &self.home {
            Some(home) => Ok(home.clone()),
            None => Ok(Home::find()?),
        }
    }

    /// The configuration. The first call reads it and sends its warnings, unless this process has
    /// read the same file before.
    ///
    /// # Errors
    /// All mistakes in the file, if this process has read no configuration before.
    pub fn config(&self) -> Result<&Config, OpError> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let mut latest = self.latest();
        let stamp = FileStamp::of(&self.home()?.config_file());
        let config = match &mut *latest {
            Some(read) if read.stamp == stamp => Arc::clone(&read.config),
            Some(read) => self.changed(read, stamp),
            None => self.read(&mut latest)?,
        };
        Ok(self.config.get_or_init(|| config))
    }

    /// The configuration after its file has changed since `last`. One with mistakes, or without the
    /// accounts of before, is a warning, and the last one stays: a person may be writing the file.
    fn changed(&self, last: &mut ReadConfig, stamp: Option<FileStamp>) -> Arc<Config> {
        let (mut read, stays) = (None, "continuing with the configuration of before");
        match self.read(&mut read) {
            Ok(new) if new.accounts().is_empty() && !last.config.accounts().is_empty() => {
                self.warn(format_args!("the configuration has no accounts any more; {stays}"));
            }
            Ok(new) => {
                *last = ReadConfig { stamp, config: Arc::clone(&new) };
                return new;
            }
            Err(failure) => {
                self.warn(format_args!("{}; {stays}", failure.message));
                failure.details.lines.iter().for_each(|line| self.warn(line));
            }
        }
        last.stamp = stamp;
        Arc::clone(&last.config)
    }

    /// Reads the configuration again and sends its warnings, for a process that reloads it.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn read_config(&self) -> Result<Arc<Config>, OpError> {
        // Another thread may need the last configuration while a long one is read.
        let mut read = None;
        let config = self.read(&mut read)?;
        *self.latest() = read;
        Ok(config)
    }

    fn latest(&self) -> MutexGuard<'_, Option<ReadConfig>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, latest: &mut Option<ReadConfig>) -> Result<Arc<Config>, OpError> {
        let home = self.home()?;
        // A change while the file is read leads to another stamp.
        let stamp = FileStamp::of(&home.config_file());
        let config = Arc::new(Config::load(&home)?);
        for warning in &config.warnings {
            self.warn(warning);
        }
        self.redact_secrets_of(config.accounts());
        *latest = Some(ReadConfig { stamp, config: Arc::clone(&config) });
        Ok(config)
    }

    /// The configuration that was last read.
    ///
    /// # Errors
    /// If none was read yet, and the file has mistakes.
    pub(super) fn latest_config(&self) -> Result<Arc<Config>, OpError> {
        let mut latest = self.latest();
        match latest.as_ref() {
            Some(read) => Ok(Arc::clone(&read.config)),
            None => self.read(&mut latest),
        }
    }

    /// From now on removes from every response the secrets of `accounts` that this process knows
    /// without reading a key: those in environment variables, and the URLs of webhooks and
    /// heartbeats. Keys from files and commands are added when they are read.
    fn redact_secrets_of(&self, accounts: &[AccountConfig]) {
        let hooks = accounts.iter().flat_map(|account| {
            let settings = &account.settings;
            [&settings.heartbeat, &settings.alerts.webhook].into_iter().flatten()
        });
        self.redactor.add_addresses(hooks);
        let names = key_variables(accounts).into_iter();
        let secrets: Vec<_> = names.filter_map(|name| std::env::var(name).ok()).collect();
        self.redactor.add_all(secrets.iter().map(String::as_str));
    }

    /// The account called `name`, with its vault fetched from its store, if it lives in one.
    ///
    /// # Errors
    /// If there is no such account, the configuration has mistakes, or the vault cannot be fetched.
    pub fn account(&self, name: &str) -> Result<AccountConfig, OpError> {
        let account = self.config()?.account(name)?;
        self.fetch(&account)?;
        Ok(account)
    }

    /// The accounts with these names; all configured ones if empty. Does not fetch their vaults.
    ///
    /// # Errors
    /// If an account does not exist, or none is configured.
    pub fn accounts(&self, names: &[String]) -> Result<Vec<AccountConfig>, OpError> {
        Ok(self.config()?.select(names)?)
    }

    /// Like [`Self::accounts`], with fetched vaults and recorded states. One that cannot be fetched
    /// is a warning.
    ///
    /// # Errors
    /// As [`Self::accounts`].
    pub fn fetched_accounts(&self, names: &[String]) -> Result<Vec<AccountConfig>, OpError> {
        let accounts = self.accounts(names)?;
        for account in &accounts {
            if let Err(failure) = self.fetch_with_state(account) {
                let text = failure.message;
                self.warn(format_args!("{text}; using what this machine knew last"));
            }
        }
        Ok(accounts)
    }

    /// Like [`Self::fetch`], and reads the recorded state of `account`.
    ///
    /// # Errors
    /// If one of them cannot be read. The state is read although the vault is damaged.
    pub fn fetch_with_state(&self, account: &AccountConfig) -> Result<(), OpError> {
        let fetched = self.fetch(account);
        if fetched.as_ref().is_err_and(|failure| failure.kind != OpErrorKind::Vault) {
            return fetched;
        }
        fetched.and(stored_state::refresh(self, account))
    }

    /// Fetches the vault of `account` from its store, if it lives in one and this process has not
    /// fetched it yet.
    ///
    /// # Errors
    /// If it cannot be fetched.
    pub fn fetch(&self, account: &AccountConfig) -> Result<(), OpError> {
        let fetched = || self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if account.store.is_none() || fetched().contains(&account.name) {
            return Ok(());
        }
        self.fetch_again(account)?;
        fetched().insert(account.name.clone());
        Ok(())
    }

    fn fetch_again(&self, account: &AccountConfig) -> Result<(), OpError> {
        self.stored_vault(account)?.map_or(Ok(()), |it| stored_vault::fetch(&it))
    }

    /// Fetches the vault of `account` from its store, if it lives in one, for a caller that holds
    /// the lock of the account and has no open vault.
    ///
    /// # Errors
    /// If it cannot be fetched.
    pub(super) fn fetch_held(&self, account: &AccountConfig) -> Result<(), OpError> {
        self.stored_vault(account)?.map_or(Ok(()), |it| stored_vault::fetch_held(&it))
    }

    /// Reads the stored vault of `account` to its end, and verifies it. A vault that is a file is
    /// not read.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn verify_stored(&self, account: &AccountConfig) -> Result<(), OpError> {
        self.stored_vault(account)?.map_or(Ok(()), |it| stored_vault::verify(&it))
    }

    /// What a fetch or a put of the vault of `account` needs; `None` if it is a file.
    pub(super) fn stored_vault<'a>(
        &'a self,
        account: &'a AccountConfig,
    ) -> Result<Option<StoredVault<'a>>, OpError> {
        if account.store.is_none() {
            return Ok(None);
        }
        let Self { clock, events, redactor, identity, .. } = self;
        let config = self.latest_config()?;
        let mut fleet = config.fleet.clone();
        fleet.cache = fleet.cache.or(self.cache);
        let copies = fleet.cache.map_or_else(Vec::new, |_| self.local_copies(&config, account));
        let hidden = hidden_from_key_commands(&key_variables(config.accounts()));
        Ok(Some(StoredVault { account, clock, events, redactor, fleet, copies, identity, hidden }))
    }

    /// The local copies of vaults in stores. Those of `account` and of the accounts that this
    /// process fetched to read them are in use.
    fn local_copies(&self, config: &Config, account: &AccountConfig) -> Vec<LocalFile> {
        let accounts = config.accounts();
        // A file that is also the vault of an account without a store is no copy.
        let plain: BTreeSet<_> =
            accounts.iter().filter(|it| it.store.is_none()).map(|it| &it.vault).collect();
        let stored = accounts.iter().filter(|it| it.store.is_some() && !plain.contains(&it.vault));
        let fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = |name: &String| *name == account.name || fetched.contains(name);
        stored.map(|it| LocalFile { path: it.vault.clone(), in_use: in_use(&it.name) }).collect()
    }

    /// Opens the vault of `account` for changes, or creates it. If it lives in a store, it is put
    /// there from time to time while it is open. The caller holds its lock.
    ///
    /// # Errors
    /// If the vault cannot be opened.
    pub(super) fn open_vault(&self, account: &AccountConfig) -> Result<Vault, OpError> {
        let opened = Vault::open_or_create(&account.vault);
        let mut vault = opened.map_err(|error| vault_error(error, &account.name))?;
        if let Some(stored) = self.stored_vault(account)? {
            stored_vault::require_copy(&stored, &vault)?;
            let checkpoints = stored_vault::checkpoints(&stored)?;
            checkpoints.into_iter().for_each(|it| vault.set_checkpoints(it));
        }
        Ok(vault)
    }

    /// Does `work`, which may change the vaults of `accounts`. Those that live in a store are
    /// fetched before, and put afterwards if they were changed, also if the work failed. While it
    /// writes to an account, the account's schedule in Temporal is paused.
    ///
    /// # Errors
    /// The error of the work, or else that of its vault's store.
    pub fn with_stored<T>(
        &self,
        accounts: &[&AccountConfig],
        kind: StoredWork,
        work: impl FnOnce() -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let mut paused = Vec::new();
        if kind == StoredWork::Account {
            for account in accounts {
                if let Some(stored) = self.stored_vault(account)? {
                    paused.extend(stored_vault::pause(&stored)?);
                }
            }
        }
        if kind != StoredWork::Replacement {
            accounts.iter().try_for_each(|account| self.fetch_again(account))?;
        }
        let mut done = work();
        for account in accounts {
            done = self.put_after(account, kind, done);
        }
        drop(paused);
        done
    }

    /// Puts the vault of `account` into its store, if it lives in one and was changed by the work
    /// whose result is `done`.
    ///
    /// # Errors
    /// The error of the work, or else that of the store.
    pub fn put_after<T>(
        &self,
        account: &AccountConfig,
        kind: StoredWork,
        done: Result<T, OpError>,
    ) -> Result<T, OpError> {
        if done.as_ref().is_err_and(|failure| failure.kind == OpErrorKind::Locked) {
            // Nothing was changed, and another process works on the vault.
            return done;
        }
        if self.may_put.as_ref().is_some_and(|may_put| !may_put()) {
            // The next fetch sets the changes aside, if another machine has put a newer vault.
            return done.and_then(|_| {
                let what = format!(
                    "the vault of {} was not put: another machine may work on the account",
                    account.name
                );
                Err(OpError::new(OpErrorKind::Interrupted, what))
            });
        }
        let stored = self.stored_vault(account);
        let put = stored.and_then(|it| it.map_or(Ok(()), |it| stored_vault::put(&it, kind)));
        match (put, done) {
            (Ok(()), done) => done,
            (Err(failure), Ok(_)) => Err(failure),
            (Err(failure), Err(first)) => {
                self.warn(failure.message);
                Err(first)
            }
        }
    }

    /// Reads a secret from its source. From then on it is removed from every response. Sends a
    /// warning if the source is not private or the secret is short.
    ///
    /// # Errors
    /// If the source cannot be read or has no secret.
    pub fn secret(&self, what: SecretKind, source: &KeySource) -> Result<ApiKey, OpError> {
        if let Some(warning) = source.warning() {
            self.warn(warning);
        }
        // Before the first account is configured, none has a secret.
        let config = self.latest_config().ok();
        let secrets = config.map_or_else(Vec::new, |config| key_variables(config.accounts()));
        let hidden = hidden_from_key_commands(&secrets);
        let key = source.read(what, &*self.clock, &hidden).map_err(|error| {
            let failure = OpError::from(error);
            let message = self.redactor.text(&failure.message).into_owned();
            OpError { message, ..failure }
        })?;
        self.redact_secret(what, &key);
        Ok(key)
    }

    /// From now on removes `key` from every response.
    pub fn redact_secret(&self, what: SecretKind, key: &ApiKey) {
        self.redactor.add(key.reveal());
        self.warn_if_short(what.name(), key.reveal());
    }

    /// From now on removes an account's new password from every response.
    pub fn redact_password(&self, password: &str) {
        self.redactor.add(password);
        self.warn_if_short("password", password);
    }

    fn warn_if_short(&self, what: &str, secret: &str) {
        let length = secret.chars().count();
        if length < STRONG_SECRET_LENGTH {
            self.warn(format_args!(
                "the {what} has only {length} characters; linkvault finds a {what} everywhere in \
                 responses only if it has {STRONG_SECRET_LENGTH} or more"
            ));
        }
    }

    /// The receiver of progress events for work on `account`. Drop it before the result is shown.
    #[must_use]
    pub fn progress(&self, account: &str) -> Arc<dyn Progress + Send + Sync> {
        self.events.progress(account)
    }

    /// Asks for confirmation; with `yes`, returns true without asking.
    ///
    /// # Errors
    /// If the question cannot be asked, has no answer, or `clock` was interrupted.
    pub fn confirm(
        &self,
        question: impl Display,
        yes: bool,
        clock: &dyn Clock,
    ) -> Result<bool, OpError> {
        require_no_interrupt(clock)?;
        if yes { Ok(true) } else { self.events.confirm(&question.to_string()) }
    }

    /// Asks whether to apply a plan; with `yes`, returns `Apply` without asking.
    ///
    /// # Errors
    /// As [`Self::confirm`].
    pub fn confirm_plan(
        &self,
        question: &PlanQuestion<'_>,
        yes: bool,
        clock: &dyn Clock,
    ) -> Result<PlanAnswer, OpError> {
        require_no_interrupt(clock)?;
        if yes { Ok(PlanAnswer::Apply) } else { self.events.confirm_plan(question) }
    }
}

fn require_no_interrupt(clock: &dyn Clock) -> Result<(), OpError> {
    if !clock.interrupted() {
        return Ok(());
    }
    Err(OpError::new(OpErrorKind::Interrupted, "interrupted; nothing was written"))
}

/// Adds the passwords in the addresses of proxies and object stores to the secrets.
fn redact_address_passwords(redactor: &Redactor) {
    let endpoints = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"];
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"].into_iter().chain(endpoints) {
        for name in [name.to_owned(), name.to_lowercase()] {
            let Ok(proxy) = std::env::var(name) else { continue };
            let place = proxy.split_once("://").map_or(proxy.as_str(), |(_, place)| place);
            let Some((user, _)) = place.rsplit_once('@') else { continue };
            redactor.add(user);
            if let Some((_, password)) = user.split_once(':') {
                redactor.add(password);
            }
        }
    }
}
