//! `linkvault backup`: mirror accounts into their vaults.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::pacer::Pacer;
use crate::cli::attempts;
use crate::cli::configured::{configured_backup, statistics_mode};
use crate::cli::session::{AccountSession, SessionLimits, command_words};
use crate::cli::twins::{HINT, shared_accounts};
use crate::cli::values::scope;
use crate::cli::{App, CommandResult, Exit, OpError, OpErrorKind, values};
use crate::config::{AccountConfig, StatisticsSetting};
use crate::crawl::{self, CrawlOptions};
use crate::format;
use crate::health::attempt::{AttemptOutcome, EmptiedList};
use crate::model::Resource;
use crate::progress::Progress;
use crate::vault::snapshot::RequestUsage;
use crate::vault::{Vault, VaultError};

mod report;

/// Mirror accounts into their vaults
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault backup                            every account of the configuration
  linkvault backup main --only campaigns,channels
  linkvault backup main --max-duration 10m    stop there; the next run goes on
  linkvault backup sandbox                    the built-in account")]
pub struct Args {
    /// Accounts to back up; all configured ones if none is named
    #[arg(value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
    /// Read only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// QR codes whose statistics are fetched, a request each; if nothing is
    /// said, as the configuration says, else changed
    #[arg(
        long,
        value_name = "WHICH",
        value_parser = values::stats(),
        env = "LINKVAULT_STATS",
        hide_env_values = true
    )]
    pub stats: Option<StatisticsSetting>,
    /// Fetch the statistics of at most this number of QR codes
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_STATS_BUDGET", hide_env_values = true)]
    pub stats_budget: Option<u32>,
    /// Start over instead of going on with a backup that was stopped
    #[arg(long)]
    pub fresh: bool,
    /// Give the snapshot a name
    #[arg(long, value_parser = values::tag)]
    pub tag: Option<String>,
    /// Accept that the account's service has a new URL
    #[arg(long)]
    pub service_moved: bool,
    #[command(flatten)]
    pub bounds: SessionLimits,
    /// Print what would be read and what it costs; ask and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Backs the accounts up, one after the other.
