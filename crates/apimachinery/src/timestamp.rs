//! Times in whole seconds, as Kubernetes writes them.

use jiff::Timestamp;

/// Removes the fraction of a second.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Returns the current time in whole seconds.
pub fn now() -> Timestamp {
    whole_seconds(Timestamp::now())
}
