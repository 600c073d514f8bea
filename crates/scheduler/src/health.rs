//! HTTP endpoints for health, metrics and the configuration in use.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Effective;
use crate::estimator::EstimatorClient;
use crate::extender::ExtenderMetrics;
use crate::metrics::Metrics;

/// Content of the endpoints, shared between the scheduler, which updates it, and the HTTP servers.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    ready: Arc<AtomicBool>,
    metrics: Metrics,
    estimators: Arc<OnceLock<EstimatorClient>>,
    extenders: ExtenderMetrics,
    configuration: Effective,
}

impl Probes {
    /// Creates the content for a scheduler that is not ready yet.
    pub(crate) fn new(metrics: Metrics, configuration: Effective) -> Self {
        Self {
            ready: Arc::default(),
            metrics,
            estimators: Arc::default(),
            extenders: ExtenderMetrics::default(),
            configuration,
        }
    }

    /// Adds the estimators' metrics.
    pub(crate) fn show_estimators(&self, client: EstimatorClient) {
        // Set once per process.
        let _ = self.estimators.set(client);
    }

    /// Returns the extenders' metrics, which are included in the output.
    pub(crate) fn extenders(&self) -> ExtenderMetrics {
        self.extenders.clone()
    }

    fn metrics_text(&self) -> String {
        let mut text = self.metrics.text();
        if let Some(estimators) = self.estimators.get() {
            text.push_str(&estimators.metrics_text());
        }
        text.push_str(&self.extenders.text());
        text
    }

    /// Marks the caches as filled.
    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Reports whether the caches are filled.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }
}

/// Failure to listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The reason.
    pub source: std::io::Error,
}

/// Serves probes and metrics at an address, and returns the bound address.
///
/// # Errors
/// When the address cannot be bound.
pub(crate) async fn serve(
    address: SocketAddr,
    probes: Probes,
    cancel: CancellationToken,
) -> Result<SocketAddr, ListenError> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| ListenError { address, source })?;
    let bound = listener
        .local_addr()
        .map_err(|source| ListenError { address, source })?;
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/livez", get(async || "ok"))
        .route("/configz", {
            let probes = probes.clone();
            get(async move || {
                (
                    [(CONTENT_TYPE, "application/json")],
                    probes.configuration.json(),
                )
            })
        })
        .route("/metrics", {
            let probes = probes.clone();
            get(async move || {
                (
                    [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
                    probes.metrics_text(),
                )
            })
        })
        .route(
            "/readyz",
            get(async move || {
                if probes.is_ready() {
                    (StatusCode::OK, "ok")
                } else {
                    (
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the caches are not filled yet",
                    )
                }
            }),
        );
    tokio::spawn(async move {
        let served = axum::serve(listener, router)
            .with_graceful_shutdown(cancel.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the health endpoint stopped");
        }
    });
    Ok(bound)
}
