//! The log of `-v` and of the daemon: our own modules' events, to stderr and to `--log-file`.
//! No secret gets into it: what comes from outside was redacted at its door, and a key
//! prints a placeholder. Control characters are written as escapes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::CliError;
use super::global::{Log, LogFormat};
use super::output::{ErrorStream, SAID};
use crate::api::client::WIRE;
use crate::escaped::{Escaped, EscapedJson};
use crate::files::append_private;
use crate::ops::error_sources::cannot_write;

/// Starts the log, if any is wanted.
///
/// # Errors
/// When `file` cannot be written.
pub(super) fn start(log: Log, stream: ErrorStream, file: Option<&Path>) -> Result<(), CliError> {
    let file = file.map(|path| append_private(path).map_err(|error| cannot_write(path, &error)));
    let file = file.transpose()?;
    if log.level == 0 && file.is_none() {
        return Ok(());
    }
    let quiet = log.quiet && file.is_some();
    let on_stderr = (log.level > 0 && !quiet).then(|| {
        let lines =
            layer(log.format, move || Escaping { inner: stream.clone(), format: log.format });
        // What was said to a person stands on stderr already.
        lines.with_filter(
            targets(log.level).with_target(SAID, tracing::level_filters::LevelFilter::OFF),
        )
    });
    let in_file = file.map(|file| {
        let file = Arc::new(file);
        let lines =
            layer(log.format, move || Escaping { inner: Arc::clone(&file), format: log.format });
        lines.with_filter(targets(log.level.max(DECISIONS)))
    });
    // A second start (in one process, so in tests) keeps the first.
    let _ = tracing_subscriber::registry().with(on_stderr).with(in_file).try_init();
    Ok(())
}

/// The level of one `-v`.
pub const DECISIONS: u8 = 3;

/// What is logged at a level. Other crates stay silent: what they would log is not in our hands.
fn targets(level: u8) -> Targets {
    let (ours, wire) = match level {
        0 | 1 => (Level::WARN, Level::WARN),
        2 => (Level::INFO, Level::INFO),
        DECISIONS => (Level::DEBUG, Level::INFO),
        4 => (Level::DEBUG, Level::DEBUG),
        _ => (Level::TRACE, Level::TRACE),
    };
    let all = Targets::new().with_target(env!("CARGO_CRATE_NAME"), ours);
    all.with_target(WIRE, wire).with_target(SAID, ours)
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

/// A writer of whole lines without control characters in them.
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

/// Where lines go, each in one piece.
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
