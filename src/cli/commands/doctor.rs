//! `linkvault doctor`: checks accounts without changing anything.

use serde_json::{Value, json};

use crate::cli::{App, CliError, Escaped, Exit, Paint, hints};
use crate::config::AccountConfig;
use crate::format;
use crate::ops::doctor::{CheckFinding, CheckResult, examine};
use crate::ops::shared_accounts::shared_accounts;

/// Check configuration, key, clock, limit, alerts and copies; list changed fields
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault doctor
  linkvault doctor main

It changes nothing and sends no alert: `linkvault alerts test` sends one.")]
pub struct Args {
    /// Account to check; default: all configured accounts
    pub account: Option<String>,
}

/// Checks everything that a backup needs, and changes nothing. The exit code is that of the first
/// problem.
///
/// # Errors
/// If the account does not exist, or the configuration has mistakes.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let names: Vec<_> = args.account.iter().cloned().collect();
    let accounts = app.env.accounts(&names)?;
    let mut documents = Vec::new();
    let mut exit = Exit::Done;
    let shared = shared_accounts(&app.env.accounts(&[]).unwrap_or_default(), &accounts);
    for account in &accounts {
        let findings = examine(&app.env, account);
        for finding in &findings {
            if let Err(failure) = &finding.found {
                exit = exit.or_worse(Exit::from(failure.kind));
            }
        }
        show(app, account, &findings)?;
        documents.push(document(app, account, &findings));
    }
    for same in &shared {
        app.out.warn(same);
        app.out.note(format_args!("hint: {}", hints::REMOVE_OTHER_NAMES));
    }
    if app.out.is_json() {
        let same: Vec<_> =
            shared.iter().map(|it| json!({"accounts": it.names, "why": it.why})).collect();
        app.out.json(&json!({"format": 1, "accounts": documents, "same_account": same}))?;
    }
    Ok(exit)
}

fn show(app: &App, account: &AccountConfig, findings: &[CheckFinding]) -> Result<(), CliError> {
    if app.out.is_json() {
        return Ok(());
    }
    app.out.line(app.out.paint(Paint::Strong, &account.name))?;
    for CheckFinding { subject, found } in findings {
        let what = subject.name();
        match found {
            Ok(found) => {
                let text = describe(app, account, found);
                app.out.line(format_args!("  ok   {what:9} {}", Escaped(&text)))?;
            }
            Err(failure) => {
                let mark = app.out.paint(Paint::Error, "fail");
                app.out.line(format_args!("  {mark} {what:9} {}", Escaped(&failure.message)))?;
                if let Some(next) = &failure.next {
                    app.out
                        .line(format_args!("                 {}", Escaped(hints::hint(next))))?;
                }
            }
        }
    }
    Ok(())
}

/// The result of a check, as a sentence.
fn describe(app: &App, account: &AccountConfig, found: &CheckResult) -> String {
    let vault = account.vault.display();
    match found {
        CheckResult::Service(None) => "built in".to_owned(),
        CheckResult::Service(Some(url)) => url.to_string(),
        CheckResult::NoVault => format!("none yet; it will be {vault}"),
        CheckResult::Vault { snapshots, complete } => {
            let count = format::counted(*snapshots, "snapshot", "snapshots");
            let age = complete.map_or_else(
                || "no complete one".to_owned(),
                |it| format!("the newest complete one {}", format::age(it, app.env.clock.now())),
            );
            format!("{vault}: {count}, {age}")
        }
        CheckResult::FieldChange { text, at } => {
            format!("{text} (found {})", format::age(*at, app.env.clock.now()))
        }
        CheckResult::Folder(folder) => format!("{} can be written to", folder.display()),
        CheckResult::Program(program) => {
            format!("{} can be run; `linkvault alerts test` runs it", program.display())
        }
        CheckResult::Reached(host) => format!("{host} responds"),
        CheckResult::Locked(holder) => {
            format!("pid {} runs `{}`; the service was not asked", holder.pid, holder.command)
        }
        CheckResult::KeyAccepted(id) => format!("accepted, for account {id}"),
        CheckResult::Answered(time) => format!("in {}", format::duration(*time)),
        CheckResult::Clock(None) => "the service sends no date".to_owned(),
        CheckResult::Clock(Some(-2..=2)) => "as the service's".to_owned(),
        CheckResult::Clock(Some(ahead)) => {
            format!("the service's is {ahead:+} s from ours; waits are corrected for it")
        }
        CheckResult::Limit { limit: Some(0), .. } => format!("none{}", lowered(account, u64::MAX)),
        CheckResult::Limit { limit: Some(limit), remaining, .. } => {
            let left = remaining.map_or_else(String::new, |left| format!(", {left} left now"));
            let reserved = match account.settings.reserve {
                0 => String::new(),
                reserve => format!(", {reserve} of them reserved"),
            };
            let lowered = lowered(account, *limit);
            format!("{limit} requests a minute{left}{reserved}{lowered}")
        }
        CheckResult::Limit { limit: None, hundred, .. } => {
            let time = format::duration(*hundred);
            let assumed = account.settings.limit.unwrap_or(30);
            format!("not reported: {assumed} a minute are assumed (100 requests take {time})")
        }
    }
}

/// What the configuration makes of the service's `limit`.
fn lowered(account: &AccountConfig, limit: u64) -> String {
    match account.settings.limit.filter(|&configured| u64::from(configured) < limit) {
        Some(configured) => format!("; {configured} by the configuration"),
        None => String::new(),
    }
}

fn document(app: &App, account: &AccountConfig, findings: &[CheckFinding]) -> Value {
    let all: Vec<_> = findings
        .iter()
        .map(|CheckFinding { subject, found }| match found {
            Ok(found) => {
                let text = describe(app, account, found);
                json!({"what": subject.name(), "ok": true, "found": text})
            }
            Err(failure) => json!({
                "what": subject.name(), "ok": false, "kind": failure.kind.name(),
                "found": failure.message, "hint": failure.next.as_deref().map(hints::hint),
            }),
        })
        .collect();
    let ok = findings.iter().all(|finding| finding.found.is_ok());
    json!({"account": account.name, "ok": ok, "findings": all})
}
