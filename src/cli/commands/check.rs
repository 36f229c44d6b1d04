//! `linkvault check`: prove that a vault is sound.

use serde_json::json;

use crate::cli::{App, Exit, Failure, human, states};

/// Check every byte of an account's vault
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault check main")]
pub struct Args {
    /// The account
    pub account: String,
}

/// Recomputes all that the vault claims about itself.
///
/// # Errors
/// When the vault cannot be read at all.
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let account = app.account(&args.account)?;
    let report = states::open(&account)?.check()?;
    let sound = report.problems.is_empty();
    if app.out.is_json() {
        app.out.json(&json!({
            "format": 1,
            "account": account.name,
            "sound": sound,
            "snapshots": report.snapshots,
            "versions": report.versions,
            "problems": report.problems,
        }))?;
    }
    for problem in &report.problems {
        app.out.warn(problem);
    }
    let checked = format!(
        "{} with {}",
        human::counted(report.snapshots, "snapshot", "snapshots"),
        human::counted(report.versions, "version of records", "versions of records")
    );
    if sound {
        app.out.summary(format_args!("{} is sound: {checked} checked", account.name))?;
        return Ok(Exit::Done);
    }
    app.out.summary(format_args!(
        "{} is damaged: {} in {checked}; restore it from a copy, or move it away and back up anew",
        account.name,
        human::counted(report.problems.len() as u64, "problem", "problems"),
    ))?;
    Ok(Exit::Failed)
}
