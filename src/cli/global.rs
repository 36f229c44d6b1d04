//! The flags of every command, and their values.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

/// The flags of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print one JSON document on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress, remarks or summary
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Log decisions to stderr; -vv: requests too; -vvv: headers and bodies too
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Append the log to this file too; with -q to the file only
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "LINKVAULT_LOG_FILE",
        hide_env_values = true
    )]
    pub log_file: Option<PathBuf>,
    /// Let output files replace any file; default: only an earlier output of the same kind
    #[arg(long, global = true)]
    pub force: bool,
    /// Format of progress; auto: bars on a terminal, else lines
    #[arg(
        long,
        global = true,
        value_name = "HOW",
        default_value = "auto",
        env = "LINKVAULT_PROGRESS",
        hide_env_values = true
    )]
    pub progress: ProgressChoice,
    /// When to use colours; auto: on a terminal
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

// The variants have no doc comments: clap would print them, which would double the length of every
// command's help.

/// How progress is shown.
#[allow(missing_docs)]
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
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorChoice {
    // On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// The level and the format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// 0: nothing; 1: warnings; 2: events; 3: decisions; 4: requests; 5: their content.
    pub level: u8,
    /// With a log file, write no log to stderr.
    pub quiet: bool,
    /// The format of its lines.
    pub format: LogFormat,
}

/// The format of the lines of a log.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}
