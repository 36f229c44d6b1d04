//! What every operation is given: the configuration, the time, the secrets of the
//! process, and the one who hears of events.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use super::{NextStep, OpError, OpErrorKind};
use crate::api::http::{ApiKey, Transport};
use crate::api::redact::{Redactor, STRONG_SECRET_LENGTH};
use crate::change::plan::Plan;
use crate::clock::Clock;
use crate::config::{AccountConfig, Config, Home, KeySource, SecretKind, key_variables};
use crate::progress::{NoProgress, Progress};

/// Who hears what an operation has to say while it runs, and answers its questions.
pub trait Events: Send + Sync {
    /// What a user should know although the operation goes on.
    fn warning(&self, text: &str);

    /// A remark, which a user may do without.
    fn note(&self, text: &str);

    /// What shows the progress of work on `account`, until it is dropped.
    fn progress(&self, account: &str) -> Arc<dyn Progress + Send + Sync>;

    /// From now on an interrupt ends the waits of the clock instead of the process, so that
    /// what is under way can be finished. Later calls do nothing.
    fn catch_interrupts(&self);

    /// A plan was made. It is what the user asked for (`is_answer`), or what a question
    /// about it follows.
    ///
    /// # Errors
    /// When it cannot be shown.
    fn planned(&self, plan: &Plan, is_answer: bool) -> Result<(), OpError>;

    /// Asks whether to go on; an error where there is no one to ask.
    ///
    /// # Errors
    /// When there is no answer.
    fn confirm(&self, question: &str) -> Result<bool, OpError>;

    /// The words of a next step, for what is recorded of a failure; `None` where no one
    /// has words for it.
    fn hint(&self, _next: &NextStep) -> Option<String> {
        None
    }
}

/// Hears of nothing, and answers no question.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn warning(&self, _text: &str) {}

    fn note(&self, _text: &str) {}

    fn progress(&self, _account: &str) -> Arc<dyn Progress + Send + Sync> {
        Arc::new(NoProgress)
    }

    fn catch_interrupts(&self) {}

    fn planned(&self, _plan: &Plan, _is_answer: bool) -> Result<(), OpError> {
        Ok(())
    }

    fn confirm(&self, question: &str) -> Result<bool, OpError> {
        let message = format!("cannot ask \"{question}\", so nothing was written");
        Err(OpError::new(OpErrorKind::Usage, message))
    }
}

/// Makes the transport to an account, with the account's API key.
pub type Connector =
    Box<dyn Fn(&AccountConfig) -> Result<(Box<dyn Transport>, ApiKey), OpError> + Send + Sync>;

/// What every operation is given.
pub struct Env {
    pub clock: Arc<dyn Clock>,
    /// The secrets of this process; every response is redacted by it.
    pub redactor: Redactor,
    events: Arc<dyn Events>,
    home: Option<Home>,
    connector: Option<Connector>,
    config: OnceLock<Config>,
}

