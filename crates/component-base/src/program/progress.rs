//! A printer of progress messages for commands that can take long, on standard error.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// Minimum time before the first message, and between two messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// Printer of progress messages. A command that ends within [`INTERVAL`] prints no message.
#[derive(Debug)]
pub struct Progress {
    last: Instant,
}

impl Progress {
    /// Creates a printer, and starts the interval before the first message.
    pub fn start() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// Prints the progress if the last message is older than [`INTERVAL`].
    pub fn report(&mut self, progress: Arguments<'_>) {
        if self.last.elapsed() > INTERVAL {
            self.last = Instant::now();
            let _ = writeln!(io::stderr(), "{progress} ...");
        }
    }
}
