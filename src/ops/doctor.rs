//! What may be wrong with an account, without changing anything.

use std::sync::Arc;

use super::account_session::{AccountSession, SessionLimits};
use super::{Env, OpError, OpErrorKind};
use crate::api::client::GetOptions;
use crate::api::pacer::Pacer;
use crate::api::rate_limit_headers::RateLimitHeaders;
use crate::config::{AccountConfig, AccountLocation};
use crate::crawl::request_account;
use crate::format;
use crate::progress::NoProgress;
use crate::vault::lock::Lock;
use crate::vault::snapshot::SnapshotStatus;
use crate::vault::{AccountIdentity, Vault, VaultError};

/// `doctor` tells what is wrong at once, and not after repeats.
const ONCE: GetOptions = GetOptions { retries: Some(0) };

/// One thing that was looked at.
pub struct CheckFinding {
    /// `service`, `vault`, `lock`, `key`, `answer`, `clock` or `limit`.
    pub what: &'static str,
    /// `Err` is a problem.
    pub found: Result<String, OpError>,
}

/// Looks at everything that a backup of `account` needs, and changes nothing.
#[must_use]
pub fn examine(env: &Env, account: &AccountConfig) -> Vec<CheckFinding> {
    let url = match &account.place {
        AccountLocation::Sandbox => "built in".to_owned(),
        AccountLocation::Service { url, .. } => url.to_string(),
    };
    let mut findings = vec![CheckFinding { what: "service", found: Ok(url) }];
    let (vault, identity) = vault(env, account);
    findings.push(CheckFinding { what: "vault", found: vault });
    if let Some(holder) = Lock::holder(&account.vault) {
        // Asking now could take the request that the other process counts on.
        let text =
            format!("pid {} runs `{}`; the service was not asked", holder.pid, holder.command);
        findings.push(CheckFinding { what: "lock", found: Ok(text) });
        return findings;
    }
    findings.extend(service(env, account, identity));
    findings
}

/// The vault in a sentence, and whose it is.
fn vault(env: &Env, account: &AccountConfig) -> (Result<String, OpError>, Option<AccountIdentity>) {
    let path = account.vault.display();
    let vault = match Vault::open_if_there(&account.vault) {
        Ok(Some(vault)) => vault,
        Ok(None) => return (Ok(format!("none yet; it will be {path}")), None),
        Err(error) => return (Err(error.into()), None),
    };
    let read = || -> Result<(String, Option<AccountIdentity>), OpError> {
        let snapshots = vault.snapshots()?;
        let complete = snapshots.iter().rev().find(|it| it.status == SnapshotStatus::Complete);
        let age = complete.map_or_else(
            || "no complete one".to_owned(),
            |it| format!("the newest complete one {}", format::age(it.started, env.clock.now())),
        );
        let count = format::counted(snapshots.len() as u64, "snapshot", "snapshots");
        Ok((format!("{path}: {count}, {age}"), vault.identity()?))
    };
    match read() {
        Ok((text, identity)) => (Ok(text), identity),
        Err(failure) => (Err(failure), None),
    }
}

/// Key, account, clock and limit, from one request.
fn service(env: &Env, account: &AccountConfig, ours: Option<AccountIdentity>) -> Vec<CheckFinding> {
    let fail = |what, failure| vec![CheckFinding { what, found: Err(failure) }];
    let bounds = SessionLimits::default();
    let session = AccountSession::open_unlocked(env, account, &bounds, Arc::new(NoProgress));
    let mut session = match session {
        Ok(session) => session,
        Err(failure) => return fail("key", failure),
    };
    let before = env.clock.monotonic();
    let answer = match request_account(&mut session.client, &ONCE) {
        Ok(answer) => answer,
        Err(error) => {
            let failure = OpError::from(error);
            let what = if failure.kind == OpErrorKind::Unauthorised { "key" } else { "answer" };
            return fail(what, failure);
        }
    };
    let took = env.clock.monotonic().saturating_sub(before);
    let who = answer.record(&session.client).map_err(OpError::from).and_then(|account| {
        let found = account.record.key.id();
        match ours.filter(|ours| ours.account != found) {
            None => Ok(format!("accepted, for account {found}")),
            Some(ours) => Err(OpError::from(VaultError::OtherAccount {
                what: "account",
                ours: ours.account.to_string(),
                theirs: found.to_string(),
            })),
        }
    });
    let response = &answer.response;
    let signals = RateLimitHeaders::read(response);
    let limit = limit(env, account, &session, signals.remaining);
    vec![
        CheckFinding { what: "key", found: who },
        CheckFinding { what: "answer", found: Ok(format!("in {}", format::duration(took))) },
        CheckFinding { what: "clock", found: Ok(clock(env, response.header("date"))) },
        CheckFinding { what: "limit", found: Ok(limit) },
    ]
}

fn clock(env: &Env, date: Option<&str>) -> String {
    let told = date.and_then(|date| chrono::DateTime::parse_from_rfc2822(date).ok());
    let Some(told) = told else { return "the service does not tell the time".to_owned() };
    let apart = (told.timestamp_millis() - env.clock.now().0) / 1000;
    match apart {
        -2..=2 => "as the service's".to_owned(),
        _ => format!("the service's is {apart:+} s from ours; waits are corrected for it"),
    }
}

fn limit(
    env: &Env,
    account: &AccountConfig,
    session: &AccountSession,
    remaining: Option<u64>,
) -> String {
    let reserve = account.settings.reserve;
    let left = remaining.map_or_else(String::new, |left| format!(", {left} left now"));
    let kept = if reserve > 0 { format!(", {reserve} of them reserved") } else { String::new() };
    match session.client.limit() {
        Some(0) => "none".to_owned(),
        Some(limit) => format!("{limit} requests a minute{left}{kept}"),
        None => {
            let pacer = Pacer::new(u64::from(reserve));
            let time = format::duration(pacer.estimate(env.clock.monotonic(), 100));
            format!("not told: 30 a minute are assumed (100 requests take {time})")
        }
    }
}
