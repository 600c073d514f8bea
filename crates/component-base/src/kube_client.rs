//! Clients of API servers: their configuration, credentials, request limit and reachability.

pub mod certificate_problem;
mod credential_reload;
mod rate_limit;
mod reachability;
pub mod response_limits;
pub mod transport;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::metrics::requests::Requests;
use crate::user_agent::Component;
use berth_apimachinery::api_error::root_cause;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{
    InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError,
};
use kube::core::ApiResource;
use tower::util::{BoxService, MapRequestLayer};
use tower::{BoxError, Service, ServiceExt as _};

use self::credential_reload::ReloadingTransport;
pub use self::rate_limit::{Rate, RateLimit};
use self::reachability::Reachability;
use self::transport::Transport;

/// Time limit for a response to a command that runs once.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Address and credentials of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Kubeconfig file. If it is `None`, `$KUBECONFIG`, `~/.kube/config` and the in-cluster configuration are tried in
    /// this order.
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use instead of the current context.
    pub context: Option<String>,
    /// Address of the API server; overrides the kubeconfig.
    pub master: Option<String>,
}

/// Time limits after which a silent connection to the API server counts as dead. The limits detect a server whose
/// machine disappeared, and a connection that is half closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time limit for the response to a request.
    pub request: Duration,
    /// Duration of a watch, in whole seconds. Each watch request asks the server to end the watch after this time.
    pub watch: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(15),
            watch: Duration::from_secs(30),
        }
    }
}

/// Reason why a client of the control plane cannot be created, or cannot reach the server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig is unusable.
    #[error("cannot use the kubeconfig{}: {}", file_of(.path.as_ref(), .source), field_problem(.source))]
    Kubeconfig {
        /// The file that the user named.
        path: Option<PathBuf>,
        /// The reason.
        source: Box<KubeconfigError>,
    },
    /// The certificate authority of the kubeconfig contains no certificate.
    #[error(
        "cannot use the kubeconfig{}: certificate-authority contains no PEM certificate: name a file with \
         `BEGIN CERTIFICATE`, or write its base64 text into certificate-authority-data",
        .0.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default()
    )]
    NoCertificate(Option<PathBuf>),
    /// Neither a kubeconfig nor an in-cluster configuration was found.
    #[error(
        "found no control plane ({}): pass --kubeconfig, set KUBECONFIG, or run inside a cluster",
        kubeconfig_problem(.0)
    )]
    Nowhere(Box<InferConfigError>),
    /// `--master` is not a URL.
    #[error("--master {url}: {source}")]
    Master {
        /// The value of the flag.
        url: String,
        /// The reason.
        source: http::uri::InvalidUri,
    },
    /// The server does not respond.
    #[error("cannot reach the control plane at {url}: {reason}")]
    Unreachable {
        /// The address of the server.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The client cannot be built, for example because of an invalid certificate.
    #[error("cannot build a client: {}", client_problem(.0))]
    Client(Box<kube::Error>),
    /// The server does not serve resources that the command needs.
    #[error(
        "{url} does not serve {}: install the definitions with `kubectl apply --server-side -f crds`, or name the \
         kubeconfig and the context of a control plane with the Karmada API",
        .resources.join(", ")
    )]
    NotServed {
        /// The address of the server.
        url: String,
        /// The full names of the resources, such as `clusters.cluster.karmada.io`.
        resources: Vec<String>,
    },
}

/// Formats the path of the file that the user named, or of the file that could not be read.
fn file_of(path: Option<&PathBuf>, problem: &KubeconfigError) -> String {
    let tried = match problem {
        KubeconfigError::ReadConfig(_, tried) => Some(tried),
        _ => None,
    };
    path.or(tried)
        .map(|path| format!(" {}", path.display()))
        .unwrap_or_default()
}

/// Describes a problem of a kubeconfig, with the field and the remedy if the problem concerns a certificate or key.
fn field_problem(problem: &KubeconfigError) -> String {
    let (field, problem) = match problem {
        KubeconfigError::LoadCertificateAuthority(problem) => ("certificate-authority", problem),
        KubeconfigError::LoadClientCertificate(problem) => ("client-certificate", problem),
        KubeconfigError::LoadClientKey(problem) => ("client-key", problem),
        KubeconfigError::ParseCertificates(problem) => {
            return format!(
                "certificate-authority-data is not a PEM certificate ({problem}): write the base64 text of a PEM file"
            );
        }
        other => return root_cause(other),
    };
    match problem {
        LoadDataError::DecodeBase64(problem) => format!(
            "{field}-data is not base64 ({problem}): write the base64 text of a PEM file, without blanks"
        ),
        LoadDataError::ReadFile(problem, path) => {
            format!("{field}: cannot read {}: {problem}", path.display())
        }
        LoadDataError::NoBase64DataOrFile => {
            format!("{field} is missing: write {field} or {field}-data")
        }
    }
}

