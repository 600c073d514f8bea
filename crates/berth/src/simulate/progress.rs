//! Progress messages on standard error.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// Minimum time before the first message and between messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// Printer of progress messages.
#[derive(Debug)]
pub(crate) struct Progress {
    last: Instant,
}

impl Progress {
    /// Starts the interval before the first message.
    pub(crate) fn start() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// Prints the progress, unless the last message is recent.
    pub(crate) fn report(&mut self, progress: Arguments<'_>) {
        if self.last.elapsed() > INTERVAL {
            self.last = Instant::now();
            let _ = writeln!(io::stderr(), "{progress} ...");
        }
    }
}
