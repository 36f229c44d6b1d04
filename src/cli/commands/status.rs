//! `linkvault status`: the status of accounts, from vaults and persisted states.

use serde_json::{Value, json};

use crate::cli::{App, CliError, CommandResult, Exit, OpErrorKind, TextTable};
use crate::clock::Timestamp;
use crate::config::AccountConfig;
use crate::format;
use crate::health::account_status::{AccountStatus, Health};
use crate::health::attempt::{AttemptOutcome, BackupAttempt};
use crate::ops::account_state::acknowledge_removals;
use crate::ops::status::status;

/// Show the health of each account's backups, with an exit code for monitoring
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault status
  linkvault status main --json
  linkvault status main --ack                the removal of many records was intended

It reads the vaults and what `linkvault backup` and the daemon recorded, whether
or not a daemon runs. The newest complete backup is too old when it is older than
`max_age`; the default is two scheduled times and an hour. Without a schedule and
`max_age`, no backup is too old.

Exit codes:
  0 all is well
  1 the newest backup failed, its key was refused, or the newest complete backup
    is too old
  3 the newest backup is partial, no backup was made yet, many records were removed,
    a list became empty, another process prevented backups for an hour, the work
    after a backup failed, the outcome of a write is unknown, the newest backup
    found that the service sends other fields than before, or an alert or the
    heartbeat could not be delivered")]
pub struct Args {
    /// Accounts to show; default: all configured accounts
    #[arg(value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
    /// Acknowledge removed records and emptied lists, so that they are no problem any more
    #[arg(long)]
    pub ack: bool,
}

/// Shows the status of the accounts.
///
/// # Errors
/// If an account does not exist.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let accounts = app.env.fetched_accounts(&args.accounts)?;
    let now = app.env.clock.now();
    let mut account_statuses = status(&app.env, &accounts, now)?;
    if args.ack {
        acknowledge(app, &accounts, &account_statuses)?;
        account_statuses = status(&app.env, &accounts, app.env.clock.now())?;
    }
    if app.out.is_json() {
        let all: Vec<_> = account_statuses.iter().map(document).collect();
        app.out.json(&json!({"format": 1, "accounts": all}))?;
    } else {
        show(app, &account_statuses, now)?;
    }
    let worst = account_statuses.iter().map(|it| it.health).max().unwrap_or(Health::Good);
    Ok(match worst {
        Health::Good => Exit::Done,
        Health::New | Health::Warning => Exit::of(Ok(CommandResult::complete(false))),
        Health::Failing => Exit::of(Err(OpErrorKind::Failed)),
    })
}

fn acknowledge(
    app: &App,
    accounts: &[AccountConfig],
    account_statuses: &[AccountStatus],
) -> Result<(), CliError> {
    let mut found = false;
    for (account, status) in accounts.iter().zip(account_statuses) {
        for problem in acknowledge_removals(&app.env, account, status)? {
            found = true;
            app.out.note(format_args!("{}: acknowledged: {}", account.name, problem.message));
        }
    }
    if !found {
        app.out.note("no removal of records is to be acknowledged");
    }
    Ok(())
}

fn show(app: &App, account_statuses: &[AccountStatus], now: Timestamp) -> Result<(), CliError> {
    let headers = ["account", "state", "complete", "last run", "next run", "records"];
    let mut table = TextTable::new(&headers).right(&[5]);
    for it in account_statuses {
        let age = |time: Option<Timestamp>| {
            time.map_or("never".to_owned(), |time| format::age(time, now))
        };
        let next = match (it.running, it.next) {
            (Some(_), _) => "under way".to_owned(),
            (None, None) => "not scheduled".to_owned(),
            (None, Some(next)) if next <= now => "now".to_owned(),
            (None, Some(next)) => format::age(next, now),
        };
        let last = it.last.as_ref().map(|last| last.ended);
        let records = format::count(it.records.values().sum());
        let name = it.account.clone();
        let state = it.health.name().to_owned();
        table.row([name, state, age(it.last_complete), age(last), next, records]);
    }
    app.out.table(table)?;
    for it in account_statuses {
        for problem in &it.problems {
            app.out.line("")?;
            let (account, since) = (&it.account, format::age(problem.since, now));
            let text = format!("{account}: {} (since {since})", problem.message);
            app.out.line(crate::cli::EscapedLines(text))?;
            if let Some(hint) = &problem.hint {
                app.out.line(crate::cli::EscapedLines(hint))?;
            }
        }
    }
    Ok(())
}

/// The JSON of an account's status.
#[must_use]
pub fn document(it: &AccountStatus) -> Value {
    let iso = |time: Option<Timestamp>| time.map(Timestamp::iso);
    let problems = it.problems.iter().map(|problem| {
        json!({
            "kind": problem.kind, "since": problem.since.iso(), "message": problem.message,
            "hint": problem.hint,
        })
    });
    json!({
        "account": it.account,
        "health": it.health.name(),
        "words": it.words,
        "schedule": it.schedule,
        "next": iso(it.next),
        "running": iso(it.running),
        "last": it.last.as_ref().map(attempt),
        "last_success": iso(it.last_success),
        "last_complete": iso(it.last_complete),
        "records": it.records,
        "problems": problems.collect::<Vec<_>>(),
        "limit": it.limit,
        "unknown_writes": it.unknown_writes,
        "undelivered_alerts": it.undelivered_alerts,
        "totals": {
            "backups": it.totals.backups,
            "complete": it.totals.complete,
            "failures": it.totals.failures,
            "requests": it.totals.requests,
            "throttled": it.totals.throttled,
            "waited_seconds": it.totals.waited.as_secs_f64(),
        },
    })
}

fn attempt(it: &BackupAttempt) -> Value {
    let outcome = match it.outcome {
        AttemptOutcome::Complete => "complete",
        AttemptOutcome::Partial => "partial",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::Stopped => "stopped",
        AttemptOutcome::Locked => "locked",
    };
    json!({
        "started": it.started.iso(), "ended": it.ended.iso(), "outcome": outcome,
        "snapshot": it.snapshot, "message": it.message, "requests": it.requests,
        "throttled": it.throttled, "waited_seconds": it.waited.as_secs_f64(),
        "added": it.added, "changed": it.changed, "removed": it.removed,
        "by": if it.by_hand { "backup" } else { "daemon" },
    })
}
