//! `linkvault completions`: prints completion scripts for shells.

use clap_complete::Shell;
use serde_json::json;

use crate::cli::{App, CliError, Exit};

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault completions bash > ~/.local/share/bash-completion/completions/linkvault
  linkvault completions fish > ~/.config/fish/completions/linkvault.fish")]
pub struct Args {
    /// The shell
    pub shell: Shell,
}

/// Prints the script for the whole command line.
pub fn run(args: &Args, mut whole: clap::Command, app: &App) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "linkvault", &mut script);
    if app.out.is_json() {
        let script = String::from_utf8_lossy(&script);
        let shell = args.shell.to_string();
        app.out.json(&json!({"format": 1, "shell": shell, "script": script}))?;
    } else {
        app.out.raw(&script)?;
    }
    Ok(Exit::Done)
}
