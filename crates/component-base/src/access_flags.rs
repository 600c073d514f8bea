//! Flags of the access control for the HTTP endpoints of metrics and configuration. As in kube-scheduler, the endpoints
//! use TLS, and an API server checks each caller with a TokenReview and a SubjectAccessReview.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::access::{Access, Authorizer, Permission};
use crate::certificate_files::{CertificateFiles, FileError};
use crate::serving_certificate::{CertificateError, ServingCertificate};
use crate::user_agent::Component;
use berth_apimachinery::api_error::api_error_message;
use clap::Args;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio_util::sync::CancellationToken;

use crate::kube_client::{self, ConnectError, Target};

/// Time for which a decision about a token and a path is reused. kube-scheduler uses the same value.
const DECISION_LIFETIME: Duration = Duration::from_secs(10);
/// Maximum number of decisions that are kept.
const MAX_DECISIONS: usize = 1000;
/// Interval between checks for changed certificate files.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(10);

/// Flags of the access control for metrics.
#[derive(Args, Clone, Debug, Default)]
pub struct MetricsAccessFlags {
    /// Serve /metrics, /configz and /debug over TLS, to callers that pass a TokenReview and a SubjectAccessReview
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub metrics_secure: bool,

    /// Certificate of --metrics-secure, PEM; without this flag, each start creates a self-signed certificate
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Kubeconfig of the cluster that reviews the callers of --metrics-secure
    ///
    /// Without this flag, the cluster of the Pod reviews the callers. Outside a cluster, the control plane reviews
    /// them.
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,
}

/// An error of setting up the access control for metrics.
#[derive(Debug, thiserror::Error)]
pub enum MetricsAccessError {
    /// The certificate files cannot be used.
    #[error(transparent)]
    Files(#[from] FileError),
    /// No self-signed certificate can be created.
    #[error("cannot create a certificate for --metrics-secure: {0}")]
    SelfSigned(String),
    /// The connection to the reviewing cluster cannot be configured.
    #[error("cannot use the cluster that reviews the callers of --metrics-secure: {0}")]
    Connect(#[from] ConnectError),
}

impl MetricsAccessFlags {
    /// Returns the access control that the flags configure. Certificate files are watched until the token is cancelled.
    ///
    /// # Errors
    /// When the certificate or the reviewing cluster cannot be used.
    pub async fn access(
        &self,
        component: Component,
        control_plane: &Client,
        cancel: &CancellationToken,
    ) -> Result<Access, MetricsAccessError> {
        if !self.metrics_secure {
            return Ok(Access::Open);
        }
        let certificate = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                let files = CertificateFiles {
                    certificate: certificate.clone(),
                    key: key.clone(),
                };
                let serving = files.load()?;
                let watched = serving.clone();
                tokio::spawn(files.watch(watched, CERTIFICATE_INTERVAL, cancel.clone()));
                serving
            }
            _ => self_signed(component)?,
        };
        let client = self.reviewer(component, control_plane).await?;
        Ok(Access::Authorized {
            certificate,
            authorizer: Arc::new(ReviewAuthorizer::new(client)),
        })
    }

    async fn reviewer(
        &self,
        component: Component,
        control_plane: &Client,
    ) -> Result<Client, ConnectError> {
        let target = Target {
            kubeconfig: self.authentication_kubeconfig.clone(),
            ..Target::default()
        };
        let config = match &target.kubeconfig {
            Some(_) => kube_client::config(&target).await?,
            None => match kube::Config::incluster() {
                Ok(config) => config,
                Err(_) => return Ok(control_plane.clone()),
            },
        };
        let (client, _) = kube_client::counted_client(config, &target, component)?;
        Ok(client)
    }
}

fn self_signed(component: Component) -> Result<ServingCertificate, MetricsAccessError> {
    let generated = rcgen::generate_simple_self_signed(vec![
        component.name().to_owned(),
        "localhost".to_owned(),
    ]);
    let pair = generated.map_err(|error| MetricsAccessError::SelfSigned(error.to_string()))?;
    let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
    ServingCertificate::from_pem(certificate.as_bytes(), key.as_bytes())
        .map_err(|error: CertificateError| MetricsAccessError::SelfSigned(error.to_string()))
}

type Decisions = HashMap<(String, String), (Instant, Permission)>;

/// An authorizer that sends reviews to an API server. Each decision is reused for [`DECISION_LIFETIME`].
struct ReviewAuthorizer {
    client: Client,
    decisions: Arc<Mutex<Decisions>>,
}

impl std::fmt::Debug for ReviewAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewAuthorizer").finish_non_exhaustive()
    }
}

impl ReviewAuthorizer {
    fn new(client: Client) -> Self {
        Self {
            client,
            decisions: Arc::default(),
        }
    }
}

impl Authorizer for ReviewAuthorizer {
    fn decide(
        &self,
        token: String,
        path: String,
    ) -> BoxFuture<'static, Result<Permission, String>> {
        let (client, decisions) = (self.client.clone(), Arc::clone(&self.decisions));
        async move {
            let key = (token, path);
            if let Some(permission) = cached(&decisions, &key) {
                return Ok(permission);
            }
            let permission = review(client, &key.0, &key.1)
                .await
                .map_err(|error| api_error_message(&error))?;
            let mut all = decisions.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, (since, _)| since.elapsed() < DECISION_LIFETIME);
            if all.len() < MAX_DECISIONS {
                all.insert(key, (Instant::now(), permission.clone()));
            }
            Ok(permission)
        }
        .boxed()
    }
}

fn cached(decisions: &Mutex<Decisions>, key: &(String, String)) -> Option<Permission> {
    let all = decisions.lock().unwrap_or_else(PoisonError::into_inner);
    let (since, permission) = all.get(key)?;
    (since.elapsed() < DECISION_LIFETIME).then(|| permission.clone())
}

async fn review(client: Client, token: &str, path: &str) -> Result<Permission, kube::Error> {
    let tokens: Api<TokenReview> = Api::all(client.clone());
    let request = token_review(token);
    let reviewed = tokens.create(&PostParams::default(), &request).await?;
    let status = reviewed.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
        return Ok(Permission::Unauthenticated);
    };
    let accesses: Api<SubjectAccessReview> = Api::all(client);
    let name = user.username.clone().unwrap_or_default();
    let request = access_review(user, path);
    let reviewed = accesses.create(&PostParams::default(), &request).await?;
    let allowed = reviewed.status.is_some_and(|status| status.allowed);
    Ok(if allowed {
        Permission::Allowed
    } else {
        Permission::Forbidden(name)
    })
}

fn token_review(token: &str) -> TokenReview {
    TokenReview {
        spec: TokenReviewSpec {
            token: token.to_owned(),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    }
}

fn access_review(user: UserInfo, path: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            extra: user.extra,
            groups: user.groups,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some("get".to_owned()),
            }),
            uid: user.uid,
            user: user.username,
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}
