//! `linkvault diff`: what changed between two states.

use crate::cli::values;
use crate::model::Resource;

/// Show what changed between two states
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault diff main                      the newest snapshot and the one before
  linkvault diff main@2026-11-01           that day and the newest snapshot
  linkvault diff main@latest main@live     the newest snapshot and the service
  linkvault diff main --detailed-exitcode  exit code 2 if anything changed")]
pub struct Args {
    /// The older state, as ACCOUNT@REF
    #[arg(value_name = "A")]
    pub from: String,
    /// The newer state; the newest snapshot if left out
    #[arg(value_name = "B")]
    pub to: Option<String>,
    /// Compare only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// End with exit code 2 if there are changes
    #[arg(long)]
    pub detailed_exitcode: bool,
}
