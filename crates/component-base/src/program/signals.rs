//! Shutdown on SIGINT (Ctrl-C) and SIGTERM. A second signal ends the process immediately.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code after a second signal. Shells report the same code after SIGINT.
const INTERRUPTED: i32 = 130;

/// Cancels the token at the first signal. A further signal ends the process immediately.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub fn cancel_on_signal(cancel: CancellationToken) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        cancel.cancel();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(INTERRUPTED);
    });
    Ok(())
}
