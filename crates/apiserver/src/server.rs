//! A running server: what it is started from, how to reach it, how to stop it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine;
use http::{Request, Response};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::authentication::Authenticator;
use crate::authentication::service_account::Signer;
use crate::authorization::bootstrap;
use crate::builtin::seed;
use crate::connect::Connect;
use crate::connection::Slots;
use crate::credentials::Credentials;
use crate::error::{ApiError, Reason};
use crate::http::load::{Limits, Load};
use crate::shared::{Followers, Hooks, Identity, Shared};
use crate::storage::{Storage, StorageError, Volatile};
use crate::store::{Key, Store};
use crate::tls::{Authority, ClientCertificate, TlsError};
use crate::verbs::{self, Origin, Write};
use crate::{connection, tasks, tls};

/// What a server is started from.
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// In-process admission hooks, in order.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Handlers of subresources that lead elsewhere.
    pub connects: Vec<Arc<dyn Connect>>,
    /// Where objects outlive the process.
    pub storage: Box<dyn Storage>,
    /// A folder for the keys, certificates and token of the server, which then outlive the process too. It
    /// and what is in it can be read by its owner only. Without one they are made anew at each start.
    pub credentials: Option<PathBuf>,
    /// How much the server takes on at once.
    pub limits: Limits,
    /// How long events are kept after they were last written.
    pub events_live: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admission: Vec::new(),
            connects: Vec::new(),
            storage: Box::new(Volatile),
            credentials: None,
            limits: Limits::default(),
            events_live: Duration::from_hours(1),
        }
    }
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on, typically because it is in use.
    #[error("failed to listen on {address}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Certificates could not be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What was stored could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The objects of an empty cluster could not be created.
    #[error("failed to create the initial objects")]
    Seed(#[source] ApiError),
}

/// Whether a server can be reached, to be set by a test of what happens when it cannot.
#[derive(Clone, Debug)]
pub struct Reachability(watch::Sender<bool>);

impl Reachability {
    /// Cuts the server off: connections end at once, and new ones are closed as soon as they are made. Or lets it be
    /// reached again. Clients within the process do not notice.
    pub fn set(&self, reachable: bool) {
        self.0.send_replace(reachable);
    }
}

/// A running API server.
pub struct Server {
    address: SocketAddr,
    authority: Authority,
    shared: Arc<Shared>,
    stopping: CancellationToken,
    connections: TaskTracker,
    reachable: Reachability,
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Longest wait for connections to end at shutdown.
const GRACE: Duration = Duration::from_secs(2);

impl Server {
    /// Starts a server; it answers when this returns.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        let bind = |source| StartError::Bind {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let credentials = Credentials::load(config.credentials.as_deref())?;
        let authority = Authority::new(&credentials.ca_key, credentials.ca_certificate)?;
        let (tls, clients) = authority.serve(address)?;
        let acceptor = TlsAcceptor::from(tls);
        let accounts = Signer::new(&tls::pkcs8(&credentials.signing_key)?)?;
        let stopping = CancellationToken::new();
        let followers = Followers::default();
        let observer = followers.clone();
        let store = Store::open(
            config.storage,
            Box::new(move |table, change| observer.observe(table, change)),
        )?;
        followers.load(&store);
        let shared = Arc::new(Shared::new(
            store,
            Hooks {
                admission: config.admission,
                connects: config.connects,
            },
            followers,
            Authenticator::new(
                credentials.token,
                accounts,
                authority.certificate_pem.clone(),
            ),
            Load::new(
                config.limits,
                tokio::runtime::Handle::current().metrics().num_workers(),
            ),
            stopping.clone(),
            reachable_at(address),
        ));
        let served = Arc::downgrade(&shared);
        shared.store.after_loss(move || {
            if let Some(shared) = served.upgrade() {
                shared.refresh_crds();
            }
        });
        let before = shared.store.mark();
        seed_objects(&shared).await.map_err(StartError::Seed)?;
        let seeded = shared.store.kept_since(before).await;
        seeded.map_err(|why| StorageError(why.to_string()))?;
        let mut tasks = tasks::start(&shared, config.events_live);
        let slots = Arc::new(Slots::new(&config.limits.within_open_files()));
        let connections = TaskTracker::new();
        let (reachable, watched) = watch::channel(true);
        tasks.spawn(connection::serve(
            listener,
            connection::Entrance { acceptor, clients },
            shared.clone(),
            slots,
            connections.clone(),
            watched,
            stopping.clone(),
        ));
        Ok(Self {
            address,
            authority,
            shared,
            stopping,
            connections,
            reachable: Reachability(reachable),
            tasks,
        })
    }

    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The switch that cuts the server off.
    pub fn reachability(&self) -> Reachability {
        self.reachable.clone()
    }

