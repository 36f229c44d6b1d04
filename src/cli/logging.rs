//! The log of `-v` and of the daemon: events of our own modules, to stderr and to `--log-file`. It
//! contains no secrets: responses are redacted when they arrive, and a key prints a placeholder.
//! Control characters are written as escapes.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::CliError;
use super::global::{GlobalArgs, Log, LogFormat};
use super::output::{ErrorStream, SHOWN_ON_STDERR};
use crate::api::client::WIRE;
use crate::escaped::{Escaped, EscapedJson};
use crate::files::append_private;
use crate::ops::OpError;
use crate::ops::error_sources::cannot_write;
use crate::ops::output_files::{OutputKind, require_output};

/// Starts the log, if there is one.
///
/// # Errors
/// If the file of the log cannot be written.
pub(super) fn start(log: Log, stream: ErrorStream, global: &GlobalArgs) -> Result<(), CliError> {
    let open = |path: &PathBuf| -> Result<File, OpError> {
        require_output(path, OutputKind::Log, global.force)?;
        append_private(path).map_err(|error| cannot_write(path, &error))
    };
    let file = global.log_file.as_ref().map(open).transpose()?;
    if log.level == 0 && file.is_none() {
        return Ok(());
    }
    let quiet = log.quiet && file.is_some();
    let on_stderr = (log.level > 0 && !quiet).then(|| {
        let lines =
            layer(log.format, move || Escaping { inner: stream.clone(), format: log.format });
        // Messages for people are on stderr already.
        lines.with_filter(
            targets(log.level)
                .with_target(SHOWN_ON_STDERR, tracing::level_filters::LevelFilter::OFF),
        )
    });
    let in_file = file.map(|file| {
        let file = Arc::new(file);
        let lines =
            layer(log.format, move || Escaping { inner: Arc::clone(&file), format: log.format });
        lines.with_filter(targets(log.level.max(DECISIONS)))
    });
    // A second start in the same process, as in tests, keeps the first log.
    let _ = tracing_subscriber::registry().with(on_stderr).with(in_file).try_init();
    Ok(())
}

/// The level of one `-v`.
pub const DECISIONS: u8 = 3;

/// The events that are logged at a level. Other crates are not logged, because their events are not
/// redacted.
fn targets(level: u8) -> Targets {
    let (ours, wire) = match level {
        0 | 1 => (Level::WARN, Level::WARN),
        2 => (Level::INFO, Level::INFO),
        DECISIONS => (Level::DEBUG, Level::INFO),
        4 => (Level::DEBUG, Level::DEBUG),
        _ => (Level::TRACE, Level::TRACE),
    };
    let all = Targets::new().with_target(env!("CARGO_CRATE_NAME"), ours);
    all.with_target(WIRE, wire).with_target(SHOWN_ON_STDERR, ours)
}

fn layer<S, W>(format: LogFormat, writer: W) -> Box<dyn tracing_subscriber::Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines =
        tracing_subscriber::fmt::layer().with_ansi(false).with_target(false).with_writer(writer);
    match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    }
}

/// A writer of complete lines, in which control characters are escaped.
struct Escaping<W> {
    inner: W,
    format: LogFormat,
}

impl<W: WriteLine> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = match self.format {
            LogFormat::Text => format!("{}\n", Escaped(line)),
            LogFormat::Json => format!("{}\n", EscapedJson(line)),
        };
        self.inner.write_line(line.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes each line in one call.
trait WriteLine {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()>;
}

impl WriteLine for ErrorStream {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.write_all(line)
    }
}

impl WriteLine for Arc<File> {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        (&**self).write_all(line)
    }
}
