//! `linkvault plan`: what it would take to lead an account to a state.

use std::path::PathBuf;

use crate::cli::planning::{self, MaxStalenessArgs, PlanFormat, PolicyArgs};
use crate::cli::session::SessionLimits;
use crate::cli::{App, CommandResult, Exit, OpError};

/// Show the steps that would lead an account to a state, and what they cost
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault plan sheets --to main            an edited export
  linkvault plan campaigns.csv --to main -o plan.json
  linkvault plan main@2026-11-01 --to main   back to that day
  linkvault plan sheets --to main --form markdown > plan.md")]
pub struct Args {
    /// The state: a CSV file, a folder or file of an export, or ACCOUNT@REF
    #[arg(value_name = "REF")]
    pub reference: String,
    /// The account that would be changed
    #[arg(long, value_name = "ACCOUNT")]
    pub to: String,
    /// Save the plan, to be applied as it is, once
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How the plan is printed
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub form: PlanFormat,
    /// End with exit code 2 if there are steps, else 3 if the API cannot do a part
    #[arg(long)]
    pub detailed_exitcode: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
    #[command(flatten)]
    pub bounds: SessionLimits,
}

/// Reads the account and the wanted state, and shows the way.
///
/// # Errors
/// When one of them cannot be had, or they leave open what is meant.
pub fn run(args: &Args, app: &App) -> Result<Exit, OpError> {
    let account = app.account(&args.to)?;
    app.catch_interrupts();
    let wanted = args.policy.wanted(app, &args.bounds, &args.reference, &account)?;
    let policy = args.policy.policy();
    let which = planning::needed_resources(&wanted.desired, &policy);
    let mut looked = planning::observe_account(app, &account, &args.bounds, &which)?;
    looked.max_staleness = args.staleness.of(&account);
    wanted.is_of(&account, &looked.service, looked.account_id)?;
    let plan = planning::make_plan(&wanted.desired, wanted.base.as_ref(), &looked, &policy)?;
    if let Some(file) = &args.out {
        planning::save(app, &account, &plan, &looked, file)?;
    }
    if app.out.is_json() {
        app.out.json(&planning::document(&plan, &account, &wanted.name, &looked))?;
    } else {
        planning::show(app, &plan, args.form, true)?;
    }
    planning::kept_records(app, &wanted, &looked, &policy);
    if let Err(refused) = planning::guard(&plan, &looked, &policy) {
        let lines: Vec<_> = refused.details.iter().map(|line| format!("\n  {line}")).collect();
        app.out.warn(format_args!("`apply` will refuse this plan:{}", lines.concat()));
    }
    if let Some(file) = &args.out {
        let (path, name) = (file.display(), &account.name);
        app.out.note(format_args!("saved; `linkvault apply {path} --to {name}` applies it"));
    }
    let (steps, unsupported) = (plan.steps.len() as u64, plan.unsupported.len() as u64);
    Ok(match (args.detailed_exitcode, steps) {
        (true, 1..) => Exit::of(Ok(CommandResult { changes: true, ..CommandResult::default() })),
        (true, 0) => {
            Exit::of(Ok(CommandResult { missing: unsupported, ..CommandResult::default() }))
        }
        (false, _) => Exit::Done,
    })
}
