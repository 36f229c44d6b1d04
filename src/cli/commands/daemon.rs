//! `linkvault daemon`: backs accounts up on their schedules.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use super::status;
use crate::cli::global::LogFormat;
use crate::cli::page::{UiArgs, cannot_serve};
use crate::cli::ui_accounts::DaemonAccounts;
use crate::cli::{App, CliError, CommandResult, Escaped, Exit, OpErrorKind, hints};
use crate::clock::Waker;
use crate::config::{DaemonSettings, Home, ListenAddress, parse_listen};
use crate::daemon::DaemonWorker;
use crate::daemon::{DaemonEvent, DaemonLoop, DaemonState};
use crate::server::Server;
use crate::ui;
use crate::vault::lock::{Lock, LockError};

/// Back up all accounts on their schedules until stopped
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault daemon
  linkvault daemon --once            what is due now, for timers and CronJobs
  linkvault daemon --log-format json

An account has a schedule when the configuration says `schedule = \"0 3 * * *\"`:
minute, hour, day of the month, month, day of the week as crontab means them,
with the second before them if you like, or @hourly, @daily, @weekly, @monthly.
With five fields an account begins within its minute, at a second of its own.

What was missed is caught up with once. A backup that failed is tried again
after 5 minutes, 15 minutes and an hour, unless the key was refused.

SIGTERM stops within seconds and loses nothing; SIGHUP reads the configuration
again. Exit code: 0 when told to stop; with --once as `linkvault backup`, or 3
where only what comes after a backup failed.")]
pub struct Args {
    /// Back up the accounts that are due, then exit
    #[arg(long)]
    pub once: bool,
    /// Maximum number of concurrent backups [default: 32]
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..),
        env = "LINKVAULT_WORKERS",
        hide_env_values = true
    )]
    pub workers: Option<u16>,
    /// Address of the web UI, or `off`; an address that other machines can reach requires a
    /// token [default: 127.0.0.1:8080]
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = parse_listen,
        env = "LINKVAULT_DAEMON_LISTEN",
        hide_env_values = true
    )]
    pub listen: Option<ListenAddress>,
    /// Access to the web UI.
    #[command(flatten)]
    pub page: UiArgs,
    /// Format of the log on stderr
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "LINKVAULT_LOG_FORMAT",
        hide_env_values = true
    )]
    pub log_format: LogFormat,
}

/// Runs until a signal stops it.
///
/// # Errors
/// If no account has a schedule, the configuration has mistakes, or another daemon is running.
pub fn run(args: &Args, app: &Arc<App>) -> Result<Exit, CliError> {
    let home = app.env.home()?;
    app.out.write_to_log();
    std::panic::set_hook(Box::new(|panic| tracing::error!("a defect: {}", Escaped(panic))));
    let _lock = lock_home(app, &home)?;
    let work = Arc::new(DaemonWorker::new(&app.env, args.once));
    let (waker, reload) = (Waker::default(), Arc::new(AtomicBool::new(false)));
    let mut service = DaemonLoop {
        state: Arc::new(DaemonState::new(Arc::clone(&app.env.clock))),
        worker: Arc::clone(&work) as _,
        clock: Arc::clone(&app.env.clock),
        waker: waker.clone(),
        reload: Arc::clone(&reload),
        workers: usize::from(WORKERS),
        tick: watchdog().map_or(TICK, |within| TICK.min(within / 2)),
        shutdown_timeout: SHUTDOWN_TIMEOUT,
    };
    service.load().map_err(|mistakes| {
        let mut mistakes = mistakes.into_iter();
        let first = mistakes.next().unwrap_or_default();
        let failure = CliError::new(OpErrorKind::Config, first).details(mistakes);
        failure.hint(hints::FIX_CONFIG_AND_START)
    })?;
    let settings = work.settings();
    if let Some(workers) = args.workers.or(settings.workers) {
        service.workers = usize::from(workers);
    }
    let scheduled = service.state.accounts().len();
    if scheduled == 0 {
        let message = format!("no account has a schedule in {}", home.config_file().display());
        return Err(CliError::new(OpErrorKind::Config, message).hint(hints::ADD_SCHEDULE));
    }
    let page = match args.once {
        true => None,
        false => page(args, settings, app, &service.state)?,
    };
    app.catch_signals(&waker, &reload);
    tracing::info!(accounts = scheduled, workers = service.workers, "the daemon starts");
    if app.out.is_json() && !args.once {
        let page = page.as_ref().map(|it| format!("http://{}", it.address()));
        let accounts = service.state.accounts();
        app.out.json(&json!({"format": 1, "page": page, "accounts": accounts}))?;
        app.out.finish()?;
    }
    service.run(args.once, &notify_systemd);
    if app.out.is_json() && args.once {
        let all: Vec<_> = service.state.account_statuses().iter().map(status::document).collect();
        app.out.json(&json!({"format": 1, "accounts": all}))?;
    }
    if let Some(page) = page {
        page.stop();
    }
    tracing::info!("the daemon ends");
    Ok(match (args.once, app.env.clock.interrupted()) {
        (false, _) => Exit::Done,
        (true, false) => exit_code(&work),
        // Backups of some accounts may not have begun, or were stopped.
        (true, true) => exit_code(&work).or_worse(Exit::Interrupted),
    })
}

