//! `linkvault worker`: backs up the accounts that Temporal gives it.

use std::sync::Arc;

use crate::cli::global::LogFormat;
use crate::cli::{App, CliError, Exit};
use crate::config::{ListenAddress, parse_listen};

/// Back up the accounts that Temporal gives this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault worker
  linkvault worker --slots 32 --log-format json

It reads the accounts from its own configuration: Temporal stores their names,
and never a key. Each account needs a vault in an object store. `linkvault fleet
apply` makes the schedules, and docs/fleet.md describes a whole fleet.

SIGTERM stops after the requests under way. What was read is put into the
store, and another worker goes on from there.")]
pub struct Args {
    /// Number of accounts to work on at the same time [default: 8]
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        env = "LINKVAULT_SLOTS",
        hide_env_values = true
    )]
    pub slots: Option<u16>,
    /// Address of /metrics and /healthz, or `off` [default: 127.0.0.1:9090]
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = parse_listen,
        env = "LINKVAULT_WORKER_LISTEN",
        hide_env_values = true
    )]
    pub listen: Option<ListenAddress>,
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
/// If Temporal cannot be reached, or the configuration has mistakes.
#[cfg(feature = "fleet")]
pub fn run(args: &Args, app: &Arc<App>) -> Result<Exit, CliError> {
    use std::sync::atomic::AtomicBool;

    use crate::clock::Waker;
    use crate::ops::temporal_error::explain;
    use crate::worker::{self, WorkerMetrics, WorkerSettings};

    let config = app.env.config()?;
    app.out.write_to_log();
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("a defect: {}", crate::cli::Escaped(panic));
    }));
    let fleet = config.fleet.clone();
    let slots = usize::from(args.slots.unwrap_or(fleet.slots));
    let settings = WorkerSettings { slots, identity: worker::identity(), fleet };
    app.catch_signals(&Waker::default(), &Arc::new(AtomicBool::new(false)));
    let metrics = Arc::new(WorkerMetrics::default());
    metrics.slots.set(i64::try_from(slots).unwrap_or(i64::MAX));
    let _served = serve_metrics(args.listen, &metrics)?;
    let started = || {
        let (temporal, task_queue) = (&settings.fleet.temporal, &settings.fleet.task_queue);
        tracing::info!(temporal, task_queue, slots, "the worker starts");
    };
    worker::run(&app.env, &settings, &metrics, started)
        .map_err(|error| explain(&settings.fleet, &app.env.redactor, &error))?;
    tracing::info!("the worker ends");
    Ok(Exit::Done)
}

/// Serves the metrics. If the default address is in use and no other was requested, the worker runs
/// without.
#[cfg(feature = "fleet")]
fn serve_metrics(
    listen: Option<ListenAddress>,
    metrics: &Arc<crate::worker::WorkerMetrics>,
) -> Result<Option<crate::server::Server>, CliError> {
    let address = match listen {
        Some(ListenAddress::Off) => return Ok(None),
        Some(ListenAddress::At(address)) => address,
        None => std::net::SocketAddr::from(([127, 0, 0, 1], 9090)),
    };
    match crate::worker::serve(address, Arc::clone(metrics)) {
        Ok(server) => {
            tracing::info!("metrics are at http://{}/metrics", server.address());
            Ok(Some(server))
        }
        Err(error) if listen.is_some() => Err(crate::cli::page::cannot_serve(address, &error)),
        Err(error) => {
            tracing::warn!("no metrics: cannot listen on {address}: {error}");
            Ok(None)
        }
    }
}

/// Says which program can do it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "fleet"))]
pub fn run(_args: &Args, _app: &Arc<App>) -> Result<Exit, CliError> {
    Err(super::fleet::not_built("worker"))
}
