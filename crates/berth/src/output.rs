//! Printing to stdout, and the width of its terminal. A closed pipe, as in `berth get clusters | head -1`, is not an
//! error.

use std::io::{self, Write as _};

/// Prints the output of a command. A closed pipe is not an error, so that `berth get clusters | head -1` succeeds.
pub(crate) fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// Prints the output of a command, like [`print()`].
pub(crate) fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Returns the width of the terminal, or `None` if the output is not a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}