/// The most severe exit code of all backups.
fn exit_code(work: &DaemonWorker) -> Exit {
    let results = work.results().into_iter();
    let exits = results.map(|it| Exit::of(it.map(CommandResult::complete)));
    exits.fold(Exit::Done, Exit::or_worse)
}

/// Serves the web UI. If the default address is in use and no other was requested, the daemon runs
/// without it.
fn page(
    args: &Args,
    settings: DaemonSettings,
    app: &App,
    daemon_state: &Arc<DaemonState>,
) -> Result<Option<Server>, CliError> {
    let listen = args.listen.or(settings.listen);
    let address = match listen {
        Some(ListenAddress::Off) => return Ok(None),
        Some(ListenAddress::At(address)) => address,
        None => SocketAddr::from(([127, 0, 0, 1], 8080)),
    };
    let settings = args.page.with_defaults(settings).settings(app, address)?;
    let accounts = Arc::new(DaemonAccounts(Arc::clone(daemon_state)));
    match ui::start(settings, accounts, Arc::clone(&app.env.clock)) {
        Ok(page) => {
            tracing::info!("the web UI is at http://{}", page.address());
            Ok(Some(page))
        }
        Err(error) if listen.is_some() => Err(cannot_serve(address, &error)),
        Err(error) => {
            tracing::warn!("cannot serve the web UI: cannot listen on {address}: {error}");
            Ok(None)
        }
    }
}

/// The default maximum number of concurrent backups.
const WORKERS: u16 = 32;
/// The longest period of the daemon's loop.
const TICK: Duration = Duration::from_secs(10);
/// The time that running backups have to stop. What they have read is kept.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Locks the home for this daemon.
fn lock_home(app: &App, home: &Home) -> Result<Lock, CliError> {
    let file = home.daemon_file();
    let lock = Lock::take(&file, "linkvault daemon", Duration::ZERO, &*app.env.clock);
    lock.map_err(|error| match error {
        LockError::Held(holder) => {
            let who = holder.map_or(String::new(), |holder| {
                format!(": pid {}, since {}", holder.pid, holder.since.iso())
            });
            let message = format!("another daemon runs for these accounts{who}");
            CliError::new(OpErrorKind::Locked, message).hint(hints::STOP_OTHER_DAEMON)
        }
        other => other.into(),
    })
}

/// The watchdog interval that systemd has set, if any.
#[cfg(unix)]
fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

#[cfg(not(unix))]
fn watchdog() -> Option<Duration> {
    None
}

#[cfg(not(unix))]
fn notify_systemd(_event: DaemonEvent) {}

/// Sends the event to systemd, if it started the daemon.
#[cfg(unix)]
fn notify_systemd(event: DaemonEvent) {
    use sd_notify::NotifyState;
    let status;
    let mut states = Vec::new();
    match &event {
        DaemonEvent::Ready => states.push(NotifyState::Ready),
        DaemonEvent::Reloading => {
            states.push(NotifyState::Reloading);
            // systemd requires this time with a reload.
            states.extend(NotifyState::monotonic_usec_now());
        }
        DaemonEvent::Stopping => states.push(NotifyState::Stopping),
        DaemonEvent::Alive => states.push(NotifyState::Watchdog),
        DaemonEvent::Status(text) => {
            status = text.clone();
            states.push(NotifyState::Status(&status));
        }
    }
    if let Err(error) = sd_notify::notify(&states) {
        tracing::debug!("cannot notify systemd: {error}");
    }
}
