//! A running server: what it is started from, how to reach it, how to stop it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine;
use http::{Request, Response};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::builtin::seed;
use crate::error::{ApiError, Reason};
use crate::shared::{Identity, Shared};
use crate::storage::{Storage, StorageError, Volatile};
use crate::store::{Key, Store};
use crate::tasks::queue::WorkQueue;
use crate::verbs::{self, Write};
use crate::{connection, tasks, tls};

/// What a server is started from.
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// In-process admission hooks, in order.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Where objects outlive the process.
    pub storage: Box<dyn Storage>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admission: Vec::new(),
            storage: Box::new(Volatile),
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
    Tls(#[from] tls::TlsError),
    /// What was stored could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The objects of an empty cluster could not be created.
    #[error("failed to create the initial objects")]
    Seed(#[source] ApiError),
}

/// A running API server.
pub struct Server {
    address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    stopping: CancellationToken,
    connections: TaskTracker,
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
        let identity = tls::generate(address)?;
        let stopping = CancellationToken::new();
        let work = Arc::new(WorkQueue::default());
        let observer = work.clone();
        let store = Store::open(
            config.storage,
            Box::new(move |table, change| observer.observe(table, change)),
        )?;
        let shared = Arc::new(Shared::new(
            store,
            config.admission,
            tls::token()?,
            work,
            stopping.clone(),
        ));
        seed_objects(&shared).map_err(StartError::Seed)?;
        let mut tasks = tasks::start(&shared);
        let connections = TaskTracker::new();
        let acceptor = TlsAcceptor::from(identity.server);
        tasks.spawn(connection::serve(
            listener,
            acceptor,
            shared.clone(),
            connections.clone(),
            stopping.clone(),
        ));
        Ok(Self {
            address,
            ca_pem: identity.ca_pem,
            shared,
            stopping,
            connections,
            tasks,
        })
    }

    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate authority of this instance.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The bearer token of the administrator.
    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// A kubeconfig with one context, as YAML (JSON, which YAML includes).
    pub fn kubeconfig(&self, context_name: &str) -> String {
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca_pem);
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
        let shared = self.shared.clone();
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

    /// Creates or updates a CRD. Its resources are served when this returns.
    pub async fn install_crd(&self, crd: CustomResourceDefinition) -> Result<(), ApiError> {
        let mut value =
            serde_json::to_value(&crd).map_err(|e| ApiError::internal(e.to_string()))?;
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        let result = put(&self.shared, &value);
        // Others may have waited for the lock.
        tokio::task::yield_now().await;
        result
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
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

fn seed_objects(shared: &Arc<Shared>) -> Result<(), ApiError> {
    for object in seed::objects() {
        match insert(shared, &object) {
            Err(error) if error.reason == Reason::AlreadyExists => {}
            result => result?,
        }
    }
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
    Ok(tasks::internal(
        shared,
        resource,
        "",
        object["metadata"]["name"].as_str().unwrap_or_default(),
    ))
}

fn insert(shared: &Arc<Shared>, object: &Value) -> Result<(), ApiError> {
    verbs::insert(&call(shared, object)?, object.clone(), Write::Plain).map(drop)
}

/// Creates or replaces.
fn put(shared: &Arc<Shared>, object: &Value) -> Result<(), ApiError> {
    match insert(shared, object) {
        Err(error) if error.reason == Reason::AlreadyExists => {
            let call = call(shared, object)?;
            let key = Key::new("", call.name.as_deref().unwrap_or_default());
            verbs::modify(&call, &key, Write::Plain, |_| Ok(object.clone())).map(drop)
        }
        result => result,
    }
}