/// Describes why a client cannot be built. Most problems concern the certificates and keys of the kubeconfig.
fn client_problem(error: &kube::Error) -> String {
    match error {
        kube::Error::RustlsTls(problem) => format!(
            "{problem}: check certificate-authority, client-certificate and client-key in the kubeconfig"
        ),
        other => root_cause(other),
    }
}

/// Describes why the default kubeconfig cannot be used. The description omits the missing in-cluster configuration,
/// because users usually run the program outside a cluster.
fn kubeconfig_problem(error: &InferConfigError) -> String {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<KubeconfigError>()) {
        Some(KubeconfigError::ReadConfig(why, path)) => format!("{}: {why}", path.display()),
        Some(other) => other.to_string(),
        None => error.to_string(),
    }
}

/// Returns the value of `$KUBECONFIG` if the variable names at least one file. The variable separates several files in
/// the same way as `$PATH`.
pub fn kubeconfig_of_environment() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG")?;
    let mut paths = std::env::split_paths(&named);
    let names_file = paths.any(|path| !path.as_os_str().is_empty());
    names_file.then(|| PathBuf::from(named))
}

/// Returns the paths of the kubeconfigs that `$KUBECONFIG` names.
fn kubeconfigs_of_environment() -> Vec<PathBuf> {
    let named = kubeconfig_of_environment().unwrap_or_default();
    let paths = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
    paths.collect()
}

fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    Kubeconfig::read_from(path).map_err(|source| ConnectError::Kubeconfig {
        path: Some(path.to_owned()),
        source: Box::new(source),
    })
}

/// Reads and merges the files of `$KUBECONFIG`. As in kubectl, missing files are ignored if at least one file exists.
fn merged() -> Result<Kubeconfig, ConnectError> {
    let paths = kubeconfigs_of_environment();
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

/// The contexts of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// The names of all contexts.
    pub names: Vec<String>,
    /// The name of the current context.
    pub current: Option<String>,
}

/// Returns the contexts of a target's kubeconfig. Without a readable kubeconfig, there are none.
pub fn contexts(target: &Target) -> Contexts {
    let kubeconfig = match (&target.kubeconfig, kubeconfig_of_environment()) {
        (Some(path), _) => read(path).ok(),
        (None, Some(_)) => merged().ok(),
        (None, None) => Kubeconfig::read().ok(),
    };
    let kubeconfig = kubeconfig.unwrap_or_default();
    Contexts {
        names: kubeconfig.contexts.into_iter().map(|it| it.name).collect(),
        current: kubeconfig.current_context,
    }
}

/// Returns the client configuration of a target.
///
/// # Errors
/// When no configuration is found, or the configuration is unusable.
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
    let mut config = if path.is_some() {
        let kubeconfig = match &target.kubeconfig {
            Some(path) => read(path)?,
            None => merged()?,
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
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConnectError::NoCertificate(path));
    }
    if let Some(url) = &target.master {
        config.cluster_url = url.parse().map_err(|source| ConnectError::Master {
            url: url.clone(),
            source,
        })?;
    }
    // The transport sends each request once, because the callers control the retries.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    Ok(config)
}

/// Sets the read timeout of connections. The server ends each watch after [`Timeouts::watch`], so a connection that is
/// silent for longer is dead. The timeout also applies to lists and to requests on reused connections.
pub fn limit_silence(config: &mut kube::Config, timeouts: Timeouts) {
    config.read_timeout = Some(timeouts.watch + timeouts.request);
    config.reset_reader_on_write = true;
}

/// Configures the client of a command that runs once. The client has a time limit for responses, and repeats requests
/// while the server is overloaded or starting.
pub fn retry_requests(config: &mut kube::Config) {
    config.read_timeout = Some(RESPONSE_TIMEOUT);
    config.default_retry = true;
}

