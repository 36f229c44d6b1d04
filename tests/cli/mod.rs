//! The command line: exit codes, help, output, log.

mod account_free_commands;
mod exit_codes;
mod help;
mod log_output;
mod long_plans;
mod output;
mod questions;
