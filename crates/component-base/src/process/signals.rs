//! Shutdown on Ctrl-C, SIGTERM, or a closed log pipe; a second signal exits immediately.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::logging;

/// Exit code after a second signal: the shell convention for SIGINT.
const INTERRUPTED: i32 = 130;

/// Cancels the token at the first signal, or when the log pipe is closed.
///
/// # Errors
/// When signal handlers cannot be installed.
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
