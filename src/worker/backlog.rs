//! Asks Temporal how many accounts wait for a worker, and logs when Temporal stops answering and
//! when it answers again: the worker's other requests are repeated without a word.

use std::sync::PoisonError;
use std::time::Duration;

use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::IntoRequest as _;
use temporalio_client::{Client, NamespacedClient as _};
use temporalio_common::protos::temporal::api::enums::v1::TaskQueueType;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeTaskQueueRequest;

use super::metrics::WorkerMetrics;
use crate::config::FleetSettings;
use crate::escaped::Escaped;
use crate::format;
use crate::ops::Env;
use crate::ops::temporal_error::explain;
use crate::temporal::error::{TemporalError, TemporalErrorKind};

/// How often the number of waiting activities is asked for, and how often if that failed.
const INTERVAL: Duration = Duration::from_secs(15);
const INTERVAL_IN_OUTAGE: Duration = Duration::from_secs(5);

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps `metrics.backlog` current. Never returns.
pub async fn watch(
    env: &Env,
    mut client: Client,
    settings: &FleetSettings,
    metrics: &WorkerMetrics,
    outage: &mut Outage,
) {
    loop {
        let asked = tokio::time::timeout(TIMEOUT, ask(&mut client, &settings.task_queue)).await;
        let asked = asked.unwrap_or_else(|_| {
            Err(TemporalError::new(TemporalErrorKind::NoServer, "no answer: timed out"))
        });
        *metrics.backlog.lock().unwrap_or_else(PoisonError::into_inner) =
            asked.as_ref().ok().copied().flatten();
        let failure = asked.err();
        outage.log(env, settings, failure.as_ref());
        let interval = if failure.is_some() { INTERVAL_IN_OUTAGE } else { INTERVAL };
        tokio::time::sleep(interval).await;
    }
}

/// The number of activities that wait; `None` if the server does not tell.
async fn ask(client: &mut Client, task_queue: &str) -> Result<Option<i64>, TemporalError> {
    let mut request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue { name: task_queue.to_owned(), ..TaskQueue::default() }),
        report_stats: true,
        ..DescribeTaskQueueRequest::default()
    };
    request.set_task_queue_type(TaskQueueType::Activity);
    let described = WorkflowService::describe_task_queue(client, request.into_request()).await?;
    Ok(described.into_inner().stats.map(|it| it.approximate_backlog_count))
}

/// Whether Temporal answers.
#[derive(Debug, Default)]
pub struct Outage {
    /// When it answered last.
    answered: Option<Duration>,
    /// Since when it does not, and the newest kind of error.
    failing: Option<(Duration, TemporalErrorKind)>,
}

/// What the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutageChange {
    /// Temporal does not answer, or now for another reason.
    Failing,
    /// It answers again after this time.
    Ended(Duration),
}

impl Outage {
    /// Records the result of a request, and logs what it changes.
    pub fn log(&mut self, env: &Env, settings: &FleetSettings, failure: Option<&TemporalError>) {
        match self.observe(failure.map(|it| it.kind), env.clock.monotonic()) {
            Some(OutageChange::Failing) => {
                if let Some(error) = failure {
                    let why = explain(settings, &env.redactor, error).message;
                    tracing::warn!("{}; the worker tries again", Escaped(why));
                }
            }
            Some(OutageChange::Ended(time)) => {
                let time = format::duration(time);
                tracing::info!("Temporal answers again, after {time} at most");
            }
            None => {}
        }
    }

    /// Records the result of a request at `now`: the kind of its error, if it failed.
    fn observe(
        &mut self,
        failure: Option<TemporalErrorKind>,
        now: Duration,
    ) -> Option<OutageChange> {
        let before = self.failing;
        let since = before.map_or(self.answered.unwrap_or(now), |(since, _)| since);
        self.failing = failure.map(|kind| (since, kind));
        if failure.is_none() {
            self.answered = Some(now);
        }
        match (before, failure) {
            (Some(_), None) => Some(OutageChange::Ended(now.saturating_sub(since))),
            (Some((_, was)), Some(kind)) if was == kind => None,
            (_, Some(_)) => Some(OutageChange::Failing),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_logged_when_it_begins_changes_and_ends() {
        use TemporalErrorKind::{NoNamespace, NoServer};
        let mut outage = Outage::default();
        let mut at = |second, failure| outage.observe(failure, Duration::from_secs(second));
        assert_eq!(at(0, None), None);
        assert_eq!(at(15, Some(NoServer)), Some(OutageChange::Failing));
        assert_eq!(at(20, Some(NoServer)), None);
        // A new server without the namespace of the fleet.
        assert_eq!(at(25, Some(NoNamespace)), Some(OutageChange::Failing));
        assert_eq!(at(75, None), Some(OutageChange::Ended(Duration::from_secs(75))));
        assert_eq!(at(90, None), None);
        assert_eq!(at(105, Some(NoServer)), Some(OutageChange::Failing));
    }
}
