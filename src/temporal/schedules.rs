//! Reads and changes the schedules in Temporal.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::schedules::{
    DeleteScheduleOptions, PauseScheduleOptions, ScheduleError, ScheduleOverlapPolicy,
    TriggerScheduleOptions, UnpauseScheduleOptions,
};
use temporalio_client::tonic::IntoRequest as _;
use temporalio_client::{Client, NamespacedClient as _};
use temporalio_common::protos::coresdk::{AsJsonPayloadExt as _, FromJsonPayloadExt as _};
use temporalio_common::protos::temporal::api::common::v1::{
    Memo, Payload, Payloads, WorkflowExecution, WorkflowType,
};
use temporalio_common::protos::temporal::api::enums::v1::{
    ScheduleOverlapPolicy as OverlapPolicy, WorkflowExecutionStatus,
};
use temporalio_common::protos::temporal::api::schedule::v1 as proto;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflow::v1::NewWorkflowExecutionInfo;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    CreateScheduleRequest, DescribeScheduleRequest, DescribeScheduleResponse,
    DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse, ListSchedulesRequest,
    ListWorkflowExecutionsRequest, UpdateScheduleRequest,
};

use super::connection::connect;
use super::error::{TemporalError, TemporalErrorKind};
use super::payload::{AccountInput, WORKFLOW};
use super::schedule::{
    DeclaredSchedule, FleetSchedule, PauseState, RunState, ScheduleChange, StartedBackup, ranges,
};
use crate::clock::Timestamp;
use crate::config::FleetSettings;
use crate::schedule::crontab::Calendar;

/// The memo with the name of the account.
const ACCOUNT: &str = "linkvault_account";
/// The memo with the task queue, so that two fleets can share a namespace.
const QUEUE: &str = "linkvault_task_queue";

/// A missed time is caught up with for this long.
const CATCH_UP: Duration = Duration::from_secs(365 * 86_400);

/// The note of a schedule that was resumed. Temporal resumes none without a note.
const RESUMED: &str = "resumed";

/// How many schedules one request lists.
const PAGE: i32 = 1000;

/// A list asks for at most this many backups whether they wait for their repetition, and only for
/// those that were started some time ago.
const MOST_DESCRIBED: usize = 200;
const MAY_RETRY_AFTER: Duration = Duration::from_secs(10);

/// How many schedules are changed at the same time.
const AT_ONCE: usize = 8;

/// A change that could not be made.
#[derive(Debug)]
pub struct FailedChange {
    /// How many changes were made.
    pub made: usize,
    /// Its place among the changes.
    pub nth: usize,
    /// Why it was not made.
    pub error: TemporalError,
}

/// The schedules of a fleet. Its functions wait for the answers of the server.
pub struct Schedules {
    runtime: tokio::runtime::Runtime,
    client: Client,
    task_queue: String,
}

