//! Runs a worker until it is told to stop.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use temporalio_client::tonic::Status;
use temporalio_sdk::runtime::RuntimeOptions;
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};

use super::activities::Activities;
use super::backlog::{self, Outage};
use super::metrics::WorkerMetrics;
use super::workflow::BackUpAccount;
use crate::clock::SleepOutcome;
use crate::config::FleetSettings;
use crate::ops::Env;
use crate::temporal::connection::connect;
use crate::temporal::error::{TemporalError, TemporalErrorKind};

/// Workflow tasks take milliseconds, so that few run at the same time.
const WORKFLOW_SLOTS: usize = 100;
/// Workflows that stay in memory between two of their tasks.
const CACHED_WORKFLOWS: usize = 500;
/// How often the worker looks whether it is to stop.
const CHECK: Duration = Duration::from_millis(200);
/// The pause before the worker connects again after it could not go on.
const RESTART_PAUSE: Duration = Duration::from_secs(5);
/// How long to wait for the end of a worker that could not go on.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest and the longest time that Temporal waits for a heartbeat.
const HEARTBEAT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Temporal, the task queue and the checkpoints.
    pub fleet: FleetSettings,
    /// The number of accounts that it works on at the same time.
    pub slots: usize,
    /// The name of this worker in Temporal.
    pub identity: String,
}

/// Runs the worker until the clock of `env` is interrupted. Calls `started` once it is connected.
/// After that it begins again if the worker ends for another reason, such as a Temporal server that
/// has no namespace after the loss of its database.
///
/// # Errors
/// If it cannot connect, or Temporal refuses it.
pub fn run(
    env: &Arc<Env>,
    settings: &WorkerSettings,
    metrics: &Arc<WorkerMetrics>,
    started: impl FnOnce(),
) -> Result<(), TemporalError> {
    let (mut started, mut outage) = (Some(started), Outage::default());
    loop {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(settings.slots + 16)
            .enable_all()
            .build()
            .map_err(|error| not_started(&error))?;
        let ended = tokio.block_on(work(env, settings, metrics, &mut started, &mut outage));
        // Waits for the backups under way. Without heartbeats their leases end.
        drop(tokio);
        metrics.slots_used.set(0);
        match ended {
            // The SDK gives up after a minute without a namespace.
            Err(error) if started.is_none() && is_outage(error.kind) => {
                outage.log(env, &settings.fleet, Some(&error));
            }
            ended => return ended,
        }
        if env.clock.sleep(RESTART_PAUSE) == SleepOutcome::Interrupted {
            return Ok(());
        }
    }
}

/// Whether the worker may go on later, without a change on this machine.
const fn is_outage(kind: TemporalErrorKind) -> bool {
    !matches!(kind, TemporalErrorKind::Refused | TemporalErrorKind::Settings)
}

/// Connects, and runs until the worker is told to stop, or cannot go on.
async fn work(
    env: &Arc<Env>,
    settings: &WorkerSettings,
    metrics: &Arc<WorkerMetrics>,
    started: &mut Option<impl FnOnce()>,
    outage: &mut Outage,
) -> Result<(), TemporalError> {
    let client = connect(&settings.fleet, &settings.identity).await?;
    let options = RuntimeOptions::builder().heartbeat_interval(None).build();
    let options = options.map_err(|error| not_started(&error))?;
    let runtime = Runtime::from_current_tokio(options).map_err(|error| not_started(&error))?;
    let heartbeat = heartbeat(settings.fleet.checkpoint);
    let slots = TunerHolder::builder()
        .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(WORKFLOW_SLOTS))
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(settings.slots))
        .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(1))
        .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(1))
        .build();
    let options = WorkerOptions::new(settings.fleet.task_queue.as_str())
        .max_cached_workflows(CACHED_WORKFLOWS)
        .tuner(slots)
        .register_activities(Activities {
            env: Arc::clone(env),
            heartbeat_timeout: heartbeat,
            breaker: Arc::default(),
            metrics: Arc::clone(metrics),
        })
        .register_workflow_with_factory(move || BackUpAccount { heartbeat })
        .map_err(|error| not_started(&error))?
        .build();
    let backlog = backlog::watch(env, client.clone(), &settings.fleet, metrics, outage);
    let mut worker = Worker::new(&runtime, client, options).map_err(|error| not_started(&error))?;
    let (stop, end) = (worker.shutdown_handle(), worker.shutdown_handle());
    let clock = Arc::clone(&env.clock);
    let watch = async move {
        while !clock.interrupted() {
            tokio::time::sleep(CHECK).await;
        }
        stop();
        std::future::pending::<()>().await
    };
    if let Some(started) = started.take() {
        started();
    }
    let ended = tokio::select! {
        ended = worker.run() => ended,
        () = watch => Ok(()),
        () = backlog => Ok(()),
    };
    if ended.is_err() {
        // The SDK's requests for work must end before the runtime does.
        end();
        let _ = tokio::time::timeout(END_TIMEOUT, worker.run()).await;
    }
    ended.map_err(|error| why_ended(&error))
}

fn not_started(error: &dyn std::fmt::Display) -> TemporalError {
    TemporalError::new(TemporalErrorKind::Server, format!("cannot start the worker: {error}"))
}

/// Why the worker ended: the answer of Temporal, if there is one among the causes of `error`.
fn why_ended(error: &(dyn Error + 'static)) -> TemporalError {
    let causes = std::iter::successors(Some(error), |it| (*it).source());
    match causes.filter_map(|it| it.downcast_ref::<Status>()).next() {
        Some(status) => status.clone().into(),
        None => TemporalError::new(TemporalErrorKind::Server, format!("the worker ended: {error}")),
    }
}

/// How long Temporal waits for a heartbeat before it gives an account to another worker: a part of
/// the time between two checkpoints, so that the loss of a worker costs little more than one.
fn heartbeat(checkpoint: Duration) -> Duration {
    (checkpoint / 5).clamp(HEARTBEAT.0, HEARTBEAT.1)
}

/// The name of this worker in Temporal: its process and its machine.
#[must_use]
pub fn identity() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match machine.trim() {
        "" => format!("linkvault {}", std::process::id()),
        machine => format!("linkvault {}@{machine}", std::process::id()),
    }
}

#[cfg(test)]
mod tests {
    use temporalio_client::tonic::Code;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("activity polling failed")]
    struct PollingFailed(#[source] Status);

    #[test]
    fn a_worker_without_a_namespace_waits_and_one_that_is_refused_ends() {
        let kind = |code, text: &str| why_ended(&PollingFailed(Status::new(code, text))).kind;
        assert!(is_outage(kind(Code::NotFound, "Namespace fleet is not found.")));
        assert!(is_outage(kind(Code::Internal, "the server starts")));
        assert!(!is_outage(kind(Code::PermissionDenied, "Request unauthorized.")));
        let other = why_ended(&std::io::Error::other("a defect"));
        assert_eq!(other.to_string(), "the worker ended: a defect");
    }
}
