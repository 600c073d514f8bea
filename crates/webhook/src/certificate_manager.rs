//! Certificates that the replicas of the webhook server issue and renew themselves.
//!
//! A Secret stores a certificate authority and a serving certificate. The replicas renew both before they expire, and
//! write the CA bundle into the webhook configurations.
//!
//! If several replicas write the Secret at the same time, the first write succeeds, and the other replicas read the
//! Secret again. A replica adds a new authority to the CA bundle before it uses a certificate of this authority. The
//! previous authority stays in the CA bundle. Therefore API servers accept the certificates of all replicas.

mod ca_bundle;
mod certificates;
mod secret;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_apimachinery::api_error::api_error_message;
use berth_apimachinery::namespaced_name::NamespacedName;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Client;
use tokio_util::sync::CancellationToken;

use self::ca_bundle::{WebhookConfiguration, write_ca_bundle};
use self::certificates::Certificates;
use self::secret::StoredSecret;
use crate::serving_certificate::{CertificateError, ServingCertificate};

/// Interval between checks of the Secret and of the webhook configurations.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// Pause after a failed check.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of attempts to write the Secret while other replicas write it at the same time.
const MAX_CONFLICTS: u32 = 5;

/// The source of the current time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Names of the objects on the control plane.
#[derive(Clone, Debug)]
pub struct CertificateManagerOptions {
    /// The Service through which API servers call the webhooks. The certificate is valid for the DNS names of this
    /// Service.
    pub service: NamespacedName,
    /// The Secret with the certificates.
    pub secret: NamespacedName,
    /// The MutatingWebhookConfiguration whose webhooks call the Service.
    pub mutating_configuration: String,
    /// The ValidatingWebhookConfiguration whose webhooks call the Service.
    pub validating_configuration: String,
}

/// An error of issuing or publishing certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertificateManagerError {
    /// A certificate cannot be generated.
    #[error("cannot issue the certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// The certificate in the Secret cannot be used.
    #[error("cannot use the certificate in the secret {secret}: {source}")]
    Unusable {
        /// The Secret.
        secret: NamespacedName,
        /// The reason.
        source: CertificateError,
    },
    /// The Secret cannot be read or written.
    #[error(
        "cannot read or write the secret {secret}: {}",
        api_error_message(source)
    )]
    Secret {
        /// The Secret.
        secret: NamespacedName,
        /// The error of the API server.
        source: Box<kube::Error>,
    },
    /// Other replicas changed the Secret during each attempt to write it.
    #[error("gave up after repeated conflicts on the secret {0}")]
    Conflicts(NamespacedName),
    /// A webhook configuration cannot be read or written.
    #[error("cannot write the CA bundle of {name}: {}", api_error_message(source))]
    Configuration {
        /// The configuration.
        name: String,
        /// The error of the API server.
        source: Box<kube::Error>,
    },
}

/// The manager of the certificates of one replica.
#[derive(Clone)]
pub struct CertificateManager {
    client: Client,
    options: CertificateManagerOptions,
    clock: Clock,
}

impl fmt::Debug for CertificateManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateManager")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl CertificateManager {
    /// Creates a manager for the certificates in a control plane.
    pub fn new(client: Client, options: CertificateManagerOptions, clock: Clock) -> Self {
        Self {
            client,
            options,
            clock,
        }
    }

    /// Keeps the certificates valid until the token is cancelled.
    pub async fn run(self, serving: ServingCertificate, cancel: CancellationToken) {
        loop {
            let pause = match self.reconcile(&serving).await {
                Ok(()) => CHECK_INTERVAL,
                Err(error) => {
                    tracing::error!(%error, "cannot manage the certificate of the webhooks");
                    RETRY_PAUSE
                }
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Renews certificates that expire soon, writes the CA bundle into the webhook configurations, and replaces the
    /// certificate in `serving`.
    ///
    /// # Errors
    /// When the certificates cannot be issued, stored, published or used. A certificate that `serving` had before stays.
    pub async fn reconcile(
        &self,
        serving: &ServingCertificate,
    ) -> Result<(), CertificateManagerError> {
        let current = self.ensure_certificates().await?;
        // API servers call the webhooks as soon as the CA bundle is there. A renewed certificate is used only when they trust it.
        if !serving.is_present() {
            self.serve(&current, serving)?;
        }
        let options = &self.options;
        self.publish::<MutatingWebhookConfiguration>(&options.mutating_configuration, &current)
            .await?;
        self.publish::<ValidatingWebhookConfiguration>(&options.validating_configuration, &current)
            .await?;
        self.serve(&current, serving)
    }

    fn serve(
        &self,
        current: &Certificates,
        serving: &ServingCertificate,
    ) -> Result<(), CertificateManagerError> {
        serving
            .replace(current.certificate.as_bytes(), current.key.as_bytes())
            .map_err(|source| CertificateManagerError::Unusable {
                secret: self.options.secret.clone(),
                source,
            })
    }

    async fn publish<K: WebhookConfiguration>(
        &self,
        name: &str,
        current: &Certificates,
    ) -> Result<(), CertificateManagerError> {
        let service = &self.options.service;
        write_ca_bundle::<K>(&self.client, name, service, &current.ca_bundle)
            .await
            .map_err(|source| CertificateManagerError::Configuration {
                name: name.to_owned(),
                source: Box::new(source),
            })
    }

    /// Returns the certificates in the Secret. Issues new certificates if the Secret has none, or if its certificates
    /// are damaged, about to expire or not valid for all DNS names.
    async fn ensure_certificates(&self) -> Result<Certificates, CertificateManagerError> {
        let failure = |source| CertificateManagerError::Secret {
            secret: self.options.secret.clone(),
            source: Box::new(source),
        };
        for _ in 0..MAX_CONFLICTS {
            let stored = StoredSecret::read(&self.client, &self.options.secret)
                .await
                .map_err(failure)?;
            let now = (self.clock)();
            let next = Certificates::next(stored.certificates(), &self.dns_names(), now)?;
            let Some(next) = next else {
                if let Some(current) = stored.into_certificates() {
                    return Ok(current);
                }
                continue;
            };
            if stored
                .write(&self.client, &self.options.secret, &next)
                .await
                .map_err(failure)?
            {
                tracing::info!(secret = %self.options.secret, "issued a new certificate for the webhooks");
                return Ok(next);
            }
        }
        Err(CertificateManagerError::Conflicts(
            self.options.secret.clone(),
        ))
    }

    /// Returns the DNS names for which the certificate is valid: the names of the Service, and `localhost`.
    fn dns_names(&self) -> Vec<String> {
        let NamespacedName { namespace, name } = &self.options.service;
        let service = format!("{name}.{namespace}.svc");
        vec![
            service.clone(),
            format!("{service}.cluster.local"),
            format!("{name}.{namespace}"),
            name.clone(),
            "localhost".to_owned(),
        ]
    }
}
