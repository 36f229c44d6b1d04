//! `linkvault fleet`: the schedules of a fleet of workers.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;

use crate::cli::{App, CliError, Exit};
use crate::model::CountOrPercent;

const EXAMPLES: &str = "\
Examples:
  linkvault fleet apply accounts.toml -n     what would change
  linkvault fleet apply accounts/ --yes
  linkvault fleet status
  linkvault fleet run main                   a backup now";

/// The schedules of a fleet of workers, in Temporal
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The command with its arguments.
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// The commands for a fleet.
// A doc comment on a variant would replace the command's own help.
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    Apply(ApplyArgs),
    Status(StatusArgs),
    Pause(PauseArgs),
    Resume(AccountArgs),
    Run(RunAccountArgs),
}

/// Make the schedules equal to a declaration of accounts
///
/// The declaration has the form of the configuration: a table for each account,
/// with its schedule. Schedules of accounts that it does not declare are
/// deleted; their vaults stay. Paused schedules stay paused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A missed time is caught up with once. A backup does not start while another one
of the account is under way.

Exit codes: 0 done, 5 more schedules would be deleted than --max-delete allows")]
pub struct ApplyArgs {
    /// A file, a folder with files that end in .toml, or - for the standard input
    #[arg(value_name = "FILE|DIR|-")]
    pub declaration: PathBuf,
    /// Make the changes without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Print what would change; write nothing
    #[arg(short = 'n', long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Maximum number, or percentage, of schedules to delete
    #[arg(long, value_name = "LIMIT", default_value = "30%")]
    pub max_delete: CountOrPercent,
}

/// Show the schedules, problems first
///
/// It shows what Temporal knows. `linkvault status ACCOUNT` says why a backup
/// failed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 all is well, 1 newest backups failed, 3 some are stopped, paused
or new, or Temporal has no schedule although the configuration has accounts")]
pub struct StatusArgs {
    /// Show this many accounts
    #[arg(long, value_name = "NUMBER", default_value = "100")]
    pub limit: usize,
    /// Leave out this many before them
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    pub skip: usize,
}

/// Start no further backups of an account
///
/// A backup that is under way goes on.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// The account
    pub account: String,
    /// The reason, which `fleet status` shows
    #[arg(long, value_name = "TEXT", default_value = "paused by hand")]
    pub note: String,
}

/// Start backups of a paused account again
#[derive(Debug, clap::Args)]
pub struct AccountArgs {
    /// The account
    pub account: String,
}

/// Start a backup of an account now
///
/// Nothing happens if one is under way.
#[derive(Debug, clap::Args)]
pub struct RunAccountArgs {
    /// The account
    pub account: String,
}

/// Runs the command.
///
/// # Errors
/// If Temporal cannot be reached, or the declaration has mistakes.
#[cfg(feature = "fleet")]
pub fn run(args: Args, app: &Arc<App>) -> Result<Exit, CliError> {
    use crate::ops::fleet::ScheduleAction;
    let (account, action, done) = match args.command {
        FleetCommand::Apply(args) => return with_fleet::apply(&args, app),
        FleetCommand::Status(args) => return with_fleet::status(&args, app),
        FleetCommand::Pause(args) => (args.account, ScheduleAction::Pause(args.note), "paused"),
        FleetCommand::Resume(args) => (args.account, ScheduleAction::Resume, "resumed"),
        FleetCommand::Run(args) => (args.account, ScheduleAction::Run, "started"),
    };
    with_fleet::act(&account, &action, done, app)
}

/// Says which program can do it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "fleet"))]
pub fn run(_args: Args, _app: &Arc<App>) -> Result<Exit, CliError> {
    Err(not_built("fleet"))
}

/// The error of a program without the feature `fleet`.
#[cfg(not(feature = "fleet"))]
pub fn not_built(command: &str) -> CliError {
    let what = format!("this program was built without `linkvault {command}`");
    CliError::new(crate::cli::OpErrorKind::Usage, what).hint(crate::cli::hints::BUILD_FLEET)
}

#[cfg(feature = "fleet")]
mod with_fleet {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::{ApplyArgs, StatusArgs};
    use crate::cli::{App, CliError, CommandResult, Escaped, Exit, OpErrorKind, TextTable};
    use crate::format;
    use crate::health::fleet_state::FleetState;
    use crate::ops::fleet::{
        self, ActionResult, DeclarationSource, FleetAccount, FleetPlan, ScheduleAction,
    };
    use crate::temporal::schedule::ScheduleChange;

    /// `fleet apply`.
    pub(super) fn apply(args: &ApplyArgs, app: &Arc<App>) -> Result<Exit, CliError> {
        let source = match args.declaration.as_os_str() == "-" {
            true => DeclarationSource::Stdin,
            false => DeclarationSource::Path(args.declaration.clone()),
        };
        let plan = fleet::plan(&app.env, &source, args.max_delete)?;
        for account in &plan.unscheduled {
            app.out.note(format_args!("{account} has no `schedule`, so it gets none"));
        }
        let count = plan.changes.len() as u64;
        if !app.out.is_json() {
            show(app, &plan, args.dry_run)?;
        }
        let question = format!("Make {}?", format::counted(count, "change", "changes"));
        let is_wanted = count > 0 && !args.dry_run && app.out.confirm(question, args.yes)?;
        if is_wanted {
            plan.apply(&app.env)?;
        }
        if app.out.is_json() {
            app.out.json(&json!({
                "format": 1,
                "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
                "unchanged": plan.unchanged,
                "unscheduled": plan.unscheduled,
                "written": is_wanted,
            }))?;
        } else if is_wanted {
            let changes = format::counted(count, "change", "changes");
            app.out.summary(format_args!("{changes} made"))?;
        }
        Ok(Exit::Done)
    }

