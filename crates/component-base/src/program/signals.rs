//! Shutdown on SIGINT (Ctrl-C), SIGTERM or a closed log pipe. A second signal ends the process immediately.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::logging;

/// Exit code after a second signal. Shells report the same code after SIGINT.
const INTERRUPTED: i32 = 130;

/// Cancels the token at the first signal, or when the log pipe is closed. A further signal ends the process
/// immediately.
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
            () = logging::reader_gone() => {}
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
