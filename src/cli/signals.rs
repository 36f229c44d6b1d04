//! Turns Ctrl-C and SIGTERM into a request to stop, and a full file into an error.

use std::io;

use crate::clock::Interrupt;

/// Raises `interrupt` at the first signal, and calls `told`. A second Ctrl-C ends the process at
/// once, for a person who does not want to wait. A repeated SIGTERM or SIGHUP does not, because a
/// supervisor may send it several times. While `paging` returns true, Ctrl-C is for the pager.
#[cfg(unix)]
pub(super) fn raise_on_signal(
    interrupt: Interrupt,
    paging: impl Fn() -> bool + Send + 'static,
    told: impl Fn() + Send + 'static,
) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            if signal == SIGINT && paging() {
                continue;
            }
            if !interrupt.raised() {
                interrupt.raise();
                told();
            } else if signal == SIGINT {
                // Nothing better can be done with a failure here than to go on.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    })?;
    Ok(())
}

/// Calls `stop` at the first SIGTERM or SIGINT, and `reload` at each SIGHUP. A later Ctrl-C ends
/// the process at once; a repeated SIGTERM does not.
#[cfg(unix)]
pub(super) fn on_signals(
    stop: impl Fn() + Send + 'static,
    reload: impl Fn() + Send + 'static,
) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut stopping = false;
        for signal in &mut signals {
            if signal == SIGHUP {
                reload();
                continue;
            }
            if !stopping {
                stopping = true;
                stop();
            } else if signal == SIGINT {
                // Nothing better can be done with a failure here than to go on.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    })?;
    Ok(())
}

/// Turns a write beyond the limit on a file's size (`ulimit -f`) into an error, like one on a full
/// disk, instead of ending the process.
#[cfg(unix)]
pub(super) fn survive_file_limits() {
    let noticed = std::sync::Arc::default();
    // If the signal cannot be caught, such a write ends the process, as by default.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed);
}

#[cfg(not(unix))]
pub(super) fn survive_file_limits() {}

#[cfg(not(unix))]
pub(super) fn on_signals(
    _stop: impl Fn() + Send + 'static,
    _reload: impl Fn() + Send + 'static,
) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn raise_on_signal(
    _interrupt: Interrupt,
    _paging: impl Fn() -> bool + Send + 'static,
    _told: impl Fn() + Send + 'static,
) -> io::Result<()> {
    Ok(())
}
