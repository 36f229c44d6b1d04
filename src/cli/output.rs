//! The only module that prints. Every command writes through one [`Output`], made from the global
//! flags and the streams.
//!
//! The result of a command goes to stdout, as text or as one JSON document; notes, warnings,
//! questions, progress and logs go to stderr.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{MultiProgress, ProgressDrawTarget};
use serde::Serialize;

use super::global::{ColorChoice, GlobalArgs, ProgressChoice};
use super::pager::{self, exceeds_screen};
use super::question::Prompt;
use super::table::TextTable;
use super::wrap::wrapped;
use super::{CliError, CliErrorKind, hints};
use crate::escaped::{Escaped, EscapedJson, EscapedLines};
use crate::ops::Details;

/// Stderr, shared by messages, logs and progress bars. Hides the bars while it writes a line.
#[derive(Clone)]
pub struct ErrorStream {
    stream: Arc<Mutex<Box<dyn Write + Send>>>,
    pub(super) bars: MultiProgress,
}

impl Write for ErrorStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bars
            .suspend(|| self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// The properties of the streams, determined at the start.
#[derive(Debug, Clone, Copy, Default)]
pub struct TerminalInfo {
    /// Whether stdin is a terminal, so that questions can be asked.
    pub stdin_terminal: bool,
    /// Whether stdout is a terminal.
    pub stdout_terminal: bool,
    /// Whether stderr is a terminal that can redraw lines.
    pub stderr_terminal: bool,
    /// `NO_COLOR` is set, or the terminal has no colours.
    pub no_color: bool,
    /// The width in columns, of the variable `COLUMNS` or of the terminal; `None` if stdout is no
    /// terminal.
    pub width: Option<u16>,
    /// The width in columns of the terminal at stderr; `None` if stderr is not a terminal.
    pub error_width: Option<u16>,
    /// The columns and rows of the screen, if long text can be shown page by page there: stdout is
    /// a terminal that can move its cursor.
    pub screen: Option<(u16, u16)>,
}

/// A meaning that a colour shows. The text alone always says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// The word `error:`.
    Error,
    /// The word `warning:`.
    Warning,
    /// The word `hint:`, and assignments in a plan.
    Hint,
    /// A record that is created or was added.
    Added,
    /// A record that is deleted or was removed.
    Removed,
    /// A record that is updated or has changed.
    Changed,
    /// Bold text.
    Strong,
    /// Dimmed text.
    Faint,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Self::Error => "1;31",
            Self::Warning | Self::Changed => "33",
            Self::Hint => "36",
            Self::Added => "32",
            Self::Removed => "31",
            Self::Strong => "1",
            Self::Faint => "2",
        }
    }

    fn on(self, text: &str, colored: bool) -> String {
        if colored { format!("\u{1b}[{}m{text}\u{1b}[0m", self.code()) } else { text.to_owned() }
    }
}

/// The target of log events for messages that stderr shows already.
pub const SHOWN_ON_STDERR: &str = "said";

/// How progress is shown, from the flags and the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// Bars that are redrawn.
    Bars,
    /// Lines of text.
    Lines,
    /// One JSON object a line.
    Json,
    /// Only warnings.
    Silent,
}

/// The output of a command: stdout and stderr.
pub struct Output {
    stdout: Mutex<Box<dyn Write + Send>>,
    stderr: ErrorStream,
    json: bool,
    quiet: bool,
    verbose: bool,
    around: TerminalInfo,
    color: ColorChoice,
    progress: ProgressMode,
    /// Whether remarks and warnings go into the log.
    logs: AtomicBool,
    question: Prompt,
    plans: Mutex<PlanOutput>,
}

/// How plans are shown.
#[derive(Debug, Clone, Default)]
pub struct PlanOutput {
    /// Only the number of steps of each resource and verb.
    pub summary: bool,
    /// Long plans are shown at once instead of page by page.
    pub no_pager: bool,
    /// Variables of the environment that a pager does not get, because they hold secrets.
    pub hidden: Vec<String>,
}