///
/// # Errors
/// When the only account's backup failed; of several, the first failure's code
/// is the exit code, and the others are told as they come.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let accounts = app.accounts(&args.accounts)?;
    app.catch_interrupts();
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
                exit = exit.or_worse(failure.kind.exit());
                if failure.kind == OpErrorKind::Interrupted {
                    failed.extend(left.map(|account| account.name.as_str()));
                    break;
                }
            }
        }
    }
    for twins in shared_accounts(&app.accounts(&[]).unwrap_or_default(), &accounts) {
        app.out.warn(&twins);
        app.out.note(format_args!("hint: {HINT}"));
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

fn one(args: &Args, app: &App, account: &AccountConfig) -> Result<(Value, Exit), OpError> {
    let (began, started) = (app.clock.monotonic(), app.clock.now());
    let mut spent = RequestUsage::default();
    let mirrored = mirror(args, app, account, &mut spent);
    let ended = app.clock.now();
    let mirrored = match mirrored {
        Ok(mirrored) => mirrored,
        Err(failure) => {
            let mut attempt = attempts::attempt_of_error(&failure, started, ended, spent);
            let bounded = args.bounds.max_duration.is_some() || args.bounds.max_requests.is_some();
            if failure.kind == OpErrorKind::Stopped && bounded {
                // The bounds that it was given say nothing about the account.
                attempt.outcome = AttemptOutcome::Stopped;
            }
            if failure.kind != OpErrorKind::Usage {
                // Where the vault's own disk failed, that is told already.
                let told = failure.kind == OpErrorKind::Vault;
                if let Err(why) = attempts::save_attempt(account, &attempt)
                    && !told
                {
                    app.out.warn(why);
                }
            }
            return Err(failure);
        }
    };
    let Mirrored { summary, moved, emptied, vault } = mirrored;
    let snapshot = &summary.snapshot;
    let attempt = attempts::attempt_of_snapshot(snapshot, started, ended, spent);
    if let Err(why) = attempts::save_attempt(account, &attempt) {
        app.out.warn(why);
    }
    let problems = report::problems(account, &attempt, snapshot.records(), &emptied, ended);
    for problem in &problems {
        app.out.warn(&problem.message);
        if let Some(hint) = &problem.hint {
            app.out.note(format_args!("hint: {hint}"));
        }
    }
    let time = app.clock.monotonic().saturating_sub(began);
    report::print(app, account, &summary, moved, time)?;
    let whole = attempt.outcome == AttemptOutcome::Complete;
    let exit = Exit::of(Ok(CommandResult::complete(whole)));
    Ok((report::document(account, &summary, moved, &problems, &vault), exit))
}

/// What a backup made.
struct Mirrored {
    summary: crawl::CrawlReport,
    moved: (u64, i64),
    emptied: Vec<EmptiedList>,
    vault: PathBuf,
}

/// Makes the backup, and says what it spent, whether or not it came to an end.
fn mirror(
    args: &Args,
    app: &App,
    account: &AccountConfig,
    spent: &mut RequestUsage,
) -> Result<Mirrored, OpError> {
    let progress: Arc<dyn Progress + Send + Sync> = Arc::from(app.progress(&account.name));
    let words = command_words("backup", &account.name);
    let mut session =
        AccountSession::open(app, account, &words, &args.bounds, Arc::clone(&progress))?;
    let options = options(args, account, &session.service)?;
    let mut vault = Vault::open_or_create(&account.vault)?;
    let crawled = crawl::crawl(&mut session.client, &mut vault, &*app.clock, &*progress, &options);
    let counters = session.client.counters();
    *spent = RequestUsage {
        requests: counters.requests,
        throttled: counters.throttled,
        waited: counters.waited,
    };
    let summary = crawled?;
    let moved = vault.movement(summary.snapshot.number)?;
    let emptied = attempts::emptied(&attempts::recent(&vault)?);
    vault.checkpoint()?;
    Ok(Mirrored { summary, moved, emptied, vault: vault.path().to_owned() })
}

fn options(args: &Args, account: &AccountConfig, service: &str) -> Result<CrawlOptions, OpError> {
    let standing = configured_backup(account, service);
    Ok(CrawlOptions {
        stats: args.stats.map_or(standing.stats, statistics_mode),
        stats_budget: args.stats_budget.map(u64::from).or(standing.stats_budget),
        fresh: args.fresh,
        tag: args.tag.clone(),
        service_moved: args.service_moved,
        ..standing.clone().only(&asked(args, &standing.excluded)?)
    })
}

/// What the flags ask for; without `--only`, the configuration's `skip` holds too.
fn asked(args: &Args, excluded: &[Resource]) -> Result<Vec<Resource>, OpError> {
    if !args.only.is_empty() {
        return scope(&args.only, &args.skip);
    }
    let skip: Vec<_> = args.skip.iter().chain(excluded).copied().collect();
    scope(&[], &skip)
}

/// What a backup would cost, as far as the vault can tell.
fn dry_run(args: &Args, app: &App, accounts: &[AccountConfig]) -> Result<Exit, OpError> {
    let mut documents = Vec::new();
    for account in accounts {
        let scope = options(args, account, "")?.scope;
        let known = match Vault::open_read_only(&account.vault) {
            Ok(vault) => vault.snapshots()?.pop(),
            Err(VaultError::Missing(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let requests = report::least_requests(&scope, known.as_ref());
        let reserve = u64::from(args.bounds.reserve.unwrap_or(account.settings.reserve));
        let limit = account.settings.limit.map(u64::from);
        let pacer = Pacer::new(reserve).assuming(limit);
        let time = pacer.estimate(app.clock.monotonic(), requests);
        let names: Vec<_> = scope.iter().map(|resource| resource.name()).collect();
        let text = format!(
            "{}: would read {} with about {}, {} at {} a minute, and one more for each QR code \
             whose scans moved",
            account.name,
            names.join(", "),
            format::counted(requests, "request", "requests"),
            format::duration(time),
            limit.unwrap_or(30)
        );
        app.out.answer(text, true)?;
        documents.push(json!({
            "account": account.name, "resources": names, "requests": requests,
            "seconds": time.as_secs(),
        }));
    }
    if app.out.is_json() {
        app.out.json(&json!({"format": 1, "dry_run": true, "accounts": documents}))?;
    }
    Ok(Exit::Done)
}
