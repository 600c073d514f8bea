//! The subresource `clusters/proxy` of Karmada's aggregated API server. The subresource forwards a request to the API
//! server of a member, and impersonates the user who sent the request.
//!
//! This module does not check access. The control plane authorizes the use of `clusters/proxy`, and the member
//! authorizes the forwarded request.

use berth_api::Cluster;
use berth_apiserver::{ApiError, Body, Connect, ConnectRequest, ConnectedSubresource, Reason};
use berth_controllers::member_client::MemberClientError;
use berth_controllers::member_client::impersonation::{
    ImpersonatingClient, ImpersonationError, User,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{
    CONNECTION, HeaderName, LOCATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use kube::api::Api;

const GROUP: &str = "cluster.karmada.io";
const RESOURCE: &str = "clusters";

/// Headers that apply to a single connection. The proxy does not forward them.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// The handler of `clusters/proxy`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterProxy;

impl Connect for ClusterProxy {
    fn subresource(&self) -> ConnectedSubresource {
        ConnectedSubresource {
            group: GROUP,
            resource: RESOURCE,
            subresource: "proxy",
            kind: "ClusterProxyOptions",
        }
    }

    fn connect(
        &self,
        request: ConnectRequest,
    ) -> BoxFuture<'static, Result<Response<Body>, ApiError>> {
        proxy(request).boxed()
    }
}

async fn proxy(connect: ConnectRequest) -> Result<Response<Body>, ApiError> {
    let clusters: Api<Cluster> = Api::all(connect.server.clone());
    let found = clusters.get_opt(&connect.name).await;
    let found = found.map_err(|error| ApiError::new(Reason::InternalError, error.to_string()))?;
    let cluster = found.ok_or_else(|| ApiError::not_found(GROUP, RESOURCE, &connect.name))?;
    let client = ImpersonatingClient::of(&connect.server, &cluster).await;
    let client = client.map_err(|error| incomplete(&error))?;
    let mut request = connect.request;
    let upgrade = upgrade(request.headers());
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if connect.path.is_empty() && client.url().path() == "/" && reads && upgrade.is_none() {
        return redirect_to_root(request.uri());
    }
    remove_hop_by_hop(request.headers_mut());
    if let Some(protocol) = &upgrade {
        set_upgrade(request.headers_mut(), protocol.clone());
    }
    let path = match request.uri().query() {
        Some(query) => format!("{}?{query}", connect.path),
        None => connect.path,
    };
    let user = User {
        name: &connect.requester.user,
        groups: &connect.requester.groups,
    };
    let mut response = client
        .send(user, &path, request)
        .await
        .map_err(|error| refusal(&error))?;
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let protocol = response.headers().get(UPGRADE).cloned();
    remove_hop_by_hop(response.headers_mut());
    if let (true, Some(protocol)) = (switches, protocol) {
        set_upgrade(response.headers_mut(), protocol);
    }
    Ok(response.map(Body::new))
}

/// Returns the protocol that a request wants to switch to, or `None` if the client asks for no upgrade.
fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let wants = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| wants).cloned()
}

fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocol);
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Redirects to the same path with a trailing slash, so that relative links in the member's root page work.
fn redirect_to_root(uri: &Uri) -> Result<Response<Body>, ApiError> {
    let query = uri.query().map(|query| format!("?{query}"));
    let location = format!("{}/{}", uri.path(), query.unwrap_or_default());
    Response::builder()
        .status(StatusCode::MOVED_PERMANENTLY)
        .header(LOCATION, location)
        .body(Body::empty())
        .map_err(|error| ApiError::new(Reason::InternalError, error.to_string()))
}

fn refusal(error: &ImpersonationError) -> ApiError {
    match error {
        ImpersonationError::Client(error) => incomplete(error),
        ImpersonationError::Unsendable(_) => ApiError::new(Reason::BadRequest, error.to_string()),
        ImpersonationError::Unreachable { .. } => {
            ApiError::new(Reason::ServiceUnavailable, error.to_string())
        }
    }
}

/// Returns the error for an incomplete Cluster or Secret: an internal error, because the requester did not cause it.
fn incomplete(error: &MemberClientError) -> ApiError {
    ApiError::new(Reason::InternalError, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_requires_the_connection_header() {
        let of = |connection: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_static(connection));
            headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
            upgrade(&headers)
        };
        assert_eq!(of("keep-alive, Upgrade").unwrap(), "SPDY/3.1");
        assert_eq!(of("keep-alive"), None);
    }

    #[test]
    fn hop_by_hop_headers_are_not_forwarded() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("close, X-Hop"));
        headers.insert("x-hop", HeaderValue::from_static("1"));
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        headers.insert("accept", HeaderValue::from_static("*/*"));
        remove_hop_by_hop(&mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["accept"]);
    }
}
