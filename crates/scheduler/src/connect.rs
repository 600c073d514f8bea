//! Clients for the control plane.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::component::Component;
use berth_apimachinery::api_error::root_cause;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::util::{BoxService, MapRequestLayer};
use tower::{BoxError, Service, ServiceExt as _};

use crate::metrics::Requests;
use crate::options::Patience;
use crate::reachability::Reachability;
use crate::rotation::Rotating;

/// The transport of a client.
type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Where the control plane is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// A kubeconfig file; without one, `$KUBECONFIG`, `~/.kube/config` and the in-cluster configuration are tried.
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
    #[error("cannot use the kubeconfig{}: {}", file_of(.path.as_ref(), .source), root_cause(.source.as_ref()))]
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
fn file_of(path: Option<&PathBuf>, problem: &KubeconfigError) -> String {
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

/// Returns what `$KUBECONFIG` names, where it names something: a file, or several as in `$PATH`.
pub fn kubeconfig_of_environment() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG")?;
    let mut paths = std::env::split_paths(&named);
    let names_file = paths.any(|path| !path.as_os_str().is_empty());
    names_file.then(|| PathBuf::from(named))
}

fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    Kubeconfig::read_from(path).map_err(|source| ConnectError::Kubeconfig {
        path: Some(path.to_owned()),
        source: Box::new(source),
    })
}

/// Reads the files of `$KUBECONFIG`. As for kubectl, some of several may be missing.
fn merged(named: &Path) -> Result<Kubeconfig, ConnectError> {
    let paths = std::env::split_paths(named).filter(|path| !path.as_os_str().is_empty());
    let paths: Vec<PathBuf> = paths.collect();
    let any_exists = paths.iter().any(|path| path.exists());
    let mut all = Kubeconfig::default();
    for path in paths.iter().filter(|path| path.exists() || !any_exists) {
        let next = read(path)?;
        all = all.merge(next).map_err(|source| ConnectError::Kubeconfig {
            path: Some(path.clone()),
            source: Box::new(source),
        })?;
    }
    Ok(all)
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
    let path = target.kubeconfig.clone().or_else(kubeconfig_of_environment);
    let unusable = |source| ConnectError::Kubeconfig {
        path: path.clone(),
        source: Box::new(source),
    };
    let mut config = if let Some(path) = &path {
        let kubeconfig = match &target.kubeconfig {
            Some(path) => read(path)?,
            None => merged(path)?,
        };
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

/// A client of the scheduler for a configuration, and the count of its requests.
///
/// # Errors
/// When the configuration's certificates or keys cannot be used.
pub fn counted_client(
    config: kube::Config,
    target: &Target,
) -> Result<(kube::Client, Requests), ConnectError> {
    let host = config.cluster_url.authority();
    let requests = Requests::to(host.map(ToString::to_string).unwrap_or_default());
    let reachability = Reachability::of(url(&config));
    let builder = rotating(config, target)?
        .with_layer(&reachability)
        .with_layer(&requests)
        .with_layer(&named_by(Component::Scheduler));
    Ok((builder.build(), requests))
}

/// A client of a component for a configuration.
///
/// # Errors
/// When the configuration's certificates or keys cannot be used.
pub fn client(config: kube::Config, component: Component) -> Result<kube::Client, ConnectError> {
    let builder = builder(config)?.with_layer(&named_by(component));
    Ok(builder.build())
}

/// A client of a component that works for long: when the server goes away, and when it is back, is logged once.
///
/// # Errors
/// When the configuration's certificates or keys cannot be used.
pub fn lasting_client(
    config: kube::Config,
    target: &Target,
    component: Component,
) -> Result<kube::Client, ConnectError> {
    let reachability = Reachability::of(url(&config));
    let builder = rotating(config, target)?
        .with_layer(&reachability)
        .with_layer(&named_by(component));
    Ok(builder.build())
}

fn url(config: &kube::Config) -> String {
    let url = config.cluster_url.to_string();
    url.trim_end_matches('/').to_owned()
}

/// Returns a client that sends its requests over another one, under the name of this component.
pub fn named(client: kube::Client, component: Component) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let builder = ClientBuilder::new(over(client), namespace).with_layer(&named_by(component));
    builder.build()
}

/// Returns a client as a service, to put layers around it.
pub fn over(
    client: kube::Client,
) -> impl Service<
    Request<Body>,
    Response = Response<Body>,
    Error = BoxError,
    Future = BoxFuture<'static, Result<Response<Body>, BoxError>>,
> + Clone
+ Send
+ 'static {
    tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }.boxed()
    })
}

fn builder(config: kube::Config) -> Result<ClientBuilder<Transport>, ConnectError> {
    ClientBuilder::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}

/// Builds on a transport that follows the files of certificates which the kubeconfig of a target names.
fn rotating(
    config: kube::Config,
    target: &Target,
) -> Result<ClientBuilder<Transport>, ConnectError> {
    let rotating = Rotating::of(&config, target);
    match rotating.map_err(|error| ConnectError::Client(Box::new(error)))? {
        Some(transport) => {
            let transport = transport.map_response(|answer| answer.map(boxed));
            let transport = BoxService::new(transport);
            Ok(ClientBuilder::new(transport, config.default_namespace))
        }
        None => builder(config),
    }
}

fn boxed(body: Body) -> Box<DynBody> {
    Box::new(body.map_err(Into::into))
}

/// Sets the `User-Agent` of requests that have none: without it the field manager is `unknown`.
fn named_by(
    component: Component,
) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone + Send + 'static> {
    let agent = HeaderValue::try_from(component.user_agent()).ok();
    MapRequestLayer::new(move |mut request: Request<Body>| {
        if let Some(agent) = &agent {
            let headers = request.headers_mut();
            headers.entry(USER_AGENT).or_insert_with(|| agent.clone());
        }
        request
    })
}

/// A client of a component for a configuration, for a command that has no use for a control plane that begins to answer later.
///
/// # Errors
/// When the client cannot be built, or the server does not answer. A refusal is an answer.
pub async fn reach(
    config: kube::Config,
    component: Component,
) -> Result<kube::Client, ConnectError> {
    let url = url(&config);
    let client = client(config, component)?;
    match client.apiserver_version().await {
        Ok(_) | Err(kube::Error::Api(_)) => Ok(client),
        Err(error) => Err(ConnectError::Unreachable {
            url,
            reason: root_cause(&error),
        }),
    }
}
