//! `linkvault forget`: forgets old snapshots.

use serde_json::json;

use crate::cli::{App, CliError, Escaped, Exit, TextTable};
use crate::config::{AccountConfig, CalendarPeriod, RetentionRules, parse_period};
use crate::format;
use crate::ops::forget::plan_retention;
use crate::ops::state_ref;
use crate::vault::retention::RetentionDecision;
use crate::vault::snapshot::Snapshot;

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
    /// Keep this number of the newest snapshots
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_last: Option<u32>,
    /// Keep the last snapshot of each of this number of hours
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_hourly: Option<u32>,
    /// Keep the last snapshot of each of this number of days
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_daily: Option<u32>,
    /// Keep the last snapshot of each of this number of weeks
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_weekly: Option<u32>,
    /// Keep the last snapshot of each of this number of months
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_monthly: Option<u32>,
    /// Keep the last snapshot of each of this number of years
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_yearly: Option<u32>,
    /// Keep all snapshots within this period of the newest, such as 1y6m2d
    #[arg(long, value_name = "PERIOD", value_parser = parse_period)]
    pub keep_within: Option<CalendarPeriod>,
    /// Keep the snapshots with this tag; repeatable
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
    /// The rules of the command line; `None` if it has none, so that those of the account apply.
    #[must_use]
    pub fn keep(&self) -> Option<RetentionRules> {
        let keep = RetentionRules {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
            within: self.keep_within,
            tags: self.keep_tag.clone(),
        };
        (keep != RetentionRules::default()).then_some(keep)
    }
}

/// Decides which snapshots to forget, shows them, asks for confirmation, and forgets them.
///
/// # Errors
/// If there is no rule, or another process holds the lock.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.account)?;
    let plan = plan_retention(&app.env, &account, args.keep(), args.dry_run)?;
    if plan.snapshots.is_empty() {
        app.out.note(format_args!("{} has no snapshot yet", account.name));
        return finish(app, &account, &[], args.dry_run);
    }
    show(app, &account, &plan.snapshots, &plan.decisions, args.dry_run)?;
    let (decisions, gone) = (plan.decisions.clone(), plan.forgotten().len() as u64);
    if gone == 0 || args.dry_run {
        return finish(app, &account, &decisions, true);
    }
    let question = format!(
        "Forget {} of {}? This cannot be undone.",
        format::counted(gone, "snapshot", "snapshots"),
        account.name
    );
    if !app.out.confirm(question, args.yes)? {
        return finish(app, &account, &decisions, true);
    }
    plan.forget(&app.env)?;
    finish(app, &account, &decisions, false)
}

fn show(
    app: &App,
    account: &AccountConfig,
    snapshots: &[Snapshot],
    verdicts: &[RetentionDecision],
    asked: bool,
) -> Result<(), CliError> {
    let mut table = TextTable::new(&["#", "begun", "status", "verdict", "why"]).right(&[0]);
    for (snapshot, verdict) in snapshots.iter().zip(verdicts) {
        let begun = state_ref::local_time(account, verdict.time);
        let kept = !verdict.reasons.is_empty();
        table.row([
            verdict.number.to_string(),
            begun.map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M").to_string()),
            snapshot.status.name().to_owned(),
            if kept { "keep" } else { "forget" }.to_owned(),
            match &snapshot.tag {
                // A tag does not keep a snapshot unless a rule says so.
                Some(tag) if !kept => format!("no rule keeps the tag {}", Escaped(tag)),
                _ => verdict.reasons.join(", "),
            },
        ]);
    }
    app.out.answer(table.render(app.out.table_width()), asked)
}

fn finish(
    app: &App,
    account: &AccountConfig,
    verdicts: &[RetentionDecision],
    untouched: bool,
) -> Result<Exit, CliError> {
    let (kept, gone): (Vec<_>, Vec<_>) =
        verdicts.iter().partition(|verdict| !verdict.reasons.is_empty());
    if app.out.is_json() {
        let kept: Vec<_> =
            kept.iter().map(|it| json!({"snapshot": it.number, "reasons": it.reasons})).collect();
        let gone: Vec<_> = gone.iter().map(|it| it.number).collect();
        app.out.json(&json!({
            "format": 1, "account": account.name, "written": !untouched,
            "keep": kept, "forget": gone,
        }))?;
    }
    let count = format::counted(gone.len() as u64, "snapshot", "snapshots");
    match (gone.is_empty(), untouched) {
        (true, _) => app.out.summary("nothing to forget")?,
        (false, true) => {
            app.out.summary(format_args!("{count} would be forgotten; nothing was written"))?;
        }
        (false, false) => app.out.summary(format_args!("{count} forgotten"))?,
    }
    Ok(Exit::Done)
}
