//! `linkvault resume`: go on with a run that was stopped.

use std::path::PathBuf;
use std::sync::Arc;

use super::runs;
use crate::apply::{self, ApplyOptions};
use crate::cli::desk::WriteSession;
use crate::cli::outcome;
use crate::cli::planning::MaxStalenessArgs;
use crate::cli::session::SessionLimits;
use crate::cli::values;
use crate::cli::{App, Exit, OpError, OpErrorKind, failures};
use crate::vault::Vault;

/// Go on with a run that was stopped
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault resume main
  linkvault resume main 3 --max-duration 2h

What is done is not done again; what may have been done is looked up first.")]
pub struct Args {
    /// The account
    pub account: String,
    /// The run; the one that is not finished if left out
    #[arg(value_parser = values::run)]
    pub run: Option<i64>,
    /// Stop at the first step that the service refuses
    #[arg(long)]
    pub fail_fast: bool,
    /// Write the rows that were refused here, to be mended and applied again
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
    /// Print the run's steps and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Taken as said: the run was agreed to when it began
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

/// Goes on.
///
/// # Errors
/// When there is no such run, or it had to stop again.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let account = app.account(&args.account)?;
    app.catch_interrupts();
    let vault = crate::cli::states::open(&account)?;
    let which = |vault: &Vault| {
        let unfinished = vault.unfinished_run()?.map(|run| run.number);
        args.run.or(unfinished).ok_or_else(|| {
            let message = format!("every run of {} is finished", account.name);
            OpError::new(OpErrorKind::NotFound, message)
                .hint(format_args!("`linkvault runs {}` lists them", account.name))
        })
    };
    if args.dry_run {
        let run = Some(which(&vault)?);
        return runs::run(&runs::Args { account: account.name.clone(), run }, app);
    }
    drop(vault);
    let mut desk = WriteSession::open(app, &account, "resume", &args.bounds)?;
    let run = which(&desk.vault)?;
    let began = desk.vault.run(run).map_err(|error| failures::vault_error(error, &account.name))?;
    let service = desk.session.service.clone();
    let options = ApplyOptions {
        service,
        fail_fast: args.fail_fast,
        max_staleness: Some(args.staleness.of(&account)),
        limit: account.settings.limit.map(u64::from),
        reserve: desk.session.reserve,
        ..ApplyOptions::default()
    };
    let progress = Arc::clone(&desk.progress);
    let (client, vault) = (&mut desk.session.client, &mut desk.vault);
    let outcome = apply::resume(client, vault, &*app.clock, &*progress, &options, run);
    drop(progress);
    let exit = outcome::finish(desk, outcome, args.rejected.as_deref())?;
    if began.command == "migrate" && exit != Exit::Unknown {
        app.out.note(format_args!(
            "`linkvault migrate {} {}`, with the flags of the first time, reports on the move",
            began.asked, account.name
        ));
    }
    Ok(exit)
}
