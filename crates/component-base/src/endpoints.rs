//! HTTP endpoints for probes and metrics.
//!
//! A check returns the reason for which the component is not live or not ready.

use std::net::SocketAddr;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::bind_address::BindAddress;

/// Failure to listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The reason.
    pub source: std::io::Error,
}

/// The endpoints of a component. Every address serves all of them.
#[derive(Clone, Debug, Default)]
pub struct Endpoints(Router);

impl Endpoints {
    /// Serves metrics in the Prometheus text format at `/metrics`.
    #[must_use]
    pub fn metrics(self, text: impl Fn() -> String + Clone + Send + Sync + 'static) -> Self {
        let content_type = "text/plain; version=0.0.4; charset=utf-8";
        let answer = get(async move || ([(CONTENT_TYPE, content_type)], text()));
        Self(self.0.route("/metrics", answer))
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

    /// Serves a JSON document at a path.
    #[must_use]
    pub fn json(
        self,
        path: &str,
        document: impl Fn() -> String + Clone + Send + Sync + 'static,
    ) -> Self {
        let answer = get(async move || ([(CONTENT_TYPE, "application/json")], document()));
        Self(self.0.route(path, answer))
    }

    fn check<C>(self, path: &str, check: C) -> Self
    where
        C: Fn() -> Result<(), String> + Clone + Send + Sync + 'static,
    {
        let answer = get(async move || match check() {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        });
        Self(self.0.route(path, answer))
    }

    /// Serves the endpoints at each of the addresses until the token is cancelled. Equal addresses share one server.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn serve(
        self,
        addresses: impl IntoIterator<Item = BindAddress>,
        cancel: &CancellationToken,
    ) -> Result<(), ListenError> {
        let mut served = Vec::new();
        for address in addresses {
            let BindAddress::At(address) = address else {
                continue;
            };
            if address.port() != 0 && served.contains(&address) {
                continue;
            }
            served.push(address);
            let bound = self.clone().serve_at(address, cancel.clone()).await;
            let bound = bound.map_err(|source| ListenError { address, source })?;
            tracing::info!(address = %bound, "serving health and metrics");
        }
        Ok(())
    }

    async fn serve_at(
        self,
        address: SocketAddr,
        cancel: CancellationToken,
    ) -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        tokio::spawn(async move {
            let served = axum::serve(listener, self.0)
                .with_graceful_shutdown(cancel.cancelled_owned())
                .await;
            if let Err(error) = served {
                tracing::error!(%error, "the endpoints for health and metrics stopped");
            }
        });
        Ok(bound)
    }
}
