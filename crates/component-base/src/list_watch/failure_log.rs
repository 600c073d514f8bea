//! The log lines of a failing watch. A failure that repeats is logged after growing pauses.

use berth_apimachinery::repeated_failure::RepeatedFailure;
use tokio::time::Instant;

use super::{Error, Start};

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
    failure: RepeatedFailure,
}

impl FailureLog {
    pub(super) fn new(url: String, server: Option<String>, start: Start) -> Self {
        Self {
            url,
            server,
            start,
            failure: RepeatedFailure::default(),
        }
    }

    /// Logs a failure. `failures` is the number of failures in a row.
    pub(super) fn failed(&mut self, error: &Error, failures: u32) {
        if self.lacks_definition(error, failures) {
            self.failure
                .failed(&cause(error), Instant::now().into_std());
            tracing::warn!(
                url = self.url,
                "the control plane does not serve this resource, so the program ignores it: install its \
                 CustomResourceDefinition, or check which API server the kubeconfig selects"
            );
            return;
        }
        let line = if self.is_harmless(error, failures) {
            None
        } else {
            self.failure
                .failed(&cause(error), Instant::now().into_std())
        };
        let (url, cluster) = (&self.url, self.server.as_deref());
        if let Some(line) = line {
            let repeated = line.repeated;
            let action = if error.refused_verb(403).is_some() {
                ": grant this account the verbs list and watch"
            } else {
                ""
            };
            tracing::warn!(cluster, url, %error, repeated, "the watch failed; trying again{action}");
        } else {
            tracing::debug!(cluster, url, %error, "the watch failed; trying again");
        }
    }

    /// Logs that the watch works after a logged failure.
    pub(super) fn recovered(&mut self) {
        if let Some(end) = self.failure.ended(Instant::now().into_std()) {
            let (url, cluster) = (&self.url, self.server.as_deref());
            let failures = end.failures;
            tracing::info!(
                cluster,
                url,
                failures,
                "the watch works again after {}",
                end.lasted
            );
        }
    }

    /// Reports whether to log that the control plane lacks a resource. A member may lack any resource.
    fn lacks_definition(&self, error: &Error, failures: u32) -> bool {
        self.start == Start::List
            && self.server.is_none()
            && error.is_unserved()
            && failures == UNSERVED
    }

    /// Reports whether a failure gets no warning. The client of the control plane logs refused credentials itself.
    fn is_harmless(&self, error: &Error, failures: u32) -> bool {
        self.start == Start::Watch
            || error.is_expected()
            || self.server.is_none() && error.refused_verb(401).is_some()
            || matches!(error, Error::Ended(_)) && failures < ENDED
    }
}

/// Returns the cause of a failure without the details that differ between its repetitions.
fn cause(error: &Error) -> String {
    match error {
        Error::Ended(_) => "ended".to_owned(),
        error => error.to_string(),
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
            assert!(log.is_harmless(&error, 3));
        }
    }
}
