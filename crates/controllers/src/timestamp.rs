//! The current time as `Time` in whole seconds, as Kubernetes writes it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Removes the fraction of a second.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Returns the current time in whole seconds.
pub(crate) fn now() -> Time {
    Time(whole_seconds(Timestamp::now()))
}