impl Schedules {
    /// Connects to the server of `settings`.
    ///
    /// # Errors
    /// If there is no server, it does not accept the credentials, or has no such namespace.
    pub fn connect(settings: &FleetSettings) -> Result<Self, TemporalError> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| {
            TemporalError::new(
                TemporalErrorKind::Settings,
                format!("cannot start a thread: {error}"),
            )
        })?;
        let client = runtime.block_on(connect(settings, "linkvault fleet"))?;
        Ok(Self { runtime, client, task_queue: settings.task_queue.clone() })
    }

    /// The schedules of this fleet at `now`, by name of the account.
    ///
    /// # Errors
    /// If the server does not answer, or refuses.
    pub fn list(&self, now: Timestamp) -> Result<Vec<FleetSchedule>, TemporalError> {
        let mut found = Vec::new();
        let mut next_page_token = Vec::new();
        loop {
            let request = ListSchedulesRequest {
                namespace: self.client.namespace(),
                maximum_page_size: PAGE,
                next_page_token,
                query: String::new(),
            };
            let page = self.send(|mut client| async move {
                WorkflowService::list_schedules(&mut client, request.into_request()).await
            })?;
            found.extend(page.schedules.into_iter().filter_map(|entry| self.schedule(entry)));
            next_page_token = page.next_page_token;
            if next_page_token.is_empty() {
                break;
            }
        }
        let mut listed = self.backups("ExecutionStatus != 'Completed'")?;
        let is_new = |run: &StartedBackup| {
            run.state_at(now, listed.get(&run.workflow).copied()) == RunState::Running
                && !listed.contains_key(&run.workflow)
        };
        let oldest = found.iter().flat_map(|it| &it.recent).filter(|run| is_new(run));
        if let Some(oldest) = oldest.map(StartedBackup::before_start).min() {
            // Temporal lists a backup some time after it was started.
            listed.extend(self.backups(&format!("StartTime >= '{}'", oldest.iso()))?);
        }
        for run in found.iter_mut().flat_map(|it| &mut it.recent) {
            run.state = run.state_at(now, listed.get(&run.workflow).copied());
        }
        let newest = found.iter_mut().filter_map(|it| it.recent.last_mut());
        let slow = newest.filter(|run| {
            run.state == RunState::Running && now.since(run.started) >= MAY_RETRY_AFTER
        });
        for run in slow.take(MOST_DESCRIBED) {
            if self.is_retrying(&run.workflow)? {
                run.state = RunState::Retrying;
            }
        }
        found.sort_by(|one, other| one.account.cmp(&other.account));
        Ok(found)
    }

    /// The states of the backups of this fleet that `condition` admits, by id of the workflow.
    fn backups(&self, condition: &str) -> Result<HashMap<String, RunState>, TemporalError> {
        let mut found = HashMap::new();
        let mut next_page_token = Vec::new();
        loop {
            let queue = &self.task_queue;
            let request = ListWorkflowExecutionsRequest {
                namespace: self.client.namespace(),
                page_size: PAGE,
                next_page_token,
                query: format!(
                    "WorkflowType = '{WORKFLOW}' AND TaskQueue = '{queue}' AND {condition}"
                ),
            };
            let page = self.send(|mut client| async move {
                WorkflowService::list_workflow_executions(&mut client, request.into_request()).await
            })?;
            for run in page.executions {
                let state = state_of(run.status());
                found.extend(run.execution.map(|it| (it.workflow_id, state)));
            }
            next_page_token = page.next_page_token;
            if next_page_token.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Makes `changes`, several at a time, and calls `made` after each of them with the number of
    /// those that were made. Begins no further one after an error.
    ///
    /// # Errors
    /// The first error.
    pub fn apply(
        &self,
        changes: &[ScheduleChange],
        made: impl Fn(usize) + Sync,
    ) -> Result<(), FailedChange> {
        let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failure = Mutex::new(None);
        let failed = || failure.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(changes.len()) {
                scope.spawn(|| {
                    while failed().is_none() {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        let Some(change) = changes.get(nth) else { break };
                        match self.apply_one(change) {
                            Ok(()) => made(count.fetch_add(1, Ordering::Relaxed) + 1),
                            Err(error) => {
                                failed().get_or_insert((nth, error));
                            }
                        }
                    }
                });
            }
        });
        match failed().take() {
            None => Ok(()),
            Some((nth, error)) => Err(FailedChange { made: count.into_inner(), nth, error }),
        }
    }

    fn apply_one(&self, change: &ScheduleChange) -> Result<(), TemporalError> {
        match change {
            ScheduleChange::Create(to) => self.create(to),
            ScheduleChange::Update { to, .. } => self.update(to),
            ScheduleChange::Delete { account, .. } => self.delete(account),
        }
    }

    /// Creates a schedule. If it is there already, it is made equal to `declared`.
    fn create(&self, declared: &DeclaredSchedule) -> Result<(), TemporalError> {
        let request = CreateScheduleRequest {
            namespace: self.client.namespace(),
            schedule_id: self.id(&declared.account),
            schedule: Some(self.proto(declared, None)?),
            identity: self.client.identity(),
            request_id: request_id()?,
            memo: Some(self.memo(&declared.account)?),
            ..CreateScheduleRequest::default()
        };
        let created = self.send(|mut client| async move {
            WorkflowService::create_schedule(&mut client, request.into_request()).await
        });
        match created {
            Err(error) if error.kind == TemporalErrorKind::Conflict => self.update(declared),
            created => created.map(drop),
        }
    }

    /// Makes a schedule equal to `declared`. It stays paused if it is.
    fn update(&self, declared: &DeclaredSchedule) -> Result<(), TemporalError> {
        let id = self.id(&declared.account);
        let now = self.describe(&declared.account)?;
        let state = now.schedule.and_then(|it| it.state);
        let request = UpdateScheduleRequest {
            namespace: self.client.namespace(),
            schedule_id: id.clone(),
            schedule: Some(self.proto(declared, state)?),
            conflict_token: now.conflict_token,
            identity: self.client.identity(),
            request_id: request_id()?,
            ..UpdateScheduleRequest::default()
        };
        self.send(|mut client| async move {
            WorkflowService::update_schedule(&mut client, request.into_request()).await
        })
        .map(drop)
    }

    /// Deletes the schedule of `account`. A schedule that is gone already is no error.
    fn delete(&self, account: &str) -> Result<(), TemporalError> {
        let handle = self.client.get_schedule_handle(self.id(account));
        let deleted = self.runtime.block_on(handle.delete(DeleteScheduleOptions::default()));
        match deleted.map_err(of_schedule) {
            Err(error) if error.kind == TemporalErrorKind::NotFound => Ok(()),
            deleted => deleted,
        }
    }

    /// Pauses the schedule of `account`, with a reason. A backup that is under way goes on.
    ///
    /// # Errors
    /// As [`Self::list`]; also if there is no such schedule.
    pub fn pause(&self, account: &str, why: &str) -> Result<(), TemporalError> {
        let handle = self.client.get_schedule_handle(self.id(account));
        self.runtime
            .block_on(handle.pause(Some(why), PauseScheduleOptions::default()))
            .map_err(of_schedule)
    }

    /// Resumes the schedule of `account`.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub fn resume(&self, account: &str) -> Result<(), TemporalError> {
        let handle = self.client.get_schedule_handle(self.id(account));
        self.runtime
            .block_on(handle.unpause(Some(RESUMED), UnpauseScheduleOptions::default()))
            .map_err(of_schedule)
    }

    /// Whether the schedule of `account` is paused, and its note; `None` if it has no schedule.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn state(&self, account: &str) -> Result<Option<PauseState>, TemporalError> {
        match self.describe(account) {
            Ok(now) => {
                let state = now.schedule.and_then(|it| it.state).unwrap_or_default();
                let note = Some(state.notes).filter(|note| !note.is_empty());
                Ok(Some(PauseState { is_paused: state.paused, note }))
            }
            Err(error) if error.kind == TemporalErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a backup of `account` that its schedule started is under way.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub fn is_running(&self, account: &str) -> Result<bool, TemporalError> {
        Ok(self.under_way(account)?.is_some())
    }

    /// The state of the backup of `account` that its schedule started: [`RunState::Running`],
    /// [`RunState::Retrying`], or `None` if none is under way.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub fn under_way(&self, account: &str) -> Result<Option<RunState>, TemporalError> {
        let info = self.describe(account)?.info.unwrap_or_default();
        for execution in info.running_workflows {
            // The schedule learns late that a backup has ended.
            let now = under_way(&self.backup(execution)?);
            if now.is_some() {
                return Ok(now);
            }
        }
        Ok(None)
    }

    /// Whether a backup waits for its repetition.
    fn is_retrying(&self, workflow: &str) -> Result<bool, TemporalError> {
        let workflow_id = workflow.to_owned();
        let run_id = String::new();
        match self.backup(WorkflowExecution { workflow_id, run_id }) {
            Ok(it) => Ok(under_way(&it) == Some(RunState::Retrying)),
            Err(error) if error.kind == TemporalErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn backup(
        &self,
        execution: WorkflowExecution,
    ) -> Result<DescribeWorkflowExecutionResponse, TemporalError> {
        let request = DescribeWorkflowExecutionRequest {
            namespace: self.client.namespace(),
            execution: Some(execution),
        };
        self.send(|mut client| async move {
            let request = request.into_request();
            WorkflowService::describe_workflow_execution(&mut client, request).await
        })
    }

    fn describe(&self, account: &str) -> Result<DescribeScheduleResponse, TemporalError> {
        let request = DescribeScheduleRequest {
            namespace: self.client.namespace(),
            schedule_id: self.id(account),
        };
        self.send(|mut client| async move {
            WorkflowService::describe_schedule(&mut client, request.into_request()).await
        })
    }

    /// Starts a backup of `account` now. One that waits for its repetition is cancelled; while one
    /// works, none is started. A paused schedule stays paused. Returns whether it was requested.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub fn run(&self, account: &str) -> Result<bool, TemporalError> {
        let overlap = match self.under_way(account)? {
            Some(RunState::Retrying) => ScheduleOverlapPolicy::CancelOther,
            Some(_) => return Ok(false),
            None => ScheduleOverlapPolicy::Skip,
        };
        let handle = self.client.get_schedule_handle(self.id(account));
        let options = TriggerScheduleOptions::default();
        self.runtime.block_on(handle.trigger(overlap, options)).map_err(of_schedule)?;
        Ok(true)
    }

    fn send<T, F>(&self, request: impl FnOnce(Client) -> F) -> Result<T, TemporalError>
    where
        F: Future<
            Output = Result<
                temporalio_client::tonic::Response<T>,
                temporalio_client::tonic::Status,
            >,
        >,
    {
        let response = self.runtime.block_on(request(self.client.clone()))?;
        Ok(response.into_inner())
    }

    fn id(&self, account: &str) -> String {
        // No name of a queue or an account has a slash.
        format!("{}/{account}", self.task_queue)
    }

    /// The schedule of a list's entry, if it belongs to this fleet.
    fn schedule(&self, entry: proto::ScheduleListEntry) -> Option<FleetSchedule> {
        let memo = entry.memo?.fields;
        let text = |name| String::from_json_payload(memo.get(name)?).ok();
        let account = text(ACCOUNT)?;
        if text(QUEUE)? != self.task_queue || entry.schedule_id != self.id(&account) {
            return None;
        }
        let info = entry.info.unwrap_or_default();
        let calendars = info.spec.map(|it| it.structured_calendar).unwrap_or_default();
        Some(FleetSchedule {
            account,
            definition: calendars.into_iter().next().map(|it| it.comment).unwrap_or_default(),
            is_paused: info.paused,
            note: Some(info.notes).filter(|note| !note.is_empty() && note != RESUMED),
            recent: info.recent_actions.into_iter().filter_map(started).collect(),
            next: info.future_action_times.first().map(|it| timestamp(it.seconds, it.nanos)),
        })
    }

    fn memo(&self, account: &str) -> Result<Memo, TemporalError> {
        let fields = [(ACCOUNT, account), (QUEUE, self.task_queue.as_str())];
        let encode = |(name, text): (&str, &str)| Ok((name.to_owned(), payload(text)?));
        let fields: Result<HashMap<_, _>, TemporalError> = fields.into_iter().map(encode).collect();
        Ok(Memo { fields: fields? })
    }

    /// The schedule of `declared`, with the state of the present one.
    fn proto(
        &self,
        declared: &DeclaredSchedule,
        state: Option<proto::ScheduleState>,
    ) -> Result<proto::Schedule, TemporalError> {
        let account = declared.account.as_str();
        let start = NewWorkflowExecutionInfo {
            workflow_id: self.id(account),
            workflow_type: Some(WorkflowType { name: WORKFLOW.to_owned() }),
            task_queue: Some(TaskQueue { name: self.task_queue.clone(), ..TaskQueue::default() }),
            input: Some(Payloads {
                payloads: vec![payload(&AccountInput { account: account.to_owned() })?],
            }),
            memo: Some(Memo { fields: [(ACCOUNT.to_owned(), payload(account)?)].into() }),
            ..NewWorkflowExecutionInfo::default()
        };
        let action = proto::schedule_action::Action::StartWorkflow(start);
        // A list shows the comment. A memo could not be changed later.
        let definition = declared.definition();
        let calendars = declared.calendars.iter().map(|it| proto::StructuredCalendarSpec {
            comment: definition.clone(),
            ..calendar(it)
        });
        let calendars = calendars.collect();
        let spec = proto::ScheduleSpec {
            structured_calendar: calendars,
            timezone_name: declared.zone.name().to_owned(),
            jitter: declared.jitter.try_into().ok(),
            ..proto::ScheduleSpec::default()
        };
        let policies = proto::SchedulePolicies {
            overlap_policy: i32::from(OverlapPolicy::Skip),
            // With `Skip`, one backup serves all missed times.
            catchup_window: CATCH_UP.try_into().ok(),
            ..proto::SchedulePolicies::default()
        };
        Ok(proto::Schedule {
            spec: Some(spec),
            action: Some(proto::ScheduleAction { action: Some(action) }),
            policies: Some(policies),
            state: Some(state.unwrap_or_default()),
        })
    }
}

