//! Alerts and heartbeats, sent: the webhook, the command, the heartbeat.

use std::time::Duration;

use crate::api::redact::Redactor;
use crate::api::ureq::post_message::post_message;
use crate::clock::Clock;
use crate::config::{AccountConfig, AlertSettings, SecretKind};
use crate::health::alert_message::{SIGNATURE, document, sentence, signature};
use crate::health::pending_alerts::{AlertChannel, PendingAlert};
use crate::ops::account_session::trust;
use crate::process::{self, ProcessError, ProcessInput};

/// How long an alert command may take.
const COMMAND_TIME: Duration = Duration::from_secs(60);

/// Where alerts of an account go.
#[must_use]
pub fn channels(alerts: &AlertSettings) -> Vec<AlertChannel> {
    let webhook = alerts.webhook.as_ref().map(|_| AlertChannel::Webhook);
    let command = alerts.command.as_ref().map(|_| AlertChannel::Command);
    webhook.into_iter().chain(command).collect()
}

/// Who is waited for when an alert goes that way: a host, or a program.
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

/// Delivers one alert of `account`.
///
/// # Errors
/// What went wrong, for the log. A channel that is not configured any more
/// takes everything.
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
                        .read(SecretKind::WebhookSecret, clock)
                        .map_err(|error| error.to_string())?;
                    redactor.add(secret.reveal());
                    Some(signature(secret.reveal().as_bytes(), body.as_bytes()))
                }
            };
            let headers: Vec<_> = signed.iter().map(|it| (SIGNATURE, it.as_str())).collect();
            let trust = trust(None).map_err(|failure| failure.message)?;
            post_message(hook, Some(body.as_bytes()), &headers, trust.as_ref())
                .map_err(|why| format!("the webhook was not delivered: {why}"))
        }
        (AlertChannel::Command, _, Some(words)) => {
            let text = sentence(&account.name, &item.alert);
            let set = [
                ("LINKVAULT_ACCOUNT", account.name.as_str()),
                ("LINKVAULT_EVENT", item.alert.event.name()),
                ("LINKVAULT_PROBLEM", item.alert.kind.name()),
                ("LINKVAULT_TEXT", &text),
            ];
            command(words, &ProcessInput { input: body.as_bytes(), set: &set, hidden }, clock)
                .map_err(|why| {
                    // Its arguments may be secret.
                    let program = words.first().map_or("", String::as_str);
                    format!("the alert command `{program}` {why}")
                })
        }
        (AlertChannel::Webhook | AlertChannel::Command, _, _) => Ok(()),
    }
}

fn command(words: &[String], given: &ProcessInput<'_>, clock: &dyn Clock) -> Result<(), String> {
    match process::run(words, given, clock, COMMAND_TIME) {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => Err(format!("failed ({})", ended.exit())),
        Err(ProcessError::NotStarted(why)) => Err(format!("cannot be run: {why}")),
        Err(ProcessError::TimedOut) => {
            Err(format!("did not end within {} s and was stopped", COMMAND_TIME.as_secs()))
        }
        Err(ProcessError::Interrupted) => Err("was stopped with the program".to_owned()),
    }
}

/// Tells the heartbeat's host that a complete backup was made.
///
/// # Errors
/// What went wrong, for the log.
pub fn heartbeat(account: &AccountConfig) -> Result<(), String> {
    let Some(hook) = &account.settings.heartbeat else { return Ok(()) };
    let trust = trust(None).map_err(|failure| failure.message)?;
    post_message(hook, None, &[], trust.as_ref())
        .map_err(|why| format!("the heartbeat was not delivered: {why}"))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clock::{Interrupt, SystemClock, Timestamp};
    use crate::config::{Config, Home, key_variables};
    use crate::health::attempt::ProblemKind;
    use crate::health::attempt::{Alert, AlertEvent};

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
        PendingAlert { alert, channel, tries: 0, next: Timestamp(0) }
    }

    fn delivered(account: &AccountConfig, channel: AlertChannel) -> Result<(), String> {
        let clock = SystemClock::new(Interrupt::default());
        deliver(account, &item(channel), &key_variables([account]), &Redactor::default(), &clock)
    }

    #[test]
    fn a_command_reads_the_document_and_its_variables() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told");
        let script = format!(
            "(cat; echo; echo $LINKVAULT_ACCOUNT $LINKVAULT_EVENT $LINKVAULT_PROBLEM) > {}",
            file.display()
        );
        let account = account(&format!("command = [\"sh\", \"-c\", \"{script}\"]"));
        delivered(&account, AlertChannel::Command).unwrap();
        let told = std::fs::read_to_string(file).unwrap();
        let (document, variables) = told.trim_end().split_once('\n').unwrap();
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["message"], "the backup failed");
        assert_eq!(variables, "main begun failed");
    }

    #[test]
    fn a_command_that_fails_is_told_and_keys_are_hidden_from_it() {
        let failing = account("command = [\"sh\", \"-c\", \"exit 3\"]");
        let told = delivered(&failing, AlertChannel::Command).unwrap_err();
        assert_eq!(told, "the alert command `sh` failed (exit code 3)");
        assert_eq!(key_variables([&account("secret_env = \"S\"")]), ["LINKS_KEY", "S"]);
    }

    #[test]
    fn what_is_not_configured_any_more_is_done() {
        assert_eq!(delivered(&account(""), AlertChannel::Webhook), Ok(()));
        assert_eq!(delivered(&account(""), AlertChannel::Command), Ok(()));
        assert!(channels(&account("").settings.alerts).is_empty());
    }

    #[test]
    fn without_its_secret_a_webhook_is_not_sent_unsigned() {
        let account = account("webhook = \"http://127.0.0.1:9/\"\nsecret_file = \"/no/such/file\"");
        let told = delivered(&account, AlertChannel::Webhook).unwrap_err();
        assert!(told.contains("/no/such/file"), "{told}");
    }
}
