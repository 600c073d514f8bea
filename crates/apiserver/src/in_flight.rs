//! Bounds on the requests in flight, like `--max-requests-inflight` and `--max-mutating-requests-inflight` of a
//! kube-apiserver.

use std::time::Duration;

use http::Method;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{ApiError, Reason};
use crate::identity::Identity;

/// Limits on the work of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum reads in flight. Watches and health checks do not count.
    pub requests: usize,
    /// Maximum writes in flight.
    pub mutating_requests: usize,
    /// Maximum time to receive the body of a request and to execute it.
    pub request_timeout: Duration,
    /// Maximum time for a TLS handshake, and for the head of a request.
    pub slow_client: Duration,
}

impl Default for Limits {
    /// Returns the limits of a kube-apiserver without flags.
    fn default() -> Self {
        Self {
            requests: 400,
            mutating_requests: 200,
            request_timeout: Duration::from_mins(1),
            slow_client: Duration::from_secs(32),
        }
    }
}

/// The requests in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) limits: Limits,
    reads: Semaphore,
    writes: Semaphore,
}

impl InFlight {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            reads: Semaphore::new(limits.requests),
            writes: Semaphore::new(limits.mutating_requests),
        }
    }

    /// Counts a request until the permit is dropped. Members of `system:masters` are never refused.
    pub(crate) fn enter(
        &self,
        identity: &Identity,
        method: &Method,
    ) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
        let bound = match *method {
            Method::GET | Method::HEAD => &self.reads,
            _ => &self.writes,
        };
        match bound.try_acquire() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if identity.is_master() => Ok(None),
            Err(_) => {
                let message = "Too many requests, please try again later.";
                let mut error = ApiError::new(Reason::TooManyRequests, message);
                error.retry_after = Some(1);
                Err(error)
            }
        }
    }

    /// Returns the reads and the writes in flight.
    pub(crate) fn counts(&self) -> [(&'static str, usize); 2] {
        let Limits {
            requests,
            mutating_requests,
            ..
        } = self.limits;
        [
            ("readOnly", requests - self.reads.available_permits()),
            (
                "mutating",
                mutating_requests - self.writes.available_permits(),
            ),
        ]
    }
}
