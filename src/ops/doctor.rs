//! Checks everything that a backup needs, without changing anything.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::account_session::{AccountSession, SessionLimits};
use super::alert_delivery::reach;
use super::{Env, NextStep, OpError, OpErrorKind, state_ref};
use crate::api::base_url::BaseUrl;
use crate::api::client::GetOptions;
use crate::api::error::ApiErrorKind;
use crate::api::pacer::Pacer;
use crate::api::rate_limit_headers::RateLimitHeaders;
use crate::api::webhook_url::WebhookUrl;
use crate::clock::Timestamp;
use crate::config::{AccountConfig, AccountLocation};
use crate::crawl::request_account;
use crate::files::try_folder;
use crate::health::field_change_text::sentences;
use crate::health::persisted_state::PersistedState;
use crate::model::named::named;
use crate::process;
use crate::progress::NoProgress;
use crate::vault::lock::{Lock, LockHolder};
use crate::vault::snapshot::SnapshotStatus;
use crate::vault::{AccountIdentity, IdentityPart, VaultError};

/// `doctor` reports a failure at once, without retries.
const ONCE: GetOptions = GetOptions { retries: Some(0) };

named! {
    /// The subject of one check.
    pub enum CheckSubject {
        /// The service's URL in the configuration.
        Service = "service",
        /// The vault's file.
        Vault = "vault",
        /// A change of the service's fields that a backup reported.
        Fields = "fields",
        /// The lock of the account.
        Lock = "lock",
        /// The API key: the service accepts it, for the account of the vault.
        Key = "key",
        /// The response to a request.
        Answer = "answer",
        /// The service's clock compared with ours.
        Clock = "clock",
        /// The service's rate limit.
        Limit = "limit",
        /// The folder of the vault's copies.
        Copy = "copy",
        /// The folder of the exports.
        Export = "export",
        /// The program that receives alerts.
        Command = "command",
        /// The host that receives alerts.
        Webhook = "webhook",
        /// The host that receives heartbeats.
        Heartbeat = "heartbeat",
    }
}

/// The result of a check without a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The service's URL; `None` for the built-in sandbox.
    Service(Option<BaseUrl>),
    /// There is no vault yet.
    NoVault,
    /// The vault can be read.
    Vault {
        /// The number of snapshots.
        snapshots: u64,
        /// When the newest complete snapshot began.
        complete: Option<Timestamp>,
    },
    /// The service sends other fields than before, in one sentence.
    FieldChange {
        /// The change.
        text: String,
        /// When the backup that found it ended.
        at: Timestamp,
    },
    /// Another process holds the account's lock, so no request was sent.
    Locked(LockHolder),
    /// The service accepts the key; with the id of its account.
    KeyAccepted(i64),
    /// The service responded after this time.
    Answered(Duration),
    /// By how many seconds the service's clock is ahead of ours; `None` if the response has no
    /// date.
    Clock(Option<i64>),
    /// Files can be created in this folder.
    Folder(PathBuf),
    /// The program of the alerts.
    Program(PathBuf),
    /// The host responds.
    Reached(String),
    /// The rate limit.
    Limit {
        /// The requests per minute; 0 is no limit, `None` if the service does not send it.
        limit: Option<u64>,
        /// The requests left in the present window; `None` if the service does not send it.
        remaining: Option<u64>,
        /// The time that 100 requests take at the default limit.
        hundred: Duration,
    },
}

/// One check.
pub struct CheckFinding {
    /// The subject of the check.
    pub subject: CheckSubject,
    /// The result; an error is a problem.
    pub found: Result<CheckResult, OpError>,
}

impl CheckFinding {
    const fn ok(subject: CheckSubject, found: CheckResult) -> Self {
        Self { subject, found: Ok(found) }
    }
}

/// Checks everything that a backup of `account` needs, and that the work after it and its alerts
/// need, and changes nothing. Sends one request to the service, unless another process holds the
/// lock, and one to the host of the webhook and of the heartbeat each. It sends no alert.
#[must_use]
pub fn examine(env: &Env, account: &AccountConfig) -> Vec<CheckFinding> {
    let url = match &account.place {
        AccountLocation::Sandbox => None,
        AccountLocation::Service { url, .. } => Some(url.clone()),
    };
    let mut findings = vec![CheckFinding::ok(CheckSubject::Service, CheckResult::Service(url))];
    let (found, identity) = match env.fetch(account).and_then(|()| vault(account)) {
        Ok((found, identity)) => (Ok(found), identity),
        Err(error) => (Err(error), None),
    };
    findings.push(CheckFinding { subject: CheckSubject::Vault, found });
    findings.extend(field_changes(account));
    findings.extend(after_backup(env, account));
    if let Some(holder) = Lock::holder(&account.vault) {
        // A request now could use up the rate limit of the other process.
        findings.push(CheckFinding::ok(CheckSubject::Lock, CheckResult::Locked(holder)));
        return findings;
    }
    findings.extend(service(env, account, identity));
    findings
}

