//! `linkvault backup`: backs accounts up into their vaults.

use serde_json::{Value, json};

use crate::cli::hints::REMOVE_OTHER_NAMES;
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, CommandResult, Exit, OpErrorKind, values};
use crate::config::{AccountConfig, StatisticsSetting};
use crate::crawl::StatisticsMode;
use crate::format;
use crate::health::attempt::{AttemptOutcome, ProblemKind};
use crate::health::field_change_text::sentences;
use crate::model::Resource;
use crate::ops::backup::{BackupRequest, backup, estimate};
use crate::ops::shared_accounts::shared_accounts;

mod report;

/// Mirror accounts into their vaults
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault backup                            every account of the configuration
  linkvault backup main --only campaigns,channels
  linkvault backup main --max-duration 10m    stop then; the next run continues
  linkvault backup sandbox                    the built-in account")]
pub struct Args {
    /// Accounts to back up; default: all configured accounts
    #[arg(value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
    /// Read only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Skip these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// QR codes to fetch statistics of, at one request each; default: `stats` in the
    /// configuration, else changed
    #[arg(
        long,
        value_name = "WHICH",
        value_parser = values::stats(),
        env = "LINKVAULT_STATS",
        hide_env_values = true
    )]
    pub stats: Option<StatisticsSetting>,
    /// Fetch statistics of at most this number of QR codes
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_STATS_BUDGET", hide_env_values = true)]
    pub stats_budget: Option<u32>,
    /// Start over instead of continuing a backup that was stopped
    #[arg(long)]
    pub fresh: bool,
    /// Tag the snapshot
    #[arg(long, value_parser = values::tag)]
    pub tag: Option<String>,
    /// Keep no snapshot that is equal to the one before; the attempt is still recorded
    #[arg(long, conflicts_with = "tag")]
    pub skip_if_unchanged: bool,
    /// Accept a new URL of the account's service
    #[arg(long)]
    pub service_moved: bool,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
    /// Print what would be read and its cost; send no request and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

impl Args {
    fn request<'a>(&self, account: &'a AccountConfig) -> BackupRequest<'a> {
        BackupRequest {
            command: "backup",
            account,
            only: self.only.clone(),
            skip: self.skip.clone(),
            stats: self.stats,
            stats_budget: self.stats_budget,
            fresh: self.fresh,
            tag: self.tag.clone(),
            skip_if_unchanged: self.skip_if_unchanged,
            service_moved: self.service_moved,
            limits: self.bounds.limits(),
        }
    }
}

/// Backs the accounts up, one after the other.
///
/// # Errors
/// If the backup of a single account fails. With several accounts, failures are printed as they
/// occur, and the exit code is that of the first.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let accounts = app.env.accounts(&args.accounts)?;
    if args.dry_run {
        return dry_run(args, app, &accounts);
    }
    let mut documents = Vec::new();
    let mut failed = Vec::new();
    let mut exit = Exit::Done;
    let alone = accounts.len() == 1;
    let mut left = accounts.iter();
    while let Some(account) = left.next() {
        match one(args, app, account) {
            Ok((document, found)) => {
                documents.push(document);
                exit = exit.or_worse(found);
            }
            Err(failure) if alone => return Err(failure),
            Err(mut failure) => {
                let mut document = failure.document();
                document["account"] = json!(account.name);
                documents.push(document);
                failure.message = format!("{}: {}", account.name, failure.message);
                app.out.print_error(&failure);
                failed.push(account.name.as_str());
                exit = exit.or_worse(Exit::from(failure.kind));
                if failure.kind == OpErrorKind::Interrupted.into() {
                    failed.extend(left.map(|account| account.name.as_str()));
                    break;
                }
            }
        }
    }
    for same in shared_accounts(&app.env.accounts(&[]).unwrap_or_default(), &accounts) {
        app.out.warn(&same);
        app.out.note(format_args!("hint: {REMOVE_OTHER_NAMES}"));
    }
    if !failed.is_empty() {
        // The reasons may have scrolled away above the tables of the others.
        let (count, all, names) = (failed.len(), accounts.len(), failed.join(", "));
        app.out.warn(format_args!("{count} of {all} accounts not backed up: {names}"));
    }
    if app.out.is_json() {
        match documents.as_slice() {
            [only] if alone => app.out.json(only)?,
            all => app.out.json(&json!({"format": 1, "accounts": all}))?,
        }
    }
    Ok(exit)
}

fn one(args: &Args, app: &App, account: &AccountConfig) -> Result<(Value, Exit), CliError> {
    let report = backup(&app.env, &args.request(account))?;
    for problem in &report.problems {
        match problem.kind {
            // All of them, each on a line.
            ProblemKind::Fields => {
                sentences(&report.attempt.field_changes).iter().for_each(|it| app.out.warn(it));
            }
            _ => app.out.warn(&problem.message),
        }
        if let Some(hint) = &problem.hint {
            app.out.note(format_args!("hint: {hint}"));
        }
    }
    report::print(app, account, &report)?;
    let whole = report.attempt.outcome == AttemptOutcome::Complete;
    let unknown = report.twins.len() as u64;
    let exit = Exit::of(Ok(CommandResult { unknown, ..CommandResult::complete(whole) }));
    Ok((report::document(account, &report), exit))
}

/// Prints the estimated cost of the backups.
fn dry_run(args: &Args, app: &App, accounts: &[AccountConfig]) -> Result<Exit, CliError> {
    let mut documents = Vec::new();
    for account in accounts {
        let found = estimate(&app.env, &args.request(account))?;
        let names: Vec<_> = found.scope.iter().map(|resource| resource.name()).collect();
        let statistics = match found.statistics {
            0 => String::new(),
            1 => ", one of them for statistics of a QR code".to_owned(),
            many => format!(", {many} of them for statistics of QR codes"),
        };
        let more = match found.more_statistics {
            Some(StatisticsMode::All) => ", and one more for each QR code",
            Some(_) => ", and one more for each QR code whose scans moved",
            None => "",
        };
        let text = format!(
            "{}: would read {} with about {}, {} at {} a minute{statistics}{more}",
            account.name,
            names.join(", "),
            format::counted(found.requests, "request", "requests"),
            format::duration(found.time),
            found.limit.unwrap_or(30)
        );
        app.out.answer(text, true)?;
        documents.push(json!({
            "account": account.name, "resources": names, "requests": found.requests,
            "statistics": found.statistics,
            "seconds": found.time.as_secs(),
        }));
    }
    if app.out.is_json() {
        app.out.json(&json!({"format": 1, "dry_run": true, "accounts": documents}))?;
    }
    Ok(Exit::Done)
}
