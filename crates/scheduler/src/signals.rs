//! Ctrl-C and SIGTERM end the program cleanly, as the end of the log's reader does; a second signal ends it at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::logging;

/// The exit code after a second signal, as shells count it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Cancels the token at the first signal, or when the reader of the log is gone.
///
/// # Errors
/// When signals cannot be listened to.
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