/// A random id, so that the server does not repeat a request whose answer was lost.
fn request_id() -> Result<String, TemporalError> {
    let random = getrandom::u64().map_err(|error| {
        TemporalError::new(TemporalErrorKind::Settings, format!("no random numbers: {error}"))
    })?;
    Ok(format!("{random:016x}"))
}

fn payload(value: &(impl Serialize + ?Sized)) -> Result<Payload, TemporalError> {
    value
        .as_json_payload()
        .map_err(|error| TemporalError::new(TemporalErrorKind::Settings, error.to_string()))
}

fn calendar(of: &Calendar) -> proto::StructuredCalendarSpec {
    let field = |values: &[u32]| {
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        let range =
            |(first, last)| proto::Range { start: number(first), end: number(last), step: 1 };
        ranges(values).into_iter().map(range).collect()
    };
    proto::StructuredCalendarSpec {
        second: field(&of.seconds),
        minute: field(&of.minutes),
        hour: field(&of.hours),
        day_of_month: field(&of.days),
        month: field(&of.months),
        day_of_week: field(&of.weekdays),
        ..proto::StructuredCalendarSpec::default()
    }
}

fn is_running(backup: &DescribeWorkflowExecutionResponse) -> bool {
    let info = backup.workflow_execution_info.as_ref();
    info.is_some_and(|it| it.status() == WorkflowExecutionStatus::Running)
}

