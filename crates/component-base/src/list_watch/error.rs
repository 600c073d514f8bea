//! Errors of a list or watch.

use std::time::Duration;

use berth_apimachinery::api_error::{api_error_message, has_code, is_unreachable};

use super::budget::LimitExceeded;
use super::connection::Failure;
use crate::kube_client::response_limits::TooLarge;

/// A failure of a list or watch. The next poll of the stream tries again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list failed.
    #[error("cannot list the objects: {}", api_error_message(.0))]
    List(#[source] kube::Error),
    /// The watch failed, or could not be started.
    #[error("cannot watch the objects: {}", api_error_message(.0))]
    Watch(#[source] kube::Error),
    /// The response is neither a list nor a watch.
    #[error(
        "the response does not come from a Kubernetes API: {0}; check the address of the API server, and \
         load balancers and proxies in front of it"
    )]
    NotKubernetes(String),
    /// An object in the watch cannot be decoded.
    #[error("cannot read an object of the watch: {0}")]
    Object(#[source] serde_json::Error),
    /// The response has no resource version.
    #[error("the response has no resourceVersion, so the objects cannot be watched")]
    NoVersion,
    /// The watch ended too early, after this time.
    #[error(
        "the watch ended after {0:.1?}; check load balancers and proxies in front of the API server"
    )]
    Ended(Duration),
    /// The connection sent nothing until long after the end of the watch.
    #[error("the connection of the watch broke: the server did not end the watch in time")]
    Silent,
    /// The server has more objects than its limits allow. The caller must drop all objects of this watch.
    #[error(transparent)]
    Limit(LimitExceeded),
}

impl Error {
    /// Returns the verb that the server refused with this status code.
    pub fn refused_verb(&self, code: u16) -> Option<&'static str> {
        match self {
            Self::List(error) if has_code(error, code) => Some("list"),
            Self::Watch(error) if has_code(error, code) => Some("watch"),
            _ => None,
        }
    }

    /// Reports whether the server responded that it does not serve the resource.
    pub fn is_unserved(&self) -> bool {
        self.refused_verb(404).is_some()
    }

    /// Returns the failure for a person.
    pub(super) fn failure(&self) -> Failure {
        let (Self::List(error) | Self::Watch(error)) = self else {
            let message = self.to_string();
            return Failure {
                code: None,
                message,
            };
        };
        let code = match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        };
        Failure {
            code,
            message: api_error_message(error),
        }
    }

    /// Reports whether the objects must be listed again, because a watch from the same version cannot continue.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::Watch(kube::Error::Api(status)) => matches!(status.code, 400 | 404 | 410),
            Self::NoVersion | Self::Limit(_) => true,
            _ => false,
        }
    }

    /// Reports whether the server refused a watch that sends the list first. A list may succeed, or its error says more.
    pub(super) fn refuses_streams(&self) -> bool {
        match self {
            Self::Watch(kube::Error::Api(status)) => {
                (400..500).contains(&status.code) && !matches!(status.code, 410 | 429)
            }
            Self::NotKubernetes(_) => true,
            _ => false,
        }
    }

    /// Reports whether a watch broke without a response of the API server.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::Watch(error) => !matches!(error, kube::Error::Api(_)),
            Self::NotKubernetes(_) | Self::Silent => true,
            _ => false,
        }
    }

    /// Reports whether the page was larger than a response may be.
    pub(super) fn is_too_large(&self) -> bool {
        TooLarge::is_cause_of(self)
    }

    /// Reports whether the failure belongs to the normal operation of a cluster, or is logged elsewhere: the client logs
    /// an outage of the server.
    pub(super) fn is_expected(&self) -> bool {
        self.is_unserved()
            || self.refused_verb(410).is_some()
            || matches!(self, Self::Silent)
            || is_unreachable(self) && !self.is_too_large()
    }
}
