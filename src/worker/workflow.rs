//! The workflow that backs one account up. Temporal replays it from its history, also with a newer
//! program, so a change of the order of its activities and timers needs `ctx.patched`. The tests
//! below replay histories that earlier programs recorded, in `tests/fleet/histories`.

use std::time::Duration;

use temporalio_common::RetryPolicy;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, ApplicationFailure,
    TimerResult, WorkflowContext, WorkflowResult, WorkflowTermination,
};

use super::activities::Activities;
use crate::health::attempt::AttemptOutcome;
use crate::temporal::payload::{AccountInput, AfterAttempt, AttemptReport, after_attempt};

/// The longest time that a backup may take: a large account at a low rate limit takes days.
const LONGEST_BACKUP: Duration = Duration::from_secs(30 * 86_400);
/// For how long alerts are sent again. What is left is sent after the next backup.
const LONGEST_DELIVERY: Duration = Duration::from_secs(600);

/// The delay before an activity is repeated for the first time; it doubles.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The most attempts of one backup, so that its history stays short.
const MOST_ATTEMPTS: u32 = 100;

/// Backs an account up, with the work after it and its alerts.
#[workflow]
pub struct BackUpAccount {
    /// How long Temporal waits for a heartbeat of a worker.
    pub heartbeat: Duration,
}

#[workflow_methods(factory_only)]
impl BackUpAccount {
    /// Attempts the backup until it succeeds, or is not to be repeated.
    #[run(name = "back_up_account")]
    pub async fn run(
        ctx: &mut WorkflowContext<Self>,
        input: AccountInput,
    ) -> WorkflowResult<AttemptReport> {
        let heartbeat = ctx.state(|it| it.heartbeat);
        let long = || {
            ActivityOptions::with_start_to_close_timeout(LONGEST_BACKUP)
                .heartbeat_timeout(heartbeat)
                .retry_policy(retries())
                .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
                .build()
        };
        let (mut attempts, mut failures) = (0_u32, 0_u32);
        loop {
            let attempted = ctx.execute_activity(Activities::back_up, input.clone(), long()).await;
            let mut report = attempted.map_err(ended)?;
            if report.has_post_work {
                let done = ctx.execute_activity(Activities::post_backup, input.clone(), long());
                report.has_messages |= done.await.map_err(ended)?;
            }
            if report.has_messages {
                let options = ActivityOptions::with_schedule_to_close_timeout(LONGEST_DELIVERY)
                    .heartbeat_timeout(heartbeat)
                    .retry_policy(retries())
                    .build();
                // What could not be delivered stays in the account's state.
                let sent = ctx.execute_activity(Activities::deliver, input.clone(), options).await;
                if let Err(error @ ActivityExecutionError::Cancelled(_)) = sent {
                    return Err(ended(error));
                }
            }
            attempts += 1;
            failures += u32::from(report.outcome == AttemptOutcome::Failed);
            match after_attempt(&report, failures) {
                AfterAttempt::End => return Ok(report),
                AfterAttempt::Repeat(time) if attempts < MOST_ATTEMPTS => {
                    if ctx.timer(time).await == TimerResult::Cancelled {
                        return Err(WorkflowTermination::cancelled());
                    }
                }
                AfterAttempt::Repeat(_) | AfterAttempt::Fail => {
                    let why = format!("the backup is {}", report.outcome.name());
                    return Err(ApplicationFailure::new(why).into());
                }
            }
        }
    }
}

/// An activity whose worker is lost, or which could not begin, is repeated until it is done.
fn retries() -> RetryPolicy {
    RetryPolicy::builder().initial_interval(FIRST_RETRY).maximum_interval(LONGEST_RETRY).build()
}

fn ended(error: ActivityExecutionError) -> WorkflowTermination {
    match error {
        ActivityExecutionError::Cancelled(_) => WorkflowTermination::cancelled(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use temporalio_client::WorkflowHistory;
    use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

    use super::*;

    /// Histories that earlier programs wrote. They never change; a change of the workflow adds one.
    const HISTORIES: [(&str, &[u8]); 4] = [
        ("complete", include_bytes!("../../tests/fleet/histories/complete.json")),
        (
            "with work after it, and messages",
            include_bytes!("../../tests/fleet/histories/with_work_and_messages.json"),
        ),
        ("key refused", include_bytes!("../../tests/fleet/histories/key_refused.json")),
        ("repeated later", include_bytes!("../../tests/fleet/histories/repeated_later.json")),
    ];

    fn replay(history: &[u8]) -> Result<(), String> {
        let heartbeat = Duration::from_secs(60);
        let options = WorkflowReplayerOptions::new()
            .register_workflow_with_factory(move || BackUpAccount { heartbeat })
            .unwrap()
            .build();
        let replayer = WorkflowReplayer::new(options).unwrap();
        let history = WorkflowHistory::from_json(history).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(replayer.replay_workflow(history)).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn backups_that_an_earlier_program_began_go_on() {
        for (name, history) in HISTORIES {
            assert_eq!(replay(history), Ok(()), "{name}");
        }
    }

    #[test]
    fn another_order_of_activities_is_noticed() {
        let text = std::str::from_utf8(HISTORIES[1].1).unwrap();
        let changed = text.replace("\"post_backup\"", "\"deliver\"");
        assert_ne!(changed, text);
        assert!(replay(changed.as_bytes()).is_err());
    }
}