impl Output {
    /// An output to these streams, with the global flags.
    #[must_use]
    pub fn new(
        stdout: Box<dyn Write + Send>,
        stderr: Box<dyn Write + Send>,
        around: TerminalInfo,
        flags: &GlobalArgs,
    ) -> Self {
        let progress = progress_mode(flags, around);
        let target = match progress {
            ProgressMode::Bars => ProgressDrawTarget::stderr(),
            _ => ProgressDrawTarget::hidden(),
        };
        let bars = MultiProgress::with_draw_target(target);
        Self {
            stdout: Mutex::new(stdout),
            stderr: ErrorStream { stream: Arc::new(Mutex::new(stderr)), bars },
            json: flags.json,
            quiet: flags.quiet,
            verbose: flags.verbose > 0,
            around,
            color: flags.color,
            progress,
            logs: AtomicBool::new(false),
            question: Prompt::default(),
            plans: Mutex::default(),
        }
    }

    /// How plans are shown.
    pub fn plans(&self) -> MutexGuard<'_, PlanOutput> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows `pages` page by page, if `text`, which stands for it elsewhere, is longer than the
    /// screen. Returns false if it was not shown.
    pub fn page(&self, text: &str, pages: impl FnOnce() -> String) -> Result<bool, CliError> {
        let plans = self.plans().clone();
        let Some(screen) = self.around.screen else { return Ok(false) };
        if self.json || self.quiet || plans.no_pager || !exceeds_screen(text, screen) {
            return Ok(false);
        }
        let variable = |name: &str| std::env::var(name).ok();
        let Some(words) = pager::words(variable("PAGER").as_deref(), variable("LESS").as_deref())
        else {
            return Ok(false);
        };
        self.stdout().flush()?;
        let text = format!("{}\n\n{}\n", pages(), pager::LAST_LINE);
        let paged = pager::page(&words, &text, &plans.hidden, &self.question.paging());
        if let Err(error) = &paged {
            tracing::debug!("the pager failed: {error:?}");
        }
        Ok(paged.is_ok())
    }

    /// Whether the result is a JSON document (`--json`).
    #[must_use]
    pub const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether notes, summaries and progress are left out (`-q`).
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The width for text, in columns.
    #[must_use]
    pub const fn width(&self) -> u16 {
        match self.around.width {
            Some(width) => width,
            None => 80,
        }
    }

    /// The width for tables, in columns: where stdout is no terminal, programs read a row as a line.
    #[must_use]
    pub const fn table_width(&self) -> u16 {
        match self.around.width {
            Some(width) => width,
            None => u16::MAX,
        }
    }

