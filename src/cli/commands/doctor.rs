//! `linkvault doctor`: what may be wrong, without changing anything.

/// Check configuration, key, clock and limit; write nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault doctor
  linkvault doctor main")]
pub struct Args {
    /// The account; every configured one if left out
    pub account: Option<String>,
}
