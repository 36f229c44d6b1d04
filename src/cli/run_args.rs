//! The flags of every command that executes a plan.

use std::path::PathBuf;

use super::App;
use super::plan_args::{MaxStalenessArgs, PlanOutputArgs};
use crate::change::csv_files::ColumnOptions;
use crate::ops::apply::RunOptions;

/// How a plan is executed: flags of every command that executes one.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunArgs {
    /// Stop at the first step that the service refuses
    #[arg(long)]
    pub fail_fast: bool,
    /// Write rejected rows to this file; fix them and apply the file
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
    /// Write the outcome of each row, with its id and address, to this CSV file
    #[arg(long, value_name = "FILE.csv")]
    pub results: Option<PathBuf>,
    /// Print the plan and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Apply without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Ask about each step of the plan
    #[arg(long, conflicts_with_all = ["yes", "dry_run"])]
    pub interactive: bool,
    /// How the plan is shown.
    #[command(flatten)]
    pub shown: PlanOutputArgs,
    /// The maximum age of lists.
    #[command(flatten)]
    pub staleness: MaxStalenessArgs,
}

impl RunArgs {
    /// These flags as options of an operation. From now on `app` shows plans as they say.
    #[must_use]
    pub fn options(&self, app: &App) -> RunOptions {
        self.shown.apply(&app.out);
        RunOptions {
            fail_fast: self.fail_fast,
            rejected: self.rejected.clone(),
            results: self.results.clone(),
            dry_run: self.dry_run,
            yes: self.yes,
            accept_suspicious: false,
            encoding: None,
            columns: ColumnOptions::default(),
            interactive: self.interactive,
            max_staleness: self.staleness.max_staleness,
        }
    }
}
