//! `linkvault vault`: commands for a vault's file.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use crate::cli::{App, CliError, Exit};
use crate::format;
use crate::ops::restore_vault::verify_copy;
use crate::ops::state_ref;

const EXAMPLES: &str = "\
Examples:
  linkvault vault restore /srv/copies/main.db --to main -n   verify it only
  linkvault vault restore /srv/copies/main.db --to main";

/// Commands for the file of a vault
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The command with its arguments.
    #[command(subcommand)]
    pub command: VaultCommand,
}

/// The commands for a vault's file.
// A doc comment on a variant would replace the command's own help.
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
pub enum VaultCommand {
    Restore(RestoreArgs),
}

/// Replace an account's vault with a copy
///
/// The copy is verified first: it must be a vault of a known format, sound by
/// `check`, and belong to the account. Then it replaces the vault and its log
/// at once. The file of the copy is not changed. Do not copy a file over a
/// vault by other means: a crash may have left a log that does not fit it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// The copy, made by the daemon's `copy`, restic or another tool
    pub file: PathBuf,
    /// The account whose vault to replace
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// Verify the copy and print what would be replaced; replace nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Replace the vault without asking
    #[arg(short, long)]
    pub yes: bool,
}

/// Runs the command of the arguments.
///
/// # Errors
/// As the command.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    match &args.command {
        VaultCommand::Restore(args) => restore(args, app),
    }
}

fn restore(args: &RestoreArgs, app: &App) -> Result<Exit, CliError> {
    let account = app.env.config()?.account(&args.to)?;
    let copy = verify_copy(&app.env, &account, &args.file)?;
    let (candidate, unproven) = (&copy.candidate, copy.unproven);
    let newest = candidate.snapshots.last();
    let count = format::counted(candidate.snapshots.len() as u64, "snapshot", "snapshots");
    let begun = newest.and_then(|it| state_ref::local_time(&account, it.started));
    let begun = begun.map(|time| time.format("%Y-%m-%d %H:%M").to_string());
    let what = match &begun {
        Some(begun) => format!("{count}, the newest of {begun}"),
        None => count,
    };
    let end = match unproven {
        None => "? The present vault is then gone.".to_owned(),
        Some(id) => format!(", although account {id} may not be that of {}?", account.name),
    };
    let name = &account.name;
    let file = args.file.display();
    let question = format!("Replace the vault of {name} by {file} ({what}){end}");
    let written = !args.dry_run && app.out.confirm(question, args.yes)?;
    let document = json!({
        "format": 1,
        "account": account.name,
        "file": args.file.display().to_string(),
        "written": written,
        "account_known": unproven.is_none() && candidate.identity.is_some(),
        "snapshots": candidate.snapshots.len(),
        "newest": newest.map(|it| it.number),
        "foreign_log": candidate.foreign_log,
    });
    if written {
        copy.replace(&app.env, &account)?;
    }
    if app.out.is_json() {
        app.out.json(&document)?;
    }
    let belongs = match unproven {
        None => format!(" and belongs to {name}"),
        Some(_) => String::new(),
    };
    match written {
        true => app.out.summary(format_args!("the vault of {name} is restored: {what}"))?,
        false => app
            .out
            .summary(format_args!("{file} is sound{belongs}: {what}; nothing was written"))?,
    }
    Ok(Exit::Done)
}
