//! A control plane without controllers: an API server with Karmada's CustomResourceDefinitions and Clusters.
//!
//! Tests of the scheduler process use this control plane. They create the bindings that a detector would create, and
//! start the schedulers. [`Plane`](crate::Plane) is the control plane with a detector and a scheduler.

use std::path::{Path, PathBuf};

use berth_api::{Cluster, ResourceBinding};
use berth_apiserver::{Server, ServerConfig};
use berth_component_base::kube_client;
use berth_component_base::program::logging::LogArgs;
use berth_component_base::user_agent::Component;
use berth_scheduler::{Options, ServiceError};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::KubeApiserver;
use crate::eventually::eventually;

/// Number of objects created concurrently.
const CONCURRENCY: usize = 16;

/// A control plane without controllers.
pub struct BareControlPlane {
    /// A client with all rights. Its requests to the embedded server are function calls instead of connections.
    pub client: Client,
    /// The server. The field precedes `folder`, so that the server stops before its folder is removed.
    server: Backend,
    folder: tempfile::TempDir,
}

/// The server that provides the API.
enum Backend {
    Embedded(Box<Server>),
    KubeApiserver(KubeApiserver),
}

impl std::fmt::Debug for BareControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BareControlPlane").finish_non_exhaustive()
    }
}

