//! Reasons of the condition `Scheduled` of a binding.

use serde::{Deserialize, Serialize};

/// The reason of the condition `Scheduled` of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScheduledReason {
    /// The binding was scheduled.
    Success,
    /// The fitting clusters lack capacity for the replicas, or a plugin rejected the binding.
    Unschedulable,
    /// No cluster fits.
    NoClusterFit,
    /// The API server rejected the result because of a quota.
    QuotaExceeded,
    /// Any other failure.
    SchedulerError,
}

impl ScheduledReason {
    /// Returns the text of the reason in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Unschedulable => "Unschedulable",
            Self::NoClusterFit => "NoClusterFit",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::SchedulerError => "SchedulerError",
        }
    }
}
