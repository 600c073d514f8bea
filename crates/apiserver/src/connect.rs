//! The trait by which the embedding program handles subresources that are connections, such as a proxy to a member.

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Request, Response};

use crate::error::ApiError;

/// A subresource of a custom kind, as discovery lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedSubresource {
    /// API group of the resource and of the options.
    pub group: &'static str,
    /// Plural of the resource.
    pub resource: &'static str,
    /// Name of the subresource.
    pub subresource: &'static str,
    /// Kind of the options.
    pub kind: &'static str,
}

/// The authenticated requester, after impersonation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// Name of the user.
    pub user: String,
    /// Groups of the user, including `system:authenticated`.
    pub groups: Vec<String>,
}

/// An authorized request.
pub struct ConnectRequest {
    /// An in-process client of this server with all permissions.
    pub server: kube::Client,
    /// Name of the object.
    pub name: String,
    /// The encoded path after the subresource: empty, or starting with a slash. It has no `..` segments.
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

    /// Handles a request. If the response is `101 Switching Protocols` with the upgrade of a `hyper` client, the server
    /// copies data between that connection and the requester.
    fn connect(
        &self,
        request: ConnectRequest,
    ) -> BoxFuture<'static, Result<Response<Body>, ApiError>>;
}