#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
impl BareControlPlane {
    /// Starts a server, and creates these Clusters with their status. The server is a real kube-apiserver if
    /// `KUBEBUILDER_ASSETS` names a folder with this program.
    ///
    /// # Panics
    /// If the server does not start.
    pub async fn start(clusters: &[Cluster]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        berth_component_base::program::logging::init(&LogArgs::default(), "off");
        let folder = tempfile::tempdir().unwrap();
        let (client, server) = if let Some(assets) = KubeApiserver::assets() {
            let server = KubeApiserver::start(&assets, folder.path()).await;
            (server.client().await, Backend::KubeApiserver(server))
        } else {
            let server = Server::start(ServerConfig::default()).await.unwrap();
            std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig("bare")).unwrap();
            (server.client(), Backend::Embedded(Box::new(server)))
        };
        berth_up::bootstrap::prepare(&client, clusters)
            .await
            .unwrap();
        // A kube-apiserver rejects lists of a new kind until its watch cache contains the kind.
        let bindings: Api<ResourceBinding> = Api::all(client.clone());
        eventually("lists of bindings", async || {
            bindings.list(&ListParams::default()).await
        })
        .await;
        Self {
            client,
            server,
            folder,
        }
    }

    /// Returns the server's URL, `https://…`.
    pub fn url(&self) -> String {
        match &self.server {
            Backend::Embedded(server) => server.url(),
            Backend::KubeApiserver(server) => server.url().to_owned(),
        }
    }

    /// Writes a client certificate for a user, and the private key of the certificate, to files. Returns false if the
    /// server is a real kube-apiserver, for which this function cannot issue certificates.
    ///
    /// # Panics
    /// If the files cannot be written.
    pub fn write_certificate(
        &self,
        user: &str,
        group: &str,
        certificate: &Path,
        key: &Path,
    ) -> bool {
        let Backend::Embedded(server) = &self.server else {
            return false;
        };
        let issued = server.client_certificate(user, Some(group)).unwrap();
        std::fs::write(certificate, issued.certificate_pem).unwrap();
        std::fs::write(key, issued.key_pem).unwrap();
        true
    }

    /// Returns the server's CA certificate in PEM format, or an empty string for a real kube-apiserver.
    pub fn ca_pem(&self) -> &str {
        match &self.server {
            Backend::Embedded(server) => server.ca_pem(),
            Backend::KubeApiserver(_) => "",
        }
    }

    /// Reports whether the server is a real kube-apiserver.
    pub fn is_kube_apiserver(&self) -> bool {
        matches!(self.server, Backend::KubeApiserver(_))
    }

    /// Returns the path of a kubeconfig for the server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns a folder for files of the test. The folder is removed with the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a client that connects over TLS, as a scheduler in another process does.
    ///
    /// # Panics
    /// If the server's kubeconfig cannot be used.
    pub async fn remote_client(&self) -> Client {
        let target = kube_client::Target {
            kubeconfig: Some(self.kubeconfig()),
            ..kube_client::Target::default()
        };
        let config = kube_client::config(&target).await.unwrap();
        kube_client::client(config, Component::Scheduler).unwrap()
    }

    /// Returns the API for the ResourceBindings in a namespace.
    pub fn bindings(&self, namespace: &str) -> Api<ResourceBinding> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Returns the API for the Clusters.
    pub fn clusters(&self) -> Api<Cluster> {
        Api::all(self.client.clone())
    }

    /// Creates a binding. Also writes its status if `binding` has a status.
    ///
    /// # Panics
    /// If the server rejects the binding.
    pub async fn bind(&self, binding: &ResourceBinding) -> ResourceBinding {
        let namespace = binding.namespace().unwrap_or_else(|| "default".to_owned());
        let api = self.bindings(&namespace);
        let created = api.create(&PostParams::default(), binding).await.unwrap();
        let Some(status) = &binding.status else {
            return created;
        };
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        api.patch_status(&binding.name_any(), &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    /// Creates bindings, several at a time.
    pub async fn bind_all(&self, bindings: &[ResourceBinding]) {
        stream::iter(bindings)
            .for_each_concurrent(CONCURRENCY, |binding| async move {
                self.bind(binding).await;
            })
            .await;
    }

    /// Returns all bindings.
    ///
    /// # Panics
    /// If the bindings cannot be listed.
    pub async fn all_bindings(&self) -> Vec<ResourceBinding> {
        let api: Api<ResourceBinding> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// Creates namespaces.
    ///
    /// # Panics
    /// If the server rejects a namespace.
    pub async fn add_namespaces(&self, names: &[String]) {
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        let created = stream::iter(names).map(|name| {
            let api = api.clone();
            async move {
                let namespace = k8s_openapi::api::core::v1::Namespace {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        ..ObjectMeta::default()
                    },
                    ..Default::default()
                };
                api.create(&PostParams::default(), &namespace).await
            }
        });
        created
            .buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<_>>()
            .await
            .unwrap();
    }

    /// Stops the server.
    pub async fn stop(self) {
        match self.server {
            Backend::Embedded(server) => server.shutdown().await,
            Backend::KubeApiserver(server) => drop(server),
        }
    }
}

/// Creates a Cluster and writes its status.
///
/// # Panics
/// If the server rejects the cluster.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub async fn join(client: &Client, cluster: &Cluster) {
    let api: Api<Cluster> = Api::all(client.clone());
    api.create(&PostParams::default(), cluster).await.unwrap();
    let patch = Patch::Merge(serde_json::json!({ "status": cluster.status }));
    api.patch_status(&cluster.name_any(), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// A scheduler that runs in the process of the test.
#[derive(Debug)]
pub struct RunningScheduler {
    cancel: CancellationToken,
    task: JoinHandle<Result<(), ServiceError>>,
}

impl RunningScheduler {
    /// Starts a scheduler that uses this client.
    pub fn start(options: Options, client: Client) -> Self {
        let cancel = CancellationToken::new();
        let task = tokio::spawn(berth_scheduler::run_with_client(
            options,
            client,
            cancel.clone(),
        ));
        Self { cancel, task }
    }

    /// Stops the scheduler and waits for its end.
    ///
    /// # Errors
    /// If the scheduler ended with an error.
    ///
    /// # Panics
    /// If the scheduler panicked.
    #[expect(clippy::unwrap_used, reason = "this is how a test fails")]
    pub async fn stop(self) -> Result<(), ServiceError> {
        self.cancel.cancel();
        self.task.await.unwrap()
    }

    /// Reports whether the scheduler has ended.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}
