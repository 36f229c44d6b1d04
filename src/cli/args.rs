//! The command line as a whole: the global flags and the list of commands.
//! What a command takes stands in its own file.

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::commands::{
    apply, backup, capabilities, check, completions, daemon, diff, doctor, export, forget, import,
    init, log, man, migrate, plan, rehearse, resolve, restore, resume, runs, sandbox, show,
    snapshots, status, template, ui, undo,
};

/// Back up a link-management account: every record, every change, in one SQLite file
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
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: GlobalArgs,
}

/// The flags that every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print one JSON document on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress, remarks or summary
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print a log to stderr; twice or thrice for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// How progress is shown; auto: bars on a terminal, else lines
    #[arg(
        long,
        global = true,
        value_name = "HOW",
        default_value = "auto",
        env = "LINKVAULT_PROGRESS",
        hide_env_values = true
    )]
    pub progress: ProgressChoice,
    /// Whether colours are used; auto: on a terminal
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        env = "LINKVAULT_COLOR",
        hide_env_values = true
    )]
    pub color: ColorChoice,
}

// The choices have no help of their own: it would double the length of every
// command's help.

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ProgressChoice {
    // Bars on a terminal, lines elsewhere.
    #[default]
    Auto,
    Bar,
    Plain,
    Json,
    None,
}

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorChoice {
    // On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// The commands, in the order in which a newcomer meets them.
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
    Daemon(daemon::Args),
    Status(status::Args),
    Ui(ui::Args),
    Sandbox(sandbox::Args),
    Capabilities(capabilities::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// The log that this command writes: what `-v` asks for, and the daemon's own.
    #[must_use]
    pub fn log(&self, flags: &GlobalArgs) -> Log {
        let (least, format) = match self {
            Self::Daemon(args) => (if flags.quiet { 1 } else { 2 }, args.log_format),
            _ => (0, LogFormat::Text),
        };
        let more = if flags.verbose > 0 && least == 0 { 1 } else { 0 };
        Log { level: least + more + flags.verbose, format }
    }
}

/// A log: how much it tells, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// 0: nothing; 1: warnings; 2: what happens; more: more.
    pub level: u8,
    pub format: LogFormat,
}

/// How the lines of a log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}
