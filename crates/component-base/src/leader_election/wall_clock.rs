//! Wall-clock time, for timestamps that users read. Wall clocks may jump, so timeouts and expiry use the monotonic
//! clock.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// A wall clock. Clones are cheap.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// Creates a clock that reads the time with a function.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.0()
    }
}

impl Default for WallClock {
    /// Creates a clock that returns the system time.
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WallClock").field(&self.now()).finish()
    }
}
