//! The trait with which the embedding program handles subresources that are connections, such as a proxy to a member.

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Request, Response};

use crate::error::ApiError;

/// A subresource of a custom kind that a [`Connect`] handles. Discovery lists these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedSubresource {
    /// API group of the resource and of the options kind.
    pub group: &'static str,
    /// Plural name of the resource.
    pub resource: &'static str,
    /// Name of the subresource.
    pub subresource: &'static str,
    /// Kind of the object that describes the options of a request.
    pub kind: &'static str,
}

/// The requester, after authentication and impersonation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// Name of the user.
    pub user: String,
    /// Groups of the user, including `system:authenticated` or `system:unauthenticated`.
    pub groups: Vec<String>,
}

/// An authorized request for a connected subresource.
pub struct ConnectRequest {
    /// An in-process client of this server with all permissions.
    pub server: kube::Client,
    /// Name of the object.
    pub name: String,
    /// The path after the subresource, in percent-encoded form. It is empty or starts with a slash, and has no `..`
    /// segments.
    pub path: String,
    /// The requester.
    pub requester: Requester,
    /// The request without the headers for credentials and impersonation.
    pub request: Request<Body>,
}

impl std::fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("name", &self.name)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A handler of a connected subresource.
pub trait Connect: Send + Sync + 'static {
    /// Returns the handled subresource.
    fn subresource(&self) -> ConnectedSubresource;

    /// Handles a request. A response `101 Switching Protocols` must contain the upgrade of a `hyper` client. The server
    /// then copies data between the upgraded connection and the requester.
    fn connect(
        &self,
        request: ConnectRequest,
    ) -> BoxFuture<'static, Result<Response<Body>, ApiError>>;
}
