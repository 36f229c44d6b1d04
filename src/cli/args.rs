//! The whole command line: the list of commands. The arguments of a command are in its own file.

use clap::{CommandFactory as _, Parser, Subcommand};

use super::commands::{
    alerts, apply, backup, capabilities, check, completions, daemon, diff, doctor, export, fleet,
    forget, import, init, log, man, migrate, plan, rehearse, resolve, restore, resume, runs,
    sandbox, show, snapshots, status, template, ui, undo, vault, worker,
};
use super::global::{GlobalArgs, Log, LogFormat};
use super::logging::DECISIONS;

/// Back up a link-management account, with every record and every change, in one SQLite file
#[derive(Debug, Parser)]
#[command(
    name = "linkvault",
    version,
    max_term_width = 80,
    after_help = "\
Examples:
  linkvault backup sandbox          try a backup with the built-in account
  linkvault init                    add an account of your own
  linkvault diff main@latest~1      what changed since the backup before

Environment:
  LINKVAULT_HOME    the folder of the configuration and the vaults
  NO_COLOR          no colours

Exit codes:
  0 done   1 failed   2 there are changes   3 partial   4 stale or conflict
  5 a guard refused   6 outcome unknown   7 key not accepted   8 stopped at a
  limit   11 locked   64 usage   130 interrupted"
)]
pub struct Cli {
    /// The command with its arguments.
    #[command(subcommand)]
    pub command: Command,
    /// The flags of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
}

/// The commands, in the order in which a new user needs them.
// A doc comment on a variant would replace the command's own help.
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
pub enum Command {
    Init(init::Args),
    Doctor(doctor::Args),
    Backup(backup::Args),
    Snapshots(snapshots::Args),
    Show(show::Args),
    Log(log::Args),
    Diff(diff::Args),
    Export(export::Args),
    Template(template::Args),
    Plan(plan::Args),
    Rehearse(rehearse::Args),
    Apply(apply::Args),
    Import(import::Args),
    Restore(restore::Args),
    Migrate(migrate::Args),
    Runs(runs::Args),
    Undo(undo::Args),
    Resume(resume::Args),
    Resolve(resolve::Args),
    Forget(forget::Args),
    Check(check::Args),
    Vault(vault::Args),
    Daemon(daemon::Args),
    Status(status::Args),
    Alerts(alerts::Args),
    Worker(worker::Args),
    Fleet(fleet::Args),
    Ui(ui::Args),
    Sandbox(sandbox::Args),
    Capabilities(capabilities::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// The log of this command: none without `-v`, except for the daemon.
    #[must_use]
    pub fn log(&self, flags: &GlobalArgs) -> Log {
        let (least, format) = match self {
            Self::Daemon(daemon::Args { log_format, .. })
            | Self::Worker(worker::Args { log_format, .. }) => {
                (if flags.quiet { 1 } else { 2 }, *log_format)
            }
            _ => (0, LogFormat::Text),
        };
        let level = if flags.verbose == 0 { least } else { DECISIONS + (flags.verbose - 1).min(2) };
        Log { level, quiet: flags.quiet, format }
    }
}

/// The complete command line, for help, completions and man pages.
#[must_use]
pub fn command_line() -> clap::Command {
    // The `help` subcommand would repeat all commands in pages and completions.
    Cli::command().disable_help_subcommand(true)
}
