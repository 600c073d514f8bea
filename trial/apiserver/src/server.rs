//! A running server: its configuration, its start, access for clients, and its shutdown.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
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
use crate::connect::Connect;
use crate::credentials::Credentials;
use crate::error::{ApiError, Reason};
use crate::http::in_process_client;
use crate::in_flight::Limits;
use crate::shared::{Hooks, Shared, StoreObservers};
use crate::storage::{Storage, StorageError, Volatile};
use crate::store::{Key, Store};
use crate::tls::{Authority, ClientCertificate, TlsError};
use crate::verbs::{self, Call, Origin, WriteKind};
use crate::{authorization, builtins, connection, tasks, tls};

/// The configuration of a server.
pub struct ServerConfig {
    /// The address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// In-process admission hooks, in the order of their calls.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Handlers of connected subresources.
    pub connects: Vec<Arc<dyn Connect>>,
    /// The storage of objects.
    pub storage: Box<dyn Storage>,
    /// A folder for the keys, certificates and token of the server. Only its owner can read the folder. Without a
    /// folder, the server generates these secrets at each start.
    pub credentials: Option<PathBuf>,
    /// Limits on the number and duration of requests.
    pub limits: Limits,
    /// The lifetime of an event after its last write.
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

/// An error of starting a server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server cannot listen on the address, usually because it is in use.
    #[error("failed to listen on {address}")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// Certificates cannot be created or used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The stored objects cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The initial objects cannot be created.
    #[error("failed to create the initial objects")]
    Seed(#[source] ApiError),
}

/// A switch with which tests make a server unreachable.
#[derive(Clone, Debug)]
pub struct Reachability(watch::Sender<bool>);

impl Reachability {
    /// Makes the server unreachable or reachable. An unreachable server closes open connections and rejects new
    /// connections. In-process clients are not affected.
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

/// Maximum time that the shutdown waits for connections, and then for background tasks.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

impl Server {
    /// Starts a server. The server accepts requests when this function returns.
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
        let accounts =
            Signer::new(&tls::pkcs8(&credentials.signing_key)?).map_err(TlsError::from)?;
        let stopping = CancellationToken::new();
        let observers = StoreObservers::default();
        let observer = observers.clone();
        let store = Store::open(
            config.storage,
            Box::new(move |table, change| observer.observe(table, change)),
        )?;
        observers.load(&store);
        let shared = Arc::new(Shared::new(
            store,
            Hooks {
                admission: config.admission,
                connects: config.connects,
            },
            observers,
            Authenticator::new(
                credentials.token,
                accounts,
                authority.certificate_pem.clone(),
            ),
            config.limits,
            stopping.clone(),
            reachable_at(address),
        ));
        let weak = Arc::downgrade(&shared);
        shared.store.on_undone(move || {
            if let Some(shared) = weak.upgrade() {
                shared.refresh_definitions();
            }
        });
        let before = shared.store.mark();
        seed_objects(&shared).await.map_err(StartError::Seed)?;
        let durable = shared.store.wait_durable_since(before).await;
        durable.map_err(|error| StorageError(error.to_string()))?;
        let mut tasks = tasks::start(&shared, config.events_live);
        let connections = TaskTracker::new();
        let (reachable, watched) = watch::channel(true);
        tasks.spawn(connection::serve(
            listener,
            connection::Tls { acceptor, clients },
            shared.clone(),
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

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the switch that makes the server unreachable.
    pub fn reachability(&self) -> Reachability {
        self.reachable.clone()
    }

    /// Returns the URL for clients on this machine, for example `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        format!("https://{}", reachable_at(self.address))
    }

    /// Returns the CA certificate in PEM format.
    pub fn ca_pem(&self) -> &str {
        &self.authority.certificate_pem
    }

    /// Returns the bearer token of the administrator.
    pub fn token(&self) -> &str {
        self.shared.authenticator.token()
    }

    /// Issues a client certificate for a user and at most one group.
    pub fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Result<ClientCertificate, TlsError> {
        self.authority.client(user, group)
    }

    /// Returns a kubeconfig with one context, as YAML. It contains the token of the administrator.
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

    /// Returns an in-process client that is authenticated as the administrator.
    pub fn client(&self) -> kube::Client {
        in_process_client(self.shared.clone())
    }

    /// Creates or updates a CustomResourceDefinition without calling webhooks. The server serves its resources when
    /// this function returns.
    pub async fn install_crd(&self, crd: CustomResourceDefinition) -> Result<(), ApiError> {
        let mut value =
            serde_json::to_value(&crd).map_err(|e| ApiError::internal(e.to_string()))?;
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        let result = put(&self.shared, &value).await;
        // A write may complete without waiting. The yield lets other tasks run while a caller installs several CRDs.
        tokio::task::yield_now().await;
        result
    }

    /// Waits until the storage fails permanently, and returns the error. The server then refuses all requests.
    pub async fn storage_failure(&self) -> StorageError {
        self.shared.store.failure().await
    }

    /// Ends watches, finishes running requests, and stops the server within a few seconds.
    pub async fn shutdown(mut self) {
        self.stopping.cancel();
        self.connections.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.connections.wait())
            .await
            .is_err()
        {
            tracing::warn!("some connections were still open at the end of the shutdown timeout");
        }
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, async {
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
            tracing::warn!("cannot close the storage");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// Returns the address at which clients on this machine reach a listener.
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

/// Creates the initial objects that do not exist yet.
async fn seed_objects(shared: &Arc<Shared>) -> Result<(), ApiError> {
    for object in builtins::bootstrap::objects()
        .into_iter()
        .chain(authorization::bootstrap::objects())
    {
        match insert(shared, &object).await {
            Err(error) if error.reason == Reason::AlreadyExists => {}
            result => result?,
        }
    }
    tasks::aggregation::update(shared).await;
    tasks::kubernetes_service::publish(shared).await;
    Ok(())
}

/// Returns the call with which the server writes an initial object or an installed CustomResourceDefinition.
fn call(shared: &Arc<Shared>, object: &Value) -> Result<Call, ApiError> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let snapshot = shared.registry.snapshot();
    let kind = object["kind"].as_str().unwrap_or_default();
    let resource = snapshot
        .group_version(group, version)
        .and_then(|r| r.values().find(|r| r.kind == kind))
        .ok_or_else(ApiError::path_not_found)?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut call = Call::internal(shared, resource, "", name);
    // Calls of this origin skip webhooks, because an unreachable webhook must not prevent the start.
    call.origin = Origin::Unreviewed;
    Ok(call)
}

async fn insert(shared: &Arc<Shared>, object: &Value) -> Result<(), ApiError> {
    let call = call(shared, object)?;
    let inserted = verbs::insert(&call, object.clone(), WriteKind::Plain).await;
    inserted.map(drop)
}

/// Creates or replaces an object.
async fn put(shared: &Arc<Shared>, object: &Value) -> Result<(), ApiError> {
    match insert(shared, object).await {
        Err(error) if error.reason == Reason::AlreadyExists => {
            let call = call(shared, object)?;
            let key = Key::new("", call.name.as_deref().unwrap_or_default());
            let replaced = verbs::modify(&call, &key, WriteKind::Plain, |_| Ok(object.clone()));
            replaced.await.map(drop)
        }
        result => result,
    }
}
