//! A client for an account: the only place that connects clock, transport, key, limits and
//! progress.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Env;
use super::built_in_sandbox;
use super::error_sources::lock_timeout_error;
use super::pace_file::{PaceFile, reported_limit};
use super::stored_state::{SharedSession, begin_session};
use super::{NextStep, OpError, OpErrorKind};
use crate::api::client::{Client, ClientLimits};
use crate::api::http::{ApiKey, Method, Transport};
use crate::api::pacer::{Pacer, effective_limit};
use crate::api::parallel::ParallelTransport;
use crate::api::read_only::ReadOnlyTransport;
use crate::api::ureq::certificates::TrustedCertificates;
use crate::api::ureq::{TransportOptions, UreqTransport};
use crate::change::cost::RESPONSE_TIME;
use crate::clock::Clock;
use crate::config::{AccountConfig, AccountLocation, SecretKind, folder_permission_warning};
use crate::crawl::ServiceLink;
use crate::files::{beside, make_private, read_named, target};
use crate::progress::Progress;
use crate::sandbox::behaviour::RateLimit;
use crate::sandbox::{Behaviour, SandboxService, SandboxTransport, Store};
use crate::vault::lock::{Lock, LockCommand};

/// The wait after which a vault that was fetched before counts as old.
const FETCH_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Limits of one command, in addition to the account's configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionLimits {
    /// The requests of each window that are left to other tools; the configuration's if `None`.
    pub reserve: Option<u32>,
    /// The time after which to stop.
    pub max_duration: Option<Duration>,
    /// The number of requests after which to stop.
    pub max_requests: Option<u64>,
    /// The number of reads that may overlap; the configuration's if `None`.
    pub max_in_flight: Option<u32>,
    /// How long to wait for another process that holds the account's lock; not at all if `None`.
    pub lock_timeout: Option<Duration>,
}

/// An account that is locked for this process, and a client for it.
pub struct AccountSession {
    /// Sends the requests.
    pub client: Client,
    /// The service's URL as the vault stores it ([`service`]).
    pub service: String,
    /// The requests of each window that are left to other tools.
    pub reserve: u64,
    _lock: Option<Lock>,
    /// Its begin, if other machines work on the account.
    shared: Option<SharedSession>,
}

impl Drop for AccountSession {
    /// Records the end of the session for other machines.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.end(self.client.counters().requests, self.client.pacer_state());
        }
    }
}

impl AccountSession {
    /// Locks `account` for `command` and makes a client for it.
    ///
    /// # Errors
    /// If another process holds the lock, the key cannot be read, or the URL is not allowed.
    pub fn open(
        env: &Env,
        account: &AccountConfig,
        command: &LockCommand,
        bounds: &SessionLimits,
        progress: Arc<dyn Progress + Send + Sync>,
    ) -> Result<Self, OpError> {
        let lock = lock(env, account, command, bounds)?;
        let mut session = Self::open_unlocked(env, account, bounds, progress)?;
        session._lock = Some(lock);
        Ok(session)
    }

    /// Like [`AccountSession::open`] without a lock, for a command that changes nothing.
    ///
    /// # Errors
    /// As [`AccountSession::open`].
    pub fn open_unlocked(
        env: &Env,
        account: &AccountConfig,
        bounds: &SessionLimits,
        progress: Arc<dyn Progress + Send + Sync>,
    ) -> Result<Self, OpError> {
        env.catch_interrupts();
        Self::connect(env, account, bounds, progress, account_transport(env, account)?)
    }

    /// Like [`AccountSession::open`], with a client that cannot write.
    ///
    /// # Errors
    /// As [`AccountSession::open`].
    pub fn open_to_read(
        env: &Env,
        account: &AccountConfig,
        command: &LockCommand,
        bounds: &SessionLimits,
        progress: Arc<dyn Progress + Send + Sync>,
    ) -> Result<Self, OpError> {
        let lock = lock(env, account, command, bounds)?;
        let (transport, key, service) = account_transport(env, account)?;
        let read_only: AccountTransport = (Box::new(ReadOnlyTransport(transport)), key, service);
        let mut session = Self::connect(env, account, bounds, progress, read_only)?;
        session._lock = Some(lock);
        Ok(session)
    }

    fn connect(
        env: &Env,
        account: &AccountConfig,
        bounds: &SessionLimits,
        progress: Arc<dyn Progress + Send + Sync>,
        (transport, key, service): AccountTransport,
    ) -> Result<Self, OpError> {
        let reserve = u64::from(bounds.reserve.unwrap_or(account.settings.reserve));
        let path = env.home()?.pace_file(&service, &key);
        let mut pace = PaceFile::new(path, &account.vault, Arc::clone(&env.clock));
        let (now, wall) = (env.clock.monotonic(), env.clock.now());
        let limit = pace.load().and_then(|state| state.limit);
        let shared = begin_session(env, account, limit)?;
        let state = match &shared {
            Some(shared) => shared.take_over(&mut pace),
            None => pace.load(),
        };
        let pacer = state.map_or_else(
            || Pacer::new(reserve),
            |state| Pacer::restore(reserve, &state, now, wall),
        );
        let pacer = pacer.capped(account.settings.limit.map(u64::from));
        let limits = limits(account, bounds);
        let client = Client::new(transport, Arc::clone(&env.clock), pacer)
            .with_redactor(env.redactor.clone());
        let client = match account.place {
            AccountLocation::Sandbox => client.with_public_key(key),
            AccountLocation::Service { .. } => client.with_key(key),
        };
        let client = client
            .with_limits(limits)
            .with_progress(progress)
            .with_shared_pacer(Box::new(move |change| pace.exchange(change)));
        Ok(Self { client, service, reserve, _lock: None, shared })
    }

