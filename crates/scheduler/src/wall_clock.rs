//! The time of day, for what others read. It may jump at any moment, so nothing is decided by it: what has
//! to wait, or to expire, goes by the monotonic clock.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time of day. Cheap to clone.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// A clock of the caller's own.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.0()
    }
}

impl Default for WallClock {
    /// The clock of the machine.
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WallClock").field(&self.now()).finish()
    }
}
