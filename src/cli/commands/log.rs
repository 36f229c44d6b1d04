//! `linkvault log`: the history of one record.

use crate::cli::values;
use crate::model::Resource;

/// Show how a record changed, snapshot by snapshot
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault log main campaigns 12
  linkvault log main channel_items 7/links/33")]
pub struct Args {
    /// The account
    pub account: String,
    /// The resource of the record
    #[arg(value_parser = values::resource())]
    pub resource: Resource,
    /// The record's id; channel/type/id for an item of a channel
    pub id: String,
}
