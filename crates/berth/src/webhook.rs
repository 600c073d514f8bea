//! `berth webhook`: serves admission webhooks for a control plane with a separate API server, such as kube-apiserver.
//! The command replaces karmada-webhook.

pub mod flags;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_component_base::access::Access;
use berth_component_base::endpoints::{Addresses, Endpoints, ListenError};
use berth_component_base::kube_client::{self, ConnectError, Target};
use berth_component_base::metrics::{build_info, process};
use berth_component_base::program::ignored_flags;
use berth_component_base::user_agent::Component;
use berth_webhook::{
    CertificateFiles, CertificateManager, CertificateManagerOptions, FileError, QuotaCharges,
    RequestMetrics, ServerOptions, ServingCertificate, StartError, WebhookServer,
};
use kube::Client;
use tokio_util::sync::CancellationToken;

pub use self::flags::WebhookArgs;
use crate::control_plane::kubeconfig_of;

/// Interval between checks for changed certificate files.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of requests to the control plane.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Reason for which `berth webhook` cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The certificate files cannot be used.
    #[error(
        "{0}: put a certificate and its key there, name their folder with --cert-dir, or pass \
         --self-managed-certificates"
    )]
    Files(#[from] FileError),
    /// No client for the control plane can be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server of the probes or of the metrics cannot listen at its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The webhook server cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The source of the serving certificate.
enum CertificateSource {
    Files(CertificateFiles),
    SelfManaged(Box<CertificateManager>),
}

impl CertificateSource {
    async fn of(args: &WebhookArgs) -> Result<Self, ConnectError> {
        Ok(match args.certificate_manager_options() {
            None => Self::Files(args.certificate_files()),
            Some(options) => Self::SelfManaged(Box::new(
                certificate_manager(args.kubeconfig.clone(), options).await?,
            )),
        })
    }

    /// Returns the initial certificate. A self-managed certificate is empty until [`Self::keep_updated`] has read or
    /// issued it.
    fn initial(&self) -> Result<ServingCertificate, FileError> {
        match self {
            Self::Files(files) => files.load(),
            Self::SelfManaged(_) => Ok(ServingCertificate::default()),
        }
    }

    /// Updates `certificate` until the token is cancelled: reloads changed files, or renews the self-managed
    /// certificate.
    async fn keep_updated(self, certificate: ServingCertificate, cancel: CancellationToken) {
        match self {
            Self::Files(files) => files.watch(certificate, CERTIFICATE_INTERVAL, cancel).await,
            Self::SelfManaged(manager) => manager.run(certificate, cancel).await,
        }
    }
}

async fn certificate_manager(
    kubeconfig: Option<PathBuf>,
    options: CertificateManagerOptions,
) -> Result<CertificateManager, ConnectError> {
    let client = control_plane_client(kubeconfig).await?;
    Ok(CertificateManager::new(
        client,
        options,
        Arc::new(SystemTime::now),
    ))
}

/// Returns the enforcement of quotas, if its feature gate is on.
async fn quota_charges(args: &WebhookArgs) -> Result<Option<QuotaCharges>, ConnectError> {
    if !args.feature_gates.quota_enforcement {
        return Ok(None);
    }
    let client = control_plane_client(args.kubeconfig.clone()).await?;
    Ok(Some(QuotaCharges::new(client)))
}

async fn control_plane_client(kubeconfig: Option<PathBuf>) -> Result<Client, ConnectError> {
    let target = Target {
        kubeconfig: kubeconfig_of(kubeconfig.filter(|path| !path.as_os_str().is_empty())),
        ..Target::default()
    };
    let mut config = kube_client::config(&target).await?;
    config.read_timeout = Some(REQUEST_TIMEOUT);
    let (client, _) = kube_client::counted_client(config, &target, Component::Webhook)?;
    Ok(client)
}

/// Returns the endpoints for probes and metrics. The readiness probe fails until the server has a certificate.
fn endpoints(certificate: &ServingCertificate, requests: Arc<RequestMetrics>) -> Endpoints {
    let certificate = certificate.clone();
    Endpoints::default()
        .live(|| Ok(()))
        .ready(move || {
            if certificate.is_present() {
                Ok(())
            } else {
                Err("no certificate has been loaded or issued yet".to_owned())
            }
        })
        .metrics(move |registry| {
            requests.register(registry);
            build_info::register(registry);
            process::register(registry);
        })
}

/// Serves the webhooks until the token is cancelled.
///
/// # Errors
/// When a server cannot start.
pub async fn run(args: WebhookArgs, cancel: CancellationToken) -> Result<(), WebhookError> {
    let gates = args.feature_gates.ineffective();
    ignored_flags::log_ineffective(&[args.without_effect.names(), &gates].concat());
    let source = CertificateSource::of(&args).await?;
    let certificate = source.initial()?;
    let metrics = Arc::new(RequestMetrics::default());
    let server = WebhookServer::bind(ServerOptions {
        listen: args.listen(),
        minimum_tls: args.minimum_tls(),
        no_execute: args.no_execute(),
        quotas: quota_charges(&args).await?,
        certificate: certificate.clone(),
        metrics: metrics.clone(),
    })
    .await?;
    tracing::info!(address = %server.address(), "serving admission webhooks");
    let addresses = Addresses {
        probes: args.health_probe_bind_address,
        metrics: args.metrics_bind_address,
    };
    // The endpoints for probes and metrics stop when this function returns, after the webhook server has stopped.
    let serving = CancellationToken::new();
    let _served = serving.clone().drop_guard();
    endpoints(&certificate, metrics)
        .serve(addresses, Access::Open, &serving)
        .await?;
    tokio::join!(
        server.run(cancel.clone()),
        source.keep_updated(certificate, cancel),
    );
    Ok(())
}
