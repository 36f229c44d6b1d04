//! `linkvault check`: verifies vaults.

use crate::ops::state_ref;
use serde_json::{Value, json};

use crate::cli::{App, CliError, Exit, OpErrorKind};
use crate::config::AccountConfig;
use crate::format;

/// Check every byte of the accounts' vaults
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault check main
  linkvault check main --local   the vault on this machine, not the object in its store
  linkvault check         every account of the configuration")]
pub struct Args {
    /// Accounts to check; default: all configured accounts
    #[arg(value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
    /// Do not read the objects of vaults in stores, only their local copies
    #[arg(long)]
    pub local: bool,
}

/// Recomputes all digests and counts of the vaults, and verifies the objects of those in stores.
///
/// # Errors
/// If the vault of a single account cannot be read. With several accounts, that is printed and the
/// others are checked.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let accounts = app.env.accounts(&args.accounts)?;
    let alone = accounts.len() == 1;
    let mut documents = Vec::new();
    let mut exit = Exit::Done;
    for account in &accounts {
        let (document, found) = match one(args, account, app) {
            Ok(checked) => checked,
            Err(failure) if alone => return Err(failure),
            Err(failure) => {
                app.out.print_error(&failure);
                let mut document = failure.document();
                document["account"] = json!(account.name);
                (document, Exit::from(failure.kind))
            }
        };
        documents.push(document);
        exit = exit.or_worse(found);
    }
    if app.out.is_json() {
        match documents.as_slice() {
            [only] if alone => app.out.json(only)?,
            all => app.out.json(&json!({"format": 1, "accounts": all}))?,
        }
    }
    Ok(exit)
}

fn one(args: &Args, account: &AccountConfig, app: &App) -> Result<(Value, Exit), CliError> {
    app.env.fetch(account)?;
    if !args.local {
        app.env.verify_stored(account)?;
    }
    let report = state_ref::open(account)?.check()?;
    let sound = report.problems.is_empty();
    let document = json!({
        "format": 1,
        "account": account.name,
        "sound": sound,
        "snapshots": report.snapshots,
        "versions": report.versions,
        "problems": report.problems,
    });
    for problem in &report.problems {
        app.out.warn(problem);
    }
    let checked = format!(
        "{} with {}",
        format::counted(report.snapshots, "snapshot", "snapshots"),
        format::counted(report.versions, "version of records", "versions of records")
    );
    if sound {
        app.out.summary(format_args!("{} is sound: {checked} checked", account.name))?;
        return Ok((document, Exit::Done));
    }
    app.out.summary(format_args!(
        "{} is damaged: {} in {checked}; restore it from a copy, or move it away and back up anew",
        account.name,
        format::counted(report.problems.len() as u64, "problem", "problems"),
    ))?;
    Ok((document, Exit::of(Err(OpErrorKind::Vault))))
}
