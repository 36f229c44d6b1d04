//! Delivers alerts by webhook and command, and heartbeats.

use std::time::Duration;

use super::account_session::trusted_certificates;
use super::{Env, OpError};
use crate::api::redact::Redactor;
use crate::api::ureq::post_message::{post_message, reach_host};
use crate::api::webhook_url::WebhookUrl;
use crate::clock::{Clock, SleepOutcome};
use crate::config::{
    AccountConfig, AlertSettings, SecretKind, hidden_from_key_commands, key_variables,
};
use crate::escaped::Escaped;
use crate::health::alert_message::{SIGNATURE, document, problem, sentence, signature};
use crate::health::attempt::{Alert, AlertEvent, ProblemKind};
use crate::health::pending_alerts::{
    self, AlertChannel, CircuitBreaker, DeliveryError, PendingAlert, PendingAlerts,
};
use crate::process::{self, ProcessError, ProcessInput};

/// Time limit of an alert command.
const COMMAND_TIME: Duration = Duration::from_secs(60);

/// The configured channels.
#[must_use]
pub fn channels(alerts: &AlertSettings) -> Vec<AlertChannel> {
    let webhook = alerts.webhook.as_ref().map(|_| AlertChannel::Webhook);
    let command = alerts.command.as_ref().map(|_| AlertChannel::Command);
    webhook.into_iter().chain(command).collect()
}

/// The key of the circuit breaker for this channel: the webhook's host, or the command line.
#[must_use]
pub fn target(account: &AccountConfig, channel: AlertChannel) -> String {
    let alerts = &account.settings.alerts;
    match channel {
        AlertChannel::Webhook => {
            alerts.webhook.as_ref().map(ToString::to_string).unwrap_or_default()
        }
        AlertChannel::Command => {
            alerts.command.iter().flatten().cloned().collect::<Vec<_>>().join("\0")
        }
    }
}

/// Delivers what is due of `pending`. What remains is delivered later: the failures are in the log.
/// Alert commands do not see the environment variables `hidden`.
pub fn deliver_pending(
    env: &Env,
    account: &AccountConfig,
    hidden: &[String],
    breaker: &CircuitBreaker,
    pending: &mut PendingAlerts,
) {
    let clock = &*env.clock;
    let mut failures = pending_alerts::deliver(&mut pending.outbox, clock.now(), |item| {
        let target = target(account, item.channel);
        let deliver = || deliver(account, item, hidden, &env.redactor, clock);
        breaker
            .call(clock, target, || deliver().map_err(|why| env.redactor.text(&why).into_owned()))
    });
    if let Some(hook) = account.settings.heartbeat.as_ref().filter(|_| pending.heartbeat) {
        let heartbeat =
            || heartbeat(hook, clock).map_err(|why| env.redactor.text(&why).into_owned());
        match breaker.call(clock, hook.to_string(), heartbeat) {
            Ok(()) => (pending.heartbeat, pending.heartbeat_error) = (false, None),
            Err(DeliveryError::Failed(why)) => {
                pending.heartbeat_error = Some(why.clone());
                failures.push(why);
            }
            Err(DeliveryError::CircuitOpen) => {}
        }
    } else {
        (pending.heartbeat, pending.heartbeat_error) = (false, None);
    }
    for failure in failures {
        tracing::warn!(account = account.name, "{}", Escaped(failure));
    }
}