    /// Waits until the first request may be sent, if other machines work on the account. Returns
    /// whether that took so long that another machine may have put a newer vault meanwhile.
    ///
    /// # Errors
    /// If a limit or an interrupt ends the wait.
    pub fn wait_for_other_machines(&mut self, clock: &dyn Clock) -> Result<bool, OpError> {
        if self.shared.is_none() {
            return Ok(false);
        }
        let begun = clock.monotonic();
        self.client.wait_for_turn(Method::Get, "/api/account")?;
        Ok(clock.monotonic().saturating_sub(begun) >= FETCH_AGAIN_AFTER)
    }

    /// From now on the end of the session is recorded with the result of a backup, which follows.
    pub fn end_with_record(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.end_with_record();
        }
    }
}

impl AccountSession {
    /// The link through which a crawl reads the service.
    pub fn link<'a>(
        &'a mut self,
        clock: &'a dyn Clock,
        progress: &'a dyn Progress,
    ) -> ServiceLink<'a> {
        ServiceLink { client: &mut self.client, clock, progress, service: &self.service }
    }

    /// The account's rate limit: the lower of the one that the service sent last and the configured
    /// one, or the default.
    #[must_use]
    pub fn known_limit(account: &AccountConfig) -> RateLimit {
        let limit = known_limit(account).unwrap_or(match account.place {
            AccountLocation::Sandbox => built_in_sandbox::LIMIT,
            AccountLocation::Service { .. } => DEFAULT_LIMIT,
        });
        if limit == 0 { RateLimit::Zero } else { RateLimit::Per(limit) }
    }

    /// A client for a sandbox that replaces the account's service: with the account's reserve, but
    /// without a lock, without its key, and without files beside its vault.
    #[must_use]
    pub fn to_sandbox(
        account: &AccountConfig,
        bounds: &SessionLimits,
        (store, behaviour): (Store, Behaviour),
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let cap = account.settings.limit.map(u64::from);
        let key = ApiKey::new("rehearsal");
        let stand_in = SandboxService::new(store, key.clone(), behaviour);
        let stand_in = Arc::new(Mutex::new(stand_in.with_log_limit(0)));
        let transport =
            SandboxTransport::new(stand_in, Arc::clone(clock)).with_latency(RESPONSE_TIME);
        let reserve = u64::from(bounds.reserve.unwrap_or(account.settings.reserve));
        let client =
            Client::new(Box::new(transport), Arc::clone(clock), Pacer::new(reserve).capped(cap));
        let limits = limits(account, bounds);
        let client = client.with_public_key(key).with_limits(limits);
        Self { client, service: service(account), reserve, _lock: None, shared: None }
    }
}

/// Locks `account` for `command`, and makes its vault private.
fn lock(
    env: &Env,
    account: &AccountConfig,
    command: &LockCommand,
    bounds: &SessionLimits,
) -> Result<Lock, OpError> {
    env.catch_interrupts();
    let timeout = bounds.lock_timeout.unwrap_or_default();
    let lock =
        Lock::take(&account.vault, command, timeout, &*env.clock).map_err(lock_timeout_error)?;
    make_vault_private(env, account);
    Ok(lock)
}

fn limits(account: &AccountConfig, bounds: &SessionLimits) -> ClientLimits {
    ClientLimits {
        max_duration: bounds.max_duration,
        max_requests: bounds.max_requests,
        max_records: account.settings.max_records.map(u64::from),
        max_bytes: account.settings.max_bytes.map(u64::from),
        max_in_flight: max_in_flight(account, bounds),
    }
}

fn max_in_flight(account: &AccountConfig, bounds: &SessionLimits) -> usize {
    let number = bounds.max_in_flight.or(account.settings.max_in_flight);
    usize::try_from(number.unwrap_or(DEFAULT_IN_FLIGHT)).unwrap_or(usize::MAX)
}

/// The number of reads that may overlap, if neither a flag nor the configuration says it.
const DEFAULT_IN_FLIGHT: u32 = 4;

/// The rate limit in requests per minute, if neither the service nor the configuration gives one.
const DEFAULT_LIMIT: u64 = 30;

