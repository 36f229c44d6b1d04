//! The log of `-v`: our own modules' events, to stderr. The key cannot get
//! into it, for its type shows itself to nobody.

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::output::ErrorStream;

/// Starts the log, if any is wanted.
pub(super) fn start(verbosity: u8, stream: ErrorStream) {
    let level = match verbosity {
        0 => return,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(verbosity > 1)
        .with_writer(move || stream.clone());
    // Other crates stay silent: what they would log is not in our hands.
    let ours = Targets::new().with_target(env!("CARGO_CRATE_NAME"), level);
    // A second start (in one process, so in tests) keeps the first.
    let _ = tracing_subscriber::registry().with(lines).with(ours).try_init();
}
