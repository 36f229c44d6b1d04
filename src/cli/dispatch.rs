//! Runs the command of the arguments, and turns its result into an exit code.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use super::args::{Cli, Command, command_line};
use super::{App, CliError, Exit, OpErrorKind, app, commands, hints, logging, signals};
use crate::escaped::{EscapedJson, EscapedLines};

/// Runs the command that the process's arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => run(cli).into(),
        Err(error) => explain(&error, &arguments).into(),
    }
}

fn run(cli: Cli) -> Exit {
    signals::survive_file_limits();
    let app = Arc::new(App::new(&cli.global));
    let log = cli.command.log(&cli.global);
    let started = logging::start(log, app.out.error_stream(), &cli.global);
    let result = started.and_then(|()| dispatch(cli.command, &app));
    let result = result.and_then(|exit| exit.after(app.out.finish()));
    result.unwrap_or_else(|failure| {
        if app.output_closed() {
            return Exit::Done;
        }
        app.out.failure(&failure);
        // A second failure to write is ignored.
        let _ = app.out.finish();
        Exit::from(failure.kind)
    })
}

fn dispatch(command: Command, app: &Arc<App>) -> Result<Exit, CliError> {
    use commands as c;
    match command {
        Command::Template(args) => c::template::run(&args, app),
        Command::Capabilities(args) => c::capabilities::run(&args, app),
        Command::Completions(args) => c::completions::run(&args, command_line(), app),
        Command::Man(args) => c::man::run(&args, command_line(), app),
        Command::Init(args) => c::init::run(&args, app),
        Command::Doctor(args) => c::doctor::run(&args, app),
        Command::Backup(args) => c::backup::run(&args, app),
        Command::Snapshots(args) => c::snapshots::run(&args, app),
        Command::Show(args) => c::show::run(&args, app),
        Command::Log(args) => c::log::run(&args, app),
        Command::Diff(args) => c::diff::run(&args, app),
        Command::Export(args) => c::export::run(&args, app),
        Command::Plan(args) => c::plan::run(&args, app),
        Command::Apply(args) => c::apply::run(&args, app),
        Command::Rehearse(args) => c::rehearse::run(&args, app),
        Command::Import(args) => c::import::run(&args, app),
        Command::Restore(args) => c::restore::run(&args, app),
        Command::Migrate(args) => c::migrate::run(&args, app),
        Command::Runs(args) => c::runs::run(&args, app),
        Command::Undo(args) => c::undo::run(&args, app),
        Command::Resolve(args) => c::resolve::run(&args, app),
        Command::Resume(args) => c::resume::run(&args, app),
        Command::Forget(args) => c::forget::run(&args, app),
        Command::Check(args) => c::check::run(&args, app),
        Command::Vault(args) => c::vault::run(&args, app),
        Command::Ui(args) => c::ui::run(&args, app),
        Command::Sandbox(args) => c::sandbox::run(&args, app),
        Command::Daemon(args) => c::daemon::run(&args, app),
        Command::Status(args) => c::status::run(&args, app),
        Command::Alerts(args) => c::alerts::run(&args, app),
        Command::Worker(args) => c::worker::run(&args, app),
        Command::Fleet(args) => c::fleet::run(args, app),
    }
}

/// Prints help, the version, or the error in the arguments.
fn explain(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let around = app::terminal_info();
    let terminal = if error.use_stderr() { around.stderr_terminal } else { around.stdout_terminal };
    let styled = error.render();
    let plain = styled.to_string();
    let safe = EscapedLines(&plain).to_string();
    // Where an argument has to be escaped, the colours are left out: they are control characters.
    let is_colored = terminal && !around.no_color && safe == plain;
    let text = if is_colored { styled.ansi().to_string() } else { safe };
    // If the stream is closed, the exit code stays valid.
    if !error.use_stderr() {
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Exit::Done;
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
    if asks_for_json(arguments) {
        let _ = writeln!(std::io::stdout(), "{}", EscapedJson(usage(&plain).document()));
    }
    Exit::Usage
}

/// Whether invalid arguments contain `--json`.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

/// clap's text as an error: its first paragraph is the message.
fn usage(text: &str) -> CliError {
    let first = text.split("\n\n").next().unwrap_or_default().trim();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    CliError::new(OpErrorKind::Usage, message).hint(hints::LIST_COMMANDS)
}
