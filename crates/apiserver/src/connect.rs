//! Subresources that the program around this server answers, such as a proxy to something else: `connect` in the terms of
//! Kubernetes. The server knows this trait and nothing of what is behind it.

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

/// The authenticated maker of a request, after impersonation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// Name of the user.
    pub user: String,
    /// Groups of the user, `system:authenticated` included.
    pub groups: Vec<String>,
}

/// A request that may be made: its right on the subresource was checked.
pub struct ConnectRequest {
    /// Client of this server, within the process, with all rights.
    pub server: kube::Client,
    /// Name of the object.
    pub name: String,
    /// Path behind the subresource with its escapes: empty, or with a slash in front. It has no steps upwards.
    pub path: String,
    /// Maker of the request.
    pub requester: Requester,
    /// The request. Its headers no longer carry credentials or impersonation.
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

/// Answers the requests for a subresource.
pub trait Connect: Send + Sync + 'static {
    /// Returns the subresource that is answered.
    fn subresource(&self) -> ConnectedSubresource;

    /// Answers a request. An answer `101 Switching Protocols` that came from a `hyper` client is joined with the
    /// connection of the requester.
    fn connect(
        &self,
        request: ConnectRequest,
    ) -> BoxFuture<'static, Result<Response<Body>, ApiError>>;
}