impl Env {
    /// An environment that has not read the configuration yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, events: Arc<dyn Events>) -> Self {
        let redactor = Redactor::default();
        conceal_proxies(&redactor);
        Self { clock, redactor, events, home: None, connector: None, config: OnceLock::new() }
    }

    /// Uses `home` for configuration and vaults instead of the user's own folders.
    #[must_use]
    pub fn with_home(self, home: Home) -> Self {
        Self { home: Some(home), ..self }
    }

    /// Uses `connector` instead of the network and the built-in sandbox.
    #[must_use]
    pub fn with_connector(self, connector: Connector) -> Self {
        Self { connector: Some(connector), ..self }
    }

    /// What replaces the network, if anything does.
    pub(super) fn connector(&self) -> Option<&Connector> {
        self.connector.as_ref()
    }

    /// Lets interrupts end the waits of the clock from now on, instead of the process.
    pub fn catch_interrupts(&self) {
        self.events.catch_interrupts();
    }

    /// Tells a user of something although the operation goes on.
    pub fn warn(&self, text: impl Display) {
        self.events.warning(&text.to_string());
    }

    /// Tells a user of something that may be left out.
    pub fn note(&self, text: impl Display) {
        self.events.note(&text.to_string());
    }

    /// Who hears of events.
    #[must_use]
    pub fn events(&self) -> &dyn Events {
        &*self.events
    }

    /// Where the configuration and the vaults are.
    ///
    /// # Errors
    /// When this user has no place for them.
    pub fn home(&self) -> Result<Home, OpError> {
        match &self.home {
            Some(home) => Ok(home.clone()),
            None => Ok(Home::find()?),
        }
    }

    /// The configuration, read at the first call; its warnings are told then.
    ///
    /// # Errors
    /// With every mistake in the file.
    pub fn config(&self) -> Result<&Config, OpError> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let config = self.read_config()?;
        Ok(self.config.get_or_init(|| config))
    }

    /// The configuration as the file is now, for a process that reads it again. Its
    /// warnings are told.
    ///
    /// # Errors
    /// With every mistake in the file.
    pub fn read_config(&self) -> Result<Config, OpError> {
        let config = Config::load(&self.home()?)?;
        for warning in &config.warnings {
            self.warn(warning);
        }
        self.redact_secrets_of(config.accounts());
        Ok(config)
    }

    /// Removes from every answer the secrets of `accounts` that this process holds from its
    /// start: those in its environment, and addresses for messages. A key in a file or from a
    /// command is one of them once it was read.
    fn redact_secrets_of(&self, accounts: &[AccountConfig]) {
        for account in accounts {
            let settings = &account.settings;
            let hooks = [&settings.heartbeat, &settings.alerts.webhook];
            hooks.into_iter().flatten().for_each(|hook| self.redactor.add_address(hook));
        }
        for name in key_variables(accounts) {
            if let Ok(secret) = std::env::var(name) {
                self.redactor.add(&secret);
            }
        }
    }

    /// The account called `name`.
    ///
    /// # Errors
    /// When there is none, or the configuration has mistakes.
    pub fn account(&self, name: &str) -> Result<AccountConfig, OpError> {
        Ok(self.config()?.account(name)?)
    }

    /// The named accounts, or every configured one.
    ///
    /// # Errors
    /// When one does not exist, or none is configured.
    pub fn accounts(&self, names: &[String]) -> Result<Vec<AccountConfig>, OpError> {
        Ok(self.config()?.select(names)?)
    }

    /// A secret from its source, which no answer may bring back from then on. A warning
    /// about the source is told.
    ///
    /// # Errors
    /// When the source gives none.
    pub fn secret(&self, what: SecretKind, source: &KeySource) -> Result<ApiKey, OpError> {
        if let Some(warning) = source.warning() {
            self.warn(warning);
        }
        let key = source.read(what, &*self.clock).map_err(|error| {
            let failure = OpError::from(error);
            let message = self.redactor.text(&failure.message).into_owned();
            OpError { message, ..failure }
        })?;
        self.redactor.add(key.reveal());
        self.warn_of_short(what.name(), key.reveal());
        Ok(key)
    }

    /// Removes an account's new password from every answer.
    pub fn redact_password(&self, password: &str) {
        self.redactor.add(password);
        self.warn_of_short("password", password);
    }

    fn warn_of_short(&self, what: &str, secret: &str) {
        let length = secret.chars().count();
        if length < STRONG_SECRET_LENGTH {
            self.warn(format_args!(
                "the {what} has {length} characters; in what a service sends back, linkvault \
                 finds only a {what} of {STRONG_SECRET_LENGTH} or more everywhere"
            ));
        }
    }

    /// What shows the progress of work on `account`. Drop it before showing what came
    /// of the work.
    #[must_use]
    pub fn progress(&self, account: &str) -> Arc<dyn Progress + Send + Sync> {
        self.events.progress(account)
    }

    /// Asks whether to go on, unless `yes` says so; not after `clock` was interrupted.
    ///
    /// # Errors
    /// When there is no answer, or it was interrupted.
    pub fn confirm(
        &self,
        question: impl Display,
        yes: bool,
        clock: &dyn Clock,
    ) -> Result<bool, OpError> {
        if clock.interrupted() {
            let message = "interrupted; nothing was written";
            return Err(OpError::new(OpErrorKind::Interrupted, message));
        }
        if yes { Ok(true) } else { self.events.confirm(&question.to_string()) }
    }
}

/// The password of a proxy is a secret too.
fn conceal_proxies(redactor: &Redactor) {
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"] {
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