/// Delivers one alert of `account`.
///
/// # Errors
/// A message for the log. A channel that is no longer configured succeeds without a delivery.
pub fn deliver(
    account: &AccountConfig,
    item: &PendingAlert,
    hidden: &[String],
    redactor: &Redactor,
    clock: &dyn Clock,
) -> Result<(), String> {
    let alerts = &account.settings.alerts;
    let body = document(&account.name, &item.alert).to_string();
    match (item.channel, &alerts.webhook, &alerts.command) {
        (AlertChannel::Webhook, Some(hook), _) => {
            let signed = match &alerts.secret {
                None => None,
                Some(secret) => {
                    let secret = secret
                        .read(SecretKind::WebhookSecret, clock, &hidden_from_key_commands(hidden))
                        .map_err(|error| error.to_string())?;
                    redactor.add(secret.reveal());
                    Some(signature(secret.reveal().as_bytes(), body.as_bytes()))
                }
            };
            post(hook, Some(body.into_bytes()), signed, clock)
                .map_err(|why| format!("cannot deliver the alert to the webhook: {why}"))
        }
        (AlertChannel::Command, _, Some(words)) => {
            let text = sentence(&account.name, &item.alert);
            let set = [
                ("LINKVAULT_ACCOUNT", account.name.as_str()),
                ("LINKVAULT_EVENT", item.alert.event.name()),
                ("LINKVAULT_PROBLEM", problem(&item.alert)),
                ("LINKVAULT_TEXT", &text),
            ];
            command(words, &ProcessInput { input: body.as_bytes(), set: &set, hidden }, clock)
                .map_err(|why| {
                    // Only the program: its arguments may contain secrets.
                    let program = words.first().map_or("", String::as_str);
                    format!("the alert command `{program}` {why}")
                })
        }
        (AlertChannel::Webhook | AlertChannel::Command, _, _) => Ok(()),
    }
}

fn command(words: &[String], input: &ProcessInput<'_>, clock: &dyn Clock) -> Result<(), String> {
    match process::run(words, input, clock, COMMAND_TIME) {
        Ok(exit) if exit.status.success() => Ok(()),
        Ok(exit) => Err(format!("failed ({})", exit.exit())),
        Err(ProcessError::NotStarted(why)) => Err(format!("cannot be started: {why}")),
        Err(ProcessError::TimedOut) => {
            Err(format!("did not end within {} s and was killed", COMMAND_TIME.as_secs()))
        }
        Err(ProcessError::Interrupted) => {
            Err("was killed because linkvault is stopping".to_owned())
        }
    }
}

/// Sends the heartbeat of a complete backup.
fn heartbeat(hook: &WebhookUrl, clock: &dyn Clock) -> Result<(), String> {
    post(hook, None, None, clock).map_err(|why| format!("cannot deliver the heartbeat: {why}"))
}

/// Sends a message on a thread, so that an interrupt need not wait for a host that does not
/// respond. The message may still arrive after an interrupt.
fn post(
    hook: &WebhookUrl,
    body: Option<Vec<u8>>,
    signature: Option<String>,
    clock: &dyn Clock,
) -> Result<(), String> {
    let trust = trusted_certificates(None).map_err(|failure| failure.message)?;
    let hook = hook.clone();
    let sent = unless_interrupted(clock, move || {
        let headers: Vec<_> = signature.iter().map(|it| (SIGNATURE, it.as_str())).collect();
        post_message(&hook, body.as_deref(), &headers, trust.as_ref())
    });
    sent.unwrap_or_else(|| Err("linkvault is stopping".to_owned()))
}

/// How often a thread that waits for a response looks for an interrupt.
const INTERRUPT_TICK: Duration = Duration::from_millis(20);

/// The result of `work`, which runs on a thread of its own; `None` after an interrupt.
fn unless_interrupted<T: Send + 'static>(
    clock: &dyn Clock,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let thread = std::thread::spawn(work);
    while !thread.is_finished() {
        if clock.sleep(INTERRUPT_TICK) == SleepOutcome::Interrupted {
            return None;
        }
    }
    thread.join().ok()
}

/// Whether the host of a webhook or a heartbeat responds. Requests only the root of the host: a
/// request to the whole address would be an alert or a heartbeat.
///
/// # Errors
/// A message for people.
pub(super) fn reach(hook: &WebhookUrl, clock: &dyn Clock) -> Result<(), String> {
    let trust = trusted_certificates(None).map_err(|failure| failure.message)?;
    let hook = hook.clone();
    let reached = unless_interrupted(clock, move || reach_host(&hook, trust.as_ref()));
    reached.unwrap_or_else(|| Err("linkvault is stopping".to_owned()))
}

