//! What every command is given: output, time, and the configuration when asked.

use std::io::{self, BufWriter, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::alerting::key_variables;
use super::error::OpError;
use super::global::GlobalArgs;
use super::output::{Output, TerminalInfo};
use super::progress;
use crate::api::http::ApiKey;
use crate::api::redact::{Redactor, STRONG_SECRET_LENGTH};
use crate::clock::{Clock, Interrupt, SystemClock, Waker};
use crate::config::{AccountConfig, Config, Home, KeySource};
use crate::progress::Progress;

/// The program around a command.
pub struct App {
    pub out: Output,
    pub clock: Arc<dyn Clock>,
    /// The secrets of this process, which no answer may bring back.
    pub redactor: Redactor,
    interrupt: Interrupt,
}

impl App {
    /// The machine's own streams and clock.
    #[must_use]
    pub fn new(flags: &GlobalArgs) -> Self {
        let interrupt = Interrupt::default();
        let stdout = Box::new(BufWriter::new(io::stdout()));
        let out = Output::new(stdout, Box::new(io::stderr()), surroundings(), flags);
        let clock = Arc::new(SystemClock::new(interrupt.clone()));
        let redactor = Redactor::default();
        conceal_proxies(&redactor);
        Self { out, clock, redactor, interrupt }
    }

    /// Lets Ctrl-C and SIGTERM end the clock's waits instead of the process.
    /// For commands that have something to finish; the second signal ends the
    /// process all the same.
    pub fn catch_interrupts(&self) {
        let (stderr, quiet) = (Mutex::new(self.out.error_stream()), self.out.is_quiet());
        let question = self.out.question();
        let told = move || {
            if question.end() {
                return;
            }
            let stderr = stderr.lock();
            if let (Ok(mut stderr), false) = (stderr, quiet) {
                // There is nowhere to tell that stderr is gone.
                let _ = stderr
                    .write_all(b"stopping after the request under way; Ctrl-C to stop at once\n");
            }
        };
        if let Err(error) = super::signals::raise_on_signal(self.interrupt.clone(), told) {
            self.out.warn(format_args!("an interrupt will not be orderly: {error}"));
        }
    }

    /// Lets SIGTERM and Ctrl-C interrupt the clock and ring `bell`, and SIGHUP set
    /// `reload` and ring it, for a program that runs on.
    pub fn catch_signals(&self, bell: &Waker, reload: &Arc<AtomicBool>) {
        let (interrupt, rung) = (self.interrupt.clone(), bell.clone());
        let stop = move || {
            interrupt.raise();
            rung.wake();
        };
        let (again, rung) = (Arc::clone(reload), bell.clone());
        let reload = move || {
            again.store(true, Ordering::SeqCst);
            rung.wake();
        };
        if let Err(error) = super::signals::on_signals(stop, reload) {
            self.out.warn(format_args!("signals are not heeded: {error}"));
        }
    }

    /// Where the configuration and the vaults are.
    ///
    /// # Errors
    /// When this user has no place for them.
    pub fn home(&self) -> Result<Home, OpError> {
        Ok(Home::find()?)
    }

    /// The configuration. Its warnings are printed.
    ///
    /// # Errors
    /// With every mistake in the file.
    pub fn config(&self) -> Result<Config, OpError> {
        let config = Config::load(&self.home()?)?;
        for warning in &config.warnings {
            self.out.warn(warning);
        }
        self.redact_secrets_of(config.accounts());
        Ok(config)
    }

    /// Removes from every answer the secrets of `accounts` that this process holds from its
    /// start: those in its environment, and addresses for messages. A key in a file or from a
    /// command is one of them once it was read.
    pub fn redact_secrets_of(&self, accounts: &[AccountConfig]) {
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

    /// The key from its source. A warning about the source is printed.
    ///
    /// # Errors
    /// When the source gives no key.
    pub fn key(&self, source: &KeySource) -> Result<ApiKey, OpError> {
        if let Some(warning) = source.warning() {
            self.out.warn(warning);
        }
        let key = source.read(&*self.clock).map_err(|error| {
            let failure = OpError::from(error);
            let message = self.redactor.text(&failure.message).into_owned();
            OpError { message, ..failure }
        })?;
        self.redactor.add(key.reveal());
        self.warn_of_short("key", key.reveal());
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
            self.out.warn(format_args!(
                "the {what} has {length} characters; in what a service sends back, linkvault \
                 finds only a {what} of {STRONG_SECRET_LENGTH} or more everywhere"
            ));
        }
    }

    /// What shows the progress of work on `account`. Drop it before printing
    /// the summary.
    #[must_use]
    pub fn progress(&self, account: &str) -> Box<dyn Progress + Send + Sync> {
        progress::progress(&self.out, &self.clock, account)
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

/// What the process's streams and environment are.
#[must_use]
pub fn surroundings() -> TerminalInfo {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    TerminalInfo {
        stdin_terminal: io::stdin().is_terminal(),
        stdout_terminal: io::stdout().is_terminal(),
        stderr_terminal: io::stderr().is_terminal() && !dumb,
        no_color: set("NO_COLOR") || dumb,
        width: width(),
    }
}

/// The columns of `COLUMNS` or of the terminal, else 80. A table needs a few.
fn width() -> u16 {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(width), _)| width)
    };
    told.or_else(terminal).unwrap_or(80).max(40)
}