    /// `text` in the colour of its meaning, if stdout shows colours. The text must be escaped
    /// already.
    #[must_use]
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        paint.on(text, self.colored(self.around.stdout_terminal))
    }

    fn colored(&self, terminal: bool) -> bool {
        match self.color {
            ColorChoice::Auto => terminal && !self.around.no_color,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        }
    }

    /// Prints a line of the result. The caller must wrap untrusted text in [`Escaped`].
    pub fn line(&self, text: impl Display) -> Result<(), CliError> {
        Ok(writeln!(self.stdout(), "{text}")?)
    }

    /// Prints bytes of the result unchanged: CSV, scripts, man pages.
    pub fn raw(&self, bytes: &[u8]) -> Result<(), CliError> {
        Ok(self.stdout().write_all(bytes)?)
    }

    /// Prints the result as one JSON document, on one line.
    pub fn json(&self, document: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(document).map_err(io::Error::from)?;
        Ok(writeln!(self.stdout(), "{}", EscapedJson(text))?)
    }

    /// Prints a table of the result.
    pub fn table(&self, table: TextTable) -> Result<(), CliError> {
        self.line(table.render(self.table_width()))
    }

    /// `text` with its lines broken at words, if stdout is a terminal.
    #[must_use]
    pub fn wrapped(&self, text: &str) -> String {
        match self.around.width {
            Some(width) if self.around.stdout_terminal => wrapped(text, width),
            _ => text.to_owned(),
        }
    }

    /// Prints a line about the work done: to stdout, or to stderr with `--json`; not with `-q`.
    pub fn summary(&self, text: impl Display) -> Result<(), CliError> {
        if self.quiet {
            return Ok(());
        }
        if self.json {
            self.tell(format_args!("{text}"));
            return Ok(());
        }
        self.line(self.wrapped(&text.to_string()))
    }

    /// Prints a line that is the result if the user `asked` for it, so that `-q` does not suppress
    /// it; else like [`Self::summary`].
    pub fn answer(&self, text: impl Display, asked: bool) -> Result<(), CliError> {
        if asked && !self.json {
            self.line(self.wrapped(&text.to_string()))
        } else {
            self.summary(text)
        }
    }

    /// From now on writes notes and warnings to the log.
    pub fn write_to_log(&self) {
        self.logs.store(true, Ordering::Relaxed);
    }

    /// Prints a note to stderr; not with `-q`.
    pub fn note(&self, text: impl Display) {
        if self.logs.load(Ordering::Relaxed) {
            tracing::info!("{}", Escaped(text));
            return;
        }
        tracing::info!(target: SHOWN_ON_STDERR, "{text}");
        if !self.quiet {
            self.tell(format_args!("{}", EscapedLines(text)));
        }
    }

    /// Prints a warning to stderr, even with `-q`.
    pub fn warn(&self, text: impl Display) {
        if self.logs.load(Ordering::Relaxed) {
            tracing::warn!("{}", Escaped(text));
            return;
        }
        tracing::warn!(target: SHOWN_ON_STDERR, "{text}");
        let word = Paint::Warning.on("warning:", self.colored(self.around.stderr_terminal));
        self.tell(format_args!("{word} {}", EscapedLines(text)));
    }

    /// Prints a failure to stderr, and with `--json` as a document to stdout.
    pub fn failure(&self, failure: &CliError) {
        if failure.kind == CliErrorKind::Closed {
            return;
        }
        self.print_error(failure);
        if self.json {
            // If this fails too, the exit code still shows the failure.
            let _ = self.json(&failure.document());
        }
    }

    /// Prints a failure to stderr only, for a command that continues.
    pub fn print_error(&self, failure: &CliError) {
        tracing::error!(target: SHOWN_ON_STDERR, "{}", failure.message);
        let colored = self.colored(self.around.stderr_terminal);
        let mut text =
            format!("{} {}", Paint::Error.on("error:", colored), EscapedLines(&failure.message));
        for detail in self.shown_details(&failure.details) {
            text.push_str(&format!("\n  {}", Escaped(detail)));
        }
        if let Some(hint) = &failure.hint {
            let word = Paint::Hint.on("hint:", colored);
            text.push_str(&format!("\n{word} {}", EscapedLines(hint)));
        }
        self.tell(format_args!("{text}"));
    }

    /// The lines below a message: fewer ones in short, unless `-v` asks for all of them.
    fn shown_details<'d>(&self, details: &'d Details) -> impl Iterator<Item = String> + use<'d> {
        let is_brief = !self.verbose && !details.brief.is_empty() && details.brief != details.lines;
        let lines = if is_brief { &details.brief } else { &details.lines };
        let more = is_brief.then(|| hints::SHOW_ALL_DETAILS.to_owned());
        lines.iter().cloned().chain(more)
    }

    /// The present question, so that a signal can end it.
    #[must_use]
    pub fn question(&self) -> Prompt {
        self.question.clone()
    }

    /// How to show progress.
    #[must_use]
    pub const fn progress_mode(&self) -> ProgressMode {
        self.progress
    }

    /// Stderr, for progress and logs.
    #[must_use]
    pub fn error_stream(&self) -> ErrorStream {
        self.stderr.clone()
    }

    /// Flushes stdout.
    pub fn finish(&self) -> Result<(), CliError> {
        Ok(self.stdout().flush()?)
    }

    fn tell(&self, text: Arguments<'_>) {
        // Keeps the order of stdout and stderr on a shared terminal.
        let _ = self.stdout().flush();
        let text = match self.around.error_width {
            Some(width) => wrapped(&text.to_string(), width),
            None => text.to_string(),
        };
        // If stderr is closed, the message cannot be shown.
        let _ = self.stderr.clone().write_all(format!("{text}\n").as_bytes());
    }

    fn stdout(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn progress_mode(flags: &GlobalArgs, around: TerminalInfo) -> ProgressMode {
    match flags.progress {
        _ if flags.quiet => ProgressMode::Silent,
        ProgressChoice::None => ProgressMode::Silent,
        ProgressChoice::Json => ProgressMode::Json,
        ProgressChoice::Plain => ProgressMode::Lines,
        ProgressChoice::Auto | ProgressChoice::Bar if around.stderr_terminal => ProgressMode::Bars,
        // Bars redraw their lines, which only a terminal can.
        ProgressChoice::Auto | ProgressChoice::Bar => ProgressMode::Lines,
    }
}

mod questions;
#[cfg(test)]
mod tests;
