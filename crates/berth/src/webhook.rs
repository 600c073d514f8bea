//! `berth webhook`: admission webhooks for a control plane with an API server of its own, in place of karmada-webhook.

pub mod flags;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_api::component::Component;
use berth_component_base::access::Access;
use berth_component_base::endpoints::{Addresses, Endpoints, ListenError};
use berth_component_base::metrics::{build_info, process};
use berth_scheduler::connect::{self, ConnectError, Target};
use berth_scheduler::process::accepted_flags;
use berth_webhook::{
    CertificateFiles, FileError, RequestMetrics, SelfManaged, SelfManagedOptions, ServerOptions,
    ServingCertificate, StartError, WebhookServer,
};
use tokio_util::sync::CancellationToken;

pub use self::flags::WebhookArgs;
use crate::control_plane::kubeconfig_of;

/// Interval between checks for changed certificate files.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of requests to the control plane.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// An error that prevents or ends the webhooks.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The certificate files cannot be used.
    #[error(
        "{0}: put a certificate and its key there, name their folder with --cert-dir, or pass \
         --self-managed-certificates"
    )]
    Files(#[from] FileError),
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// An address of the probes or metrics cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The source of the serving certificate.
enum Source {
    Files(CertificateFiles),
    SelfManaged(Box<SelfManaged>),
}

impl Source {
    async fn of(args: &WebhookArgs) -> Result<Self, ConnectError> {
        Ok(match args.self_managed() {
            None => Self::Files(args.certificate_files()),
            Some(options) => Self::SelfManaged(Box::new(
                self_managed(args.kubeconfig.clone(), options).await?,
            )),
        })
    }

    /// Returns the certificate to start with. A self-managed one follows when the control plane responds.
    fn initial(&self) -> Result<ServingCertificate, FileError> {
        match self {
            Self::Files(files) => files.load(),
            Self::SelfManaged(_) => Ok(ServingCertificate::default()),
        }
    }

    async fn keep(self, certificate: ServingCertificate, cancel: CancellationToken) {
        match self {
            Self::Files(files) => files.watch(certificate, CERTIFICATE_INTERVAL, cancel).await,
            Self::SelfManaged(certificates) => certificates.run(certificate, cancel).await,
        }
    }
}

async fn self_managed(
    kubeconfig: Option<PathBuf>,
    options: SelfManagedOptions,
) -> Result<SelfManaged, ConnectError> {
    let target = Target {
        kubeconfig: kubeconfig_of(kubeconfig.filter(|path| !path.as_os_str().is_empty())),
        ..Target::default()
    };
    let mut config = connect::config(&target).await?;
    config.read_timeout = Some(REQUEST_TIMEOUT);
    let (client, _) = connect::counted_client(config, &target, Component::Webhook)?;
    Ok(SelfManaged::new(client, options, Arc::new(SystemTime::now)))
}

/// Returns the endpoints for probes and metrics. A replica without a certificate is not ready.
fn endpoints(certificate: &ServingCertificate, requests: Arc<RequestMetrics>) -> Endpoints {
    let certificate = certificate.clone();
    Endpoints::default()
        .live(|| Ok(()))
        .ready(move || {
            if certificate.is_present() {
                Ok(())
            } else {
                Err("there is no certificate yet".to_owned())
            }
        })
        .metrics(move || {
            let mut text = String::new();
            requests.encode(&mut text);
            build_info::encode(&mut text);
            process::encode(&mut text);
            text
        })
}

/// Serves the webhooks until the token is cancelled.
///
/// # Errors
/// When they cannot start.
pub async fn run(args: WebhookArgs, cancel: CancellationToken) -> Result<(), WebhookError> {
    accepted_flags::log_given(args.without_effect.given());
    let source = Source::of(&args).await?;
    let certificate = source.initial()?;
    let metrics = Arc::new(RequestMetrics::default());
    let server = WebhookServer::bind(ServerOptions {
        listen: args.listen(),
        minimum_tls: args.minimum_tls(),
        no_execute: args.no_execute(),
        certificate: certificate.clone(),
        metrics: metrics.clone(),
    })
    .await?;
    tracing::info!(address = %server.address(), "serving admission webhooks");
    let addresses = Addresses {
        probes: args.health_probe_bind_address,
        metrics: args.metrics_bind_address,
    };
    // The endpoints end with this call, after everything else.
    let serving = CancellationToken::new();
    let _served = serving.clone().drop_guard();
    endpoints(&certificate, metrics)
        .serve(addresses, Access::Open, &serving)
        .await?;
    tokio::join!(server.run(cancel.clone()), source.keep(certificate, cancel),);
    Ok(())
}
