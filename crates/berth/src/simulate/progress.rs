//! Signs of life on standard error, for those who wait.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// How long nobody needs one, and how often they come.
const PATIENCE: Duration = Duration::from_secs(1);

/// When the user has heard of us last.
#[derive(Debug)]
pub(crate) struct Progress {
    last: Instant,
}

impl Progress {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// Says how far it is, if nothing was heard for a while.
    pub(crate) fn say(&mut self, how_far: Arguments<'_>) {
        if self.last.elapsed() > PATIENCE {
            self.last = Instant::now();
            let _ = writeln!(io::stderr(), "{how_far} ...");
        }
    }
}
