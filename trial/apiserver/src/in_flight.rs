//! Limits on the number of running requests, like the flags `--max-requests-inflight` and
//! `--max-mutating-requests-inflight` of kube-apiserver.

use std::time::Duration;

use http::Method;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{ApiError, Reason};
use crate::identity::Identity;

/// Limits on the number and duration of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of running reads. Watches and health checks are not limited.
    pub requests: usize,
    /// Maximum number of running writes.
    pub mutating_requests: usize,
    /// Maximum time to receive the body of a request and to execute it. Also the maximum time for which a client may stop
    /// reading a response other than a watch.
    pub request_timeout: Duration,
    /// Maximum time for a TLS handshake, and for receiving the head of a request.
    pub slow_client: Duration,
}

impl Default for Limits {
    /// Returns the default limits of kube-apiserver.
    fn default() -> Self {
        Self {
            requests: 400,
            mutating_requests: 200,
            request_timeout: Duration::from_mins(1),
            slow_client: Duration::from_secs(32),
        }
    }
}

/// The number of running requests and its limits.
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

    /// Counts a running request until the permit is dropped. Fails at the limit, except for members of
    /// `system:masters`.
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

    /// Returns the number of running reads and of running writes, with their metric labels.
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
