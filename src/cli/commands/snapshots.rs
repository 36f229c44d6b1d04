//! `linkvault snapshots`: list what a vault holds.

/// List the snapshots of an account
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault snapshots main
  linkvault snapshots main --json")]
pub struct Args {
    /// The account
    pub account: String,
}
