//! `linkvault template`: prints the header of a CSV file for `import`.

use serde_json::json;

use crate::change::csv_files::{CsvKind, write};
use crate::cli::{App, CliError, Exit, values};

/// Print the header of a resource's CSV file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault template campaigns > campaigns.csv
  linkvault template campaign_links > campaign_links.csv")]
pub struct Args {
    /// The resource
    #[arg(value_parser = values::sheet())]
    pub resource: CsvKind,
}

/// Prints the header.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let name = args.resource.name();
    let columns = args.resource.template();
    if app.out.is_json() {
        app.out.json(&json!({"format": 1, "resource": name, "columns": columns}))?;
        return Ok(Exit::Done);
    }
    app.out.raw(&write::template(args.resource)?)?;
    if !args.resource.is_writable() {
        app.out.note(format_args!("the API can neither create nor change {name}"));
    }
    Ok(Exit::Done)
}