/// Makes a vault private that others can read, and warns of folders to which others can write.
fn make_vault_private(env: &Env, account: &AccountConfig) {
    let Ok(vault) = target(&account.vault) else { return };
    for file in [vault.clone(), beside(&vault, "-wal"), beside(&vault, "-shm")] {
        if let Some(warning) = privacy_warning(&file, make_private(&file)) {
            env.warn(warning);
        }
    }
    if let Some(warning) = vault.parent().and_then(folder_permission_warning) {
        env.warn(warning);
    }
}

/// The warning about the result of [`make_private`].
fn privacy_warning(file: &Path, made: io::Result<Option<u32>>) -> Option<String> {
    let name = file.display();
    match made {
        Ok(None) => None,
        Ok(Some(mode)) => Some(format!("{name} had mode {mode:04o}; it is 0600 now")),
        Err(error) => {
            Some(format!("cannot make {name} private: {error}; other users may be able to read it"))
        }
    }
}

/// The service's URL as the vault of `account` stores it, without a slash at the end; for the
/// built-in sandbox, the account's name.
pub fn service(account: &AccountConfig) -> String {
    match &account.place {
        AccountLocation::Sandbox => account.name.clone(),
        AccountLocation::Service { url, .. } => url.to_string().trim_end_matches('/').to_owned(),
    }
}

/// The transport to an account, its key, and the service as [`service`] returns it.
type AccountTransport = (Box<dyn Transport>, ApiKey, String);

fn account_transport(env: &Env, account: &AccountConfig) -> Result<AccountTransport, OpError> {
    if let Some(connector) = env.connector() {
        let (transport, key) = connector(account)?;
        return Ok((transport, key, service(account)));
    }
    match &account.place {
        AccountLocation::Sandbox => {
            let (transport, key) = built_in_sandbox::transport(&env.home()?, &env.clock)?;
            Ok((Box::new(transport), key, service(account)))
        }
        AccountLocation::Service { key, allow_http, .. } => {
            let key = env.secret(SecretKind::Key, key)?;
            let timeouts = account.settings.timeouts;
            let options = TransportOptions {
                connect: timeouts.connect,
                read: timeouts.read,
                overall: timeouts.overall,
                allow_http: *allow_http,
                trust: trusted_certificates(account.settings.ca_file.as_deref())?,
                ..TransportOptions::default()
            };
            let service = service(account);
            let first = UreqTransport::new(&service, &options)?;
            let model = first.another();
            let make = move || Some(Box::new(model.another()) as Box<dyn Transport>);
            let (first, clock) = (Box::new(first), Arc::clone(&env.clock));
            let transport = ParallelTransport::new(
                first,
                MAX_LANES,
                Box::new(make),
                clock,
                env.redactor.clone(),
            );
            Ok((Box::new(transport), key, service))
        }
    }
}

/// The highest number of reads at once, whatever is configured.
const MAX_LANES: usize = 32;

/// The most bytes that are read of a file of certificates: all of a system's are below 1 MiB.
const MAX_CERTIFICATE_BYTES: u64 = 16 * 1024 * 1024;

/// The certificates in `ca_file`, or else in the file in the variable `SSL_CERT_FILE`; `None` if
/// neither is set.
///
/// # Errors
/// If the file cannot be read, or has no certificate.
pub fn trusted_certificates(
    ca_file: Option<&Path>,
) -> Result<Option<TrustedCertificates>, OpError> {
    let variable = || std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty());
    let Some(file) = ca_file.map(PathBuf::from).or_else(|| variable().map(PathBuf::from)) else {
        return Ok(None);
    };
    let read = read_named(&file, MAX_CERTIFICATE_BYTES).map_err(|error| error.to_string());
    let trust = read.and_then(|pem| TrustedCertificates::from_pem(&pem)).map_err(|why| {
        let message = format!("cannot read the certificates in {}: {why}", file.display());
        OpError::new(OpErrorKind::Config, message).next(NextStep::NameCertificates)
    });
    trust.map(Some)
}

/// The rate limit of `account` in requests per minute: the lower of the one that the service last
/// sent and the configured one; 0 is no limit.
#[must_use]
pub fn known_limit(account: &AccountConfig) -> Option<u64> {
    effective_limit(reported_limit(&account.vault), account.settings.limit.map(u64::from))
}

/// The command line of this process, shown by a process that finds the lock held. Without the
/// values of flags, which may contain secrets.
#[must_use]
pub fn lock_command(name: &str, account: &str) -> LockCommand {
    format!("linkvault {name} {account}").as_str().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vault_that_cannot_be_made_private_is_a_warning() {
        let warning = |made| privacy_warning(Path::new("main.db"), made);
        assert_eq!(warning(Ok(None)), None);
        assert_eq!(warning(Ok(Some(0o644))).unwrap(), "main.db had mode 0644; it is 0600 now");
        let refused = io::Error::new(io::ErrorKind::NotFound, "/proc is not available");
        assert_eq!(
            warning(Err(refused)).unwrap(),
            "cannot make main.db private: /proc is not available; other users may be able to read it"
        );
    }
}
