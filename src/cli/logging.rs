//! The log of `-v` and of the daemon: our own modules' events, to stderr. The
//! key cannot get into it, for its type shows itself to nobody.

use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::global::{Log, LogFormat};
use super::output::ErrorStream;

/// Starts the log, if any is wanted.
pub(super) fn start(log: Log, stream: ErrorStream) {
    let level = match log.level {
        0 => return,
        1 => Level::WARN,
        2 => Level::INFO,
        3 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(log.level > 2)
        .with_writer(move || stream.clone());
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Other crates stay silent: what they would log is not in our hands.
    let ours = Targets::new().with_target(env!("CARGO_CRATE_NAME"), level);
    // A second start (in one process, so in tests) keeps the first.
    let _ = tracing_subscriber::registry().with(lines).with(ours).try_init();
}
