//! `linkvault init`: add an account to the configuration.

use std::path::PathBuf;

use crate::config::KeySource;

/// Add an account to the configuration and check its key
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault init
  linkvault init main --url https://links.example.com --key-env LINKS_KEY
  linkvault init main --url https://links.example.com \\
      --key-command pass show links")]
pub struct Args {
    /// A name for the account
    #[arg(default_value = "main")]
    pub name: String,
    /// The service: everything before /api
    #[arg(long, env = "LINKVAULT_URL", hide_env_values = true)]
    pub url: Option<String>,
    /// Read the key from this environment variable
    #[arg(long, value_name = "VARIABLE", group = "key")]
    pub key_env: Option<String>,
    /// Read the key from this file
    #[arg(long, value_name = "FILE", group = "key")]
    pub key_file: Option<PathBuf>,
    /// Read the key from what this command prints; the last flag of the line
    #[arg(
        long,
        value_name = "WORD",
        group = "key",
        num_args = 1..,
        allow_hyphen_values = true
    )]
    pub key_command: Option<Vec<String>>,
    /// Let the key travel unencrypted
    #[arg(long)]
    pub allow_http: bool,
    /// Do not ask the service whether it accepts the key
    #[arg(long)]
    pub no_check: bool,
    /// Write without asking
    #[arg(short, long)]
    pub yes: bool,
}

impl Args {
    /// The source of the key, if one is named.
    #[must_use]
    pub fn key_source(&self) -> Option<KeySource> {
        let variable = self.key_env.clone().map(KeySource::Variable);
        let file = || self.key_file.clone().map(KeySource::File);
        let command = || self.key_command.clone().map(KeySource::Command);
        variable.or_else(file).or_else(command)
    }
}
