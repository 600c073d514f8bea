//! Certificates that the replicas of the webhook server issue and renew themselves.
//!
//! A Secret stores a certificate authority and a serving certificate. The replicas renew both before they expire, and
//! write the CA bundle into the webhook configurations.
//!
//! If several replicas write the Secret at the same time, the first write succeeds, and the other replicas read the
//! Secret again. A replica adds a new authority to the CA bundle before it uses a certificate of this authority. The
//! previous authority stays in the CA bundle. Therefore API servers accept the certificates of all replicas.

mod certificates;
mod configurations;
mod secret;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_apimachinery::namespaced_name::NamespacedName;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Client;
use tokio_util::sync::CancellationToken;

use self::certificates::Certificates;
use self::configurations::{Configuration, write_ca_bundle};
use self::secret::Stored;
use crate::serving_certificate::{CertificateError, ServingCertificate};

/// Interval between checks of the Secret and of the webhook configurations.
const INTERVAL: Duration = Duration::from_mins(1);
/// Pause after a failed check.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum number of attempts to write the Secret while other replicas write it at the same time.
const MAX_CONFLICTS: u32 = 5;

/// The source of the current time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Names of the objects on the control plane.
#[derive(Clone, Debug)]
pub struct SelfManagedOptions {
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
pub enum SelfManagedError {
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
    #[error("cannot read or write the secret {secret}: {source}")]
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
    #[error("cannot write the CA bundle of {name}: {source}")]
    Configuration {
        /// The configuration.
        name: String,
        /// The error of the API server.
        source: Box<kube::Error>,
    },
}

/// The certificate management of one replica.
#[derive(Clone)]
pub struct SelfManaged {
    client: Client,
    options: SelfManagedOptions,
    clock: Clock,
}

impl fmt::Debug for SelfManaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelfManaged")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl SelfManaged {
    /// Creates the certificate management for a control plane.
    pub fn new(client: Client, options: SelfManagedOptions, clock: Clock) -> Self {
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
                Ok(()) => INTERVAL,
                Err(error) => {
                    tracing::error!(%error, "cannot manage the certificate of the webhooks");
                    RETRY
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
    /// When the control plane cannot be reached or rejects a write. The certificate in `serving` stays.
    pub async fn reconcile(&self, serving: &ServingCertificate) -> Result<(), SelfManagedError> {
        let current = self.current().await?;
        let options = &self.options;
        self.publish::<MutatingWebhookConfiguration>(&options.mutating_configuration, &current)
            .await?;
        self.publish::<ValidatingWebhookConfiguration>(&options.validating_configuration, &current)
            .await?;
        serving
            .replace(current.certificate.as_bytes(), current.key.as_bytes())
            .map_err(|source| SelfManagedError::Unusable {
                secret: self.options.secret.clone(),
                source,
            })
    }

    async fn publish<K: Configuration>(
        &self,
        name: &str,
        current: &Certificates,
    ) -> Result<(), SelfManagedError> {
        let service = &self.options.service;
        write_ca_bundle::<K>(&self.client, name, service, &current.ca_bundle)
            .await
            .map_err(|source| SelfManagedError::Configuration {
                name: name.to_owned(),
                source: Box::new(source),
            })
    }

    /// Returns the certificates in the Secret. Issues new certificates if they are missing, damaged or about to expire.
    async fn current(&self) -> Result<Certificates, SelfManagedError> {
        let failure = |source| SelfManagedError::Secret {
            secret: self.options.secret.clone(),
            source: Box::new(source),
        };
        for _ in 0..MAX_CONFLICTS {
            let stored = Stored::read(&self.client, &self.options.secret)
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
        Err(SelfManagedError::Conflicts(self.options.secret.clone()))
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