    fn show(app: &App, plan: &FleetPlan, asked: bool) -> Result<(), CliError> {
        let unchanged = format::counted(plan.unchanged, "schedule", "schedules");
        if plan.changes.is_empty() {
            return app
                .out
                .answer(format_args!("nothing to change; {unchanged} as declared"), asked);
        }
        let mut table = TextTable::new(&["change", "account", "schedule"]);
        for it in &plan.changes {
            let schedule = match it {
                ScheduleChange::Create(to) => to.definition(),
                ScheduleChange::Update { before, to } => format!("{before} -> {}", to.definition()),
                ScheduleChange::Delete { before, .. } => before.clone(),
            };
            table.row([it.verb().to_owned(), it.account().to_owned(), schedule]);
        }
        app.out.answer(table.render(app.out.table_width()), asked)?;
        app.out.answer(format_args!("{unchanged} as declared"), asked)
    }

    fn change(it: &ScheduleChange) -> Value {
        let (before, after) = match it {
            ScheduleChange::Create(to) => (None, Some(to.definition())),
            ScheduleChange::Update { before, to } => (Some(before.clone()), Some(to.definition())),
            ScheduleChange::Delete { before, .. } => (Some(before.clone()), None),
        };
        json!({"change": it.verb(), "account": it.account(), "before": before, "after": after})
    }

    /// `fleet status`.
    pub(super) fn status(args: &StatusArgs, app: &Arc<App>) -> Result<Exit, CliError> {
        let all = fleet::status(&app.env)?;
        let is_lost = all.is_empty() && fleet::has_configured_accounts(&app.env)?;
        let count = |state| all.iter().filter(|it| it.state == state).count() as u64;
        let totals = FleetState::ALL.map(|state| (state, count(state)));
        let running = all.iter().filter(|it| it.schedule.running().is_some()).count() as u64;
        let page: Vec<_> = all.iter().skip(args.skip).take(args.limit).collect();
        if app.out.is_json() {
            let totals = totals.iter().map(|(it, count)| (it.name().to_owned(), json!(count)));
            app.out.json(&json!({
                "format": 1,
                "total": all.len(),
                "running": running,
                "totals": totals.collect::<serde_json::Map<_, _>>(),
                "accounts": page.iter().map(|it| document(it)).collect::<Vec<_>>(),
            }))?;
        } else {
            let now = app.env.clock.now();
            let mut table =
                TextTable::new(&["account", "state", "last start", "last", "next", "note"]);
            for it in &page {
                let last = it.schedule.recent.last();
                table.row([
                    it.schedule.account.clone(),
                    it.state.name().to_owned(),
                    last.map_or("never".to_owned(), |it| format::age(it.started, now)),
                    last.map_or(String::new(), |it| it.state.name().to_owned()),
                    match it.schedule.next_start() {
                        Some(next) => format::age(next, now),
                        None => "not scheduled".to_owned(),
                    },
                    Escaped(it.schedule.note.as_deref().unwrap_or_default()).to_string(),
                ]);
            }
            app.out.table(table)?;
            let shown = page.len();
            let totals = totals.iter().filter(|(_, count)| *count > 0);
            let totals: Vec<_> =
                totals.map(|(it, count)| format!("{count} {}", it.name())).collect();
            let accounts = format::counted(all.len() as u64, "account", "accounts");
            let totals = if all.is_empty() { "none".to_owned() } else { totals.join(", ") };
            app.out.summary(format_args!("{accounts}: {totals}; {running} running"))?;
            let next = args.skip.saturating_add(shown);
            if shown > 0 && next < all.len() {
                app.out
                    .note(format_args!("{shown} are shown; `--skip {next}` shows the next ones"));
            }
        }
        if all.is_empty() {
            app.out.note("Temporal has no schedules; `linkvault fleet apply FILE` creates them");
        }
        Ok(match all.iter().map(|it| it.state).min() {
            None if is_lost => Exit::of(Ok(CommandResult::complete(false))),
            Some(FleetState::Failed) => Exit::of(Err(OpErrorKind::Failed)),
            Some(FleetState::Good) | None => Exit::Done,
            Some(_) => Exit::of(Ok(CommandResult::complete(false))),
        })
    }

    fn document(it: &FleetAccount) -> Value {
        let schedule = &it.schedule;
        let recent = schedule.recent.iter().rev().map(|run| {
            json!({
                "started": run.started.iso(), "state": run.state.name(), "workflow": run.workflow,
            })
        });
        json!({
            "account": schedule.account,
            "state": it.state.name(),
            "schedule": schedule.definition,
            "paused": schedule.is_paused,
            "note": schedule.note,
            "next": schedule.next_start().map(|it| it.iso()),
            "recent": recent.collect::<Vec<_>>(),
        })
    }

    /// `fleet pause`, `fleet resume` and `fleet run`.
    pub(super) fn act(
        account: &str,
        action: &ScheduleAction,
        done: &str,
        app: &Arc<App>,
    ) -> Result<Exit, CliError> {
        let result = fleet::act(&app.env, account, action)?;
        let (json_done, text) = match (result, action) {
            (ActionResult::UnderWay, _) => {
                ("running", format!("a backup of {account} is under way"))
            }
            (ActionResult::Done, ScheduleAction::Run) => {
                (done, format!("a backup of {account} was requested"))
            }
            (ActionResult::Done, _) => (done, format!("the schedule of {account} is {done}")),
        };
        if app.out.is_json() {
            app.out.json(&json!({"format": 1, "account": account, "done": json_done}))?;
        } else {
            app.out.summary(text)?;
        }
        Ok(Exit::Done)
    }
}