/// The state of a backup that has not ended: without an activity it waits for its repetition.
fn under_way(backup: &DescribeWorkflowExecutionResponse) -> Option<RunState> {
    let waits = backup.pending_activities.is_empty() && backup.pending_workflow_task.is_none();
    is_running(backup).then_some(if waits { RunState::Retrying } else { RunState::Running })
}

fn started(action: proto::ScheduleActionResult) -> Option<StartedBackup> {
    let state = state_of(action.start_workflow_status());
    let started = action.actual_time.as_ref().map(|it| timestamp(it.seconds, it.nanos))?;
    Some(StartedBackup { started, state, workflow: action.start_workflow_result?.workflow_id })
}

fn state_of(status: WorkflowExecutionStatus) -> RunState {
    match status {
        WorkflowExecutionStatus::Completed => RunState::Complete,
        WorkflowExecutionStatus::Failed | WorkflowExecutionStatus::TimedOut => RunState::Failed,
        WorkflowExecutionStatus::Canceled | WorkflowExecutionStatus::Terminated => {
            RunState::Stopped
        }
        _ => RunState::Running,
    }
}

fn timestamp(seconds: i64, nanos: i32) -> Timestamp {
    Timestamp(seconds.saturating_mul(1000).saturating_add(i64::from(nanos) / 1_000_000))
}

fn of_schedule(error: ScheduleError) -> TemporalError {
    match error {
        ScheduleError::Rpc(status) => status.into(),
        other => TemporalError::new(TemporalErrorKind::Server, other.to_string()),
    }
}
