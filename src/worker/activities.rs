//! The activities: operations of `ops` on one account, with heartbeats.

use std::sync::Arc;
use std::time::Duration;

use temporalio_client::NamespacedClient as _;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest as _};
use temporalio_common::protos::coresdk::AsJsonPayloadExt as _;
use temporalio_common::protos::temporal::api::common::v1::Payloads;
use temporalio_common::protos::temporal::api::workflowservice::v1::RecordActivityTaskHeartbeatRequest;
use temporalio_macros::activities;
use temporalio_sdk::ApplicationFailure;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio::time::MissedTickBehavior;

use super::activity_events::ActivityEvents;
use super::lease::{Lease, LeaseEnd, LeasedClock};
use super::metrics::WorkerMetrics;
use super::operations;
use crate::clock::ClockReading;
use crate::config::AccountConfig;
use crate::escaped::Escaped;
use crate::health::pending_alerts::CircuitBreaker;
use crate::ops::{Env, NextStep, OpError, OpErrorKind};
use crate::temporal::payload::{AccountInput, AttemptReport};

/// Heartbeats within the time that Temporal waits for one.
const HEARTBEATS: u32 = 4;

/// After this number of attempts of workers without the account, its backup fails.
const MOST_UNCONFIGURED: u32 = 4;

/// The activities of a worker.
pub struct Activities {
    /// The environment of the process. Its clock is interrupted when the worker is to stop.
    pub env: Arc<Env>,
    /// How long Temporal waits for a heartbeat.
    pub heartbeat_timeout: Duration,
    /// Keeps the worker from receivers of alerts that do not answer.
    pub breaker: Arc<CircuitBreaker>,
    /// Counts what the worker does.
    pub metrics: Arc<WorkerMetrics>,
}

#[activities]
impl Activities {
    /// Makes or continues a backup: the vault is fetched, the account read, and the vault put.
    #[activity(name = "back_up")]
    pub async fn back_up(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: AccountInput,
    ) -> Result<AttemptReport, ActivityError> {
        let metrics = Arc::clone(&self.metrics);
        let work =
            move |env: &Env, account: &AccountConfig| operations::attempt(env, account, &metrics);
        self.leased(&ctx, input, work).await
    }

    /// Does the work after a backup. Returns whether there is something to deliver.
    #[activity(name = "post_backup")]
    pub async fn post_backup(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: AccountInput,
    ) -> Result<bool, ActivityError> {
        self.leased(&ctx, input, operations::post_work).await
    }

    /// Delivers the alerts and the heartbeat that wait.
    #[activity(name = "deliver")]
    pub async fn deliver(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: AccountInput,
    ) -> Result<(), ActivityError> {
        let breaker = Arc::clone(&self.breaker);
        let work =
            move |env: &Env, account: &AccountConfig| operations::deliver(env, account, &breaker);
        match self.leased(&ctx, input, work).await? {
            None => Ok(()),
            Some(wait) => Err(ApplicationFailure::builder("messages wait to be sent")
                .next_retry_delay(wait)
                .build()
                .into()),
        }
    }
}

