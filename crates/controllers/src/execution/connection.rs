//! A client for a member, from its Cluster and the secret that this names.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::Cluster;
use berth_api::cluster::LocalSecretReference;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// How long a member may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// What a connection depends on: when it changes, there has to be a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    endpoint: String,
    secret: Option<LocalSecretReference>,
    skip_verification: bool,
}

impl Address {
    /// The address in a Cluster, if it has one.
    pub(super) fn of(cluster: &Cluster) -> Option<Self> {
        let spec = &cluster.spec;
        let endpoint = spec.api_endpoint.as_deref()?;
        (!endpoint.is_empty()).then(|| Self {
            endpoint: endpoint.to_owned(),
            secret: spec.secret_ref.clone(),
            skip_verification: spec.insecure_skip_tls_verification == Some(true),
        })
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    /// The Cluster names no secret.
    #[error("the cluster has no secretRef")]
    NoSecret,
    /// The secret cannot be read.
    #[error("secret {namespace}/{name}: {source}")]
    Secret {
        namespace: String,
        name: String,
        source: Box<kube::Error>,
    },
    /// The secret has no token.
    #[error("secret {0}/{1} has no token")]
    NoToken(String, String),
    /// The token is no text.
    #[error("the token in secret {0}/{1} is not text")]
    BadToken(String, String),
    /// The address or the certificates cannot be used.
    #[error("{endpoint}: {reason}")]
    Unusable { endpoint: String, reason: String },
}

/// Builds a client. Nothing is sent to the member yet.
pub(super) async fn connect(
    control_plane: kube::Client,
    address: &Address,
) -> Result<kube::Client, ConnectionError> {
    let LocalSecretReference { namespace, name } =
        address.secret.clone().ok_or(ConnectionError::NoSecret)?;
    let secrets: Api<Secret> = Api::namespaced(control_plane, &namespace);
    let secret = secrets
        .get(&name)
        .await
        .map_err(|source| ConnectionError::Secret {
            namespace: namespace.clone(),
            name: name.clone(),
            source: Box::new(source),
        })?;
    let data = secret.data.unwrap_or_default();
    let token = data
        .get("token")
        .ok_or_else(|| ConnectionError::NoToken(namespace.clone(), name.clone()))?;
    let token = String::from_utf8(token.0.clone())
        .map_err(|_| ConnectionError::BadToken(namespace, name))?;
    let unusable = |reason: String| ConnectionError::Unusable {
        endpoint: address.endpoint.clone(),
        reason,
    };
    let mut server = json!({ "server": address.endpoint });
    if address.skip_verification {
        server["insecure-skip-tls-verify"] = json!(true);
    } else if let Some(bundle) = data.get("caBundle") {
        server["certificate-authority-data"] = json!(STANDARD.encode(&bundle.0));
    }
    let kubeconfig = kubeconfig(server, &token).map_err(|error| unusable(error.to_string()))?;
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| unusable(error.to_string()))?;
    config.connect_timeout = Some(CONNECT);
    // The queue decides when to try again.
    config.default_retry = false;
    kube::Client::try_from(config).map_err(|error| unusable(error.to_string()))
}

fn kubeconfig(server: Value, token: &str) -> Result<Kubeconfig, serde_json::Error> {
    serde_json::from_value(json!({
        "clusters": [{ "name": "member", "cluster": server }],
        "users": [{ "name": "member", "user": { "token": token } }],
        "contexts": [{ "name": "member", "context": { "cluster": "member", "user": "member" } }],
        "current-context": "member",
    }))
}
