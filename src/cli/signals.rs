//! Turns Ctrl-C and SIGTERM into a request to stop.

use std::io;

use crate::clock::Interrupt;

/// Raises `interrupt` at the first signal; the second does what it always does.
#[cfg(unix)]
pub(super) fn raise_on_signal(interrupt: Interrupt) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            if interrupt.raised() {
                // Nothing better can be done with a failure here than to go on.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            interrupt.raise();
        }
    })?;
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn raise_on_signal(_interrupt: Interrupt) -> io::Result<()> {
    Ok(())
}
