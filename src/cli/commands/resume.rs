//! `linkvault resume`: continues a run that was stopped.

use std::path::PathBuf;

use super::runs;
use crate::cli::plan_args::MaxStalenessArgs;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, Exit, render, values};
use crate::model::RunId;
use crate::ops::resume::{ResumeRequest, open_run, resume};
use crate::ops::state_ref;

/// Continue a run that was stopped
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault resume main
  linkvault resume main 3 --max-duration 2h

Steps that are done are not repeated. Steps that may have taken effect are
looked up first.")]
pub struct Args {
    /// The account
    pub account: String,
    /// The run; default: the unfinished run
    #[arg(value_parser = values::run)]
    pub run: Option<RunId>,
    /// Stop at the first step that the service refuses
    #[arg(long)]
    pub fail_fast: bool,
    /// Write rejected rows to this file; fix them and apply the file
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
    /// Write the outcome of each row with a step, with its id and address, to this CSV file
    #[arg(long, value_name = "FILE.csv")]
    pub results: Option<PathBuf>,
    /// Write a report on the migration in Markdown to this file
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub report: Option<PathBuf>,
    /// Print the run's steps and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Accepted for scripts; this command never prompts
    #[arg(short, long)]
    pub yes: bool,
    /// The maximum age of lists.
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Continues the run, and shows its result.
///
/// # Errors
/// If the run does not exist, or stopped again.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.account)?;
    if args.dry_run {
        let run = Some(open_run(&state_ref::open(&account)?, args.run, &account)?);
        return runs::run(&runs::Args { account: account.name, run }, app);
    }
    let request = ResumeRequest {
        account: &account,
        run: args.run,
        fail_fast: args.fail_fast,
        rejected: args.rejected.clone(),
        results: args.results.clone(),
        report: args.report.clone(),
        max_staleness: args.staleness.max_staleness,
        limits: args.bounds.limits(),
    };
    let report = resume(&app.env, &request)?;
    let exit = render::run::show_applied(app, &account, &report.applied)?;
    if let Some(from) =
        report.migrated_from.filter(|_| exit != Exit::Unknown && args.report.is_none())
    {
        app.out.note(format_args!(
            "`linkvault migrate {from} {}`, with the flags of the first time, reports on the move",
            account.name
        ));
    }
    Ok(exit)
}
