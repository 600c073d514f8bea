//! HTTP endpoints for probes, metrics, configuration and debugging.
//!
//! A probe calls a check. The check returns the reason if the component is not live or not ready.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::{ConnectInfo, Query, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use berth_metrics::{Format, Registry};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, authorize};
use crate::bind_address::BindAddress;
use crate::secure_listener::SecureListener;
use crate::serving_certificate::ServingCertificate;

/// Failure to listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The reason.
    pub source: std::io::Error,
}

/// The addresses of the endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The address of the probes.
    pub probes: BindAddress,
    /// The address of metrics and configuration.
    pub metrics: BindAddress,
}

/// The parameters of a request's query.
pub type Parameters = BTreeMap<String, String>;

/// A response of a debug endpoint: a JSON document, or a status code with a reason.
pub type DebugResponse = Result<String, (StatusCode, String)>;

/// The addresses on which the servers listen. An address is `None` if its server is switched off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bound {
    /// The address of the probes.
    pub probes: Option<SocketAddr>,
    /// The address of metrics, configuration and debug endpoints.
    pub metrics: Option<SocketAddr>,
}

/// The endpoints of a component. With [`Access::Open`], every address serves all endpoints.
#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    probes: Router,
    metrics: Router,
    /// Routes for callers on this machine and for authorized callers only.
    configuration: Router,
}

impl Endpoints {
    /// Serves the metrics that `register` registers, in the Prometheus text format, at `/metrics`.
    #[must_use]
    pub fn metrics<F>(mut self, register: F) -> Self
    where
        F: Fn(&mut Registry) + Clone + Send + Sync + 'static,
    {
        let format = Format::Text;
        let handler = get(async move || {
            (
                [(CONTENT_TYPE, format.content_type())],
                format.render(&register),
            )
        });
        self.metrics = self.metrics.route("/metrics", handler);
        self
    }

    /// Serves the liveness of the component at `/livez` and `/healthz`.
    #[must_use]
    pub fn live<C>(self, check: C) -> Self
    where
        C: Fn() -> Result<(), String> + Clone + Send + Sync + 'static,
    {
        self.check("/livez", check.clone()).check("/healthz", check)
    }

    /// Serves the readiness of the component at `/readyz`.
    #[must_use]
    pub fn ready<C>(self, check: C) -> Self
    where
        C: Fn() -> Result<(), String> + Clone + Send + Sync + 'static,
    {
        self.check("/readyz", check)
    }

    /// Serves the configuration in use, in JSON, at `/configz`.
    #[must_use]
    pub fn configuration(
        mut self,
        document: impl Fn() -> String + Clone + Send + Sync + 'static,
    ) -> Self {
        let handler = get(async move || ([(CONTENT_TYPE, "application/json")], document()));
        self.configuration = self.configuration.route("/configz", handler);
        self
    }

    /// Serves JSON documents at a path. The documents have the same access control as the configuration.
    #[must_use]
    pub fn debug<F>(mut self, path: &str, respond: F) -> Self
    where
        F: Fn(Parameters) -> BoxFuture<'static, DebugResponse> + Clone + Send + Sync + 'static,
    {
        let handler = get(async move |Query(parameters): Query<Parameters>| {
            match respond(parameters).await {
                Ok(document) => ([(CONTENT_TYPE, "application/json")], document).into_response(),
                Err((status, reason)) => (status, format!("{reason}\n")).into_response(),
            }
        });
        self.configuration = self.configuration.route(path, handler);
        self
    }

    fn check<C>(mut self, path: &str, check: C) -> Self
    where
        C: Fn() -> Result<(), String> + Clone + Send + Sync + 'static,
    {
        let handler = get(async move || match check() {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        });
        self.probes = self.probes.route(path, handler);
        self
    }

    /// Serves the endpoints at the addresses until the token is cancelled. With [`Access::Open`], equal addresses share
    /// one server unless the port is 0. Returns the addresses with the actual ports.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn serve(
        self,
        addresses: Addresses,
        access: Access,
        cancel: &CancellationToken,
    ) -> Result<Bound, ListenError> {
        let Addresses { probes, metrics } = addresses;
        Ok(match access {
            Access::Open => {
                let mut all = self.probes.merge(self.metrics);
                if self.configuration.has_routes() {
                    all = all.merge(self.configuration.route_layer(from_fn(only_this_machine)));
                }
                let bound = serve(all.clone(), probes, None, cancel).await?;
                Bound {
                    probes: bound,
                    metrics: if metrics != probes || metrics.is_any_port() {
                        serve(all, metrics, None, cancel).await?
                    } else {
                        bound
                    },
                }
            }
            Access::Authorized {
                certificate,
                authorizer,
            } => {
                let protected = self.metrics.merge(self.configuration);
                let protected = protected.layer(from_fn_with_state(authorizer, authorize));
                Bound {
                    probes: serve(self.probes, probes, None, cancel).await?,
                    metrics: serve(protected, metrics, Some(certificate), cancel).await?,
                }
            }
        })
    }
}

/// Serves a router at an address, with TLS if there is a certificate. Returns the address with the actual port.
async fn serve(
    router: Router,
    address: BindAddress,
    certificate: Option<ServingCertificate>,
    cancel: &CancellationToken,
) -> Result<Option<SocketAddr>, ListenError> {
    let BindAddress::At(address) = address else {
        return Ok(None);
    };
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    tracing::info!(address = %bound, "serving health and metrics");
    let cancelled = cancel.clone().cancelled_owned();
    let serving: BoxFuture<'static, std::io::Result<()>> = match certificate {
        None => {
            let service = router.into_make_service_with_connect_info::<SocketAddr>();
            let server = axum::serve(listener, service);
            server
                .with_graceful_shutdown(cancelled)
                .into_future()
                .boxed()
        }
        Some(certificate) => {
            let listener = SecureListener::new(listener, certificate).map_err(failed)?;
            let server = axum::serve(listener, router);
            server
                .with_graceful_shutdown(cancelled)
                .into_future()
                .boxed()
        }
    };
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the endpoints for health and metrics stopped");
        }
    });
    Ok(Some(bound))
}

/// Rejects requests from other machines. Also rejects requests with another host name, because a web page can send such
/// requests from a browser on this machine (DNS rebinding).
async fn only_this_machine(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if peer.ip().to_canonical().is_loopback() && !names_another_host(&request) {
        return next.run(request).await;
    }
    let text =
        "only this machine may read this path; pass --metrics-secure to admit authorized callers\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

/// Reports whether the request is addressed to a host name other than `localhost`.
fn names_another_host(request: &Request) -> bool {
    let host = request.headers().get(HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    !name.is_empty()
        && !name.eq_ignore_ascii_case("localhost")
        && address.parse::<IpAddr>().is_err()
}
