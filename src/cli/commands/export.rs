//! `linkvault export`: write a state as files.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::values;
use crate::model::Resource;

/// Write a state as CSV or JSON files
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault export main --to sheets
  linkvault export main@2026-11-01 --to old --format json
  linkvault export main --to sheets --only campaigns,channels")]
pub struct Args {
    /// The state: ACCOUNT, or ACCOUNT@REF with a snapshot, date, tag or `live`
    #[arg(value_name = "REF")]
    pub reference: String,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// The form of the files
    #[arg(long, default_value = "csv")]
    pub format: Format,
    /// Write only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
}

/// The form of exported files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // One file for each resource.
    Csv,
    // One file.
    Json,
}
