//! `linkvault ui`: serves the web UI.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::cli::page::{UiArgs, cannot_serve};
use crate::cli::ui_accounts::VaultAccounts;
use crate::cli::{App, CliError, Exit};
use crate::clock::SleepOutcome;
use crate::config::{AccountConfig, SANDBOX, parse_address};
use crate::ops::status::scheduled_accounts;
use crate::ui::{self, Accounts};

/// Show vaults in a browser: accounts, changes, scans over time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault ui
  linkvault ui main --listen 127.0.0.1:9000
  linkvault ui --listen 0.0.0.0:8080 --token-file page.token
  linkvault ui --fleet               the accounts of Temporal's schedules

With --fleet, the list of accounts is Temporal's, and the vault of an account is
fetched from its store when its page is opened. Changes of the configuration
count without a restart.")]
pub struct Args {
    /// Accounts to show; default: all configured accounts
    #[arg(value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
    /// Show all accounts of the fleet of workers, and their vaults in stores
    #[arg(long, conflicts_with = "accounts")]
    pub fleet: bool,
    /// Address to listen on; an address that other machines can reach requires a token
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = parse_address,
        default_value = "127.0.0.1:8080",
        env = "LINKVAULT_UI_LISTEN",
        hide_env_values = true
    )]
    pub listen: SocketAddr,
    /// Access to the web UI.
    #[command(flatten)]
    pub page: UiArgs,
}

/// Serves until it is interrupted.
///
/// # Errors
/// If an account does not exist, Temporal cannot be reached, the token cannot be read, or the
/// address cannot be listened on.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let settings = args.page.settings(app, args.listen)?;
    let needs_token = settings.token.is_some();
    let accounts = match args.fleet {
        true => fleet_accounts(app)?,
        false => vault_accounts(args, app)?,
    };
    app.catch_interrupts();
    let page = ui::start(settings, accounts, Arc::clone(&app.env.clock))
        .map_err(|error| cannot_serve(args.listen, &error))?;
    let url = format!("http://{}", page.address());
    if app.out.is_json() {
        app.out.json(&json!({"format": 1, "url": url, "token": needs_token}))?;
    }
    let key = if needs_token { "; it asks for the token" } else { "" };
    app.out.summary(format_args!("The web UI is at {url}{key}"))?;
    app.out.summary("Press Ctrl-C to end it")?;
    app.out.finish()?;
    while app.env.clock.sleep(Duration::from_secs(3600)) == SleepOutcome::Finished {}
    page.stop();
    Ok(Exit::Done)
}

#[cfg(feature = "fleet")]
fn fleet_accounts(app: &App) -> Result<Arc<dyn Accounts>, CliError> {
    Ok(Arc::new(crate::cli::fleet_accounts::FleetAccounts::read(&app.env)?))
}

/// Says which program can do it.
#[cfg(not(feature = "fleet"))]
fn fleet_accounts(_app: &App) -> Result<Arc<dyn Accounts>, CliError> {
    Err(super::fleet::not_built("ui --fleet"))
}

fn vault_accounts(args: &Args, app: &App) -> Result<Arc<dyn Accounts>, CliError> {
    let accounts = accounts(args, app)?;
    let all_scheduled = scheduled_accounts(&app.env, &accounts)?;
    Ok(Arc::new(VaultAccounts::new(accounts, all_scheduled, Arc::clone(&app.env.clock))))
}

/// The named accounts; without names all configured ones, and the built-in one if it was used or is
/// the only one.
fn accounts(args: &Args, app: &App) -> Result<Vec<AccountConfig>, CliError> {
    let config = app.env.config()?;
    if !args.accounts.is_empty() {
        return Ok(app.env.fetched_accounts(&args.accounts)?);
    }
    let mut accounts = match config.accounts() {
        [] => Vec::new(),
        _ => app.env.fetched_accounts(&[])?,
    };
    let sandbox = config.account(SANDBOX)?;
    if accounts.is_empty() || sandbox.vault.exists() {
        accounts.push(sandbox);
    }
    Ok(accounts)
}