/// A test alert on one channel.
pub struct TestAlert {
    /// The channel.
    pub channel: AlertChannel,
    /// The reason if the delivery failed.
    pub result: Result<(), String>,
}

/// Sends a test alert on each channel of `account`, at once and without a retry.
///
/// # Errors
/// If the configuration has mistakes.
pub fn test_alerts(env: &Env, account: &AccountConfig) -> Result<Vec<TestAlert>, OpError> {
    let hidden = key_variables(env.config()?.accounts());
    let now = env.clock.now();
    let alert = Alert {
        kind: ProblemKind::Undelivered,
        event: AlertEvent::Test,
        since: now,
        at: now,
        message: "this is a test of the alerts; there is no problem".to_owned(),
        hint: None,
    };
    let send = |channel| {
        let item = PendingAlert { alert: alert.clone(), channel, tries: 0, next: now, error: None };
        let sent = deliver(account, &item, &hidden, &env.redactor, &*env.clock);
        let result = sent.map_err(|why| env.redactor.text(&why).into_owned());
        TestAlert { channel, result }
    };
    Ok(channels(&account.settings.alerts).into_iter().map(send).collect())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clock::{Interrupt, SystemClock, Timestamp};
    use crate::config::{Config, Home, key_variables};

    fn account(more: &str) -> AccountConfig {
        let text = format!(
            "[accounts.main]\nurl = \"https://a.example\"\nkey_env = \"LINKS_KEY\"\n\
             [accounts.main.alerts]\n{more}"
        );
        let config = Config::parse(&Home::at(Path::new("/home")), text.as_bytes()).unwrap();
        config.account("main").unwrap()
    }

    fn item(channel: AlertChannel) -> PendingAlert {
        let alert = Alert {
            kind: ProblemKind::Failed,
            event: AlertEvent::Begun,
            since: Timestamp(0),
            at: Timestamp(0),
            message: "the backup failed".to_owned(),
            hint: None,
        };
        PendingAlert { alert, channel, tries: 0, next: Timestamp(0), error: None }
    }

    fn delivered(account: &AccountConfig, channel: AlertChannel) -> Result<(), String> {
        let clock = SystemClock::new(Interrupt::default());
        deliver(account, &item(channel), &key_variables([account]), &Redactor::default(), &clock)
    }

    #[test]
    fn a_command_reads_the_document_and_its_variables() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("output");
        let script = format!(
            "(cat; echo; echo $LINKVAULT_ACCOUNT $LINKVAULT_EVENT $LINKVAULT_PROBLEM) > {}",
            file.display()
        );
        let account = account(&format!("command = [\"sh\", \"-c\", \"{script}\"]"));
        delivered(&account, AlertChannel::Command).unwrap();
        let output = std::fs::read_to_string(file).unwrap();
        let (document, variables) = output.trim_end().split_once('\n').unwrap();
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["message"], "the backup failed");
        assert_eq!(variables, "main begun failed");
    }

    #[test]
    fn a_failing_command_is_an_error_and_does_not_see_keys() {
        let failing = account("command = [\"sh\", \"-c\", \"exit 3\"]");
        let error = delivered(&failing, AlertChannel::Command).unwrap_err();
        assert_eq!(error, "the alert command `sh` failed (exit code 3)");
        assert_eq!(key_variables([&account("secret_env = \"S\"")]), ["LINKS_KEY", "S"]);
    }

    #[test]
    fn a_channel_that_is_no_longer_configured_succeeds() {
        assert_eq!(delivered(&account(""), AlertChannel::Webhook), Ok(()));
        assert_eq!(delivered(&account(""), AlertChannel::Command), Ok(()));
        assert!(channels(&account("").settings.alerts).is_empty());
    }

    #[test]
    fn a_webhook_is_not_sent_unsigned_if_its_secret_cannot_be_read() {
        let account = account("webhook = \"http://127.0.0.1:9/\"\nsecret_file = \"/no/such/file\"");
        let error = delivered(&account, AlertChannel::Webhook).unwrap_err();
        assert!(error.contains("/no/such/file"), "{error}");
    }
}
