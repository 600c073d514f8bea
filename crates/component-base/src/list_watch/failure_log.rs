//! The log lines of a failing watch. A failure that repeats is logged at most every 10 minutes.

use std::time::Duration;

use tokio::time::Instant;

use super::Error;

/// Time between two log lines about the same failure.
const SAME: Duration = Duration::from_mins(10);
/// Time between two log lines about different failures.
const ANY: Duration = Duration::from_secs(10);
/// Number of consecutive watches that may end immediately before a line is logged. A server that restarts also ends its
/// watches.
const ENDED: u32 = 3;

#[derive(Debug)]
pub(super) struct FailureLog {
    url: String,
    /// The name of the server, or `None` for the control plane.
    server: Option<String>,
    last: Option<(Instant, String)>,
}

impl FailureLog {
    pub(super) fn new(url: String, server: Option<String>) -> Self {
        Self {
            url,
            server,
            last: None,
        }
    }

    /// Logs a failure. `failures` is the number of failures in a row.
    pub(super) fn failed(&mut self, error: &Error, failures: u32) {
        let (url, cluster) = (&self.url, self.server.as_deref());
        if self.is_due(error, failures) {
            tracing::warn!(cluster, url, %error, "the watch failed; trying again");
            self.last = Some((Instant::now(), error.to_string()));
        } else {
            tracing::debug!(cluster, url, %error, "the watch failed; trying again");
        }
    }

    /// Logs that the watch works after a logged failure.
    pub(super) fn recovered(&mut self) {
        if self.last.take().is_some() {
            let (url, cluster) = (&self.url, self.server.as_deref());
            tracing::info!(cluster, url, "the watch works again");
        }
    }

    fn is_due(&self, error: &Error, failures: u32) -> bool {
        if error.is_expected() || matches!(error, Error::Ended(_)) && failures < ENDED {
            return false;
        }
        let Some((at, text)) = &self.last else {
            return true;
        };
        let is_same = matches!(error, Error::Ended(_)) || *text == error.to_string();
        at.elapsed() >= if is_same { SAME } else { ANY }
    }
}
