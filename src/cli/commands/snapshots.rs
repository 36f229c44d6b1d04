//! `linkvault snapshots`: lists the snapshots of a vault.

use crate::ops::state_ref;
use serde_json::{Value, json};

use crate::cli::{App, CliError, Exit, TextTable};
use crate::config::AccountConfig;
use crate::format;
use crate::vault::snapshot::Snapshot;

/// List the snapshots of an account
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault snapshots main
  linkvault snapshots main --json")]
pub struct Args {
    /// The account
    pub account: String,
}

/// Lists the snapshots, oldest first.
///
/// # Errors
/// If there is no vault.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.account)?;
    let vault = state_ref::open(&account)?;
    let snapshots = vault.snapshots()?;
    if app.out.is_json() {
        let all: Vec<_> = snapshots.iter().map(document).collect();
        app.out.json(&json!({"format": 1, "account": account.name, "snapshots": all}))?;
        return Ok(Exit::Done);
    }
    if snapshots.is_empty() {
        app.out.note(format_args!("{} has no snapshot yet", account.name));
    } else {
        app.out.table(table(&account, &snapshots))?;
    }
    if let Some((running, _)) = vault.running()? {
        app.out.note(format_args!(
            "snapshot #{}, begun {}, is not finished; `linkvault backup {}` continues it",
            running.number,
            format::age(running.started, app.env.clock.now()),
            account.name
        ));
    }
    Ok(Exit::Done)
}

fn table(account: &AccountConfig, snapshots: &[Snapshot]) -> TextTable {
    let headers = ["#", "begun", "status", "records", "added", "changed", "removed", "tag"];
    let mut table = TextTable::new(&headers).right(&[0, 3, 4, 5, 6]);
    for snapshot in snapshots {
        let sum = |count: fn(&crate::vault::snapshot::ResourceOutcome) -> u64| {
            format::count(snapshot.outcomes.iter().map(count).sum())
        };
        let begun = state_ref::local_time(account, snapshot.started);
        table.row([
            snapshot.number.to_string(),
            begun.map_or_else(
                || snapshot.started.iso(),
                |time| time.format("%Y-%m-%d %H:%M").to_string(),
            ),
            snapshot.status.name().to_owned(),
            format::count(snapshot.records()),
            sum(|it| it.added),
            sum(|it| it.changed),
            sum(|it| it.removed),
            match &snapshot.tag {
                None if snapshot.of_run => "(run)".to_owned(),
                tag => tag.clone().unwrap_or_default(),
            },
        ]);
    }
    table
}

/// The JSON of a snapshot.
pub(super) fn document(snapshot: &Snapshot) -> Value {
    let resources: serde_json::Map<_, _> = snapshot
        .outcomes
        .iter()
        .map(|outcome| {
            let value = json!({
                "state": outcome.state.name(),
                "records": outcome.records,
                "added": outcome.added,
                "changed": outcome.changed,
                "removed": outcome.removed,
                "message": outcome.message,
            });
            (outcome.resource.name().to_owned(), value)
        })
        .collect();
    json!({
        "snapshot": snapshot.number,
        "status": snapshot.status.name(),
        "started": snapshot.started.iso(),
        "finished": snapshot.finished.map(crate::clock::Timestamp::iso),
        "tag": snapshot.tag,
        "of_run": snapshot.of_run,
        "records": snapshot.records(),
        "requests": snapshot.usage.requests,
        "digest": snapshot.digest,
        "resources": resources,
    })
}
