//! Rejected requests: reasons, the error, and counts for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{ApiError, Reason};

/// The limit that a request exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// Requests of one identity.
    Requests,
    /// Queued requests.
    Queue,
    /// Time in the queue.
    TimeOut,
    /// Memory for request and response bodies.
    Buffered,
    Watches,
    Connections,
    /// Requests that call admission webhooks.
    Webhooks,
}

impl Rejection {
    const ALL: [Self; 7] = [
        Self::Requests,
        Self::Queue,
        Self::TimeOut,
        Self::Buffered,
        Self::Watches,
        Self::Connections,
        Self::Webhooks,
    ];

    /// Returns the label in metrics, equal to that of a kube-apiserver if it has such a reason.
    fn label(self) -> &'static str {
        match self {
            Self::Requests => "concurrency-limit",
            Self::Queue => "queue-full",
            Self::TimeOut => "time-out",
            Self::Buffered => "buffered-bytes",
            Self::Watches => "watches",
            Self::Connections => "connections",
            Self::Webhooks => "webhooks",
        }
    }
}

/// The number of rejected requests by limit.
#[derive(Debug, Default)]
pub(crate) struct RejectionCounts([AtomicU64; Rejection::ALL.len()]);

impl RejectionCounts {
    /// Counts a rejection and returns the error.
    pub(crate) fn count(&self, rejection: Rejection) -> ApiError {
        self.0[rejection as usize].fetch_add(1, Ordering::Relaxed);
        let mut error = ApiError::new(
            Reason::TooManyRequests,
            "Too many requests, please try again later.",
        );
        error.retry_after = Some(1);
        error
    }

    /// Returns the label and the count of each limit.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Rejection::ALL.iter().map(|rejection| {
            let count = self.0[*rejection as usize].load(Ordering::Relaxed);
            (rejection.label(), count)
        })
    }
}
