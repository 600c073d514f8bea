//! The log lines of a failing watch. A failure that repeats is logged at most every 10 minutes.

use std::time::Duration;

use tokio::time::Instant;

use super::{Error, Start};

/// Time between two log lines about the same failure.
const SAME: Duration = Duration::from_mins(10);
/// Time between two log lines about different failures.
const ANY: Duration = Duration::from_secs(10);
/// Number of consecutive watches that may end immediately before a line is logged. A server that restarts also ends its
/// watches.
const ENDED: u32 = 3;
/// Number of lists of a resource that the control plane does not serve before a line is logged: the definition may be
/// installed together with the program.
const UNSERVED: u32 = 3;

#[derive(Debug)]
pub(super) struct FailureLog {
    url: String,
    /// The name of the server, or `None` for the control plane.
    server: Option<String>,
    start: Start,
    last: Option<(Instant, String)>,
}

impl FailureLog {
    pub(super) fn new(url: String, server: Option<String>, start: Start) -> Self {
        Self {
            url,
            server,
            start,
            last: None,
        }
    }

    /// Logs a failure. `failures` is the number of failures in a row.
    pub(super) fn failed(&mut self, error: &Error, failures: u32) {
        let (url, cluster) = (&self.url, self.server.as_deref());
        if self.lacks_definition(error, failures) {
            tracing::warn!(
                url,
                "the control plane does not serve this resource, so the program ignores it: install its \
                 CustomResourceDefinition, or check which API server the kubeconfig selects"
            );
            self.last = Some((Instant::now(), error.to_string()));
        } else if self.is_due(error, failures) {
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

    /// Reports whether to log that the control plane lacks a resource. A member may lack any resource.
    fn lacks_definition(&self, error: &Error, failures: u32) -> bool {
        self.start == Start::List
            && self.server.is_none()
            && error.is_unserved()
            && failures == UNSERVED
    }

    fn is_due(&self, error: &Error, failures: u32) -> bool {
        let is_harmless = self.start == Start::Watch
            || error.is_expected()
            || matches!(error, Error::Ended(_)) && failures < ENDED;
        if is_harmless {
            return false;
        }
        let Some((at, text)) = &self.last else {
            return true;
        };
        let is_same = matches!(error, Error::Ended(_)) || *text == error.to_string();
        at.elapsed() >= if is_same { SAME } else { ANY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_the_control_plane_does_not_serve_is_logged_once() {
        let mut not_found = kube::core::Status::failure("404 page not found", "NotFound");
        not_found.code = 404;
        let error = Error::List(kube::Error::Api(Box::new(not_found)));
        let url = "/apis/work.karmada.io/v1alpha2/resourcebindings".to_owned();
        for (server, expected) in [(None, vec![3]), (Some("member1".to_owned()), vec![])] {
            let log = FailureLog::new(url.clone(), server, Start::List);
            let logged = (1..=9).filter(|&failures| log.lacks_definition(&error, failures));
            assert_eq!(logged.collect::<Vec<u32>>(), expected);
            assert!(!log.is_due(&error, 3));
        }
    }
}
