//! Clients for the control plane.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::metrics::Requests;
use crate::options::Patience;

/// Where the control plane is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// A kubeconfig file; without one, `KUBECONFIG`, `~/.kube/config` and the in-cluster configuration are tried.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig other than its current one.
    pub context: Option<String>,
    /// The address of the API server, which wins over the kubeconfig's.
    pub master: Option<String>,
}

/// A control plane that cannot be addressed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig{}: {}", named(.path.as_ref(), .source), root_cause(.source.as_ref()))]
    Kubeconfig {
        /// The file named by the user.
        path: Option<PathBuf>,
        /// Why not.
        source: Box<KubeconfigError>,
    },
    /// Neither a kubeconfig nor an in-cluster configuration was found.
    #[error(
        "no control plane to talk to ({}): give --kubeconfig, set KUBECONFIG, or run inside a cluster",
        kubeconfig_problem(.0)
    )]
    Nowhere(Box<InferConfigError>),
    /// `--master` is no URL.
    #[error("--master {url}: {source}")]
    Master {
        /// As given.
        url: String,
        /// Why not.
        source: http::uri::InvalidUri,
    },
    /// Nobody answers there.
    #[error("cannot reach the control plane at {url}: {reason}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What happened instead.
        reason: String,
    },
    /// The client cannot be built, for example because of a certificate.
    #[error("cannot build a client: {0}")]
    Client(Box<kube::Error>),
}

/// The file that the user has named, or that could not be read.
fn named(path: Option<&PathBuf>, problem: &KubeconfigError) -> String {
    let tried = match problem {
        KubeconfigError::ReadConfig(_, tried) => Some(tried),
        _ => None,
    };
    path.or(tried)
        .map(|path| format!(" {}", path.display()))
        .unwrap_or_default()
}

/// What is the matter with the kubeconfig that was looked for; that there is no cluster around is no news.
fn kubeconfig_problem(error: &InferConfigError) -> String {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<KubeconfigError>()) {
        Some(KubeconfigError::ReadConfig(why, path)) => format!("{}: {why}", path.display()),
        Some(other) => other.to_string(),
        None => error.to_string(),
    }
}

/// The innermost reason: the layers above it repeat the path and each other.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The client configuration of a target.
///
/// # Errors
/// When nothing tells where the control plane is, or what tells it cannot be used.
pub async fn config(target: &Target) -> Result<kube::Config, ConnectError> {
    let options = KubeConfigOptions {
        context: target.context.clone(),
        ..KubeConfigOptions::default()
    };
    let unusable = |source| ConnectError::Kubeconfig {
        path: target.kubeconfig.clone(),
        source: Box::new(source),
    };
    let mut config = if let Some(path) = &target.kubeconfig {
        let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
        kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(unusable)?
    } else if target.context.is_some() {
        kube::Config::from_kubeconfig(&options)
            .await
            .map_err(unusable)?
    } else {
        kube::Config::infer()
            .await
            .map_err(|error| ConnectError::Nowhere(Box::new(error)))?
    };
    if let Some(url) = &target.master {
        config.cluster_url = url.parse().map_err(|source| ConnectError::Master {
            url: url.clone(),
            source,
        })?;
    }
    // The queue decides when to try again, not the transport.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    Ok(config)
}

/// Lets connections end that are silent for too long: the server ends watches in time, so one on which
/// nothing has come for longer is dead. This covers lists, and idle connections that would be used again.
pub fn limit_silence(config: &mut kube::Config, patience: Patience) {
    config.read_timeout = Some(patience.watch + patience.request);
    config.reset_reader_on_write = true;
}

/// A client for a configuration, and the count of its requests.
///
/// # Errors
/// When the configuration's certificates or keys cannot be used.
pub fn counted_client(config: kube::Config) -> Result<(kube::Client, Requests), ConnectError> {
    let host = config.cluster_url.authority();
    let requests = Requests::to(host.map(ToString::to_string).unwrap_or_default());
    let builder = kube::client::ClientBuilder::try_from(config)
        .map_err(|error| ConnectError::Client(Box::new(error)))?;
    Ok((builder.with_layer(&requests).build(), requests))
}

/// A client for a configuration.
///
/// # Errors
/// When the configuration's certificates or keys cannot be used.
pub fn client(config: kube::Config) -> Result<kube::Client, ConnectError> {
    kube::Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}

/// A client for a configuration, for a command that has no use for a control plane that begins to answer later.
///
/// # Errors
/// When the client cannot be built, or nobody answers. Whoever refuses does answer.
pub async fn reach(config: kube::Config) -> Result<kube::Client, ConnectError> {
    let url = config.cluster_url.to_string();
    let client = client(config)?;
    match client.apiserver_version().await {
        Ok(_) | Err(kube::Error::Api(_)) => Ok(client),
        Err(error) => Err(ConnectError::Unreachable {
            url: url.trim_end_matches('/').to_owned(),
            reason: root_cause(&error),
        }),
    }
}
