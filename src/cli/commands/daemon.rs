//! `linkvault daemon`: back up on a schedule.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::cli::args::LogFormat;
use crate::cli::unattended::Unattended;
use crate::cli::{App, Exit, Failure, Kind};
use crate::clock::Bell;
use crate::config::Home;
use crate::daemon::{Board, News, Service};
use crate::vault::lock::{Lock, LockError};

/// Back up every account that has a schedule, until told to stop
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
again. Exit code: 0 when told to stop; with --once as `linkvault backup`.")]
pub struct Args {
    /// Back up who is due now, then end
    #[arg(long)]
    pub once: bool,
    /// The most backups at once; by default as many as accounts, up to 32
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..),
        env = "LINKVAULT_WORKERS",
        hide_env_values = true
    )]
    pub workers: Option<u16>,
    /// How the log on stderr is written
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "LINKVAULT_LOG_FORMAT",
        hide_env_values = true
    )]
    pub log_format: LogFormat,
}

/// Runs until it is told to stop.
///
/// # Errors
/// When nothing is scheduled, the configuration has mistakes, or another daemon
/// runs.
pub fn run(args: &Args, app: &Arc<App>) -> Result<Exit, Failure> {
    let home = app.home()?;
    app.out.log_instead();
    std::panic::set_hook(Box::new(|panic| tracing::error!("defect: {panic}")));
    let _lock = alone(app, &home)?;
    let work = Arc::new(Unattended::new(app, home.clone(), args.once));
    let scheduled = work.load()?;
    if scheduled.is_empty() {
        let message = format!("no account has a schedule in {}", home.config_file().display());
        return Err(Failure::new(Kind::Config, message).hint(
            "write `schedule = \"0 3 * * *\"` below [defaults], or below the accounts that are \
             to be backed up; `linkvault init` adds an account",
        ));
    }
    let (bell, reload) = (Bell::default(), Arc::new(AtomicBool::new(false)));
    app.catch_signals(&bell, &reload);
    let board = Arc::new(Board::new(Arc::clone(&app.clock)));
    let service = Service {
        board,
        work: Arc::clone(&work) as _,
        clock: Arc::clone(&app.clock),
        bell,
        reload,
        workers: args.workers.map_or_else(|| scheduled.len().clamp(1, MOST), usize::from),
    };
    service.load().map_err(|mistakes| Failure::new(Kind::Config, mistakes.join("\n")))?;
    tracing::info!(accounts = scheduled.len(), workers = service.workers, "the daemon begins");
    service.run(args.once, &tell);
    tracing::info!("the daemon ends");
    Ok(if args.once { work.worst() } else { Exit::Done })
}

/// Accounts mostly wait for their limits; more threads would not wait better.
const MOST: usize = 32;

/// Locks the home for this daemon.
fn alone(app: &App, home: &Home) -> Result<Lock, Failure> {
    let file = home.daemon_file();
    let lock = Lock::take(&file, "linkvault daemon", Duration::ZERO, &*app.clock);
    lock.map_err(|error| match error {
        LockError::Held(holder) => {
            let who = holder.map_or(String::new(), |holder| {
                format!(": pid {}, since {}", holder.pid, holder.since.iso())
            });
            let message = format!("another daemon looks after these accounts{who}");
            Failure::new(Kind::Locked, message)
                .hint("stop it first, or give this one another LINKVAULT_HOME")
        }
        other => other.into(),
    })
}

/// Tells systemd, where it listens.
fn tell(news: News) {
    let status;
    let mut states = Vec::new();
    match &news {
        News::Ready => states.push(NotifyState::Ready),
        News::Reloading => {
            states.push(NotifyState::Reloading);
            // What systemd wants to know beside it.
            states.extend(NotifyState::monotonic_usec_now());
        }
        News::Stopping => states.push(NotifyState::Stopping),
        News::Alive => states.push(NotifyState::Watchdog),
        News::Status(text) => {
            status = text.clone();
            states.push(NotifyState::Status(&status));
        }
    }
    if let Err(error) = sd_notify::notify(&states) {
        tracing::debug!("systemd is not told: {error}");
    }
}
