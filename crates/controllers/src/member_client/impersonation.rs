//! Requests to a member on behalf of a user. A request contains the token of the impersonator, which is a service
//! account in the member. The headers of the request name the user. Bodies are streamed in both directions. Only the
//! time for connecting is limited.

use berth_apimachinery::api_error::root_cause;
use std::error::Error;

use berth_api::Cluster;
use berth_component_base::kube_client::transport::{self, SendOnceError};
use http::header::{AUTHORIZATION, HOST};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use hyper::body::{Body, Bytes, Incoming};
use kube::ResourceExt as _;

use super::{MemberClientError, ca_certificates, endpoint, proxy_headers, secret, token};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
/// Groups that the member itself adds to users.
const IMPLIED: [&str; 2] = ["system:authenticated", "system:unauthenticated"];

/// An error of any layer of the transport.
type BoxError = Box<dyn Error + Send + Sync>;

/// An error of a request on behalf of a user.
#[derive(Debug, thiserror::Error)]
pub enum ImpersonationError {
    /// The Cluster or one of its Secrets is incomplete or malformed.
    #[error(transparent)]
    Client(#[from] MemberClientError),
    /// The path, the user, a group or the token is not valid in a request.
    #[error("the {0} of the request cannot be sent to a member")]
    Unsendable(&'static str),
    /// The member did not respond.
    #[error("cannot reach cluster {cluster}: {}", root_cause(source.as_ref()))]
    Unreachable {
        /// The name of the cluster.
        cluster: String,
        /// The error of the transport.
        source: BoxError,
    },
}

/// The user of a request.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// The name of the user.
    pub name: &'a str,
    /// The groups of the user.
    pub groups: &'a [String],
}

/// A client for requests to a member on behalf of users.
#[derive(Debug)]
pub struct ImpersonatingClient {
    cluster: String,
    config: kube::Config,
    proxy_headers: HeaderMap,
    token: String,
}

impl ImpersonatingClient {
    /// Creates a client from the Secrets of a Cluster. Without a `secretRef`, the certificates of the operating system
    /// verify the member.
    ///
    /// # Errors
    /// When the Cluster or one of its Secrets is incomplete or malformed.
    pub async fn of(
        control_plane: &kube::Client,
        cluster: &Cluster,
    ) -> Result<Self, MemberClientError> {
        let name = cluster.name_any();
        let mut config = endpoint(cluster)?;
        config.read_timeout = None;
        config.write_timeout = None;
        if let Some(reference) = &cluster.spec.secret_ref {
            let own = secret(control_plane, cluster, reference).await?;
            config.root_cert = ca_certificates(cluster, &own)?;
        }
        let reference = cluster.spec.impersonator_secret_ref.as_ref();
        let reference = reference.ok_or_else(|| MemberClientError::NoImpersonator(name.clone()))?;
        let impersonator = secret(control_plane, cluster, reference).await?;
        Ok(Self {
            token: token(cluster, &impersonator)?,
            proxy_headers: proxy_headers(cluster)?,
            cluster: name,
            config,
        })
    }

    /// Returns the URL of the member's API server.
    pub fn url(&self) -> &Uri {
        &self.config.cluster_url
    }

    /// Sends a request to a path of the member on behalf of a user. Each request has its own connection, as in Karmada,
    /// so that users never share a connection. Redirects are not followed. If the protocol is upgraded, the response
    /// owns the connection.
    ///
    /// # Errors
    /// When the request is not valid, or the member does not respond.
    pub async fn send<B>(
        &self,
        user: User<'_>,
        path: &str,
        request: Request<B>,
    ) -> Result<Response<Incoming>, ImpersonationError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        parts.uri = target(self.url(), path).ok_or(ImpersonationError::Unsendable("path"))?;
        parts.version = Version::HTTP_11;
        let headers = &mut parts.headers;
        headers.remove(HOST);
        headers.insert(
            USER,
            value(user.name).ok_or(ImpersonationError::Unsendable("user"))?,
        );
        headers.remove(GROUP);
        for group in user.groups {
            if !IMPLIED.contains(&group.as_str()) {
                let group = value(group).ok_or(ImpersonationError::Unsendable("group"))?;
                headers.append(GROUP, group);
            }
        }
        let bearer = value(&format!("Bearer {}", self.token));
        let mut bearer = bearer.ok_or(ImpersonationError::Unsendable("token"))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        let request = Request::from_parts(parts, body);
        let response = transport::send_once(&self.config, self.proxy_headers.clone(), request);
        response.await.map_err(|error| match error {
            SendOnceError::Configuration(source) => MemberClientError::Build {
                cluster: self.cluster.clone(),
                source,
            }
            .into(),
            SendOnceError::Unreachable(source) => ImpersonationError::Unreachable {
                cluster: self.cluster.clone(),
                source: source.into(),
            },
        })
    }
}

/// Returns a header value. Non-ASCII bytes are allowed.
fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

/// Appends a path, with an optional query, to the URL of a member.
fn target(member: &Uri, path: &str) -> Option<Uri> {
    let base = member.path().trim_end_matches('/');
    let mut parts = member.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{base}{path}")).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_endpoint_is_a_prefix() {
        let of = |member: &str, path: &str| {
            let member: Uri = member.parse().unwrap();
            target(&member, path).map(|uri| uri.to_string())
        };
        for (member, path, expected) in [
            ("https://m:6443", "/api?x=%2F", "https://m:6443/api?x=%2F"),
            ("https://m:6443/", "/a%20b/", "https://m:6443/a%20b/"),
            ("https://m/k8s/c-1", "/api", "https://m/k8s/c-1/api"),
        ] {
            assert_eq!(of(member, path).as_deref(), Some(expected));
        }
    }
}
