//! `linkvault plan`: shows the steps that change an account to a desired state.

use std::path::PathBuf;

use crate::cli::csv_args::CsvArgs;
use crate::cli::hints::hint;
use crate::cli::plan_args::{MaxStalenessArgs, PlanFormat, PlanOutputArgs, PolicyArgs};
use crate::cli::session_args::SessionArgs;
use crate::cli::{App, CliError, CommandResult, Exit, render};
use crate::ops::input::InputOptions;
use crate::ops::plan::{PlanRequest, plan_changes};

/// Show the steps that change an account to match the input, and their cost
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault plan sheets --to main            an edited export
  linkvault plan campaigns.csv --to main -o plan.json
  linkvault plan main@2026-11-01 --to main   back to that day
  linkvault plan sheets --to main --form markdown > plan.md")]
pub struct Args {
    /// The input: CSV files, workbooks, folders of them, an exported folder or file, or ACCOUNT@REF
    #[arg(value_name = "REF", required = true)]
    pub inputs: Vec<String>,
    /// The account to plan for
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// Save the plan to this file; `apply` executes it once
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Format of the printed plan
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub form: PlanFormat,
    /// Exit with code 2 if there are steps, else with 3 if the API cannot do a part
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// What the plan may do, and which part of the input to use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// How the plan is shown.
    #[command(flatten)]
    pub shown: PlanOutputArgs,
    /// How the columns of CSV files are read.
    #[command(flatten)]
    pub csv: CsvArgs,
    /// The maximum age of lists.
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    /// Limits on requests, time and the wait for the lock.
    #[command(flatten)]
    pub bounds: SessionArgs,
}

/// Reads the account and the desired state, and shows the plan.
///
/// # Errors
/// If one of them cannot be read, the input is ambiguous, or there are conflicts.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let account = app.env.account(&args.to)?;
    args.shown.apply(&app.out);
    let request = PlanRequest {
        account: &account,
        input: &args.inputs,
        options: InputOptions { csv: args.csv.options(app), ..args.policy.input() },
        policy: args.policy.policy(),
        max_staleness: args.staleness.max_staleness,
        save: args.out.clone(),
        limits: args.bounds.limits(),
    };
    let report = plan_changes(&app.env, &request)?;
    let plan = &report.plan;
    if app.out.is_json() {
        let document = render::plan::document(plan, &account, &report.input, &report.observation);
        app.out.json(&document)?;
    } else {
        match args.form {
            PlanFormat::Text => app.env.events().planned(plan, true)?,
            PlanFormat::Markdown => render::plan::show(&app.out, plan, args.form, true)?,
        }
    }
    if let Some((kept, next)) = &report.kept {
        app.out.note(format_args!("{kept}; {}", hint(next)));
    }
    if let Some(refusal) = &report.refusal {
        let lines: Vec<_> =
            refusal.details.lines.iter().map(|line| format!("\n  {line}")).collect();
        app.out.warn(format_args!("`apply` will refuse this plan:{}", lines.concat()));
        if let Some(next) = &refusal.next {
            app.out.note(format_args!("hint: {}", hint(next)));
        }
    }
    if let Some(file) = &args.out {
        let (path, name) = (file.display(), &account.name);
        app.out.note(format_args!("saved; `linkvault apply {path} --to {name}` applies it"));
    }
    let (steps, unsupported) = (plan.steps.len() as u64, plan.missing());
    Ok(match (args.detailed_exitcode, steps) {
        (true, 1..) => Exit::of(Ok(CommandResult { changes: true, ..CommandResult::default() })),
        (true, 0) => {
            Exit::of(Ok(CommandResult { missing: unsupported, ..CommandResult::default() }))
        }
        (false, _) => Exit::Done,
    })
}
