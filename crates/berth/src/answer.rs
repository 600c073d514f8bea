//! What a command answers, on standard output. Whoever stops reading has read enough: `berth get clusters | head -1` is no
//! failure.

use std::io::{self, Write as _};

/// Prints an answer that is complete.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}