impl Activities {
    /// Does `work` on a thread while heartbeats renew the lease. It stops after the request under
    /// way when the lease or the worker ends.
    async fn leased<T: Send + 'static>(
        self: Arc<Self>,
        ctx: &ActivityContext,
        input: AccountInput,
        work: impl FnOnce(&Env, &AccountConfig) -> Result<T, OpError> + Send + 'static,
    ) -> Result<T, ActivityError> {
        let clock = Arc::clone(&self.env.clock);
        // The worker that ran the workflow may have another setting.
        let timeout = ctx.info().heartbeat_timeout.unwrap_or(self.heartbeat_timeout);
        let lease = Arc::new(Lease::new(Arc::clone(&clock), timeout));
        let events = Arc::new(ActivityEvents::new(&input.account, self.env.shared_events()));
        let leased = Arc::new(LeasedClock::new(clock, Arc::clone(&lease)));
        let holder = Arc::clone(&lease);
        let env = self
            .env
            .with_clock(leased, Arc::clone(&events) as _)
            .with_bounded_cache()
            .with_permission(Arc::new(move || !holder.end().is_some_and(LeaseEnd::is_lost)));
        // This process may have been stopped since it was given the activity.
        if !self.heartbeat(ctx, &lease, &events, timeout / HEARTBEATS).await {
            return Err(again("Temporal did not confirm the activity"));
        }
        let name = input.account.clone();
        let mut task = tokio::task::spawn_blocking(move || {
            let account = env.config()?.account(&name)?;
            if account.store.is_none() {
                let what =
                    format!("the vault of {name} is a local file, which workers cannot share");
                return Err(
                    OpError::new(OpErrorKind::Config, what).next(NextStep::KeepVaultInStore)
                );
            }
            work(&env, &account)
        });
        self.metrics.slots_used.inc();
        let mut heartbeats = tokio::time::interval(timeout / HEARTBEATS);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let done = loop {
            tokio::select! {
                done = &mut task => break done,
                _ = heartbeats.tick() => {
                    self.heartbeat(ctx, &lease, &events, timeout / HEARTBEATS).await;
                }
            }
        };
        self.metrics.slots_used.dec();
        let account = input.account.as_str();
        let failure = match done {
            Err(error) => {
                tracing::error!(account, "a defect: {}", Escaped(error));
                return Err(again("a defect of the worker"));
            }
            Ok(Ok(result)) if lease.end().is_none() => return Ok(result),
            Ok(Ok(_)) => None,
            Ok(Err(failure)) => Some(failure),
        };
        if let Some(failure) = &failure {
            tracing::warn!(account, "{}", Escaped(&failure.message));
        }
        let why = match (lease.end(), failure.map(|it| it.kind)) {
            (Some(LeaseEnd::Cancelled), _) => {
                tracing::warn!(account, "the backup was cancelled");
                return Err(ActivityError::cancelled());
            }
            (Some(LeaseEnd::Expired), _) => {
                self.metrics.lost.inc();
                "the lease ended: Temporal confirmed no heartbeat in time"
            }
            (Some(LeaseEnd::Withdrawn), _) => {
                self.metrics.lost.inc();
                "the lease ended: Temporal no longer assigns the account to this worker"
            }
            _ if self.env.clock.interrupted() => "the worker stops",
            (_, Some(OpErrorKind::Stale)) => "another machine put a newer vault",
            // The other workers may be configured already.
            (_, Some(OpErrorKind::Account | OpErrorKind::Config))
                if ctx.info().attempt < MOST_UNCONFIGURED =>
            {
                "the account is not configured on the worker, or with mistakes"
            }
            // A person must act, so that the backup fails until its next time.
            (_, Some(OpErrorKind::Account | OpErrorKind::Config)) => {
                let why = "the account is not configured on the worker, or with mistakes";
                tracing::error!(account, "{why}");
                return Err(ApplicationFailure::non_retryable(why).into());
            }
            _ => "the activity failed; the worker's log says why",
        };
        tracing::warn!(account, "{why}");
        Err(again(why))
    }

    /// Sends a heartbeat, and renews or ends the lease by its answer, which must come within
    /// `within`. Returns whether Temporal confirmed it. The SDK's own heartbeats do not tell whether
    /// they arrived, but without them the SDK would give the activity up.
    async fn heartbeat(
        &self,
        ctx: &ActivityContext,
        lease: &Lease,
        events: &ActivityEvents,
        within: Duration,
    ) -> bool {
        let sent = ClockReading::now(&*self.env.clock);
        let mut client = ctx.client();
        let details = events.progress().as_json_payload().ok();
        let request = RecordActivityTaskHeartbeatRequest {
            task_token: ctx.info().task_token.clone(),
            details: details.map(|it| Payloads { payloads: vec![it] }),
            identity: client.identity(),
            namespace: client.namespace(),
            ..RecordActivityTaskHeartbeatRequest::default()
        };
        let request = request.into_request();
        let answer = WorkflowService::record_activity_task_heartbeat(&mut client, request);
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(response)) if response.get_ref().cancel_requested => {
                lease.stop(LeaseEnd::Cancelled);
            }
            Ok(Ok(response))
                if response.get_ref().activity_paused || response.get_ref().activity_reset =>
            {
                lease.stop(LeaseEnd::Withdrawn);
            }
            Ok(Ok(_)) => {
                lease.renew(sent);
                if let Err(error) = ctx.record_heartbeat(events.progress()).await {
                    tracing::debug!("a heartbeat has no form: {}", Escaped(error));
                }
                return lease.end().is_none();
            }
            Ok(Err(status)) if status.code() == Code::NotFound => lease.stop(LeaseEnd::Withdrawn),
            // The lease ends by itself if no later heartbeat arrives.
            Ok(Err(status)) => tracing::debug!("a heartbeat failed: {}", Escaped(status.message())),
            Err(_) => tracing::debug!("a heartbeat was not answered"),
        }
        false
    }
}

/// A failure after which Temporal repeats the activity. The text holds nothing of the account.
fn again(why: &'static str) -> ActivityError {
    ApplicationFailure::new(why).into()
}