/// Creates a client for a long-running component, and the metrics of its requests. The client logs one line when the
/// server stops responding, and one line when the server responds again.
///
/// # Errors
/// When a certificate or key of the configuration is unusable.
pub fn counted_client(
    config: kube::Config,
    target: &Target,
    component: Component,
) -> Result<(kube::Client, Requests), ConnectError> {
    let host = config.cluster_url.authority();
    let requests = Requests::to(host.map(ToString::to_string).unwrap_or_default());
    let reachability = Reachability::of(url(&config));
    let builder = rotating(config, target)?
        .with_layer(&reachability)
        .with_layer(&requests)
        .with_layer(&named_by(component));
    Ok((builder.build(), requests))
}

/// Creates a client for a component. Unlike the client of [`counted_client`], it counts no requests and logs no
/// outages.
///
/// # Errors
/// When a certificate or key of the configuration is unusable.
pub fn client(config: kube::Config, component: Component) -> Result<kube::Client, ConnectError> {
    let builder = builder(&config)?.with_layer(&named_by(component));
    Ok(builder.build())
}

fn url(config: &kube::Config) -> String {
    let url = config.cluster_url.to_string();
    url.trim_end_matches('/').to_owned()
}

/// Waits for the response to a request. Returns an error if there is no response within the time limit.
pub async fn within<T>(
    limit: Duration,
    sent: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    match tokio::time::timeout(limit, sent).await {
        Ok(response) => response,
        Err(_) => Err(kube::Error::Service(
            format!("no answer within {limit:?}").into(),
        )),
    }
}

/// Wraps a client so that the `User-Agent` of its requests names the component.
pub fn named(client: kube::Client, component: Component) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let builder = ClientBuilder::new(over(client), namespace).with_layer(&named_by(component));
    builder.build()
}

/// Converts a client to a tower service, to which the caller can add layers.
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

fn builder(config: &kube::Config) -> Result<ClientBuilder<Transport>, ConnectError> {
    let builder = transport::builder(config, HeaderMap::new());
    builder.map_err(|error| ConnectError::Client(Box::new(error)))
}

/// Creates a builder with a transport that reloads the certificate files of the target's kubeconfig.
fn rotating(
    config: kube::Config,
    target: &Target,
) -> Result<ClientBuilder<Transport>, ConnectError> {
    let rotating = ReloadingTransport::of(&config, target);
    match rotating.map_err(|error| ConnectError::Client(Box::new(error)))? {
        Some(transport) => {
            let transport = transport.map_response(|response| response.map(boxed));
            let transport = BoxService::new(transport);
            Ok(ClientBuilder::new(transport, config.default_namespace))
        }
        None => builder(&config),
    }
}

fn boxed(body: Body) -> Box<DynBody> {
    Box::new(body.map_err(Into::into))
}

/// Returns a layer that sets the `User-Agent` of requests that have none. The API server uses this header as the
/// default field manager, which would otherwise be `unknown`.
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

/// Creates a client and checks that the server responds, for commands that should fail fast.
///
/// # Errors
/// When the client cannot be built, or the server does not respond. An error response counts as a response.
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

/// Creates a client like [`reach`], and checks that the server serves these resources, for commands that read them.
///
/// # Errors
/// When the client cannot be built, the server does not respond, or it does not serve one of the resources.
pub async fn reach_serving(
    config: kube::Config,
    component: Component,
    resources: &[ApiResource],
) -> Result<kube::Client, ConnectError> {
    let url = url(&config);
    let client = reach(config, component).await?;
    let mut missing = Vec::new();
    let mut checked: Vec<&str> = Vec::new();
    for resource in resources {
        let version = resource.api_version.as_str();
        if checked.contains(&version) {
            continue;
        }
        checked.push(version);
        let served = match client.list_api_group_resources(version).await {
            Ok(list) => list.resources,
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            // The user may lack the right to read this list, and the requests of the command still succeed.
            Err(_) => continue,
        };
        let of_version = resources
            .iter()
            .filter(|other| other.api_version == version);
        let not_served =
            of_version.filter(|other| served.iter().all(|served| served.name != other.plural));
        missing.extend(not_served.map(|other| format!("{}.{}", other.plural, other.group)));
    }
    if missing.is_empty() {
        Ok(client)
    } else {
        Err(ConnectError::NotServed {
            url,
            resources: missing,
        })
    }
}
