//! Output of a command on stdout. A closed pipe is not an error, as in `berth get clusters | head -1`.

use std::io::{self, Write as _};

/// Prints the complete output of a command.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}
