//! `linkvault backup`: mirror accounts into their vaults.

use std::time::Duration;

use crate::cli::values;
use crate::config::{Stats, parse_duration};
use crate::model::Resource;

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
    /// QR codes whose statistics are fetched, a request each
    #[arg(
        long,
        value_name = "WHICH",
        value_parser = values::stats(),
        env = "LINKVAULT_STATS",
        hide_env_values = true
    )]
    pub stats: Option<Stats>,
    /// Fetch the statistics of at most so many QR codes
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_STATS_BUDGET", hide_env_values = true)]
    pub stats_budget: Option<u32>,
    /// Start over instead of going on with a backup that was stopped
    #[arg(long)]
    pub fresh: bool,
    /// Give the snapshot a name
    #[arg(long)]
    pub tag: Option<String>,
    /// Leave so many requests of each window to other tools
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_RESERVE", hide_env_values = true)]
    pub reserve: Option<u32>,
    /// Stop after this time, such as 10m; the next run goes on
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        env = "LINKVAULT_MAX_DURATION",
        hide_env_values = true
    )]
    pub max_duration: Option<Duration>,
    /// Stop after so many requests; the next run goes on
    #[arg(long, value_name = "NUMBER", env = "LINKVAULT_MAX_REQUESTS", hide_env_values = true)]
    pub max_requests: Option<u64>,
    /// Accept that the account's service has a new URL
    #[arg(long)]
    pub service_moved: bool,
    /// Wait so long for another process that works on the account
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        env = "LINKVAULT_LOCK_TIMEOUT",
        hide_env_values = true
    )]
    pub lock_timeout: Option<Duration>,
    /// Print what would be read and what it costs; ask and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}
