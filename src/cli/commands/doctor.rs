//! `linkvault doctor`: what may be wrong, without changing anything.

use serde_json::{Value, json};

use crate::cli::{App, Escaped, Exit, OpError, Paint};
use crate::config::AccountConfig;
use crate::ops::doctor::{CheckFinding, examine};
use crate::ops::shared_accounts::{HINT, shared_accounts};

/// Check configuration, key, clock and limit; write nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault doctor
  linkvault doctor main")]
pub struct Args {
    /// Account to check; default: all configured accounts
    pub account: Option<String>,
}

/// Looks at everything that a backup needs, and changes nothing.
///
/// # Errors
/// With the first problem's kind, when there is one.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
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
        documents.push(document(account, &findings));
    }
    for same in &shared {
        app.out.warn(same);
        app.out.note(format_args!("hint: {HINT}"));
    }
    if app.out.is_json() {
        let same: Vec<_> =
            shared.iter().map(|it| json!({"accounts": it.names, "why": it.why})).collect();
        app.out.json(&json!({"format": 1, "accounts": documents, "same_account": same}))?;
    }
    Ok(exit)
}

fn show(app: &App, account: &AccountConfig, findings: &[CheckFinding]) -> Result<(), OpError> {
    if app.out.is_json() {
        return Ok(());
    }
    app.out.line(app.out.paint(Paint::Strong, &account.name))?;
    for CheckFinding { what, found } in findings {
        match found {
            Ok(text) => app.out.line(format_args!("  ok   {what:8} {}", Escaped(text)))?,
            Err(failure) => {
                let mark = app.out.paint(Paint::Error, "fail");
                app.out.line(format_args!("  {mark} {what:8} {}", Escaped(&failure.message)))?;
                if let Some(hint) = &failure.hint {
                    app.out.line(format_args!("                {}", Escaped(hint)))?;
                }
            }
        }
    }
    Ok(())
}

fn document(account: &AccountConfig, findings: &[CheckFinding]) -> Value {
    let all: Vec<_> = findings
        .iter()
        .map(|CheckFinding { what, found }| match found {
            Ok(text) => json!({"what": what, "ok": true, "found": text}),
            Err(failure) => json!({
                "what": what, "ok": false, "kind": failure.kind.name(),
                "found": failure.message, "hint": failure.hint,
            }),
        })
        .collect();
    let ok = findings.iter().all(|finding| finding.found.is_ok());
    json!({"account": account.name, "ok": ok, "findings": all})
}
