//! `linkvault check`: prove that a vault is sound.

/// Check every byte of an account's vault
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault check main")]
pub struct Args {
    /// The account
    pub account: String,
}
