//! Requests to a member on behalf of a user: with the token of the impersonator, and the user in headers. Bodies are streams
//! in both directions, and nothing but the connecting is limited in time.

use std::error::Error;

use berth_api::Cluster;
use http::header::{AUTHORIZATION, HOST};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use hyper::body::{Body, Bytes, Incoming};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::ResourceExt as _;
use kube::client::ConfigExt as _;
use tower::Service;

use super::{
    CONNECT, MemberClientError, authorities, endpoint, proxy_headers, secret, through_proxy, token,
};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
/// Groups that the member adds by itself.
const IMPLIED: [&str; 2] = ["system:authenticated", "system:unauthenticated"];

/// An error of any layer of the transport.
type BoxError = Box<dyn Error + Send + Sync>;

/// Why a member has not answered.
#[derive(Debug, thiserror::Error)]
pub enum OnBehalfError {
    /// The Cluster or its Secrets are incomplete.
    #[error(transparent)]
    Way(#[from] MemberClientError),
    /// The path, the user or a group cannot be sent.
    #[error("the {0} of the request cannot be sent to a member")]
    Unsendable(&'static str),
    /// The member did not answer.
    #[error("cannot reach cluster {cluster}: {}", innermost(source))]
    Unreachable {
        /// Name of the cluster.
        cluster: String,
        /// The failure of the transport.
        source: legacy::Error,
    },
}

/// Returns the message of the error that caused all others.
fn innermost(error: &legacy::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A user, as named to the member.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// Name of the user.
    pub name: &'a str,
    /// Groups of the user.
    pub groups: &'a [String],
}

/// The way to a member for requests of users.
#[derive(Debug)]
pub struct OnBehalf {
    cluster: String,
    config: kube::Config,
    proxy_headers: HeaderMap,
    token: String,
}

impl OnBehalf {
    /// Reads the Secrets of a cluster. One without `secretRef` is checked against the certificates of the system.
    ///
    /// # Errors
    /// When the Cluster or its Secrets are incomplete.
    pub async fn of(
        control_plane: &kube::Client,
        cluster: &Cluster,
    ) -> Result<Self, MemberClientError> {
        let name = cluster.name_any();
        let mut config = endpoint(cluster)?;
        if let Some(reference) = &cluster.spec.secret_ref {
            let own = secret(control_plane, cluster, reference).await?;
            config.root_cert = authorities(cluster, &own)?;
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

    /// Sends a request to a path of the member, as a user. Redirects are not followed. An answer that changes the
    /// protocol carries its connection.
    ///
    /// # Errors
    /// When the request cannot be sent, or the member does not answer.
    pub async fn send<B>(
        &self,
        user: User<'_>,
        path: &str,
        request: Request<B>,
    ) -> Result<Response<Incoming>, OnBehalfError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        parts.uri = target(self.url(), path).ok_or(OnBehalfError::Unsendable("path"))?;
        parts.version = Version::HTTP_11;
        let headers = &mut parts.headers;
        headers.remove(HOST);
        headers.insert(
            USER,
            value(user.name).ok_or(OnBehalfError::Unsendable("user"))?,
        );
        headers.remove(GROUP);
        for group in user.groups {
            if !IMPLIED.contains(&group.as_str()) {
                let group = value(group).ok_or(OnBehalfError::Unsendable("group"))?;
                headers.append(GROUP, group);
            }
        }
        let bearer = value(&format!("Bearer {}", self.token));
        let mut bearer = bearer.ok_or(OnBehalfError::Unsendable("token"))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        let request = Request::from_parts(parts, body);
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        match self.config.proxy_url.clone() {
            None => self.exchange(direct, request).await,
            Some(proxy) if proxy.scheme_str() == Some("socks5") => {
                self.exchange(SocksV5::new(proxy, direct), request).await
            }
            Some(proxy) => {
                let headers = self.proxy_headers.clone();
                let tunnel = through_proxy::tunnel(&self.config, proxy, headers);
                let tunnel = tunnel.map_err(|error| self.unbuilt(error))?;
                self.exchange(tunnel, request).await
            }
        }
    }

    /// Sends a request over a connection of its own, as Karmada does: who may use the connection is not kept anywhere.
    async fn exchange<C, B>(
        &self,
        connector: C,
        request: Request<B>,
    ) -> Result<Response<Incoming>, OnBehalfError>
    where
        C: Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: Connection + Read + Write + Send + Unpin + 'static,
        C::Future: Send + 'static,
        C::Error: Into<BoxError> + Send + Sync + Error + 'static,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let connector = self
            .config
            .rustls_https_connector_with_connector(connector)
            .map_err(|error| self.unbuilt(error))?;
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(Some(CONNECT));
        let client: legacy::Client<_, B> =
            legacy::Client::builder(TokioExecutor::new()).build(connector);
        let answer = client.request(request).await;
        answer.map_err(|source| OnBehalfError::Unreachable {
            cluster: self.cluster.clone(),
            source,
        })
    }

    fn unbuilt(&self, source: kube::Error) -> MemberClientError {
        MemberClientError::Build {
            cluster: self.cluster.clone(),
            source: Box::new(source),
        }
    }
}

/// Returns a header value; bytes beyond ASCII stay as they are.
fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

/// Returns the URL of a path, which may have a query, behind that of a member.
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
    fn the_path_of_the_endpoint_stays_in_front() {
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