/// What the work after a backup and the alerts of `account` need.
fn after_backup(env: &Env, account: &AccountConfig) -> Vec<CheckFinding> {
    let settings = &account.settings;
    let failed = |message: String, next| OpError::new(OpErrorKind::Failed, message).next(next);
    let folder = |path: &PathBuf| {
        try_folder(path).map(|()| CheckResult::Folder(path.clone())).map_err(|error| {
            let message = format!("cannot write to {}: {error}", path.display());
            failed(message, NextStep::NameFolder)
        })
    };
    let host = |hook: &WebhookUrl| {
        reach(hook, &*env.clock)
            .map(|()| CheckResult::Reached(hook.to_string()))
            .map_err(|why| failed(format!("cannot reach {why}"), NextStep::CorrectAlerts))
    };
    let program = |words: &Vec<String>| {
        let name = words.first().map_or("", String::as_str);
        process::find(name)
            .map(CheckResult::Program)
            .map_err(|why| failed(format!("cannot run `{name}`: {why}"), NextStep::CorrectAlerts))
    };
    let (alerts, export) = (&settings.alerts, settings.export.as_ref().map(|it| &it.folder));
    let found = [
        (CheckSubject::Copy, settings.copy.as_ref().map(folder)),
        (CheckSubject::Export, export.map(folder)),
        (CheckSubject::Webhook, alerts.webhook.as_ref().map(host)),
        (CheckSubject::Command, alerts.command.as_ref().map(program)),
        (CheckSubject::Heartbeat, settings.heartbeat.as_ref().map(host)),
    ];
    let found = found.into_iter().filter_map(|(subject, found)| Some((subject, found?)));
    found.map(|(subject, found)| CheckFinding { subject, found }).collect()
}

/// The vault of `account`, and the account to which it belongs.
fn vault(account: &AccountConfig) -> Result<(CheckResult, Option<AccountIdentity>), OpError> {
    let Some(vault) = state_ref::open_if_there(account)? else {
        return Ok((CheckResult::NoVault, None));
    };
    let snapshots = vault.snapshots()?;
    let complete = snapshots.iter().rev().find(|it| it.status == SnapshotStatus::Complete);
    let complete = complete.map(|it| it.started);
    let found = CheckResult::Vault { snapshots: snapshots.len() as u64, complete };
    Ok((found, vault.identity()?))
}

/// The changes of the service's fields that backups reported, the newest first.
fn field_changes(account: &AccountConfig) -> Vec<CheckFinding> {
    let (persisted, _) = PersistedState::read(&account.vault);
    let backups = persisted.field_changes.chunk_by(|one, other| one.at == other.at).rev();
    let findings = backups.flat_map(|reported| {
        let changes: Vec<_> = reported.iter().map(|it| it.change.clone()).collect();
        let at = reported.first().map_or(Timestamp(0), |it| it.at);
        sentences(&changes).into_iter().map(move |text| CheckResult::FieldChange { text, at })
    });
    findings.map(|found| CheckFinding::ok(CheckSubject::Fields, found)).collect()
}

/// Key, account, clock and limit, from one request.
fn service(env: &Env, account: &AccountConfig, ours: Option<AccountIdentity>) -> Vec<CheckFinding> {
    let fail = |subject, failure| vec![CheckFinding { subject, found: Err(failure) }];
    let bounds = SessionLimits::default();
    let session = AccountSession::open_unlocked(env, account, &bounds, Arc::new(NoProgress));
    let mut session = match session {
        Ok(session) => session,
        Err(failure) => return fail(CheckSubject::Key, failure),
    };
    let before = env.clock.monotonic();
    let answer = match request_account(&mut session.client, &ONCE) {
        Ok(answer) => answer,
        Err(error) => {
            let subject = match error.kind {
                ApiErrorKind::Unauthorised { .. } => CheckSubject::Key,
                _ => CheckSubject::Answer,
            };
            return fail(subject, error.into());
        }
    };
    let took = env.clock.monotonic().saturating_sub(before);
    let who = answer.record(&session.client).map_err(OpError::from).and_then(|account| {
        let found = account.record.key.id();
        match ours.filter(|ours| ours.account != found) {
            None => Ok(CheckResult::KeyAccepted(found)),
            Some(ours) => Err(OpError::from(VaultError::OtherAccount {
                what: IdentityPart::Account,
                ours: ours.account.to_string(),
                theirs: found.to_string(),
            })),
        }
    });
    let signals = RateLimitHeaders::read(&answer.response);
    let reserve = u64::from(account.settings.reserve);
    let cap = account.settings.limit.map(u64::from);
    let limit = CheckResult::Limit {
        limit: signals.limit,
        remaining: signals.remaining,
        hundred: Pacer::new(reserve).capped(cap).estimate(env.clock.monotonic(), 100),
    };
    let clock = CheckResult::Clock(clock_offset(env, answer.response.header("date")));
    vec![
        CheckFinding { subject: CheckSubject::Key, found: who },
        CheckFinding::ok(CheckSubject::Answer, CheckResult::Answered(took)),
        CheckFinding::ok(CheckSubject::Clock, clock),
        CheckFinding::ok(CheckSubject::Limit, limit),
    ]
}

/// By how many seconds the service's clock is ahead of ours.
fn clock_offset(env: &Env, date: Option<&str>) -> Option<i64> {
    let told = date.and_then(|date| chrono::DateTime::parse_from_rfc2822(date).ok())?;
    Some((told.timestamp_millis() - env.clock.now().0) / 1000)
}
