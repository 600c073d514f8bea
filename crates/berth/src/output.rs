//! Output of commands on stdout.

use std::io::{self, Write as _};

/// Prints the output of a command. A closed pipe is not an error, so that `berth get clusters | head -1` succeeds.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}
