//! `linkvault forget`: let go of old snapshots.

use crate::config::{Keep, Period, parse_period};

/// Forget old snapshots and keep those that the rules name
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault forget main -n                   by the account's `keep`; print only
  linkvault forget main --keep-last 7 --keep-monthly 12
  linkvault forget main --keep-within 1y6m --keep-tag release")]
pub struct Args {
    /// The account
    pub account: String,
    /// Keep the newest so many snapshots
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_last: Option<u32>,
    /// Keep the last snapshot of each of so many hours
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_hourly: Option<u32>,
    /// Keep the last snapshot of each of so many days
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_daily: Option<u32>,
    /// Keep the last snapshot of each of so many weeks
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_weekly: Option<u32>,
    /// Keep the last snapshot of each of so many months
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_monthly: Option<u32>,
    /// Keep the last snapshot of each of so many years
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_yearly: Option<u32>,
    /// Keep all snapshots within this period of the newest, such as 1y6m2d
    #[arg(long, value_name = "PERIOD", value_parser = parse_period)]
    pub keep_within: Option<Period>,
    /// Keep the snapshots with this tag; can be given again
    #[arg(long, value_name = "TAG")]
    pub keep_tag: Vec<String>,
    /// Print what would be forgotten and why; write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Forget without asking
    #[arg(short, long)]
    pub yes: bool,
}

impl Args {
    /// The rules of the command line; `None` when it names none, so that the
    /// account's own apply.
    #[must_use]
    pub fn keep(&self) -> Option<Keep> {
        let keep = Keep {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
            within: self.keep_within,
        };
        (keep != Keep::default() || !self.keep_tag.is_empty()).then_some(keep)
    }
}
