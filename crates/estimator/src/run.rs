//! Assembly of the estimator: watches, gRPC server, probes and metrics.

use std::net::SocketAddr;
use std::time::Duration;

use berth_component_base::access::Access;
use berth_component_base::endpoints::{Addresses, Bound, Endpoints, ListenError};
use berth_component_base::metrics::requests::Requests;
use berth_component_base::metrics::{build_info, process};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::estimate::Rules;
use crate::metrics::RequestMetrics;
use crate::server;
use crate::service::EstimatorService;
use crate::tls::{TlsError, TlsFiles, server_config};
use crate::watches::Member;

/// Interval between checks for changed certificate files.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(10);

/// The configuration of an estimator.
#[derive(Clone, Debug)]
pub struct EstimatorOptions {
    /// The name of the member cluster. Requests about other clusters are refused.
    pub cluster: String,
    /// The address of the gRPC server. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The TLS files. If it is `None`, the server uses plain text.
    pub tls: Option<TlsFiles>,
    /// The rules that feature gates switch on.
    pub rules: Rules,
    /// The addresses of probes and metrics.
    pub addresses: Addresses,
}

/// The addresses of a running estimator.
#[derive(Clone, Copy, Debug)]
pub struct EstimatorAddresses {
    /// The address of the gRPC server. `None` until the first lists are complete.
    pub grpc: Option<SocketAddr>,
    /// The addresses of probes and metrics.
    pub endpoints: Bound,
}

/// The reason why an estimator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A server cannot listen on its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Runs the estimator until the token is cancelled. It accepts requests after the first lists of the member's objects.
/// Sends the addresses of its servers to `addresses`.
///
/// # Errors
/// When a server cannot start.
pub async fn run(
    options: EstimatorOptions,
    client: kube::Client,
    requests: Option<Requests>,
    addresses: watch::Sender<Option<EstimatorAddresses>>,
    cancel: CancellationToken,
) -> Result<(), StartError> {
    let tls = options.tls.as_ref().map(server_config).transpose()?;
    // The tasks end when this function returns.
    let running = cancel.child_token();
    let _end_of_tasks = running.clone().drop_guard();
    let member = Member::follow(&client, options.rules, &running);
    let metrics = RequestMetrics::for_all_methods();
    // The endpoints stop after the gRPC server has stopped.
    let serving = CancellationToken::new();
    let _end_of_serving = serving.clone().drop_guard();
    let endpoints = endpoints(&member, &metrics, requests)
        .serve(options.addresses, Access::Open, &serving)
        .await?;
    addresses.send_replace(Some(EstimatorAddresses {
        grpc: None,
        endpoints,
    }));
    if running
        .run_until_cancelled(member.until_listed())
        .await
        .is_none()
    {
        return Ok(());
    }
    let failed = |source| ListenError {
        address: options.listen,
        source,
    };
    let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
    let grpc = listener.local_addr().map_err(failed)?;
    tracing::info!(address = %grpc, cluster = options.cluster, "answering requests for estimates");
    addresses.send_replace(Some(EstimatorAddresses {
        grpc: Some(grpc),
        endpoints,
    }));
    let service = EstimatorService {
        members: [(options.cluster, member)].into(),
        rules: options.rules,
        metrics,
    };
    let (config, certificate) = tls.unzip();
    if let (Some(files), Some(certificate)) = (options.tls, certificate) {
        let reloading = files
            .certificate
            .watch(certificate, CERTIFICATE_INTERVAL, running.clone());
        tokio::spawn(reloading);
    }
    server::serve(listener, config.map(TlsAcceptor::from), service, cancel).await;
    Ok(())
}

/// Returns the endpoints for probes and metrics. The readiness probe fails until the first lists are complete.
fn endpoints(member: &Member, metrics: &RequestMetrics, requests: Option<Requests>) -> Endpoints {
    let (member, metrics) = (member.clone(), metrics.clone());
    Endpoints::default()
        .live(|| Ok(()))
        .ready(move || member.check_listed())
        .metrics(move |registry| {
            metrics.register(registry);
            if let Some(requests) = &requests {
                requests.register(registry);
            }
            build_info::register(registry);
            process::register(registry);
        })
}
