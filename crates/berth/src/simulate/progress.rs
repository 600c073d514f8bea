//! Signs of life on standard error, for those who wait.

use std::fmt::Arguments;
use std::time::{Duration, Instant};

/// How long nobody needs one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Since when the user waits.
#[derive(Debug)]
pub(crate) struct Progress {
    since: Instant,
}

impl Progress {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self {
            since: Instant::now(),
        }
    }

    /// Says what was done, if it has taken a while.
    pub(crate) fn say(&mut self, what: Arguments<'_>) {
        if self.since.elapsed() > PATIENCE {
            eprintln!("{what} ...");
        }
    }
}
