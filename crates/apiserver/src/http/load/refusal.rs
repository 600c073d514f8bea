//! Refusals for want of capacity: reasons, the answer, and how many there were.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{ApiError, Reason};

/// The limit that a request meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Requests of one identity.
    Requests,
    /// Requests that wait for a place.
    Waiting,
    /// Time to wait for a place.
    TimeOut,
    /// Memory for bodies and answers.
    Buffered,
    Watches,
    Connections,
    /// Requests that wait for admission webhooks.
    Webhooks,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::Requests,
        Self::Waiting,
        Self::TimeOut,
        Self::Buffered,
        Self::Watches,
        Self::Connections,
        Self::Webhooks,
    ];

    /// The label in metrics; where a kube-apiserver has such a reason, under its name.
    fn label(self) -> &'static str {
        match self {
            Self::Requests => "concurrency-limit",
            Self::Waiting => "queue-full",
            Self::TimeOut => "time-out",
            Self::Buffered => "buffered-bytes",
            Self::Watches => "watches",
            Self::Connections => "connections",
            Self::Webhooks => "webhooks",
        }
    }
}

/// How often each limit was met.
#[derive(Debug, Default)]
pub(crate) struct Refusals([AtomicU64; Refusal::ALL.len()]);

impl Refusals {
    /// Counts a refusal and returns the answer.
    pub(crate) fn count(&self, refusal: Refusal) -> ApiError {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
        let mut error = ApiError::new(
            Reason::TooManyRequests,
            "Too many requests, please try again later.",
        );
        error.retry_after = Some(1);
        error
    }

    /// Label and number of each.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::ALL.iter().map(|refusal| {
            let count = self.0[*refusal as usize].load(Ordering::Relaxed);
            (refusal.label(), count)
        })
    }
}
