//! `linkvault show`: print a state, a resource of it, or one record.

use crate::cli::values;
use crate::model::Resource;

/// Show a state: its resources, the records of one, or a record
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault show main                        the newest snapshot
  linkvault show main@2026-11-01 campaigns   the campaigns of that day
  linkvault show main@#12 qr_codes 33        one QR code in snapshot 12
  linkvault show main@live channels          what the service has now")]
pub struct Args {
    /// The state: ACCOUNT, or ACCOUNT@REF with a snapshot, date, tag or `live`
    #[arg(value_name = "REF")]
    pub reference: String,
    /// The resource whose records are shown
    #[arg(value_parser = values::resource())]
    pub resource: Option<Resource>,
    /// The record's id; channel/type/id for an item of a channel
    #[arg(requires = "resource")]
    pub id: Option<String>,
}