    /// Where a client on this machine reaches the server, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", reachable_at(self.address))
    }

    /// The certificate authority of this instance.
    pub fn ca_pem(&self) -> &str {
        &self.authority.certificate_pem
    }

    /// The bearer token of the administrator.
    pub fn token(&self) -> &str {
        self.shared.authenticator.token()
    }

    /// A certificate that lets a client in as a user, in at most one group.
    pub fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Result<ClientCertificate, TlsError> {
        self.authority.client(user, group)
    }

    /// A kubeconfig with one context, as YAML (JSON, which YAML includes).
    pub fn kubeconfig(&self, context_name: &str) -> String {
        let ca = base64::engine::general_purpose::STANDARD.encode(self.ca_pem());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": context_name, "preferences": {},
            "clusters": [{"name": context_name, "cluster": {
                "server": self.url(), "certificate-authority-data": ca}}],
            "users": [{"name": context_name, "user": {"token": self.token()}}],
            "contexts": [{"name": context_name, "context": {
                "cluster": context_name, "user": context_name, "namespace": "default"}}],
        });
        serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
    }

    /// A client within the process: no sockets, authenticated as the administrator.
    pub fn client(&self) -> kube::Client {
        in_process_client(self.shared.clone())
    }

    /// Creates or updates a CRD. Its resources are served when this returns. Admission webhooks are not called.
    pub async fn install_crd(&self, crd: CustomResourceDefinition) -> Result<(), ApiError> {
        let mut value =
            serde_json::to_value(&crd).map_err(|e| ApiError::internal(e.to_string()))?;
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        let result = put(&self.shared, &value).await;
        // Others may have waited for the lock.
        tokio::task::yield_now().await;
        result
    }

    /// Waits until the storage has ended by itself, and returns why. The server then refuses everything.
    pub async fn storage_failure(&self) -> StorageError {
        self.shared.store.failure().await
    }

    /// Ends watches, finishes requests under way and stops; takes at most a few seconds.
    pub async fn shutdown(mut self) {
        self.stopping.cancel();
        self.connections.close();
        if tokio::time::timeout(GRACE, self.connections.wait())
            .await
            .is_err()
        {
            tracing::warn!("connections did not end in time");
        }
        if tokio::time::timeout(GRACE, async {
            while self.tasks.join_next().await.is_some() {}
        })
        .await
        .is_err()
        {
            self.tasks.abort_all();
        }
        let shared = self.shared.clone();
        if tokio::task::spawn_blocking(move || shared.store.close())
            .await
            .is_err()
        {
            tracing::warn!("the storage was not closed");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// Returns the address by which clients on this machine reach a listener.
fn reachable_at(mut address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            address.set_ip(Ipv6Addr::LOCALHOST.into());
        }
        _ => {}
    }
    address
}

/// Returns a client that calls the server without sockets, authenticated as the administrator.
pub(crate) fn in_process_client(shared: Arc<Shared>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let shared = shared.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Identity::admin());
            Ok::<Response<Body>, Infallible>(crate::http::handle(shared, request).await)
        }
    });
    kube::Client::new(service, "default")
}

async fn seed_objects(shared: &Arc<Shared>) -> Result<(), ApiError> {
    for object in seed::objects().into_iter().chain(bootstrap::objects()) {
        match insert(shared, &object).await {
            Err(error) if error.reason == Reason::AlreadyExists => {}
            result => result?,
        }
    }
    tasks::aggregation::sum_up(shared).await;
    tasks::kubernetes_service::publish(shared).await;
    Ok(())
}

fn call(shared: &Arc<Shared>, object: &Value) -> Result<verbs::Call, ApiError> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let snapshot = shared.registry.snapshot();
    let kind = object["kind"].as_str().unwrap_or_default();
    let resource = snapshot
        .group_version(group, version)
        .and_then(|r| r.values().find(|r| r.kind == kind))
        .ok_or_else(ApiError::path_not_found)?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut call = tasks::internal(shared, resource, "", name);
    // A webhook that is not there must not keep the server from starting.
    call.origin = Origin::Step;
    Ok(call)
}

async fn insert(shared: &Arc<Shared>, object: &Value) -> Result<(), ApiError> {
    let call = call(shared, object)?;
    let inserted = verbs::insert(&call, object.clone(), Write::Plain).await;
    inserted.map(drop)
}

/// Creates or replaces.
async fn put(shared: &Arc<Shared>, object: &Value) -> Result<(), ApiError> {
    match insert(shared, object).await {
        Err(error) if error.reason == Reason::AlreadyExists => {
            let call = call(shared, object)?;
            let key = Key::new("", call.name.as_deref().unwrap_or_default());
            let replaced = verbs::modify(&call, &key, Write::Plain, |_| Ok(object.clone()));
            replaced.await.map(drop)
        }
        result => result,
    }
}
