//! `linkvault sandbox`: serve a service of our own.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve the whole API on this machine, for trying and testing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault sandbox
  linkvault sandbox --listen 127.0.0.1:9000 --key secret --limit 30
  linkvault sandbox --from main              with the newest snapshot of main")]
pub struct Args {
    /// The address to listen on
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        env = "LINKVAULT_SANDBOX_LISTEN",
        hide_env_values = true
    )]
    pub listen: SocketAddr,
    /// An account or vault file whose newest snapshot is served
    #[arg(long, value_name = "VAULT")]
    pub from: Option<String>,
    /// How to behave where the document leaves it open
    #[arg(long, value_name = "NAME", value_delimiter = ',', visible_alias = "behavior")]
    pub behaviour: Vec<String>,
    /// Faults to make
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub fault: Vec<String>,
    /// The key to ask for
    #[arg(long, env = "LINKVAULT_SANDBOX_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// Requests a minute; 0 for no limit
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<u32>,
    /// The file that keeps the state between starts
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
}
